"""Vector helper of the timers that price runs piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

# Values worked on at a time: the temporaries then stay in cache, which is ten times faster.
_BLOCK = 1 << 15


def expand_ramps(firsts: Int64s, steps: Int64s, counts: Int64s) -> Int64s:
    """Concatenate arithmetic progressions: `counts[i]` values `firsts[i] + j * steps[i]`, j = 0, 1, ..."""
    import numpy as np  # noqa: PLC0415 - numpy costs start-up time that a small replay need not pay

    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    values = np.empty(total, dtype=np.int64)
    # Value number k of all is anchor + k * step of its own progression.
    anchors = firsts - steps * (ends - counts)
    cuts = np.searchsorted(ends, np.arange(_BLOCK, total, _BLOCK)).tolist()
    low = start = 0
    for high in [*cuts, len(counts)]:
        stop = int(ends[high - 1]) if high > low else start
        block = np.arange(start, stop, dtype=np.int64)
        block *= np.repeat(steps[low:high], counts[low:high])
        block += np.repeat(anchors[low:high], counts[low:high])
        values[start:stop] = block
        low, start = high, stop
    return values
