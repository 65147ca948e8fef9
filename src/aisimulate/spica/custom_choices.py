"""Values off the grid for list knobs, which a config must ask for with `custom_choices` (D31)."""

from __future__ import annotations

import math

from aisimulate.config.base import U32_MAX
from aisimulate.core.shown import show_python

_COUNTS = ("max_num_batched_tokens", "max_num_seqs")
_WEIGHTS = ("overlap_score_credit", "prefill_load_scale", "router_temperature")
_SHARES = ("host_cache_hit_weight", "disk_cache_hit_weight")


def custom_rule(knob: str) -> str | None:
    """Say which values a knob takes off its grid; None for a knob that takes none."""
    if knob.endswith(_COUNTS):
        return f"a whole number from 1 to {U32_MAX}"
    if knob in _WEIGHTS:
        return "a number of at least 0"
    return "a number from 0 to 1" if knob in _SHARES else None


def custom_choice(knob: str, entry: object) -> int | float:
    """Return a value off the grid in the knob's type. Raises ValueError with the rule that it breaks."""
    rule = custom_rule(knob)
    if not isinstance(entry, int | float) or isinstance(entry, bool) or not math.isfinite(entry):
        raise ValueError(f"invalid choice {show_python(entry)} for {knob}: must be {rule}")
    if knob.endswith(_COUNTS):
        legal = entry == int(entry) and 1 <= entry <= U32_MAX
        value: int | float = int(entry)
    else:
        legal = entry >= 0 and (knob not in _SHARES or entry <= 1)
        value = float(entry)
    if not legal:
        raise ValueError(f"invalid choice {show_python(entry)} for {knob}: must be {rule}")
    return value
