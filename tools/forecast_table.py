"""Compares the default load forecaster with the reference's presets and with the last value.

python -m tools.forecast_table [TRACE ...] [--made-up 900] [--seed 0]

The first table needs no library: losses of the reference's presets are stored. The second one is of series
that nobody tuned anything on: those of tests/data/forecast, pieces of every TRACE (Mooncake rows, or .csv as
Azure publishes them) in windows of many lengths, and made-up ones.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from aisimulate.forecast import DEFAULT_PRESET, Window
from aisimulate.spica.load_predictor_sweep import score_preset
from aisimulate.workload.windows import aggregate, read_arrivals

_DATA = Path(__file__).parents[1] / "tests" / "data" / "forecast"
_WARMUP = 5
_INTERVALS_S = (5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 240, 300, 400, 600)
_PIECES = ((0, 1), (0, 0.5), (0.5, 1), (0.25, 0.75), (0.1, 0.4), (0.6, 0.9), (0, 0.25), (0.75, 1))
_MOST_WINDOWS = 400
_LENGTHS = (7, 9, 10, 12, 15, 20, 30, 60, 120, 240)
Series = list[Window]


def main(arguments: list[str] | None = None) -> None:
    """Print both tables and what a forecast costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--made-up", type=int, default=900, metavar="N", help="made-up series")
    parser.add_argument("--seed", type=int, default=0, help="of made-up series")
    options = parser.parse_args(arguments)
    _print_reference()
    print(f"\n| other series | how many | windows scored | {DEFAULT_PRESET} / last value: mean | worst |")
    print("|---|---|---|---|---|")
    _print_ratios("stored", [_series(rows) for rows in _stored("held_out").values()])
    for trace in options.traces:
        _print_ratios(trace.stem, list(pieces(trace)))
    made = [made_up(options.seed, number) for number in range(options.made_up)]
    _print_ratios("made up, fewer than 20 windows", [series for series in made if len(series) < 20])
    _print_ratios("made up, 20 windows or more", [series for series in made if len(series) >= 20])


def _print_reference() -> None:
    header = ("series", "windows scored", "best reference preset", "loss", DEFAULT_PRESET, "constant_last")
    print("| " + " | ".join(header) + " |")
    print("|---" * len(header) + "|")
    forecasts, began_s, no_worse = 0, time.process_time(), 0
    for name, stored in _stored("reference_series").items():
        best = min(stored["losses"], key=stored["losses"].get)
        loss = stored["losses"][best]
        ours = score_preset(DEFAULT_PRESET, _series(stored["windows"]), warmup=_WARMUP)
        forecasts += 3 * len(stored["windows"])
        # What is stored has nine digits.
        no_worse += ours.loss <= loss * (1 + 1e-6)
        numbers = f"{loss:.4f} | {ours.loss:.4f} | {stored['losses']['constant_last']:.4f}"
        print(f"| {name} | {ours.n_scored} | `{best}` | {numbers} |")
    spent_ms = 1000 * (time.process_time() - began_s) / forecasts
    print(f"\nno worse than the best reference preset: {no_worse}; {spent_ms:.2f} ms of CPU per forecast")


def _print_ratios(name: str, many: list[Series]) -> None:
    ratios, scored = [], []
    for series in many:
        ours, last = (
            score_preset(preset, series, warmup=_WARMUP) for preset in (DEFAULT_PRESET, "constant_last")
        )
        if ours.n_scored:
            ratios.append(1.0 if ours.loss == last.loss else ours.loss / max(last.loss, 1e-12))
            scored.append(ours.n_scored)
    if ratios:
        windows = f"{min(scored)} to {max(scored)}"
        mean = sum(ratios) / len(ratios)
        print(f"| {name} | {len(ratios)} | {windows} | {mean:.3f} | {max(ratios):.3f} |")


def _stored(name: str) -> dict[str, dict]:
    stored: dict[str, dict] = json.loads((_DATA / f"{name}.json").read_text())["series"]
    return stored


