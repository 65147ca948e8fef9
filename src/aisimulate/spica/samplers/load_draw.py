"""How a continuous load is drawn: half uniform, half log-uniform (spec 06 section 6)."""

from __future__ import annotations

import math

# The lowest value of a log-uniform draw from a range that starts at 0, as a share of its upper end.
LOG_FLOOR_SHARE = 1e-3
_HALVINGS = 50


def mixed_quantile(share: float, low: float, high: float) -> float:
    """Return the value below which a share of such draws lies; 0 gives about `low`, 1 gives `high`."""
    floor = max(low, high * LOG_FLOOR_SHARE)
    if floor <= 0.0 or floor >= high:
        return low + share * (high - low)
    left, right = low, high
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        if _share_below(middle, low, high, floor) < share:
            left = middle
        else:
            right = middle
    return right


def _share_below(value: float, low: float, high: float, floor: float) -> float:
    uniform = (value - low) / (high - low)
    logarithmic = math.log(value / floor) / math.log(high / floor) if value > floor else 0.0
    return (uniform + logarithmic) / 2
