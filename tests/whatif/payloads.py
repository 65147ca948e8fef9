"""Small payloads of every kind of traffic and topology, with fixed pass times."""

from __future__ import annotations

TIMING = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}
RANK = {
    "num_gpu_blocks": 64,
    "block_size": 4,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "timing_model": TIMING,
}
SYNTHETIC = {"source_type": "synthetic", "isl": 16, "osl": 8, "request_count": 20}
REQUESTS = [
    {"id": "a", "arrival_time_ms": 0, "input_tokens": 8, "output_tokens": 4},
    {"id": "b", "arrival_time_ms": 30, "input_tokens": 12, "output_tokens": 4},
]


def aggregated(traffic=None, workers=2, rank=None, **spec):
    """One pool; `traffic` given, or requests one by one."""
    payload = {
        "spec": {
            "version": 1,
            "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
            "engine": {"rank": RANK | (rank or {})},
            **spec,
        }
    }
    if traffic is None:
        payload["spec"].setdefault("requests", REQUESTS)
    else:
        payload["traffic"] = traffic
    return payload


def pair(traffic=None, *, prefill=None, decode=None, latency_ms=0.0, engine=None, workers=(2, 2)):
    """Two pools."""
    engines = engine or {
        "prefill": {"rank": RANK | (prefill or {})},
        "decode": {"rank": RANK | (decode or {})},
    }
    topology = {
        "kind": "disaggregated",
        "prefill": {"initial_workers": workers[0]},
        "decode": {"initial_workers": workers[1]},
        "handoff_latency_ms": latency_ms,
    }
    traffic = traffic or {**SYNTHETIC, "concurrency": 4}
    return {"spec": {"version": 1, "topology": topology, "engine": engines}, "traffic": traffic}


def aic(rank=None, **config):
    """A payload of measured kernel times."""
    timing = {"model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}
    model = {"type": "external", "provider": "aic", "config": {**timing, **config}}
    spec = {
        "version": 1,
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"timing_model": model, **(rank or {})}},
    }
    traffic = {"source_type": "synthetic", "isl": 512, "osl": 16, "request_count": 6, "concurrency": 3}
    return {"spec": spec, "traffic": traffic}
