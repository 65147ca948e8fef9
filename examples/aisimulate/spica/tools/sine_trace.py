#!/usr/bin/env python3
"""Write a Mooncake trace whose request rate follows a sine: base + amplitude * sin(2 pi t / period).

    .venv/bin/python examples/aisimulate/spica/tools/sine_trace.py sine.jsonl
    .venv/bin/python examples/aisimulate/spica/tools/sine_trace.py day.jsonl \
        --duration-s 86400 --period-s 86400 --arrivals poisson --seed 7

The same options write the same file.
"""

from __future__ import annotations

import json
import math
import random
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.cli.exit_codes import BAD_INPUT, DONE, FAILED
from aisimulate.cli.output import fail
from aisimulate.cli.parser import OneLineParser
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.core.limits import MAX_REQUESTS
from aisimulate.report.files import check_new, check_writable, write_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

_PROG = "sine_trace.py"
_BLOCK_TOKENS = 512


def main(argv: Sequence[str] | None = None) -> int:
    """Write the trace; return 0 done, 1 could not write, 2 bad input."""
    options = _parser().parse_args(argv)
    try:
        _check(options)
        check_writable(options.output)
        if not options.overwrite:
            check_new(options.output)
        lines = rows(options)
        first = next(lines, None)
        if first is None:
            raise InputError("--base-rate and --amplitude leave no request: each second's rate rounds to 0")
        write_lines(options.output, chain([first], lines))
    except InputError as error:
        return fail(_PROG, error, BAD_INPUT)
    except (AISimulateError, OSError) as error:
        return fail(_PROG, error, FAILED)
    return DONE


def rows(options: argparse.Namespace) -> Iterator[str]:
    """Yield one row per request, in order of time. No two prompts share a block."""
    rng = random.Random(options.seed)
    blocks = math.ceil(options.input_tokens / _BLOCK_TOKENS)
    next_id = 0
    for second in range(options.duration_s):
        for offset_ms in sorted(rng.randrange(1000) for _ in range(_count(options, second, rng))):
            row = {
                "timestamp": second * 1000 + offset_ms,
                "input_length": options.input_tokens,
                "output_length": options.output_tokens,
                "hash_ids": list(range(next_id, next_id + blocks)),
            }
            next_id += blocks
            yield json.dumps(row) + "\n"


def _count(options: argparse.Namespace, second: int, rng: random.Random) -> int:
    wave = math.sin(2 * math.pi * second / options.period_s)
    rate = max(0.0, options.base_rate + options.amplitude * wave)
    return round(rate) if options.arrivals == "rounded" else _poisson(rate, rng)


def _poisson(rate: float, rng: random.Random) -> int:
    """Count arrivals in one second, by their exponential gaps."""
    count, elapsed_s = 0, rng.expovariate(rate) if rate else math.inf
    while elapsed_s < 1:
        count += 1
        elapsed_s += rng.expovariate(rate)
    return count


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog=_PROG, description="Write a Mooncake trace whose request rate follows a sine."
    )
    parser.add_argument("output", type=Path, metavar="FILE", help="where to write it")
    for option, default, kind, text in (
        ("--duration-s", 5400, int, "length of the trace, whole seconds"),
        ("--period-s", 900.0, float, "seconds from crest to crest"),
        ("--base-rate", 6.0, float, "mean requests per second"),
        ("--amplitude", 4.0, float, "how far the rate swings, requests per second; it stops at 0"),
        ("--input-tokens", 4000, int, "length of every prompt"),
        ("--output-tokens", 200, int, "length of every output"),
        ("--seed", 0, int, "of the times within a second, and of Poisson counts"),
    ):
        parser.add_argument(
            option, type=kind, default=default, metavar="N", help=f"{text} (default: {default})"
        )
    parser.add_argument(
        "--arrivals",
        choices=("rounded", "poisson"),
        default="rounded",
        help="requests of a second: the rate rounded, or drawn from it (default: %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return parser


def _check(options: argparse.Namespace) -> None:
    for name, least in (("duration_s", 1), ("input_tokens", 1), ("output_tokens", 1)):
        if getattr(options, name) < least:
            raise InputError(f"{_flag(name)} must be at least {least}, got {getattr(options, name)}")
    for name in ("period_s", "base_rate", "amplitude"):
        value = getattr(options, name)
        if not 0 <= value < math.inf or (name == "period_s" and value == 0):
            rule = "above 0" if name == "period_s" else "0 or more"
            raise InputError(f"{_flag(name)} must be a finite number {rule}, got {value}")
    if (options.base_rate + options.amplitude) * options.duration_s > MAX_REQUESTS:
        raise InputError(
            f"--base-rate, --amplitude and --duration-s ask for more than {MAX_REQUESTS:,} requests"
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


if __name__ == "__main__":
    sys.exit(main())
