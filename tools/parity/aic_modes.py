"""A scenario with measured timing by the surface, exactly, and against AI Configurator itself.

    .venv/bin/python -m tools.parity.aic_modes SCENARIO.json --traces DIR [--requests 1000]

Replays with pass times interpolated between contexts (the default) and with every single pass priced, and
prints the mean figures of both: within 0.1 %. Then asks aiconfigurator-core directly, by an engine compiled
without our code, for every pass that the exact replay priced: equal, in whole ns. 1 if either does not hold,
or if there was no pass to ask for.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from aiconfigurator_core import AicEngine
from aiconfigurator_core.sdk.engine import compile_engine

from aisimulate._runtime import run_replay_json
from aisimulate.replay import timed_rank
from aisimulate.timing.aic.surface import AicTiming, ExactAicTimer
from tools.parity.scenario import payload_of

if TYPE_CHECKING:
    from aisimulate.timing.aic.key import EngineKey

WITHIN = 1e-3
Report = dict[str, Any]


class ExactTiming(AicTiming):
    """Pass times without interpolation; `made` keeps all, in order."""

    __slots__ = ()

    made: ClassVar[list[AicTiming]] = []

    def __init__(self, engine: EngineKey, nextn: int) -> None:
        super().__init__(engine, nextn, exact=True)
        self.made.append(self)


def replayed(payload: dict[str, Any], timing: type[AicTiming]) -> Report:
    """Replay with pass times of a kind."""
    timed_rank.AicTiming = timing  # type: ignore[misc]
    try:
        report: Report = json.loads(run_replay_json(json.dumps(payload)))
    finally:
        timed_rank.AicTiming = AicTiming  # type: ignore[misc]
    return report


def mean_differences(surface: Report, exact: Report) -> dict[str, float]:
    """Relative difference of every mean and rate that both have."""
    names = [
        name for name in exact if name.startswith("mean_") or name.endswith(("_tok_s", "_rps", "duration_ms"))
    ]
    return {name: abs(surface[name] - exact[name]) / abs(exact[name]) for name in names if exact[name]}


def direct_differences(timing: AicTiming, config: dict[str, Any]) -> tuple[int, int]:
    """Count the passes that the exact replay priced, and those that AI Configurator prices otherwise."""
    key = timing.blob.key
    spec = compile_engine(
        config["model"], config["system"], config["backend"], key.backend_version, tp_size=config["tp"]
    )
    engine, timer = AicEngine.from_spec(spec), timing.timer(0, 1.0, 1.0)
    assert isinstance(timer, ExactAicTimer)
    wrong = sum(
        ns != round(engine.predict_decode_latency(batch, context, 2) * 1e6)
        for (batch, context), ns in timer._decodes.items()
    )
    wrong += sum(
        ns != round(engine.predict_prefill_latency(*key) * 1e6) for key, ns in timer._prefills.items()
    )
    return len(timer._decodes) + len(timer._prefills), wrong


def cut(scenario: dict[str, Any], traces: Path, requests: int, folder: Path) -> Path:
    """Write the first rows of the scenario's trace into a folder, and give the folder."""
    name = scenario["workload"]["path"]
    with (traces / name).open() as lines:
        (folder / name).write_text("".join(islice(lines, requests)))
    return folder


def main() -> int:
    """Compare the modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--requests", type=int, help="only so many of the trace")
    args = parser.parse_args()
    scenario = json.loads(args.scenario.read_text())
    with tempfile.TemporaryDirectory() as folder:
        traces = cut(scenario, args.traces, args.requests, Path(folder)) if args.requests else args.traces
        payload = payload_of(scenario, traces)
        surface, exact = replayed(payload, AicTiming), replayed(payload, ExactTiming)
    differences = mean_differences(surface, exact)
    for name, difference in differences.items():
        print(f"{name:<42} {surface[name]:>14.6g} {exact[name]:>14.6g}  {difference:.4%}")
    passes, wrong = direct_differences(ExactTiming.made[0], scenario["engine"]["timing_model"]["config"])
    worst = max(differences.values())
    print(f"{scenario['name']}: {exact['completed_requests']:,} requests")
    print(f"surface against exact: at most {worst:.4%} in {len(differences)} means (0.1 %)")
    print(f"exact against aiconfigurator-core: {passes - wrong:,}/{passes:,} distinct passes equal")
    return int(worst > WITHIN or wrong > 0 or not passes)


if __name__ == "__main__":
    sys.exit(main())
