#!/usr/bin/env python3
"""Print how well each load forecaster would have foretold a trace, per window length.

    .venv/bin/python examples/aisimulate/spica/tools/sweep_load_predictors.py \
        examples/aisimulate/spica/traces/mooncake_conversation_1000.jsonl --interval-s 5 --interval-s 15

The loss is the mean error of the logarithm of the tokens to come (docs/forecasting.md); lower is better.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import BAD_INPUT, DONE, FAILED
from aisimulate.cli.output import fail, show
from aisimulate.cli.parser import OneLineParser
from aisimulate.core.console import say
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.forecast import PRESETS, predictor_fields
from aisimulate.spica.load_predictor_sweep import sweep_windows
from aisimulate.workload.formats import TRACE_FORMATS, check_format
from aisimulate.workload.windows import aggregate, read_arrivals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aisimulate.spica.load_predictor_sweep import LoadPredictorResult

_PROG = "sweep_load_predictors.py"
_INTERVALS_S = (180.0, 600.0)
# Fewer windows than this say little about a forecaster.
_FEW_WINDOWS = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep; return 0 done, 1 could not print, 2 bad input."""
    options = _parser().parse_args(argv)
    try:
        result = _sweep(options)
    except ValueError as error:  # InputError is one
        return fail(_PROG, error, BAD_INPUT)
    except OSError as error:
        return fail(_PROG, f"{options.trace}: {error.strerror or error}", BAD_INPUT)
    except AISimulateError as error:
        return fail(_PROG, error, FAILED)
    for note in result.notes:
        say(note)
    return show(_PROG, _json(result) if options.format == "json" else _table(result), DONE)


def _sweep(options: argparse.Namespace) -> LoadPredictorResult:
    check_format(options.trace_format)
    intervals = list(dict.fromkeys(options.interval_s or _INTERVALS_S))
    for interval_s in intervals:
        if not 0 < interval_s < math.inf:
            raise InputError(f"--interval-s must be a finite number above 0, got {interval_s:g}")
    for preset in options.preset or ():
        predictor_fields(preset)
    arrivals = read_arrivals(options.trace, options.trace_format)
    if not arrivals:
        raise InputError(f"{options.trace}: no request has a time")
    windows = {interval_s: aggregate(arrivals, interval_s) for interval_s in intervals}
    return sweep_windows(dict.fromkeys(options.preset or PRESETS), windows)


def _json(result: LoadPredictorResult) -> str:
    intervals = [
        {
            "interval_s": interval_s,
            "best": result.best_by_interval[interval_s],
            "presets": {
                # JSON has no infinity: a forecaster that failed, or had no window to foretell, has no loss.
                label: {"loss": loss if math.isfinite(loss) else None, "n_scored": n_scored[label]}
                for label, loss in losses.items()
            },
        }
        for (interval_s, losses), n_scored in zip(
            result.losses.items(), result.n_scored.values(), strict=True
        )
    ]
    return (
        json.dumps({"reason": result.reason, "intervals": intervals, "notes": result.notes}, indent=2) + "\n"
    )


def _table(result: LoadPredictorResult) -> str:
    """One row per preset, one column per interval; the best of a column has a star."""
    intervals = list(result.losses)
    labels = list(result.losses[intervals[0]])
    width = max(map(len, [*labels, "windows scored"]))
    lines = [f"{'loss':<{width}}" + "".join(f"  {f'{interval_s:g} s':>9}" for interval_s in intervals)]
    for label in labels:
        cells = (_cell(result, interval_s, label) for interval_s in intervals)
        lines.append(f"{label:<{width}}" + "".join(f"  {cell:>9}" for cell in cells))
    counts = [max(result.n_scored[interval_s].values(), default=0) for interval_s in intervals]
    lines.append(f"{'windows scored':<{width}}" + "".join(f"  {count:>8} " for count in counts))
    lines += [
        f"{interval_s:g} s: only {count} windows to judge by"
        for interval_s, count in zip(intervals, counts, strict=True)
        if count < _FEW_WINDOWS
    ]
    return "\n".join(lines) + "\n"


def _cell(result: LoadPredictorResult, interval_s: float, label: str) -> str:
    loss = result.losses[interval_s][label]
    star = "*" if result.best_by_interval[interval_s] == label and math.isfinite(loss) else " "
    return f"{loss:.4f}{star}" if math.isfinite(loss) else "- "


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=_PROG, description="Compare load forecasters on a trace.")
    parser.add_argument("trace", type=Path, metavar="TRACE", help="the trace; gzip is unpacked")
    parser.add_argument(
        "--trace-format",
        default="mooncake",
        metavar="NAME",
        help=f"how to read it (default: %(default)s): {', '.join(TRACE_FORMATS)}",
    )
    parser.add_argument(
        "--interval-s",
        type=float,
        action="append",
        metavar="N",
        help="seconds per window; may be repeated (default: 180 and 600)",
    )
    parser.add_argument(
        "--preset",
        action="append",
        metavar="NAME",
        help=f"may be repeated (default: all): {', '.join(PRESETS)}",
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="(default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
