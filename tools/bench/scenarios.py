"""What the benchmark runs, and the bounds that every change has to keep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "tools" / "parity" / "scenarios"
SHIPPED_TRACES = ROOT / "examples" / "aisimulate" / "spica" / "traces"
SHIPPED_CUT = "mooncake_conversation_1000.jsonl"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds; None where nothing is promised.

    `ratio` and `warm_ratio`: our user CPU over the peer's, in a fresh process and for a second replay in
    the same process. `rss_mb`: our peak memory. `plans`: our planner calls, which may grow by 3 %.
    """

    ratio: float | None = None
    warm_ratio: float | None = None
    rss_mb: float | None = None
    plans: int | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One scenario. `cut`: on the shipped first 1,000 requests of its trace instead of the whole trace."""

    name: str
    source: str
    bounds: Bounds = Bounds()
    cut: bool = False
    warm: bool = False

    def scenario(self) -> dict[str, Any]:
        """Read the scenario that `tools/parity/scenario.py` understands."""
        scenario: dict[str, Any] = json.loads((SCENARIOS / f"{self.source}.json").read_text())
        if self.cut:
            scenario["workload"]["path"] = SHIPPED_CUT
        return scenario

    @property
    def needs_stand_alone_peer(self) -> bool:
        """Whether only the stand-alone peer is called with this scenario: measured timing, pairs of pools."""
        scenario = self.scenario()
        measured = scenario["engine"]["timing_model"]["type"] == "external"
        return bool(measured or scenario["fleet"]["mode"] == "disagg")

    def missing_trace(self, traces: Path | None) -> str | None:
        """Name the trace file that this scenario needs and `traces` does not hold."""
        path = self.scenario()["workload"].get("path")
        if path is None or self.cut:
            return None
        return None if traces and (traces / path).is_file() else str(path)


BENCHMARKS = (
    Benchmark("01_conv1000_rr_8w", "01_conv_rr_8w", cut=True),
    Benchmark("01_conv_rr_8w", "01_conv_rr_8w", Bounds(ratio=0.07, rss_mb=110.0, plans=37_234)),
    Benchmark("02_conv1000_kv_8w", "02_conv_kv_8w", cut=True),
    Benchmark("02_conv_kv_8w", "02_conv_kv_8w", Bounds(ratio=0.12)),
    Benchmark("05_1k1k_c4096_w8", "05_1k1k_c4096_w8", Bounds(ratio=0.02, plans=6_128)),
    Benchmark("03_conv_cl256_rr_8w", "03_conv_cl256_rr_8w", Bounds(ratio=0.20, plans=30_587)),
    Benchmark("10_sglang_conv1000_rr_8w", "10_sglang_fifo_conv_rr_8w", cut=True),
    Benchmark("10_sglang_fifo_conv_rr_8w", "10_sglang_fifo_conv_rr_8w", Bounds(ratio=0.10, plans=37_320)),
    Benchmark("09_pressure_1k1k_lifo", "09_pressure_1k1k_lifo", Bounds(ratio=0.10)),
    Benchmark("11_glm_120k_c11940_w6", "11_glm_120k_c11940_w6", Bounds(ratio=0.015)),
    Benchmark("07_conv_disagg_4p4d", "07_conv_disagg_4p4d", Bounds(ratio=0.10, rss_mb=130.0, plans=35_173)),
    Benchmark("11s_glm_24k_c11940_w6", "11s_glm_24k_c11940_w6", Bounds(ratio=0.02)),
    Benchmark("10_trtllm_conv_rr_8w", "10_trtllm_conv_rr_8w", Bounds(ratio=0.08, plans=37_234)),
    Benchmark("12_conv_rr_8w_mtp2", "12_conv_rr_8w_mtp2"),
    Benchmark("20_aic_qwen32b_tp4_conv1000_w8", "20_aic_qwen32b_tp4_conv_w8", cut=True, warm=True),
    Benchmark(
        "20_aic_qwen32b_tp4_conv_w8",
        "20_aic_qwen32b_tp4_conv_w8",
        Bounds(ratio=0.12, warm_ratio=0.03),
        warm=True,
    ),
)
