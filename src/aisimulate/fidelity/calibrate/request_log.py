"""The requests of a log as a calibration needs them: arrivals, lengths and what was measured."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from aisimulate.core.errors import InputError
from aisimulate.core.traffic import Session, Turn, Workload
from aisimulate.fidelity.calibrate.plausible import check_instants, check_lengths
from aisimulate.fidelity.measured.formats import read_run
from aisimulate.fidelity.measured.run import Floats, per_gap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aisimulate.fidelity.measured.run import MeasuredRun


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Completed requests in the order of arrival; entries that were not measured are NaN.

    Instants are ms since the first arrival; `place` of each request is its place in the file. `block_ids`
    name the content of prompts in blocks of `block_tokens` tokens, where that is known.
    """

    file: str
    sha256: str
    format: str
    place: Sequence[int]
    arrival_ms: Floats
    input_tokens: Sequence[int]
    output_tokens: Sequence[int]
    ttft_ms: Floats
    tpot_ms: Floats
    e2e_ms: Floats
    scheduled_ms: Floats | None = None
    block_ids: Sequence[Sequence[int]] | None = None
    block_tokens: int = 1
    notes: Sequence[str] = field(default_factory=tuple)

    def __len__(self) -> int:
        return len(self.input_tokens)

    @property
    def first_token_ms(self) -> Floats:
        """When each request got its first token."""
        return self.arrival_ms + self.ttft_ms

    @property
    def last_token_ms(self) -> Floats:
        """When each request got its last token."""
        return self.arrival_ms + self.e2e_ms

    def workload(self, count: int | None = None) -> Workload:
        """Make the traffic of the first `count` requests (of all by default), open loop."""
        sessions = []
        for number in range(len(self) if count is None else count):
            ids = None if self.block_ids is None else list(self.block_ids[number])
            lengths = self.input_tokens[number], self.output_tokens[number]
            turn = Turn(*lengths, ids, request_id=str(number))
            sessions.append(Session(str(number), [turn], float(self.arrival_ms[number])))
        return Workload(sessions, self.block_tokens)


def read_log(path: Path, tool: str | None = None, part: int | None = None) -> RequestLog:
    """Read a log that one of the known tools wrote; see `read_run` for `tool` and `part`.

    Raises `InputError`, one line, for a file without single requests, arrivals or lengths, for one in which
    no request completed, and for requests that cannot have been.
    """
    return log_of(read_run(path, tool, part), _sha256(path))


def log_of(run: MeasuredRun, sha256: str) -> RequestLog:
    """Take a log from what was read of a file. Raises like `read_log`."""
    requests = run.requests
    if requests is None or not len(requests):
        raise InputError(f"{run.path}: has no single requests to calibrate with (only totals)")
    count = len(requests)
    arrival = _needed(run, "arrival", requests.arrival_ms)
    inputs = _needed(run, "prompt length", requests.input_tokens)
    outputs = _needed(run, "output length", requests.output_tokens)
    check_lengths(run.path, inputs, outputs)
    first = _or_nan(requests.first_token_ms, count)
    ttft = _or_nan(requests.ttft_ms, count)
    ttft = np.where(np.isfinite(ttft), ttft, first - arrival)
    last = _or_nan(requests.last_token_ms, count)
    e2e = np.where(np.isfinite(last), last - arrival, _or_nan(requests.e2e_latency_ms, count))
    if not np.isfinite(e2e).all():
        raise InputError(f"{run.path}: does not tell of each request when it ended")
    order = np.argsort(arrival, kind="stable")
    scheduled = requests.scheduled_ms
    log = RequestLog(
        file=run.path.name,
        sha256=sha256,
        format=run.tool,
        place=order.tolist(),
        arrival_ms=arrival[order] - arrival.min(),
        input_tokens=[int(value) for value in inputs[order]],
        output_tokens=[int(value) for value in outputs[order]],
        ttft_ms=ttft[order],
        tpot_ms=per_gap(e2e - ttft, outputs)[order],
        e2e_ms=e2e[order],
        scheduled_ms=None if scheduled is None else scheduled[order] - arrival.min(),
        notes=run.notes,
    )
    check_instants(run.path, log)
    return log


def _needed(run: MeasuredRun, what: str, values: Floats | None) -> Floats:
    if values is None or not np.isfinite(values).all():
        raise InputError(f"{run.path}: does not tell the {what} of each request, which a replay needs")
    return values


def _or_nan(values: Floats | None, count: int) -> Floats:
    return np.full(count, np.nan) if values is None else values


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
