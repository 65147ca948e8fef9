"""Several branches searched round by round in turn: a search that ends early has seen all of them (D34)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisimulate.spica.loop import BranchSearch, OnRound

_END = object()


def take_turns(
    searches: Sequence[BranchSearch],
    on_round: OnRound | None,
    on_turn: Callable[[str], None],
) -> None:
    """Search all to their ends. Rounds that one does not need go to the others, trials are common.

    `on_turn` is told the deployment mode whose round comes next.
    """
    reports = [search.report for search in searches]
    for search in searches:
        search.share_trials(reports)
    going = [(search, search.rounds(on_round)) for search in searches]
    while going:
        for search, rounds in list(going):
            on_turn(search.report.deployment_mode)
            if next(rounds, _END) is _END:
                going.remove((search, rounds))
                _grant(search.rounds_left, [other for other, _ in going])


def _grant(rounds: int, searches: Sequence[BranchSearch]) -> None:
    """Share rounds out, those that are left over to the first."""
    for place, search in enumerate(searches):
        search.granted_rounds += rounds // len(searches) + (place < rounds % len(searches))
