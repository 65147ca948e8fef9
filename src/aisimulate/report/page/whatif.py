"""What a result hangs on as a page: a tornado plot, its table, and the order of candidates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aisimulate.report.numbers import number_text
from aisimulate.report.page.scrub import Scrubber
from aisimulate.report.page.sheet import Plot, Section, Sheet, Table, sheet_html
from aisimulate.report.whatif import (
    cells_of,
    change_text,
    heads_of,
    held_text,
    is_better,
    order_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aisimulate.whatif.effects import Effect, Sensitivity
    from aisimulate.whatif.order import Robustness

_ROW_PX = 26
_FRAME_PX = 110


def whatif_page(
    asked: Sensitivity,
    ranked: Sequence[Sensitivity],
    found: Robustness | None,
    source: str,
    paths: Iterable[str] = (),
) -> str:
    """Write the page. `source` says what was varied, `paths` are places on this disk not to be named.

    Raises AISimulateError when the plotting library is missing.
    """
    scrubber = Scrubber([*paths, str(Path.cwd()), str(Path.home())])
    sections = [_tornado(asked)]
    if found is not None:
        sections.append(_order(ranked, found))
    if asked.skipped:
        rows = [(variant.name, variant.title, variant.reason) for variant in asked.skipped]
        table = Table(
            "What this deployment does not have", ("variant", "what would change", "why not"), rows, _TEXT
        )
        sections.append(Section("not-varied", "Not varied", tables=[table]))
    sheet = Sheet(
        f"aisimulate · whatif · {source}",
        asked.label,
        {
            "Goal": asked.target.value,
            "As it is": number_text(asked.value),
            **dict(zip(heads_of(asked), cells_of(asked, asked.figures), strict=True)),
        },
        _answer(asked, found),
        sections,
    )
    return sheet_html(sheet, scrubber)


_TEXT = frozenset({1, 2})


def _answer(asked: Sensitivity, found: Robustness | None) -> str:
    known = [effect for effect in asked.effects if effect.change]
    first = (
        f"Most depends on: {known[0].title} ({change_text(known[0])})."
        if known
        else "Nothing changes the goal."
    )
    if found is None:
        return first
    if not found.reorderings:
        return f"{first} The order of the candidates holds under every variant."
    names = "; ".join(item.title for item in found.reorderings)
    return f"{first} The order of the candidates hangs on: {names}."


def _tornado(asked: Sensitivity) -> Section:
    shown = [effect for effect in asked.effects if effect.change is not None]
    rows = [
        (effect.name, effect.title, _value(effect), change_text(effect), *cells_of(asked, effect.figures))
        for effect in asked.effects
    ]
    rows += [(effect.name, "failed", effect.failure) for effect in asked.effects if effect.failure]
    text = (
        "Each bar is one replay with the same seeds and one changed assumption; its length is what that does "
        f"to {asked.target.value}."
    )
    table = Table(
        "The greatest effect first",
        ("variant", "what changes", asked.target.value, "change", *heads_of(asked)),
        rows,
        frozenset({1}),
    )
    return Section("tornado", "What it hangs on", [text], [_plot(asked, shown)] if shown else [], [table])


def _plot(asked: Sensitivity, shown: Sequence[Effect]) -> Plot:
    traces = []
    for name, colour, wanted in (("better", "second", True), ("worse", "front", False)):
        chosen = [effect for effect in shown if is_better(asked, effect) is wanted]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": [effect.title for effect in chosen],
                "x": [effect.change for effect in chosen],
                "colour": colour,
                "hovertemplate": "%{y}: %{x:+.1%}<extra></extra>",
            }
        )
    order = [effect.title for effect in reversed(shown)]
    return Plot(
        "tornado-plot",
        "Tornado plot of the effects on the goal; the table below holds its numbers",
        traces,
        f"change of {asked.target.value}",
        "",
        x={"tickformat": "+.0%", "zeroline": True},
        y={"categoryorder": "array", "categoryarray": order, "type": "category"},
        extra={"barmode": "overlay", "height": _FRAME_PX + _ROW_PX * len(shown)},
        size="free",
    )


def _order(ranked: Sequence[Sensitivity], found: Robustness) -> Section:
    common = " that they have in common" if found.reorderings else ""
    summary = [f"{held_text(found).capitalize()}{common}."]
    if found.single:
        summary.append(f"Not all of them have {', '.join(found.single)}.")
    heads = ("variant", *(f"{place}. {one.label}" for place, one in enumerate(ranked, start=1)), "order")
    names = list(dict.fromkeys(effect.name for one in ranked for effect in one.effects))
    changed = {item.name: order_text(item) for item in found.reorderings}
    rows = [
        ("as it is", *(number_text(one.value) for one in ranked), ""),
        *(
            (name, *(_value(one.effect(name)) for one in ranked), changed.get(name, ""))
            for name in names
            if name not in found.single
        ),
    ]
    table = Table(f"{ranked[0].target.value} under each variant", heads, rows, frozenset({len(heads) - 1}))
    return Section("order", "What the order hangs on", summary, tables=[table])


def _value(effect: Effect | None) -> str:
    return "-" if effect is None or effect.value is None else number_text(effect.value)
