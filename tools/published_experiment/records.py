"""The searches of an experiment and their records: made, gone on with, or only read."""

from __future__ import annotations

import json
import resource
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import yaml

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.recorded_run import RecordedRun, read_run
from aisimulate.spica.sampler import make_branch_sampler
from aisimulate.spica.search import run_search
from tools.published_experiment.fixed import FIXED_POINTS, FixedSampler

CONFIGS = Path("examples/aisimulate/spica/configs")
EXPERIMENTS = {"glm": "glm5_pareto.yaml", "qwen": "qwen3_235b_pareto.yaml"}
SEARCHED, DRAWN, FIXED = "search", "random", "published deployments"


@dataclass(frozen=True, slots=True)
class Spent:
    """What making a record took: wall time, CPU time of all processes, processes that replayed."""

    wall_s: float
    cpu_s: float
    parallel: int

    def text(self):
        """Say it in a few words."""
        return (
            f"{self.wall_s:,.0f} s of wall time, {self.cpu_s:,.0f} CPU s, {self.parallel} replays at a time"
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A search that is done, and what it took; None where that is not known."""

    run: RecordedRun
    spent: Spent | None


def kinds_of(experiment):
    """List the searches that belong together."""
    return (SEARCHED, DRAWN, FIXED) if experiment == "glm" else (SEARCHED, DRAWN)


def config_of(experiment, kind, rounds, parallel):
    """Read the example, as a search of that kind asks for it."""
    document = yaml.safe_load((CONFIGS / EXPERIMENTS[experiment]).read_text(encoding="utf-8"))
    sweep = document["sweep"] | {"parallel_evals": parallel}
    if rounds is not None:
        sweep["max_rounds"] = rounds
    if kind == DRAWN:
        sweep |= {"sampler": "random"}
    if kind == FIXED:
        points = len(FIXED_POINTS)
        sweep |= {"sampler": "random", "early_stop": "off", "max_rounds": 1, "candidates_per_round": points}
    return SmartSearchConfig.model_validate(document | {"sweep": sweep})


def path_of(folder, experiment, kind):
    """Say where the record of a kind is."""
    return folder / f"{experiment}_{kind.split()[0]}.sqlite"


def make_record(path, kind, config):
    """Search, or go on where the record ends; what it takes is added up beside it."""
    is_new = not path.exists()
    ledger = Ledger.create(path) if is_new else Ledger.open_ledger(path, writable=True)
    with ledger:
        if is_new or read_run(ledger).status != "done":
            factory = partial(FixedSampler, search=config) if kind == FIXED else make_branch_sampler
            with spending(path, config.sweep.parallel_evals):
                run_search(config, sampler_factory=factory, observer=progress_observer(), ledger=ledger)


def read_record(path):
    """Read a record that is done; None when there is none."""
    if not path.exists():
        return None
    with Ledger.open_ledger(path) as ledger:
        run = read_run(ledger)
    return Record(run, spent_on(path)) if run.status == "done" else None


@contextmanager
def spending(path, parallel):
    """Add what the block takes to what is noted beside `path`."""
    before = spent_on(path) or Spent(0.0, 0.0, parallel)
    started_s, started_cpu_s = time.perf_counter(), _cpu_s()
    try:
        yield
    finally:
        wall_s, cpu_s = time.perf_counter() - started_s, _cpu_s() - started_cpu_s
        spent = Spent(before.wall_s + wall_s, before.cpu_s + cpu_s, parallel)
        _beside(path).write_text(json.dumps(asdict(spent)), encoding="utf-8")


def spent_on(path):
    """Read what is noted beside `path`, None if nothing is."""
    noted = _beside(path)
    return Spent(**json.loads(noted.read_text(encoding="utf-8"))) if noted.exists() else None


def _beside(path):
    return path.with_suffix(".spent.json")


def _cpu_s():
    """CPU time of this process and of those that it waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
