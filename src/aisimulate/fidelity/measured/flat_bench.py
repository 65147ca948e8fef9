"""What the results of vLLM's and SGLang's serving benchmarks have in common: flat keys and parallel lists.

Both write `mean_ttft_ms` and the like, durations of single requests in seconds, and with details one list
per quantity with an entry for each request, failed ones included.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.core.shown import show
from aisimulate.fidelity.measured.document import is_measurable
from aisimulate.fidelity.measured.metrics import VALUE, named
from aisimulate.fidelity.measured.run import MeasuredRun, Requests, column, in_ms, per_gap, since_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aisimulate.fidelity.measured.document import Document, Fields

_STATISTICS = ("mean", "median", "std", "min", "max", "p75", "p90", "p95", "p99")
_LISTS = ("input_lens", "output_lens", "ttfts", "latencies", "start_times")
_MS_PER_S = 1000.0
_IN_TURN = (
    "starts are not told: each request counts as sent in order, as soon as the cap on those in flight lets it"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one of the tools calls things. `latencies` and `totals`: our metric by their name."""

    tool: str
    latencies: Mapping[str, str]
    totals: Mapping[str, str]
    load_fields: Sequence[str]


def bench_runs(document: Document, dialect: Dialect) -> list[MeasuredRun]:
    """Read every run of a file; each line is one."""
    runs = []
    for number in range(len(document.rows)):
        fields = document.fields(number)
        load = ", ".join(f"{name} {fields.text(name)}" for name in dialect.load_fields if name in fields)
        requests = _requests(fields)
        notes = [_IN_TURN] if requests is not None and _starts_in_turn(fields) else []
        reported = _reported(fields, dialect)
        runs.append(MeasuredRun(document.path, dialect.tool, reported, requests, load, notes))
    return runs


def _starts_in_turn(fields: Fields) -> bool:
    """Whether starts are not told but follow: each request is sent as soon as the cap lets it."""
    return "start_times" not in fields and fields.text("request_rate").lower() in ("inf", "infinity")


def _in_turn(latency_s: npt.NDArray[np.float64], cap: int | None) -> npt.NDArray[np.float64]:
    """Give the starts (s) of requests that are sent in order, at most `cap` of them in flight."""
    starts = np.zeros(len(latency_s))
    running: list[float] = []
    for number, lasts in enumerate(latency_s.tolist()):
        if cap is not None and len(running) >= cap:
            starts[number] = heappop(running)
        heappush(running, float(starts[number]) + lasts)
    return starts


def _reported(fields: Fields, dialect: Dialect) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for theirs, metric in dialect.latencies.items():
        if told := named({name: fields.number(f"{name}_{theirs}_ms") for name in _STATISTICS}):
            found[metric] = told
    for theirs, metric in dialect.totals.items():
        value = fields.number(theirs)
        if value is not None:
            found[metric] = {VALUE: value}
    duration_s = fields.number("duration")
    if duration_s is not None:
        found["duration_ms"] = {VALUE: duration_s * _MS_PER_S}
    return found


def _requests(fields: Fields) -> Requests | None:
    """Read the lists of single requests; None where the file was written without them."""
    if "ttfts" not in fields:
        return None
    lists = {name: fields.numbers(name) for name in _LISTS}
    gaps = _gaps(fields)
    count = len(lists["ttfts"] or ())
    for name, values in (*lists.items(), ("itls", gaps)):
        if values is not None and len(values) != count:
            raise fields.error(name, f"has {len(values)} entries, but ttfts has {count}")
    kept = _completed(fields, lists["output_lens"], count)
    if not kept:
        return None
    columns = {name: None if values is None else [values[i] for i in kept] for name, values in lists.items()}
    cap = fields.number("max_concurrency")
    in_turn = (None if cap is None else int(cap),) if _starts_in_turn(fields) else None
    return _columns(columns, None if gaps is None else [gaps[i] for i in kept], in_turn)


def _gaps(fields: Fields) -> list[list[float]] | None:
    """Read the gaps of each request, in seconds."""
    rows = fields.items("itls")
    if rows is None:
        return None
    gaps = []
    for place, row in enumerate(rows):
        if not isinstance(row, list) or not all(map(is_measurable, row)):
            raise fields.error(f"itls[{place}]", "is not a list of numbers")
        if min(row, default=0) < 0:
            raise fields.error(f"itls[{place}]", f"{show(min(row))} is negative: no time is")
        gaps.append([float(gap) for gap in row])
    return gaps


def _completed(fields: Fields, output_lens: list[float | None] | None, count: int) -> list[int]:
    """List the requests that did not fail: no error is told, and they have output."""
    errors = fields.items("errors") or [""] * count
    if len(errors) != count:
        raise fields.error("errors", f"has {len(errors)} entries, but ttfts has {count}")
    lengths = [1.0] * count if output_lens is None else output_lens
    return [place for place in range(count) if not errors[place] and lengths[place]]


def _columns(
    lists: Mapping[str, list[float | None] | None],
    gaps: list[list[float]] | None,
    in_turn: tuple[int | None] | None,
) -> Requests:
    """Make the columns; `in_turn` has the cap on requests in flight where starts follow from it."""
    told = {name: None if values is None else column(values) for name, values in lists.items()}
    ttft_s, latency_s, outputs = told["ttfts"], told["latencies"], told["output_lens"]
    if latency_s is None and gaps is not None and ttft_s is not None:
        latency_s = ttft_s + np.array([sum(row) for row in gaps])
    tpot_s = None
    if latency_s is not None and ttft_s is not None and outputs is not None:
        tpot_s = per_gap(latency_s - ttft_s, outputs)
    if in_turn is not None and latency_s is not None:
        told["start_times"] = _in_turn(latency_s, in_turn[0])
    flat = None if gaps is None else np.fromiter(chain.from_iterable(gaps), np.float64)
    starts, first, last = map(in_ms, _instants(told, latency_s))
    arrival, first, last = since_first(starts, first, last)
    return Requests(
        arrival_ms=arrival,
        first_token_ms=first,
        last_token_ms=last,
        ttft_ms=in_ms(ttft_s),
        tpot_ms=in_ms(tpot_s),
        e2e_latency_ms=in_ms(latency_s),
        input_tokens=told["input_lens"],
        output_tokens=outputs,
        gaps_ms=in_ms(flat),
    )


def _instants(told: Mapping[str, object], latency_s: object) -> list[np.ndarray | None]:
    """Give start, first and last token in seconds, where starts were written down."""
    starts, ttft_s = told["start_times"], told["ttfts"]
    if not isinstance(starts, np.ndarray):
        return [None, None, None]
    later = [starts + item if isinstance(item, np.ndarray) else None for item in (ttft_s, latency_s)]
    return [starts, *later]
