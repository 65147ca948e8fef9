"""The stored sample cases, and how to unroll one."""

import json
from pathlib import Path

from aisimulate.spica.config import SearchSpace
from aisimulate.spica.load_predictor_sweep import LoadPredictorResult
from aisimulate.spica.parallel_enum import DisaggParallelConfig, ParallelShape, ReplicaParallelConfig
from aisimulate.spica.sample import unroll_sample

_DATA = Path(__file__).parents[1] / "data" / "search"
CASES = {case["id"]: case for case in json.loads((_DATA / "sample_cases.json").read_text())["cases"]}


def parallel_config(data):
    """Rebuild a parallel config from its nested dict."""
    if "prefill" in data:
        return DisaggParallelConfig(_pool(data["prefill"]), _pool(data["decode"]))
    return _pool(data)


def _pool(data):
    return ReplicaParallelConfig(ParallelShape(**data["shape"]), data["replicas"])


def load_predictor(best):
    """Build the predictor winner of a case; JSON keys are text, intervals are numbers."""
    return None if best is None else LoadPredictorResult({int(key): entry for key, entry in best.items()})


def unrolled(case):
    """Unroll a case."""
    return unroll_sample(
        search_space=SearchSpace(**case["search_space"]),
        selection=case["selection"],
        parallel_config=parallel_config(case["parallel_config"]),
        load_predictor=load_predictor(case["load_predictor_best_by_interval"]),
    )
