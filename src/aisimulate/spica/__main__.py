"""`python -m aisimulate.spica --config FILE`: the search with plain lines on stdout."""

from aisimulate.cli.spica import main

# Spawned workers import this module again, under another name.
if __name__ == "__main__":
    raise SystemExit(main(prog="spica", default_format="lines"))
