"""What a router sees of the prefix cache of one rank: the blocks that the engine has told it of so far.

No index is kept beside the cache. The pool of the rank is asked when a request is placed, after what its run
in flight did until then, and less what nobody has heard of yet (`CacheChanges`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.engine.ahead_progress import plan_known_at, plans_known_by
from aisimulate.engine.cache_changes import CacheChanges, agreement
from aisimulate.engine.held_pool import HeldPool
from aisimulate.engine.logged_pools import (
    LoggedHeldPool,
    LoggedOffloadPool,
    LoggedRadixPool,
    LoggedRunPool,
    LoggedRuns,
)
from aisimulate.engine.offload_scheduler import Offloading
from aisimulate.engine.run_progress import pass_end_of, passes_by
from aisimulate.engine.sglang_scheduler import SglangScheduler
from aisimulate.engine.speculative import SpeculativeScheduler
from aisimulate.engine.state_scheduler import StateScheduler

if TYPE_CHECKING:
    from aisimulate.engine.decode_set import DecodeSet
    from aisimulate.engine.protocols import Worker
    from aisimulate.engine.scheduler import RankScheduler
    from aisimulate.engine.sequence import Sequence


class CacheView(Protocol):
    """The cache of one rank, seen from outside; `lags` if what happens is known later only."""

    lags: bool
    changes: CacheChanges

    def prefix_blocks(self, sequence: Sequence, limit: int, now_ns: int) -> int:
        """Count the leading full blocks of a prompt, at most `limit`, that are known to be cached."""
        ...

    def end_pass(self, end_ns: int) -> None:
        """Take note, before they are ended, that the passes in flight of the worker end at `end_ns`."""
        ...

    def publish(self, end_ns: int) -> None:
        """Tell of what happened until `end_ns`, when passes ended."""
        ...

    def hold(self, sequence: Sequence, now_ns: int) -> None:
        """Take note of a prompt that is computed, and kept until it is handed over."""
        ...

    def let_go(self, sequence: Sequence) -> None:
        """Take note that it was handed over."""
        ...


class _LaggingView:
    """What the views have in common. `_stepped` passes of the run in flight were gone through."""

    __slots__ = (
        "_is_ahead",
        "_pass_end",
        "_passes_by",
        "_pool",
        "_rank",
        "_stepped",
        "_worker",
        "changes",
        "lags",
    )

    _rank: Any
    _pool: Any

    def __init__(self, worker: Worker, changes: CacheChanges, lags: bool) -> None:
        self.changes = changes
        self.lags = lags
        self._worker = worker
        self._stepped = 0
        # With look-ahead these count plans, which are a pass before what they plan.
        ahead = plans_known_by(worker)
        self._is_ahead = ahead is not None
        self._passes_by = ahead or passes_by(worker)
        self._pass_end = plan_known_at(worker) if ahead else pass_end_of(worker)

    def end_pass(self, end_ns: int) -> None:
        """Take note, before they are ended, that the passes in flight of the worker end at `end_ns`."""
        if self.lags:
            self._catch_up(end_ns)
            self._stepped = 0
            return
        if self._is_ahead:  # what is planned already is told of before it is booked
            self._catch_up(end_ns)
        self.changes.ignored = True

    def publish(self, end_ns: int) -> None:
        """Tell of what happened until `end_ns`, when passes ended."""
        changes = self.changes
        changes.ignored = False
        if changes.fresh:
            changes.publish(end_ns)

    def hold(self, sequence: Sequence, now_ns: int) -> None:
        """Take note of a prompt that is computed, and kept until it is handed over: it is in the pool."""

    def let_go(self, sequence: Sequence) -> None:
        """Take note that it was handed over."""

    def _catch_up(self, now_ns: int) -> bool:
        """Let the run in flight have done to the pool what it had done by `now_ns`; False: nothing."""
        if self.lags:
            return self._step(self._passes_by(now_ns))
        passes = self._passes_by(now_ns)
        if passes:
            self._grow(passes)
            self.changes.publish(now_ns)
        return passes > 0

    def _step(self, passes: int) -> bool:
        """Go on to the end of so many passes, and tell of what they did as each of them ends."""
        first = self._stepped
        if passes <= first:
            return False
        while first < passes:
            quiet = self._quiet(first, passes)
            if quiet > first:
                self._grow(quiet)
                first = quiet
            else:
                first += 1
                self._grow(first)
                self.changes.publish(self._pass_end(first))
        self._stepped = passes
        return True

    def _quiet(self, first: int, passes: int) -> int:
        """Give the pass, from `first` up to `passes`, until which there is nothing to tell of."""
        rank = self._rank
        if rank.planned or self.changes.fresh:
            return first
        if not (rank.run_batch and rank.decoders.count):
            return passes
        decoders, opened = rank.decoders, rank._opening
        within = opened + self._pool.quiet(decoders.demand(passes) - opened)
        if decoders.demand(first + 1) > within:
            return first
        return int(decoders.longest_within(passes, within))

    def _grow(self, passes: int) -> None:
        raise NotImplementedError


class RunCacheView(_LaggingView):
    """The cache of a rank that schedules like vLLM."""

    __slots__ = ("_first_nodes",)

    _pool_kind: type[LoggedRuns] = LoggedRunPool
    _rank: RankScheduler
    _pool: LoggedRuns

    def __init__(self, rank: RankScheduler, worker: Worker, lag_ns: int) -> None:
        """Look into an unused rank of `worker`; messages take `lag_ns`."""
        pool: Any
        if isinstance(rank, Offloading):
            kind = LoggedHeldPool if isinstance(rank.pool, HeldPool) else LoggedOffloadPool
            rank.host.pool = pool = kind(rank.params.num_gpu_blocks, rank.block_size)
        else:
            pool = self._pool_kind(rank.params.num_gpu_blocks, rank.block_size)
        rank.pool = self._pool = pool
        rank.tells = True
        self._first_nodes = pool.root.children
        self._rank = rank
        pool.changes = CacheChanges(lag_ns)
        super().__init__(worker, pool.changes, lag_ns > 0)

    def prefix_blocks(self, sequence: Sequence, limit: int, now_ns: int) -> int:
        """Count the leading full blocks of a prompt, at most `limit`, that are known to be cached."""
        keys = sequence.keys
        return 0 if keys is None else self._prefix(keys, limit, now_ns)

    def _prefix(self, keys: list[int], limit: int, now_ns: int) -> int:
        pool = self._pool
        if not limit:
            return 0
        if self.changes.ignored:  # nobody has to be told of what is due
            pool.settle()
        node, stride = pool.root.children.get(keys[0]), pool.stride
        hit = 0
        if node is not None:
            hit = node.len
            # Most prompts share their first blocks with others, and nothing else.
            if (
                not (node.ref or self.changes.ignored)
                or hit > stride
                or hit >= limit
                or keys[hit // stride] in node.children
            ):
                hit, _, node, _ = pool.match(keys, limit)
        changes, rank = self.changes, self._rank
        # The run in flight may have evicted blocks that nobody holds, or completed planned ones.
        is_ahead = self._worker.busy and ((node is not None and not node.ref) or rank.planned)
        if is_ahead or changes.fresh or changes.late:
            if self._catch_up(now_ns):
                hit = pool.match(keys, limit)[0]
            if changes.fresh or changes.late:
                return changes.visible(keys, stride, hit, limit, now_ns)
        return hit

    def _grow(self, passes: int) -> None:
        rank = self._rank
        if not rank.run_batch:
            return
        opened = rank.decoders.demand(passes)
        if opened > rank._opening:
            self._pool.take(opened - rank._opening)
            rank._opening = opened
        if rank.planned:
            rank.publish(rank.planned, passes)


class RadixCacheView(_LaggingView):
    """The cache of an SGLang rank.

    A prefill rank tells of the prompts it keeps (`_held`, with the instants from which on that is known),
    although they get into the tree only when they are handed over.
    """

    __slots__ = ("_held", "_lag_ns")

    _rank: SglangScheduler
    _pool: LoggedRadixPool

    def __init__(self, rank: SglangScheduler, worker: Worker, lag_ns: int) -> None:
        """Look into an unused rank of `worker`; messages take `lag_ns`."""
        params = rank.params
        pool = LoggedRadixPool(params.num_gpu_blocks, params.block_size, params.enable_prefix_caching)
        rank.pool = self._pool = pool
        self._rank = rank
        pool.changes = CacheChanges(lag_ns)
        super().__init__(worker, pool.changes, lag_ns > 0)
        self._lag_ns = lag_ns
        self._held: dict[Sequence, int] = {}

    def hold(self, sequence: Sequence, now_ns: int) -> None:
        """Take note of a prompt that is computed, and kept until it is handed over."""
        self._held[sequence] = now_ns + self._lag_ns

    def let_go(self, sequence: Sequence) -> None:
        """Take note that it was handed over."""
        self._held.pop(sequence, None)

    def prefix_blocks(self, sequence: Sequence, limit: int, now_ns: int) -> int:
        """Count the leading full pages of a prompt, at most `limit`, that are known to be cached."""
        hit = self._cached(sequence, limit, now_ns)
        for held, known_ns in self._held.items():
            if known_ns <= now_ns and held.keys is not None and sequence.keys is not None:
                pages = min(limit, held.computed // self._pool.page_size)
                hit = max(hit, agreement(held.keys, sequence.keys, sequence.stride, 0, pages))
        return hit

    def _cached(self, sequence: Sequence, limit: int, now_ns: int) -> int:
        keys, pool, changes = sequence.keys, self._pool, self.changes
        if keys is None or not pool.caching:
            return 0
        sequence.shared = limit
        hit, node, _ = pool.match(sequence, limit)
        is_ahead = self._worker.busy and ((hit and not node.ref) or self._rank.planned)
        if is_ahead or changes.fresh or changes.late:
            if self._catch_up(now_ns):
                hit = pool.match(sequence, limit)[0]
            if changes.fresh or changes.late:
                return changes.visible(keys, pool.stride, hit, limit, now_ns)
        return hit

    def _grow(self, passes: int) -> None:
        rank = self._rank
        if not rank.run_batch:
            return
        decoders: DecodeSet = rank.decoders
        opened = decoders.demand(passes)
        if opened > rank._opening:
            self._pool.take(opened - rank._opening)
            rank._opening = opened
        self._pool.grow(decoders.passes + passes)


class HostedCacheView(RunCacheView):
    """The cache of a rank with host memory, which knows blocks by identities of its own."""

    __slots__ = ()

    _rank: Offloading

    def prefix_blocks(self, sequence: Sequence, limit: int, now_ns: int) -> int:
        """Count the leading full blocks of a prompt, at most `limit`, that the GPU is known to hold."""
        if sequence.keys is None or not self._rank.params.enable_prefix_caching:
            return 0
        self._pool.stride = 1
        identities = self._rank.host.identities.of(sequence.keys, sequence.stride, limit)
        return self._prefix(identities, limit, now_ns)


class HeldCacheView(HostedCacheView):
    """The cache of a rank that shares its host memory, where a block may outlive those it follows."""

    __slots__ = ()

    def _prefix(self, keys: list[int], limit: int, now_ns: int) -> int:
        changes = self.changes
        if self._worker.busy:
            self._catch_up(now_ns)
        hit = self._pool.match(keys, limit)[0]
        return changes.visible(keys, 1, hit, limit, now_ns) if changes.fresh or changes.late else hit


class DraftCacheView(RunCacheView):
    """The cache of a rank with drafts, which names every block by itself and is looked at pass by pass."""

    __slots__ = ()

    _rank: SpeculativeScheduler

    def __init__(self, rank: SpeculativeScheduler, worker: Worker, lag_ns: int) -> None:
        """Look into an unused rank of `worker`; messages take `lag_ns`."""
        super().__init__(rank, worker, lag_ns)
        rank.steps = True

    def prefix_blocks(self, sequence: Sequence, limit: int, now_ns: int) -> int:
        """Count the leading full blocks of a prompt, at most `limit`, that are known to be cached."""
        keys, stride = sequence.keys, sequence.stride
        if keys is None or not self._rank.params.enable_prefix_caching:
            return 0
        self._pool.stride = 1
        return self._prefix([keys[block // stride] for block in range(limit)], limit, now_ns)


class StateCacheView(DraftCacheView):
    """The cache of a rank whose requests have a state; the blocks of states are none that it tells of."""

    __slots__ = ()

    _rank: StateScheduler

    def __init__(self, rank: StateScheduler, worker: Worker, lag_ns: int) -> None:
        """Look into an unused rank of `worker`; messages take `lag_ns`."""
        super().__init__(rank, worker, lag_ns)
        rank.copies.pool = rank.pool


def view_of(rank: RankScheduler | SglangScheduler, worker: Worker, lag_ns: int) -> CacheView:
    """Make the view of an unused rank of `worker`."""
    if isinstance(rank, SglangScheduler):
        return RadixCacheView(rank, worker, lag_ns)
    if isinstance(rank, Offloading):
        is_shared = isinstance(rank.pool, HeldPool)
        return (HeldCacheView if is_shared else HostedCacheView)(rank, worker, lag_ns)
    if isinstance(rank, StateScheduler):
        return StateCacheView(rank, worker, lag_ns)
    if isinstance(rank, SpeculativeScheduler):
        return DraftCacheView(rank, worker, lag_ns)
    return RunCacheView(rank, worker, lag_ns)
