"""All variants by group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.whatif.data_variants import bandwidth, capacity, precision
from aisimulate.whatif.fleet_variants import failure, replicas
from aisimulate.whatif.load_variants import lengths, traffic

if TYPE_CHECKING:
    from aisimulate.whatif.variants import Makers

CAPACITY = "kv"
VARIANTS: Makers = {
    "replicas": replicas,
    "traffic": traffic,
    "lengths": lengths,
    "failure": failure,
    "bandwidth": bandwidth,
    "precision": precision,
    CAPACITY: capacity,
}
