"""The recorded cases as outcomes: what happened to each request is given, every metric is ours to compute."""

from __future__ import annotations

import json
from pathlib import Path

from aisimulate.core.units import clock_ns
from aisimulate.engine.sequence import REJECTED
from aisimulate.replay.outcome import Sla

from .report_builders import gap_log, outcome, sequence

DATA = Path(__file__).parents[1] / "data" / "report"
CASES = json.loads((DATA / "cases.json").read_text())
INVENTORY = json.loads((DATA / "key-inventory.json").read_text())

# Gaps that the records do not tell: the second request was preempted for 20 ms.
_GAPS = {"c54": [[5.0] * 7, [5.0] * 6 + [20.0]]}
# Fleets other than one worker of one GPU; requests that arrived but have no record.
_FLEETS = {"c20": {"dp_size": 2, "gpus_per_worker": 4}, "c71": {"workers": 2}}
_UNFINISHED = {"c16": 2, "c57": 1}


def _sequence(ordinal, record):
    first, last = record["first_token_ms"], record["last_token_ms"]
    tokens = [] if first is None else [first, last]
    if record["ttst_ms"] is None:
        tokens = tokens[:1]
    else:
        tokens.insert(1, first + record["ttst_ms"])
    routing = record["routing_history"][0]
    return sequence(
        ordinal,
        arrival=record["arrival_time_ms"],
        isl=record["input_length"],
        osl=record["requested_output_length"],
        emitted=record["output_length"],
        admissions=[(at["at_ms"], at["reused_input_tokens"]) for at in record["admission_history"]],
        tokens=tokens,
        end=record["terminal_time_ms"],
        status=record["terminal_status"],
        reason="too long" if record["terminal_status"] == REJECTED else None,
        session_id=record["session_id"],
        turn_index=record["turn_index"],
        worker=routing["logical_worker_id"],
        rank=routing["dp_rank"],
    )


def _gaps_ms(record):
    if record["output_length"] < 2:
        return []
    rest = record["last_token_ms"] - record["first_token_ms"] - record["ttst_ms"]
    return [record["ttst_ms"]] + ([rest] if record["output_length"] == 3 else [])


def case_outcome(name):
    """The outcome that the recorded case `name` ended in."""
    case, fleet = CASES[name], {"workers": 1, **_FLEETS.get(name, {})}
    records = case["per_request"]
    sequences = [_sequence(ordinal, record) for ordinal, record in enumerate(records)]
    unfinished = range(len(records), len(records) + _UNFINISHED.get(name, 0))
    sequences += [sequence(ordinal, status=None) for ordinal in unfinished]
    log = gap_log()
    for owner, gaps_ms in zip(sequences, _GAPS.get(name) or map(_gaps_ms, records), strict=False):
        log.singles += [(clock_ns(gap), owner) for gap in gaps_ms]
    end_ms = case["summary"]["decode_worker_seconds"] * 1000 / fleet["workers"]
    return outcome(sequences, log, end=end_ms, sla=Sla(**case["sla"]), **fleet)
