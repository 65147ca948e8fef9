"""All variants by group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.whatif.data_variants import bandwidth, capacity, precision, times
from aisimulate.whatif.fleet_variants import failure, replicas
from aisimulate.whatif.load_variants import lengths, traffic
from aisimulate.whatif.serving_variants import serving

if TYPE_CHECKING:
    from aisimulate.whatif.variants import Makers

VARIANTS: Makers = {
    "replicas": replicas,
    "traffic": traffic,
    "lengths": lengths,
    "failure": failure,
    "bandwidth": bandwidth,
    "times": times,
    "serving": serving,
    "precision": precision,
    "kv": capacity,
}
NAMES = (
    *VARIANTS,
    *(f"{word}-{pool}" for pool in ("replicas", "prefill", "decode") for word in ("more", "fewer")),
    "more-traffic",
    "less-traffic",
    "longer-prompts",
    "longer-outputs",
    "failed-worker",
    "failed-prefill",
    "failed-decode",
    "slower-transfer",
    "slower-host",
    "slower-disk",
    "slower-passes",
    "faster-passes",
    "fused-passes",
    "additive-passes",
    "look-ahead",
    "no-look-ahead",
    "front-end",
    "no-front-end",
    "no-calibration",
    "weights-bf16",
    "weights-fp8",
    "weights-nvfp4",
    "kv-bf16",
    "kv-fp8",
    "more-kv",
    "less-kv",
)
"""Every group and every variant that a deployment may have."""
