"""A published search, run again: `python -m tools.published_experiment FOLDER`.

Makes three records in FOLDER, or goes on with those that are there: the search of the example config, a
random one of as many candidates, and the deployments of the published table. Then prints their fronts side by
side and draws them. `--rounds N` makes both searches shorter.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import yaml

from aisimulate.report.columns import aligned
from aisimulate.report.fronts import front_area, front_rows
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.recorded_run import read_run
from aisimulate.spica.sampler import make_branch_sampler
from aisimulate.spica.search import run_search
from tools.published_experiment.fixed import FIXED_POINTS, FixedSampler
from tools.published_experiment.svg import Series, front_svg

CONFIGS = Path("examples/aisimulate/spica/configs")
EXPERIMENTS = {"glm": "glm5_pareto.yaml", "qwen": "qwen3_235b_pareto.yaml"}
SEARCHED, DRAWN, FIXED = "search", "random", "published deployments"
COLOURS = {SEARCHED: "#1667c0", DRAWN: "#c05a16", FIXED: "#2e7d32"}


def config_of(experiment, kind, rounds, parallel):
    """Read the example, as a search of that kind asks for it."""
    document = yaml.safe_load((CONFIGS / EXPERIMENTS[experiment]).read_text(encoding="utf-8"))
    sweep = document["sweep"] | {"parallel_evals": parallel}
    if rounds is not None:
        sweep["max_rounds"] = rounds
    if kind == DRAWN:  # whatever is measured in full is no disadvantage
        sweep |= {"sampler": "random", "early_stop": "auto"}
    if kind == FIXED:
        points = len(FIXED_POINTS)
        sweep |= {"sampler": "random", "early_stop": "off", "max_rounds": 1, "candidates_per_round": points}
    return SmartSearchConfig.model_validate(document | {"sweep": sweep})


def recorded(path, kind, config):
    """Search, or go on, or only read a record that is complete."""
    is_new = not path.exists()
    ledger = Ledger.create(path) if is_new else Ledger.open_ledger(path, writable=True)
    with ledger:
        if is_new or read_run(ledger).status != "done":
            factory = partial(FixedSampler, search=config) if kind == FIXED else make_branch_sampler
            run_search(config, sampler_factory=factory, observer=progress_observer(), ledger=ledger)
        return read_run(ledger)


def series_of(run, kind):
    """Give the points of a record (per user, per GPU), and those of its front."""
    second, first = (target.value for target in reversed(run.config.goal.targets))
    measured, front = (
        [(candidate.objectives[second], candidate.objectives[first]) for candidate in candidates]
        for candidates in ([candidate for _, candidate in run.measured], run.candidates)
    )
    return Series(kind, COLOURS[kind], measured, front)


def table(runs):
    """Set the fronts side by side."""
    targets = next(iter(runs.values())).config.goal.targets
    rows = [("", *runs)]
    rows.append(("candidates measured", *(str(_distinct(run)) for run in runs.values())))
    rows += front_rows(targets, [run.candidates for run in runs.values()])
    whole = front_area(targets, [candidate for run in runs.values() for candidate in run.candidates])
    shares = (f"{front_area(targets, run.candidates) / whole:.1%}" for run in runs.values())
    return aligned([*rows, ("share of the area of all together", *shares)])


def _distinct(run):
    """Count candidates; one replayed in part and then in full is one."""
    return len({json.dumps(candidate.config, sort_keys=True) for _, candidate in run.measured})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--experiment", choices=tuple(EXPERIMENTS), default="glm")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--parallel", type=int, default=2, help="replays at a time")
    parser.add_argument("--svg", type=Path, help="default: FOLDER/EXPERIMENT.svg")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    kinds = (SEARCHED, DRAWN, FIXED) if asked.experiment == "glm" else (SEARCHED, DRAWN)
    runs = {}
    for kind in kinds:
        path = asked.folder / f"{asked.experiment}_{kind.split()[0]}.sqlite"
        runs[kind] = recorded(path, kind, config_of(asked.experiment, kind, asked.rounds, asked.parallel))
    print("\n".join(table(runs)))
    target = asked.svg or asked.folder / f"{asked.experiment}.svg"
    target.write_text(front_svg([series_of(run, kind) for kind, run in runs.items()]), encoding="utf-8")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