def _series(rows: list[list[float]]) -> Series:
    return [Window(*row) for row in rows]


def pieces(trace: Path) -> Iterator[Series]:
    """Cut a trace, whole and in pieces, into windows of many lengths."""
    arrivals = sorted(read_arrivals(trace, "azure" if trace.suffix == ".csv" else "mooncake"))
    end_ms = arrivals[-1].timestamp_ms
    for interval_s in _INTERVALS_S:
        for begin, end in _PIECES:
            piece = [one for one in arrivals if begin * end_ms <= one.timestamp_ms <= end * end_ms]
            first_ms = piece[0].timestamp_ms if piece else 0.0
            windows = aggregate(
                [one._replace(timestamp_ms=one.timestamp_ms - first_ms) for one in piece], interval_s
            )
            if _WARMUP < len(windows) <= _MOST_WINDOWS:
                yield windows


def made_up(seed: int, number: int) -> Series:
    """Make series `number`: one of the shapes, of one of the lengths, with or without noise."""
    rng = Random(f"{seed}:{number}")
    shape = list(_SHAPES)[number % len(_SHAPES)]
    rate = _SHAPES[shape](rng)
    spread, is_random = rng.choice((0.0, 0.05, 0.2)), rng.random() < 0.7
    windows = []
    for index in range(_LENGTHS[number // len(_SHAPES) % len(_LENGTHS)]):
        mean = rate(index)
        count = max(0, round(rng.gauss(mean, math.sqrt(mean)) if is_random else mean))
        lengths = [mean * math.exp(rng.gauss(0, spread)) for mean in (3000, 200)]
        windows.append(Window(count, *lengths) if count else Window(0, 0, 0))
    windows[0] = windows[0] if windows[0].num_req else Window(1, 3000, 200)
    return windows


def _wave(rng: Random) -> Callable[[int], float]:
    base, swing = rng.uniform(20, 300), rng.uniform(20, 300)
    period, phase = rng.uniform(4, 60), rng.uniform(0, 2 * math.pi)
    return lambda index: max(0.0, base + swing * math.sin(2 * math.pi * index / period + phase))


def _steps(rng: Random) -> Callable[[int], float]:
    low, high, every = rng.uniform(0, 100), rng.uniform(50, 500), rng.randint(3, 40)
    return lambda index: high if index // every % 2 else low


def _bursts(rng: Random) -> Callable[[int], float]:
    every, size, calm = rng.randint(3, 30), rng.uniform(50, 2000), rng.choice((0.0, 0.0, 40.0))
    return lambda index: size if index % every == 0 else calm


def _jump(rng: Random) -> Callable[[int], float]:
    before, after = rng.choice((0.0, 20.0, 500.0)), rng.choice((0.0, 60.0, 300.0))
    at = rng.randint(3, 40)
    return lambda index: before if index < at else after


def _ramp(rng: Random) -> Callable[[int], float]:
    start, slope = rng.uniform(0, 300), rng.uniform(-10, 10)
    return lambda index: max(0.0, start + slope * index)


def _growth(rng: Random) -> Callable[[int], float]:
    start, power = rng.uniform(5, 300), rng.uniform(-0.1, 0.1)
    return lambda index: min(1e5, start * math.exp(power * index))


def _flat(rng: Random) -> Callable[[int], float]:
    level = rng.choice((0.6, 4.0, 30.0, 150.0, 3000.0))
    return lambda index: level


def _walk(rng: Random) -> Callable[[int], float]:
    levels = [math.log(rng.uniform(5, 300))]
    for _ in range(max(_LENGTHS)):
        levels.append(levels[-1] + rng.gauss(0, 0.2))
    return lambda index: min(1e5, math.exp(levels[index]))


_SHAPES = {
    "wave": _wave,
    "steps": _steps,
    "bursts": _bursts,
    "jump": _jump,
    "ramp": _ramp,
    "growth": _growth,
    "flat": _flat,
    "walk": _walk,
}


if __name__ == "__main__":
    main()
