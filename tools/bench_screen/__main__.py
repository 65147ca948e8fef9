"""`python -m tools.bench_screen`: hold the screens and short replays to what they must show."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench_screen.closed_loops import accuracy_lines, complete_space_lines
from tools.bench_screen.early_stops import early_stop_lines
from tools.bench_screen.traces import trace_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.bench_screen.lines import Line

_PARTS = ("closed", "space", "traces", "early")


def main() -> int:
    """Print one line per figure; return 1 when a bound is missed."""
    arguments = _parser().parse_args()
    missed = 0
    for line in _lines(arguments):
        print(line.text(), flush=True)
        missed += not line.holds
    print(f"{missed} missed" if missed else "all held")
    return int(missed > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_screen", description=main.__doc__)
    parser.add_argument("--only", choices=_PARTS, help="one part (default: all)")
    parser.add_argument("--trace-dir", type=Path, help="folder with mooncake_conversation.jsonl, for traces")
    parser.add_argument("--seed", type=int, default=2026, help="draw other candidates (default: %(default)s)")
    parser.add_argument("--each", type=int, default=30, help="candidates per set and mode (%(default)s)")
    return parser


def _lines(arguments: argparse.Namespace) -> Iterator[Line]:
    parts = _PARTS if arguments.only is None else (arguments.only,)
    if "closed" in parts:
        yield from accuracy_lines(arguments.each, arguments.seed)
    if "space" in parts:
        yield from complete_space_lines(arguments.seed)
    if "traces" in parts and arguments.trace_dir is not None:
        trace = arguments.trace_dir / "mooncake_conversation.jsonl"
        with tempfile.TemporaryDirectory() as folder:
            yield from trace_lines(trace, Path(folder), arguments.each, arguments.seed)
    if "early" in parts:
        yield from early_stop_lines(max(4, arguments.each // 2), arguments.seed)


if __name__ == "__main__":
    raise SystemExit(main())
