"""Vector helpers of the timers: arithmetic progressions, listed or counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def tally_ramps(firsts: Int64s, steps: Int64s, counts: Int64s, weights: Int64s) -> tuple[Int64s, Int64s]:
    """Count the values of arithmetic progressions, each value `weights[i]` times: (values, counts).

    Equal values are put together where they are many.
    """
    import numpy as np  # noqa: PLC0415 - as above

    total = int(counts.sum())
    if not total:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    lowest, highest = int(firsts.min()), int((firsts + steps * np.maximum(counts - 1, 0)).max())
    span = highest - lowest + 1
    distinct = sorted(set(steps.tolist()))  # `np.unique` would first import numpy.ma
    tallied: npt.NDArray[Any]
    if span * len(distinct) <= total:
        tallied = _count_by_step(firsts - lowest, steps, counts, weights, span, distinct)
    elif span < total:
        values = expand_ramps(firsts, steps, counts)
        tallied = np.bincount(values - lowest, weights=np.repeat(weights, counts), minlength=span)
    else:
        return expand_ramps(firsts, steps, counts), np.repeat(weights, counts)
    seen = np.flatnonzero(tallied)
    return seen + lowest, tallied[seen].astype(np.int64)


def _count_by_step(
    firsts: Int64s, steps: Int64s, counts: Int64s, weights: Int64s, span: int, distinct: list[int]
) -> npt.NDArray[np.float64]:
    """Count the values 0 .. span - 1 without listing them: where progressions of one step begin and end."""
    import numpy as np  # noqa: PLC0415 - as above

    tallied = np.zeros(span)
    for step in distinct:
        chosen = steps == step
        begins, weight = firsts[chosen], weights[chosen]
        ends = begins + step * counts[chosen]
        size = -(-(span + step) // step) * step
        changes = np.bincount(begins, weight, size) - np.bincount(ends, weight, size)
        tallied += np.cumsum(changes.reshape(-1, step), axis=0).ravel()[:span]
    return tallied
