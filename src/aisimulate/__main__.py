"""`python -m aisimulate COMMAND ...`: the same as the command `aisimulate`."""

# Spawned workers load this module again under another name; they need none of the command line.
if __name__ == "__main__":
    from aisimulate.cli.main import main

    raise SystemExit(main())
