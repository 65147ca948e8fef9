"""Small valid configurations to vary in tests."""

from typing import Any

from aisimulate.spica.config import SmartSearchConfig

SPACE = {"model_name": "m", "hardware_sku": "h"}
SYNTHETIC = {"isl": 10, "osl": 10, "num_request_ratio": 2, "concurrency": 4}
TRACE = {"trace_path": "t.jsonl"}
TOKEN_SLA = {"ttft_ms": 2000, "itl_ms": 50}


def make_config(
    space: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
    goal: dict[str, Any] | None = None,
    **sections: Any,
) -> SmartSearchConfig:
    """A minimal synthetic config with `space` added; `workload` and `goal` replace theirs."""
    return SmartSearchConfig.model_validate(
        {
            "search_space": SPACE | (space or {}),
            "workload": SYNTHETIC if workload is None else workload,
            "goal": goal or {},
            **sections,
        }
    )
