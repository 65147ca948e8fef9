"""What a result hangs on, on the terminal and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aisimulate.report.columns import aligned
from aisimulate.report.numbers import number_text, percent_text, share_text
from aisimulate.whatif.effects import FIGURES, SLA_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.whatif.effects import Effect, Sensitivity
    from aisimulate.whatif.order import Reordering, Robustness

_HALF_BAR = 12
_MISSING = "-"


def whatif_text(asked: Sensitivity, ranked: Sequence[Sensitivity], found: Robustness | None) -> str:
    """Lay out the tornado of a deployment, what could not be varied, and what the order hangs on."""
    target = asked.target.value
    lines = [f"{asked.label}: {target} {number_text(asked.value)}, {_figures_text(asked.figures)}", ""]
    lines += _table(asked)
    if asked.skipped:
        lines += ["", "not varied:"]
        lines += [f"  {variant.name} ({variant.title}): {variant.reason}" for variant in asked.skipped]
    if found is not None:
        lines += ["", *order_lines(ranked, found)]
    return "\n".join([*lines, ""])


def order_lines(ranked: Sequence[Sensitivity], found: Robustness) -> list[str]:
    """Say under which variants the order of candidates changes."""
    target = ranked[0].target.value
    lines = ["the order of the closest candidates:"]
    lines += [
        f"  {place}. {one.label}: {target} {number_text(one.value)}"
        for place, one in enumerate(ranked, start=1)
    ]
    if not found.reorderings:
        lines.append(f"  {held_text(found)}")
    else:
        lines.append(f"  {held_text(found)}, and hangs on:")
        lines += [f"    {item.title}: {order_text(item)}" for item in found.reorderings]
    if found.single:
        lines.append(f"  not all of them have {', '.join(found.single)}")
    return lines


def held_text(found: Robustness) -> str:
    """Say under how many variants the order holds."""
    total = found.held + len(found.reorderings)
    if not found.reorderings:
        return f"it holds under all variants that they have in common ({total})"
    return f"it holds under {found.held} of {total} variants"


def order_text(item: Reordering) -> str:
    """Tell the order under a variant, by the places without it."""
    shown = ", ".join(
        f"{place + 1} ({_MISSING if (value := item.values[place]) is None else number_text(value)})"
        for place in item.order
    )
    return f"{'another comes first: ' if item.changes_first else ''}{shown}"


def change_text(effect: Effect) -> str:
    """Write the change of the goal in per cent, with its sign."""
    return _MISSING if effect.change is None else percent_text(effect.change, 1)


def heads_of(asked: Sensitivity) -> list[str]:
    """List the titles of the figures beside the goal."""
    heads = [title for name, title in FIGURES.items() if name in asked.figures]
    return [*heads, *(["in SLA"] if SLA_SHARE in asked.figures else []), "GPUs"]


def cells_of(asked: Sensitivity, figures: Mapping[str, float]) -> list[str]:
    """Write the figures under those titles."""
    if not figures:
        return [_MISSING] * len(heads_of(asked))
    cells = [number_text(figures[name]) for name in FIGURES if name in asked.figures]
    if SLA_SHARE in asked.figures:
        cells.append(share_text(figures[SLA_SHARE]))
    return [*cells, f"{figures['gpus']:.3g}"]


def is_better(asked: Sensitivity, effect: Effect) -> bool:
    """Whether an effect is for the better."""
    return bool(effect.change) and ((effect.change or 0.0) > 0) is asked.target.maximize


def whatif_json(asked: Sensitivity, ranked: Sequence[Sensitivity], found: Robustness | None) -> str:
    """Write the same as JSON."""
    document: dict[str, Any] = _sensitivity_json(asked)
    if found is not None:
        document["order"] = {
            "candidates": [_sensitivity_json(one) for one in ranked],
            "variants_that_hold": found.held,
            "variants_that_change_it": [
                {
                    "name": item.name,
                    "title": item.title,
                    "order": [ranked[place].label for place in item.order],
                    "values": list(item.values),
                    "changes_first": item.changes_first,
                }
                for item in found.reorderings
            ],
            "not_in_common": list(found.single),
        }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _sensitivity_json(one: Sensitivity) -> dict[str, Any]:
    return {
        "deployment": one.label,
        "goal": one.target.value,
        "value": one.value,
        "figures": dict(one.figures),
        "variants": [
            {
                "name": effect.name,
                "title": effect.title,
                "value": effect.value,
                "relative_change": effect.change,
                "figures": dict(effect.figures),
                **({"failure": effect.failure} if effect.failure else {}),
            }
            for effect in one.effects
        ],
        "not_varied": [
            {"name": variant.name, "title": variant.title, "reason": variant.reason}
            for variant in one.skipped
        ],
    }


def _figures_text(figures: Mapping[str, float]) -> str:
    parts = [f"{title} {number_text(figures[name])}" for name, title in FIGURES.items() if name in figures]
    if SLA_SHARE in figures:
        parts.append(f"{share_text(figures[SLA_SHARE])} in SLA")
    return ", ".join([*parts, f"{figures['gpus']:.3g} GPUs"])


def _table(asked: Sensitivity) -> list[str]:
    if not asked.effects:
        return ["nothing could be varied"]
    most = max((abs(effect.change) for effect in asked.effects if effect.change is not None), default=0.0)
    rows: list[Sequence[str]] = [
        ("variant", "what changes", asked.target.value, "change", "", *heads_of(asked))
    ]
    for effect in asked.effects:
        value = _MISSING if effect.value is None else number_text(effect.value)
        cells = cells_of(asked, effect.figures)
        rows.append((effect.name, effect.title, value, change_text(effect), _bar(effect, most), *cells))
    numbers = (2, 3, *range(5, len(rows[0])))
    title, *lines = aligned(rows, to_right=numbers)
    failures = [f"{effect.name}: failed: {effect.failure}" for effect in asked.effects if effect.failure]
    return [title, "-" * len(title), *lines, *failures]


def _bar(effect: Effect, most: float) -> str:
    """Draw a change as a bar to the left or right of the base."""
    share = 0.0 if effect.change is None or not most else effect.change / most
    length = round(abs(share) * _HALF_BAR)
    left = "=" * length if share < 0 else ""
    right = "=" * length if share > 0 else ""
    return f"{left:>{_HALF_BAR}}|{right:<{_HALF_BAR}}"
