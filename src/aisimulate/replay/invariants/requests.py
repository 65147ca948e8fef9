"""Invariants of single requests, checked when the replay is over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aisimulate.core.units import to_ms
from aisimulate.engine.sequence import COMPLETED, FAILED, REJECTED
from aisimulate.replay.gaps import summarize_gaps
from aisimulate.replay.invariants.catalogue import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisimulate.engine.gap_log import GapLog
    from aisimulate.engine.sequence import Sequence as Request
    from aisimulate.replay.report import Report


def request_name(request: Request) -> str:
    """Name a request for an error: its number in dispatch order, and its id if it has one."""
    authored = request.turn.request_id
    return f"request {request.ordinal + 1}" + ("" if authored is None else f" ({authored})")


def check_request_counts(requests: Sequence[Request], report: Report) -> None:
    """I1: nobody is lost or counted twice."""
    kinds = Counter(request.status for request in requests)
    refused = kinds[REJECTED] + kinds[FAILED]
    found = (len(requests), kinds[COMPLETED], refused, kinds[None])
    keys = ("num_requests", "completed_requests", "rejected_requests", "unfinished_requests")
    told = tuple(report[key] for key in keys)
    if found != told or found[0] != sum(found[1:]):
        raise Invariant.REQUESTS.broken("report", f"{dict(zip(keys, told, strict=True))}, requests {found}")


def check_tokens(requests: Iterable[Request], max_model_len: int | None) -> None:
    """I2: a completed request emitted all it may, any other one no more than that."""
    for request in requests:
        most = request.output_tokens
        if max_model_len is not None:
            most = max(0, min(most, max_model_len - request.input_tokens))
        emitted, status = request.emitted_tokens, request.status
        if status == REJECTED and not request.admissions:
            most = 0
        if emitted < 0 or emitted > most or (status == COMPLETED and emitted != most):
            raise Invariant.TOKENS.broken(
                request_name(request), f"{status}, emitted {emitted} tokens of {most} due"
            )


def check_causality(requests: Iterable[Request]) -> None:
    """I6: what happens to a request happens in order, and a status says what happened."""
    for request in requests:
        instants = [request.arrival_ns, *(at_ns for at_ns, _ in request.admissions)]
        if request.admissions and request.first_token_ns is not None:
            # Readmissions may come after the first token, so only the first admission is before it.
            _check_order(request, [*instants[:2], *_token_instants(request)])
        _check_order(request, instants + _known(request.terminal_ns))
        if (request.status is None) != (request.terminal_ns is None):
            raise Invariant.CAUSALITY.broken(
                request_name(request), f"status {request.status}, terminal at {request.terminal_ns} ns"
            )


def _token_instants(request: Request) -> list[int]:
    tokens = (request.first_token_ns, request.second_token_ns)
    if request.status is None:
        return _known(*tokens)
    return _known(*tokens, request.last_token_ns, request.terminal_ns)


def _known(*instants: int | None) -> list[int]:
    return [instant for instant in instants if instant is not None]


def _check_order(request: Request, instants: list[int]) -> None:
    if instants != sorted(instants):
        shown = " <= ".join(f"{to_ms(instant):g}" for instant in instants)
        raise Invariant.CAUSALITY.broken(request_name(request), f"not {shown} ms")


def check_gaps(requests: Iterable[Request], logs: Sequence[GapLog]) -> None:
    """I10: each token but the first of a request closes one gap, and the gaps fill its time."""
    emitting = [r for r in requests if r.status == COMPLETED and r.emitted_tokens]
    count = sum(request.emitted_tokens - 1 for request in emitting)
    total_ns = sum((request.last_token_ns or 0) - (request.first_token_ns or 0) for request in emitting)
    gaps = summarize_gaps(logs)
    if (gaps.count, gaps.total_ns) != (count, total_ns):
        raise Invariant.GAPS.broken(
            "all workers",
            f"{gaps.count} gaps of {gaps.total_ns} ns together, but {count} tokens in {total_ns} ns",
        )
