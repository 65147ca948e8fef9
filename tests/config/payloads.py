"""Payload builders for the tests of the config models and their resolution."""

import json

import pytest

from aisimulate.config.payload import Execution, parse_payload
from aisimulate.core.errors import InputError

POOL = {"initial_workers": 1}
SYNTHETIC = {"source_type": "synthetic", "isl": 8, "osl": 2, "request_count": 3}
SESSIONS = {**SYNTHETIC, "source_type": "synthetic-session"}
TRACE = {"source_type": "trace", "trace_path": "t.jsonl"}
REQUEST = {"id": "r", "arrival_time_ms": 0, "input_tokens": 4, "output_tokens": 1}
AIC = {"model": "m", "backend": "vllm", "system": "s", "tp": 1}


def spec(**changes):
    return {"topology": {"kind": "aggregated", "workers": POOL}, **changes}


def disaggregated(**engine):
    topology = {"kind": "disaggregated", "prefill": POOL, "decode": POOL}
    return spec(topology=topology, engine=engine)


def rank(**changes):
    return spec(engine={"rank": changes})


def aic(**changes):
    return rank(timing_model={"type": "external", "provider": "aic", "config": {**AIC, **changes}})


def parse(spec_value, traffic=SYNTHETIC) -> Execution:
    return parse_payload(json.dumps({"spec": spec_value, "traffic": traffic}))


def refused(call, *args, **kwargs) -> str:
    """Run `call`, which must raise an `InputError`, and give its one-line text."""
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    text = str(caught.value)
    assert text.splitlines() == [text]
    return text
