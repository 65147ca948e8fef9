"""`python -m aisimulate.spica --config FILE`: the search with plain lines on stdout."""

# Spawned workers load this module again under another name; they need none of the command line.
if __name__ == "__main__":
    from aisimulate.cli.spica import main
    from aisimulate.cli.termination import cleaning_up

    with cleaning_up():
        code = main(prog="spica", default_format="lines")
    raise SystemExit(code)
