"""What hangs on the KV capacity, on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisimulate.report.numbers import percent_text, share_text

if TYPE_CHECKING:
    from aisimulate.whatif.kv_sensitivity import CapacityChange, KvSensitivity


def kv_sensitivity_text(found: KvSensitivity) -> str:
    """Write how full the cache was, what other capacities change, and what to make of it."""
    lines = [f"KV capacity: {_blocks_text(found)}"]
    lines += [f"  {item.title}: {_changes_text(item)}" for item in found.changes]
    return "\n".join([*lines, f"  {verdict(found)}", ""])


def kv_sensitivity_json(found: KvSensitivity) -> dict[str, Any]:
    """Give the same as JSON values."""
    return {
        "num_gpu_blocks": dict(found.blocks),
        "peak_held_share": dict(found.peaks),
        "near_saturation": found.is_near_full,
        "matters": found.matters,
        "variants": [
            {
                "title": item.title,
                "num_gpu_blocks": dict(item.blocks),
                "relative_changes": dict(item.changes),
                **({"failure": item.failure} if item.failure else {}),
            }
            for item in found.changes
        ],
        "verdict": verdict(found),
    }


def verdict(found: KvSensitivity) -> str:
    """Say in one line whether the result hangs on the KV capacity."""
    if found.is_empty and not found.matters:
        return "no request completed with any of them: nothing can be said"
    if found.matters:
        return (
            "the result hangs on the KV capacity: measure that of your engine and give it as num_gpu_blocks"
        )
    if found.is_near_full:
        return "the KV cache is nearly full at times, but a tenth more or less of it changes next to nothing"
    return "the result does not hang on the KV capacity"


def _blocks_text(found: KvSensitivity) -> str:
    parts = []
    for pool, blocks in found.blocks.items():
        name = "" if pool == "agg" else f"{pool}: "
        held = share_text(found.peaks.get(pool, 0.0))
        parts.append(f"{name}{blocks:,} blocks of a rank, at most {held} held by running requests")
    return "; ".join(parts)


def _changes_text(item: CapacityChange) -> str:
    if item.failure:
        return f"failed: {item.failure}"
    moved = [
        f"{name} {'from 0' if change is None else percent_text(change, 1)}"
        for name, change in item.changes.items()
        if change is None or abs(change) >= 0.0005
    ]
    return ", ".join(moved) or "nothing changes"
