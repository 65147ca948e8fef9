"""KV capacity against figures measured on aiconfigurator-core 0.12.0 (spec 04 section 6)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from aisimulate.core import errors as core_errors
from aisimulate.core.errors import InputError
from aisimulate.timing.aic import default_memory_fraction, engine_key, errors, kv_tokens, num_gpu_blocks

FILE = Path(__file__).parents[2] / "data" / "aic" / "memory_examples.csv"
EXAMPLES = list(csv.DictReader(FILE.read_text().splitlines()))
SIZES = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep")


def estimate(row: dict[str, str]) -> tuple[int, int]:
    sizes = {name: int(row[name]) for name in SIZES if row[name]}
    key = engine_key(
        row["model"], row["system"], row["backend"], kv_cache_dtype=row["kv_cache_dtype"] or None, **sizes
    )
    budget = {
        "max_num_tokens": int(row["max_num_tokens"]),
        "memory_fraction_kind": default_memory_fraction(row["backend"])[0],
        "memory_fraction": float(row["fraction"]),
    }
    return kv_tokens(key, **budget), num_gpu_blocks(key, 64, **budget)


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: " ".join(filter(None, row.values())))
def test_measured_examples(row: dict[str, str]) -> None:
    if row["error"]:
        kind = getattr(errors, row["error"], None) or getattr(core_errors, row["error"])
        with pytest.raises(kind) as caught:
            estimate(row)
        assert "\n" not in str(caught.value)
    else:
        assert estimate(row) == (int(row["tokens"]), int(row["blocks64"]))


def test_defaults_per_backend() -> None:
    assert default_memory_fraction("vllm") == ("of_total", 0.9)
    assert default_memory_fraction("sglang") == ("of_total", 0.88)
    assert default_memory_fraction("trtllm") == ("of_free", 0.9)
    with pytest.raises(InputError):
        default_memory_fraction("tgi")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"memory_fraction": 1.5}, "memory_fraction: 1.5"),
        ({"memory_fraction": float("nan")}, "memory_fraction: nan"),
        ({"memory_fraction_kind": "of_free"}, "must be 'of_total' for vllm"),
        ({"max_num_tokens": 0}, "max_num_tokens: 0"),
    ],
)
def test_bad_arguments(change: dict[str, object], text: str) -> None:
    key = engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", tp=2)
    budget = {"max_num_tokens": 8192, "memory_fraction_kind": "of_total", "memory_fraction": 0.9} | change
    with pytest.raises(InputError, match=text):
        kv_tokens(key, **budget)


def test_blocks_are_whole_and_at_least_one() -> None:
    key = engine_key("meta-llama/Meta-Llama-3.1-70B", "h100_sxm", "vllm", tp=2)
    budget = {"max_num_tokens": 8192, "memory_fraction_kind": "of_total", "memory_fraction": 0.9}
    assert num_gpu_blocks(key, 1000, **budget) == 10
    with pytest.raises(errors.NoKvBudget, match="10790 tokens, less than one block of 16384"):
        num_gpu_blocks(key, 16384, **budget)
    with pytest.raises(InputError, match="block_size: 0"):
        num_gpu_blocks(key, 0, **budget)
