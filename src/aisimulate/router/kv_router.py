"""The KV-aware router of one pool: a target's cache and load decide who gets a request (spec 03 part A).

A target is a rank of a worker. The router knows caches from what the engines have told so far, and loads from
its own decisions: prompt blocks from placement to the end of a request, prefill tokens until its first token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from aisimulate.core.rng import ChaChaRng
from aisimulate.core.units import NS_PER_S
from aisimulate.router.active_blocks import ActiveBlocks
from aisimulate.router.choice import Choice, LowestCost, RandomTie, Softmax
from aisimulate.router.cost import CostFormula, Prompt, TargetLoads
from aisimulate.router.prefill_load import PredictedPrefillLoads, PrefillLoads
from aisimulate.router.queue import RouterQueue
from aisimulate.router.remembered import RememberedBlocks
from aisimulate.router.route import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Sequence as ListOf

    from aisimulate.engine.sequence import Sequence
    from aisimulate.router.clock import RouterClock
    from aisimulate.router.options import RouterOptions
    from aisimulate.router.run_tree import Run

    PrefillTime = Callable[[int, int], int]


class Outlook(Protocol):
    """What a router sees of one rank."""

    def prefix_blocks(self, sequence: Sequence, limit: int, now_ns: int) -> int: ...  # noqa: D102


class LookAtAll(Protocol):
    """Asks the outlooks of all ranks at once, by the order in which they were added."""

    def add(self, view: Any) -> None: ...  # noqa: ANN401, D102
    def __call__(self, sequence: Sequence, limit: int, now_ns: int) -> list[int]: ...  # noqa: D102


class Decoding(Protocol):
    """What a router sees of the decoders of one rank."""

    def output_blocks(self, now_ns: int) -> float: ...  # noqa: D102


class LowerTiers(Protocol):
    """What a router sees of the memory behind the GPU of one rank, if there is any."""

    def lower_tier_hits(self, sequence: Sequence) -> tuple[int, int]: ...  # noqa: D102


class _Placed:
    """A request on its target: its prefill tokens until they are done, and its active blocks."""

    __slots__ = ("blocks", "prefill_tokens", "run", "target")

    def __init__(self, target: int, prefill_tokens: int, blocks: int, run: Run | None) -> None:
        self.target = target
        self.prefill_tokens = prefill_tokens
        self.blocks = blocks
        self.run = run


class KvRouter:
    """Places requests on the targets of one pool; `routes`, if any, collects what was decided.

    `max_batched_tokens` is the budget of a pass, `prefill_time` predicts a prefill of (prompt, cached) tokens
    in ns. `queues`: requests may have to wait here, so each has to be offered first. A worker is known from
    `add_worker` on and gets requests from `worker_ready` to `worker_draining`.
    """

    def __init__(
        self,
        options: RouterOptions,
        block_size: int,
        clock: RouterClock,
        max_batched_tokens: int = 0,
        prefill_time: PrefillTime | None = None,
        routes: dict[int, Route] | None = None,
    ) -> None:
        self._options = options
        self._block_size = block_size
        self._clock = clock
        self._prefill_time = prefill_time if options.predict_prefill else None
        self._formula = CostFormula(options, block_size)
        self._choice = _choice_of(options)
        self._busy_above = (options.queue_threshold or 0.0) * max_batched_tokens
        self._queue: RouterQueue[tuple[Sequence, list[int], int]] | None = None
        if options.queue_threshold is not None:
            self._queue = RouterQueue(options.queue_policy)
        self.queues = self._queue is not None
        self.look_at_all: LookAtAll | None = None  # the same as asking every outlook, where there is that
        self.on_settled: Callable[[], None] = _nobody  # called when who waits may have to be looked at
        self._granted: dict[int, tuple[int, int]] = {}  # by ordinal: a prompt may be computed as another
        self._routes = routes
        # By target: who it is, what is seen of it, and its loads.
        self._places: list[tuple[int, int]] = []
        self._targets_of: dict[int, range] = {}  # by worker; targets are in the order of (worker, rank)
        self._outlooks: list[Outlook | None] = []
        self._decoding: list[Decoding | None] = []
        self._tiers: list[LowerTiers | None] = []
        self._blocks = ActiveBlocks()
        self._prefills = PredictedPrefillLoads() if self._prefill_time else PrefillLoads()
        self._requests: list[int] = []
        self._loads = TargetLoads(self._prefills.tokens, self._blocks.distinct, self._requests)
        self._memory = None if options.use_kv_events else RememberedBlocks(round(options.ttl_secs * NS_PER_S))
        self._has_tiers = False
        self._active: list[int] = []  # targets that take requests, in order
        self._placed: dict[int, _Placed] = {}

    # Workers ------------------------------------------------------------------------------------------

    def add_worker(
        self,
        worker: int,
        outlooks: ListOf[Outlook | None],
        tiers: ListOf[LowerTiers | None] = (),
        decoding: ListOf[Decoding] = (),
    ) -> None:
        """Take note of a worker and of what is seen of its ranks; ids of workers only grow."""
        first = len(self._places)
        self._targets_of[worker] = range(first, first + len(outlooks))
        for rank, outlook in enumerate(outlooks):
            self._places.append((worker, rank))
            self._outlooks.append(outlook)
            self._tiers.append(tiers[rank] if tiers else None)
            self._decoding.append(decoding[rank] if decoding else None)
            self._has_tiers = self._has_tiers or self._tiers[-1] is not None
            self._blocks.distinct.append(0)
            self._prefills.add_target()
            self._requests.append(0)

    def worker_ready(self, worker: int, now_ns: int) -> None:
        """Let a worker take requests."""
        del now_ns
        targets = self._targets_of[worker]
        if self._active and self._active[-1] > targets[0]:
            self._active = sorted([*self._active, *targets])
        else:
            self._active += targets

    def worker_draining(self, worker: int, now_ns: int) -> None:
        """Give a worker no more requests; those it has keep counting."""
        del now_ns
        gone = set(self._targets_of[worker])
        self._active = [target for target in self._active if target not in gone]

    def worker_removed(self, worker: int, now_ns: int) -> None:
        """Forget what was seen of a worker."""
        self.worker_draining(worker, now_ns)
        for target in self._targets_of[worker]:
            self._outlooks[target] = self._tiers[target] = self._decoding[target] = None

    def topology_settled(self, now_ns: int) -> None:
        """Take note that changes to the workers are complete: somebody who waits may come in."""
        self._clock.now_ns = now_ns
        self.on_settled()

    # Placement ----------------------------------------------------------------------------------------

    def place(self, sequence: Sequence) -> tuple[int, int]:
        """Choose (worker id, rank) for a request that does not wait, or take the choice that was made."""
        if self._queue is not None:
            return self._granted.pop(sequence.ordinal)
        return self._places[self._admit(sequence, self._overlaps(sequence))]

    def offer(self, sequence: Sequence) -> bool:
        """Let a request in, or let it wait; return whether it may be placed now."""
        queue = self._queue
        assert queue is not None
        overlaps = self._overlaps(sequence)
        if not queue and self._has_room():
            self._grant(sequence, overlaps)
            return True
        now_ns = self._clock.now_ns
        cached_tokens = max(overlaps, default=0) * self._block_size
        queue.push(sequence, now_ns, cached_tokens, (sequence, overlaps, now_ns))
        return False

    @property
    def pending(self) -> int:
        """How many requests wait here."""
        return len(self._queue) if self._queue is not None else 0

    def release(self) -> list[Sequence]:
        """Let in who waits, one by one, while some worker is not busy; they may be placed now."""
        queue, released = self._queue, []
        while queue and self._has_room():
            sequence, overlaps, queued_ns = queue.pop()
            self._grant(sequence, overlaps)
            if self._routes is not None:
                route = self._routes[sequence.ordinal]
                route.queued_ns, route.released_ns = queued_ns, self._clock.now_ns
            released.append(sequence)
        return released

    def _grant(self, sequence: Sequence, overlaps: list[int]) -> None:
        self._granted[sequence.ordinal] = self._places[self._admit(sequence, overlaps)]

    def _has_room(self) -> bool:
        """Whether a target has few enough prefill tokens to do."""
        loads = self._prefills.active(self._clock.now_ns)
        return any(loads[target] <= self._busy_above for target in self._active)

    def _overlaps(self, sequence: Sequence) -> list[int]:
        """Count, by target, the leading blocks of a prompt that are known to be cached."""
        limit, now_ns = sequence.input_tokens // self._block_size, self._clock.now_ns
        if (keys := sequence.keys) is None:
            return [0] * len(self._places)
        if self._memory is not None:
            return self._memory.prefixes(keys, limit, sequence.stride, len(self._places), now_ns)
        if self.look_at_all is not None:
            return self.look_at_all(sequence, limit, now_ns)
        return [
            0 if outlook is None else outlook.prefix_blocks(sequence, limit, now_ns)
            for outlook in self._outlooks
        ]

    def _admit(self, sequence: Sequence, cached: list[int]) -> int:
        """Choose a target and count the request there."""
        targets = self._candidates(sequence)
        if len(cached) < len(self._places):
            cached = cached + [0] * (len(self._places) - len(cached))
        prompt = self._prompt(sequence, cached)
        now_ns = self._clock.now_ns
        if self._prefill_time is not None:
            self._loads.prefill_tokens = self._prefills.active(now_ns)
        if self._options.track_output_blocks:
            self._loads.active_blocks = self._with_output(now_ns)
        target = targets[self._decide(sequence, prompt, targets, now_ns) if len(targets) > 1 else 0]
        if self._routes is not None:
            best = max([cached[candidate] for candidate in targets])
            self._routes[sequence.ordinal] = Route(cached[target], best, self._block_size)
        self._count(sequence, target, prompt, now_ns)
        if self._memory is not None and sequence.keys is not None:
            self._memory.add(target, sequence.keys, prompt.blocks, now_ns)
        return target

    def _decide(self, sequence: Sequence, prompt: Prompt, targets: list[int], now_ns: int) -> int:
        """Give the index of one of several targets, by cost."""
        del sequence, now_ns
        costs = self._formula.costs(prompt, self._loads, targets)
        return self._choice.pick(costs, targets, self._loads.active_blocks)

    def _with_output(self, now_ns: int) -> list[float]:
        """Add what the requests have generated to the active blocks, by target."""
        return [
            blocks + (0.0 if decoding is None else decoding.output_blocks(now_ns))
            for blocks, decoding in zip(self._blocks.distinct, self._decoding, strict=True)
        ]

    def _candidates(self, sequence: Sequence) -> list[int]:
        authored = sequence.origin.dp_rank
        if authored is None:
            return self._active
        return [target for target in self._active if self._places[target][1] == authored]

    def _prompt(self, sequence: Sequence, cached: list[int]) -> Prompt:
        tokens, keys = sequence.input_tokens, sequence.keys
        blocks = tokens // self._block_size
        if keys is None or not (self._options.track_active_blocks and self._options.assume_kv_reuse):
            shared = [0] * len(self._places)
        else:
            shared = self._blocks.shared(keys, blocks, sequence.stride)
        lower = self._lower_tiers(sequence) if self._has_tiers else None
        return Prompt(tokens, blocks, cached, shared, lower)

    def _lower_tiers(self, sequence: Sequence) -> list[float]:
        """Weigh what of a prompt is in host memory and on disk, by target."""
        host_weight = self._options.host_cache_hit_weight
        disk_weight = self._options.disk_cache_hit_weight
        hits = [(0, 0) if tier is None else tier.lower_tier_hits(sequence) for tier in self._tiers]
        return [host_weight * host + disk_weight * disk for host, disk in hits]

    def _count(self, sequence: Sequence, target: int, prompt: Prompt, now_ns: int) -> None:
        """Add a request to the loads of its target."""
        options, request = self._options, sequence.ordinal
        tokens = 0
        if options.track_prefill_tokens:
            cached_tokens = min(prompt.tokens, prompt.cached[target] * self._block_size)
            tokens = prompt.tokens - cached_tokens
            if tokens:
                predict = self._prefill_time
                duration_ns = predict(prompt.tokens, cached_tokens) if predict else 0
                self._prefills.add(target, request, tokens, duration_ns, now_ns)
        run, blocks = None, 0
        if options.track_active_blocks:
            if sequence.keys is not None and options.assume_kv_reuse and prompt.blocks:
                run = self._blocks.add(target, sequence.keys, prompt.blocks)
            else:
                blocks = prompt.blocks
                self._blocks.distinct[target] += blocks
        self._requests[target] += 1
        self._placed[request] = _Placed(target, tokens, blocks, run)

    # What happens to requests -------------------------------------------------------------------------

    def prefill_completed(self, sequence: Sequence, now_ns: int) -> None:
        """A prompt has its first token: its prefill is no load any more."""
        placed = self._placed.get(sequence.ordinal)
        if placed is not None and placed.prefill_tokens:
            self._prefills.drop(placed.target, sequence.ordinal, placed.prefill_tokens, now_ns)
            placed.prefill_tokens = 0

    def request_terminal(self, sequence: Sequence, now_ns: int) -> None:
        """A request is over: nothing of it is a load any more."""
        placed = self._placed.pop(sequence.ordinal, None)
        if placed is None:
            return
        if placed.prefill_tokens:
            self._prefills.drop(placed.target, sequence.ordinal, placed.prefill_tokens, now_ns)
        self._requests[placed.target] -= 1
        if placed.run is not None:
            self._blocks.drop(placed.target, placed.run)
        self._blocks.distinct[placed.target] -= placed.blocks


def _nobody() -> None:
    pass


def _choice_of(options: RouterOptions) -> Choice:
    if options.temperature > 0:
        return Softmax(options.temperature, ChaChaRng(options.seed))
    return LowestCost() if options.tie_break == "lowest" else RandomTie(ChaChaRng(options.seed))


def ready_workers(router: KvRouter, workers: Iterable[int]) -> None:
    """Let the workers that a pool begins with take requests."""
    for worker in workers:
        router.worker_ready(worker, 0)
