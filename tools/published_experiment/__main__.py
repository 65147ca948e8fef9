"""A published search, run again: `python -m tools.published_experiment FOLDER`.

Makes records in FOLDER, or goes on with those that are there: the search of the example config, a random one
of as many candidates, the deployments of the published table, and the points of the search's front, each
replayed alone. Prints what each took, sets their fronts side by side and draws them. `--only` makes some of
these, `--rounds N` makes both searches shorter, `--write` writes docs/pareto-experiments.md and its plots
from what FOLDER has.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.published_experiment.alone import alone_text, differs, replay_alone
from tools.published_experiment.page import write_page
from tools.published_experiment.records import (
    EXPERIMENTS,
    SEARCHED,
    config_of,
    kinds_of,
    make_record,
    path_of,
    read_record,
)
from tools.published_experiment.svg import front_svg
from tools.published_experiment.tables import series_of, table

ALONE = "alone"
STEPS = (SEARCHED, "random", "published", ALONE)


def main(arguments=None):
    """Make what is asked for; 1 when a point of the front does not come out the same alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--experiment", choices=tuple(EXPERIMENTS), default="glm")
    parser.add_argument("--only", choices=STEPS, action="append", help="a step to take; may be repeated")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--parallel", type=int, default=2, help="replays at a time")
    parser.add_argument("--write", action="store_true", help="also write the page of the documentation")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    steps = asked.only or STEPS
    for kind in kinds_of(asked.experiment):
        if kind.split()[0] in steps:
            config = config_of(asked.experiment, kind, asked.rounds, asked.parallel)
            make_record(path_of(asked.folder, asked.experiment, kind), kind, config)
    records, alone = found_in(asked.folder, asked.experiment)
    if ALONE in steps and SEARCHED in records:
        replay_alone(records[SEARCHED].run, alone, asked.parallel)
    if records:
        print("\n".join([*table(records), alone_text(alone)]))
        drawn = asked.folder / f"{asked.experiment}.svg"
        drawn.write_text(front_svg([series_of(r.run, kind) for kind, r in records.items()]), encoding="utf-8")
        print(f"wrote {drawn}")
    if asked.write:
        print(f"wrote {write_page({name: found_in(asked.folder, name) for name in EXPERIMENTS})}")
    return int(differs(alone))


def found_in(folder, experiment):
    """Read the records of an experiment by kind, and say where its repetition is noted."""
    found = {kind: read_record(path_of(folder, experiment, kind)) for kind in kinds_of(experiment)}
    return {kind: record for kind, record in found.items() if record}, folder / f"{experiment}_alone.json"


if __name__ == "__main__":
    sys.exit(main())
