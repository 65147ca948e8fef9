"""A staged heuristic for one goal: shapes, then worker counts, then router and engine settings.

It is what an experienced operator would try by hand, in the order of effect. Every stage starts from the best
deployment so far, and nothing is tried twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from aisimulate.core.errors import InputError
from aisimulate.spica.finite_space import FiniteSpace
from aisimulate.spica.parallel_enum import DisaggParallelConfig
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.grid import refuse_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from aisimulate.spica.parallel_enum import ParallelConfig, ParallelShape
    from aisimulate.spica.search_space import BranchSpace

# The position of a placement, and of a combination in each digit of the finite space.
State: TypeAlias = "tuple[int, ...]"
# What makes a state better, smaller first: measured and by what; missed bounds and by how much; nothing.
Rank: TypeAlias = "tuple[int, float]"

# Settings in the order in which they are tried; those that are not named follow in the order of the branch.
_KNOB_ORDER = ("router_mode", "overlap_score_credit", "prefill_load_scale")
_MOST_PASSES = 3
_BUDGET_SHARES = (1.0, 0.5, 0.25)
_MOST_ON_EDGE = 12
_MOST_LEADERS = 3
_NOTHING: Rank = (2, 0.0)


class FocusedSampler:
    """Suggests the next stage when everything it suggested has its outcome; nothing when it is done.

    A candidate that misses hard bounds ranks behind all that meet them, by its worst miss.

    Raises:
        InputError: the goal has several objectives, or the branch a continuous range.
    """

    def __init__(self, branch: BranchSpace, *, objectives: Sequence[tuple[str, bool]] | None = None) -> None:
        if objectives:
            raise InputError("sweep.sampler: focused climbs one goal, not a Pareto front; use pool-gp")
        refuse_ranges(branch, "focused")
        self.branch = branch
        self._space = FiniteSpace(branch)
        self._ranks: dict[State, Rank] = {}
        self._best: State | None = None
        self._queue: list[State] = []
        self._waiting: set[State] = set()
        self._stages = self._plan()

    def suggest(self, count: int) -> list[Suggestion]:
        """Return up to `count` states of the current stage."""
        while not self._queue and not self._waiting:
            stage = next(self._stages, None)
            if stage is None:
                return []
            self._queue = [state for state in dict.fromkeys(stage) if state not in self._ranks]
        taken, self._queue = self._queue[:count], self._queue[count:]
        self._waiting.update(taken)
        return [self._suggestion(state) for state in taken]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Rank a measured state by its score."""
        self._rank(suggestion, (0, -metrics["objective"]))

    def observe_missed(self, suggestion: Suggestion, missed: Mapping[str, float]) -> None:
        """Rank a state that missed bounds by its worst miss."""
        self._rank(suggestion, (1, max(missed.values())))

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Rank a state without a result last."""
        self._rank(suggestion, _NOTHING)

    def _rank(self, suggestion: Suggestion, rank: Rank) -> None:
        state: State = suggestion.handle  # type: ignore[assignment]
        self._waiting.discard(state)
        self._ranks[state] = rank
        if rank != _NOTHING and (self._best is None or rank < self._ranks[self._best]):
            self._best = state

    def _suggestion(self, state: State) -> Suggestion:
        point = self._space.point_at(self._space.index_of(state))
        return Suggestion(point.selection, point.parallel_config, handle=state)

    # The stages -----------------------------------------------------------------------------------------

    def _plan(self) -> Iterator[Iterable[State]]:
        yield from self._try_shapes()
        for number in range(_MOST_PASSES):
            before = self._best
            yield from self._try_counts(1 if number else _MOST_LEADERS)
            yield from self._try_knobs()
            if self._best == before:
                return

    def _try_shapes(self) -> Iterator[list[State]]:
        """Fill the budget with every shape; in a pair with equal shapes first, then one role at a time.

        Equal shapes are also tried on half and on a quarter of the budget: what counts per GPU may be best
        on few.
        """
        edges = self._edges()
        rest = (0,) * len(self._space.digits)
        for share in _BUDGET_SHARES:
            filled = edges if share == 1.0 else self._edges(share)
            yield [(place, *rest) for shapes, place in filled.items() if len(set(shapes[1])) == 1]
        for role in (0, 1):
            if self._best is None:
                yield [(place, *rest) for place in edges.values()]
                return
            backend, best = self._shapes(self._best[0])
            others = [
                place
                for (name, shapes), place in edges.items()
                if name == backend and _differ_only(shapes, best, role)
            ]
            yield [(place, *rest) for place in others]

    def _edges(self, share: float = 1.0) -> dict[tuple[str, tuple[ParallelShape, ...]], int]:
        """Find, per backend and shapes, the placement that uses most of a share of the GPUs, most evenly."""
        edges: dict[tuple[str, tuple[ParallelShape, ...]], int] = {}
        limit_gpus = share * max(config.total_gpus for _, config in self._space.placements)
        for place, (_, config) in enumerate(self._space.placements):
            if config.total_gpus > limit_gpus:
                continue
            key = self._shapes(place)
            known = edges.get(key)
            if known is None or _fullness(config) > _fullness(self._space.placements[known][1]):
                edges[key] = place
        return edges

    def _shapes(self, place: int) -> tuple[str, tuple[ParallelShape, ...]]:
        backend, config = self._space.placements[place]
        if isinstance(config, DisaggParallelConfig):
            return backend, (config.prefill.shape, config.decode.shape)
        return backend, (config.shape,)

    def _try_counts(self, leaders: int) -> Iterator[list[State]]:
        """Change the numbers of workers: along the edge of the budget, then step by step from the leaders."""
        if self._best is None:
            return
        counts = self._counts_of(self._best[0])
        edge = [own for own in counts if not any(_is_more(own, more) for more in counts)]
        yield self._moved(counts[own] for own in _spread(sorted(edge), _MOST_ON_EDGE))
        for leader in self._leaders(leaders):
            yield from self._climb_counts(leader)

    def _leaders(self, most: int) -> list[State]:
        """Return the best state of each of the best shapes."""
        leaders: dict[tuple[str, tuple[ParallelShape, ...]], State] = {}
        for state in sorted(self._ranks, key=self._ranks.__getitem__):
            if self._ranks[state] != _NOTHING:
                leaders.setdefault(self._shapes(state[0]), state)
        return list(leaders.values())[:most]

    def _climb_counts(self, state: State) -> Iterator[list[State]]:
        """Go on from a state as long as other numbers of workers of its shapes are better."""
        counts = self._counts_of(state[0])
        while True:
            own = _counts(self._space.placements[state[0]][1])
            near = [(place, *state[1:]) for other, place in counts.items() if _are_near(own, other)]
            yield near
            before, state = state, min((state, *near), key=lambda other: self._ranks[other])
            if state == before:
                return

    def _counts_of(self, place: int) -> dict[tuple[int, ...], int]:
        """List the placements of the same backend and shapes, by their numbers of workers."""
        key = self._shapes(place)
        return {
            _counts(config): other
            for other, (_, config) in enumerate(self._space.placements)
            if self._shapes(other) == key
        }

    def _moved(self, places: Iterable[int]) -> list[State]:
        assert self._best is not None
        return [(place, *self._best[1:]) for place in places]

    def _try_knobs(self) -> Iterator[list[State]]:
        """Change one setting at a time, and keep what was better."""
        if self._best is None:
            return
        names = [name for name in self.branch.knob_choices if name not in (*_KNOB_ORDER, "backend")]
        for name in (*_KNOB_ORDER, *names):
            for digit, combinations in enumerate(self._space.digits, start=1):
                if any(name in combination for combination in combinations):
                    yield self._with_other(name, digit, combinations)
        yield self._on_other_backends()

    def _with_other(self, name: str, digit: int, combinations: Sequence[Mapping[str, object]]) -> list[State]:
        """Change a setting of the best state to each other choice, and nothing else where possible."""
        assert self._best is not None
        best = self._best
        own = combinations[best[digit]]
        found: dict[str, int] = {}
        for place, combination in enumerate(combinations):
            choice = repr(combination[name])
            if combination[name] == own[name]:
                continue
            equal = all(combination[other] == own[other] for other in own if other != name)
            if equal or choice not in found:
                found[choice] = place
        return [(*best[:digit], place, *best[digit + 1 :]) for place in found.values()]

    def _on_other_backends(self) -> list[State]:
        assert self._best is not None
        config = self._space.placements[self._best[0]][1]
        return self._moved(
            place for place, (_, other) in enumerate(self._space.placements) if other == config
        )


def _differ_only(shapes: tuple[ParallelShape, ...], best: tuple[ParallelShape, ...], role: int) -> bool:
    return len(shapes) > role and all(
        (own == other) is (place != role) for place, (own, other) in enumerate(zip(shapes, best, strict=True))
    )


def _counts(config: ParallelConfig) -> tuple[int, ...]:
    if isinstance(config, DisaggParallelConfig):
        return config.prefill.replicas, config.decode.replicas
    return (config.replicas,)


def _fullness(config: ParallelConfig) -> tuple[int, int]:
    """Order placements: more GPUs first, then those that both roles share evenly."""
    if isinstance(config, DisaggParallelConfig):
        return config.total_gpus, -abs(config.prefill.total_gpus - config.decode.total_gpus)
    return config.total_gpus, 0


def _spread(items: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Take items at equal distances, both ends included, when there are too many."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def _is_more(own: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return own != other and all(a <= b for a, b in zip(own, other, strict=True))


def _are_near(own: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether each number differs by one at most, or one of them is halved or doubled."""
    if own == other:
        return False
    if all(abs(a - b) <= 1 for a, b in zip(own, other, strict=True)):
        return True
    changed = [(a, b) for a, b in zip(own, other, strict=True) if a != b]
    return len(changed) == 1 and (changed[0][0] // 2 == changed[0][1] or changed[0][0] * 2 == changed[0][1])
