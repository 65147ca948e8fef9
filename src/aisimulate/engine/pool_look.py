"""What the prefix caches of all ranks of a pool hold of a prompt, where engines tell of them at once.

Most prompts share only their first blocks, those of one id, with others: then one look at each rank will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from aisimulate.engine.cache_view import RunCacheView, view_of
from aisimulate.engine.logged_pools import PatientRunPool
from aisimulate.engine.state_scheduler import StateScheduler
from aisimulate.engine.told_worker import ToldRankWorker

if TYPE_CHECKING:
    from aisimulate.engine.cache_changes import CacheChanges
    from aisimulate.engine.cache_view import CacheView
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.run_pool import Node
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence
    from aisimulate.engine.sglang_scheduler import SglangScheduler

_Part: TypeAlias = "tuple[dict[int, Node], CacheChanges, Worker, RankScheduler, RunCacheView]"

_NOTHING: dict[int, Node] = {}


class PatientCacheView(RunCacheView):
    """The cache of a rank whose worker says when it plans, and of which all is known when a pass ends."""

    __slots__ = ()

    _pool_kind = PatientRunPool
    _pool: PatientRunPool
    _worker: ToldRankWorker

    def __init__(self, rank: RankScheduler, worker: ToldRankWorker, lag_ns: int) -> None:
        """Look into an unused rank of `worker`, which has to be told of its pool."""
        super().__init__(rank, worker, lag_ns)
        worker.patient_pool = self._pool

    def _catch_up(self, now_ns: int) -> bool:
        """Let the run in flight have done to the pool what it had done by `now_ns`; False: nothing."""
        has_changed = super()._catch_up(now_ns)
        if has_changed:
            self.changes.ignored = True  # what is due is known
        return has_changed

    def steady_start(self, first: int, stride: int) -> tuple[int, dict[int, Node] | None]:
        """Tell what is found of the first id until the worker begins or ends passes, and what follows it.

        None follows if that is not known.
        """
        is_idle = not self._worker.busy
        if is_idle:
            self._pool.settle()
        node = self._first_nodes.get(first)
        if self.changes.fresh or self._rank.planned:
            return 0, None
        if node is None:
            return 0, _NOTHING
        if node.len != stride or not (is_idle or node.ref):
            return 0, None
        return stride, node.children


def outlook_of(rank: RankScheduler | SglangScheduler, worker: Worker, lag_ns: int) -> CacheView:
    """Make the view of an unused rank of `worker` that a router has; messages take `lag_ns`."""
    if type(worker) is ToldRankWorker and not lag_ns and not isinstance(rank, StateScheduler):
        return PatientCacheView(rank, worker, lag_ns)  # type: ignore[arg-type]
    return view_of(rank, worker, lag_ns)


class PoolLook:
    """Gives `prefix_blocks` of all ranks of a pool in one loop."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def add(self, view: RunCacheView) -> None:
        """Look at one more rank; its place is the next one."""
        self._parts.append((view._first_nodes, view.changes, view._worker, view._rank, view))

    def __call__(self, sequence: Sequence, limit: int, now_ns: int) -> list[int]:
        """Count, by rank, the leading full blocks of a prompt (at most `limit`) known to be cached."""
        keys, stride = sequence.keys, sequence.stride
        if keys is None or not limit:
            return [0] * len(self._parts)
        first, found = keys[0], []
        for first_nodes, changes, worker, rank, view in self._parts:
            node = first_nodes.get(first)
            if changes.fresh or (worker.busy and (rank.planned or (node is not None and not node.ref))):
                hit = view._prefix(keys, limit, now_ns)
            elif node is None:
                hit = 0
            else:
                hit = node.len
                if hit > stride or hit >= limit or keys[hit // stride] in node.children:
                    hit = view._prefix(keys, limit, now_ns)
            found.append(hit)
        return found


class PatientLook:
    """The same for patient views, looking again only at ranks that began or ended passes since (`_moved`).

    Of a rank that is steady until then it is known what it has of the first id (`_hits`), and what follows
    there (`_next`). Where `_next` is None, the view has to be asked.
    """

    __slots__ = ("_first", "_hits", "_moved", "_next", "_views")

    def __init__(self) -> None:
        self._views: list[PatientCacheView] = []
        self._moved: set[int] = set()
        self._first: int | None = None  # the id that is known about
        self._hits: list[int] = []
        self._next: list[dict[int, Node] | None] = []

    def add(self, view: PatientCacheView) -> None:
        """Look at one more rank; its place is the next one."""
        place = len(self._views)
        self._views.append(view)
        self._hits.append(0)
        self._next.append(None)
        self._moved.add(place)
        view._worker.place, view._worker.moved = place, self._moved

    def __call__(self, sequence: Sequence, limit: int, now_ns: int) -> list[int]:
        """Count, by rank, the leading full blocks of a prompt (at most `limit`) known to be cached."""
        keys, stride = sequence.keys, sequence.stride
        if keys is None:
            return [0] * len(self._views)
        if limit <= stride:
            return [self._ask(place, keys, limit, now_ns) for place in range(len(self._views))]
        first, second = keys[0], keys[1]
        if first != self._first:
            self._first = first
            self._moved.update(range(len(self._views)))
        if self._moved:
            self._look_again(first, stride)
        found = self._hits[:]
        for place, following in enumerate(self._next):
            if following is None or second in following:
                found[place] = self._ask(place, keys, limit, now_ns)
        return found

    def _ask(self, place: int, keys: list[int], limit: int, now_ns: int) -> int:
        """Count what one rank is known to have, and ask it again next time if that turned up evictions."""
        view = self._views[place]
        hit = view._prefix(keys, limit, now_ns)
        if view.changes.fresh:  # of blocks that are still known to be there, and not in the tree any more
            self._next[place] = None
        return hit

    def _look_again(self, first: int, stride: int) -> None:
        """Look at what moved."""
        hits, following = self._hits, self._next
        for place in self._moved:
            hits[place], following[place] = self._views[place].steady_start(first, stride)
        self._moved.clear()
