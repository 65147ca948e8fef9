"""The vLLM scheduler of a hybrid model, whose requests have a state beside their blocks, pass by pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .fleet import Worker
from .pool import Block, Pool
from .scheduler import Pass, RankScheduler, Step

if TYPE_CHECKING:
    from .content import Identities
    from .request import Request

Copy = tuple[int, int]  # a prefix, and which block of its state


@dataclass
class StatePool(Pool):
    """A pool in which states are cached beside prefixes, block by block."""

    states: dict[Copy, list[Block]] = field(default_factory=dict)  # oldest first
    names: dict[Block, Copy] = field(default_factory=dict)

    def keep(self, block: Block, name: Copy) -> None:
        """Make a block of a state findable."""
        self.names[block] = name
        self.states.setdefault(name, []).append(block)

    def forget(self, block: Block) -> None:
        """Make it private again, or what is left of it free."""
        name = self.names.pop(block)
        copies = self.states[name]
        copies.remove(block)
        if not copies:
            del self.states[name]

    def let_go(self, blocks: list[Block]) -> None:
        """Let go of blocks of states, first to last."""
        for block in blocks:
            block.references -= 1
            if block.references:
                continue
            if block in self.names:
                self.inactive.append(block)
            else:
                self.free += 1

    def discard(self, blocks: list[Block]) -> None:
        """Free those that are cached and that nobody holds."""
        for block in blocks:
            if block in self.names and block in self.inactive:
                self.inactive.remove(block)
                self.forget(block)
                self.free += 1

    def _evict_oldest(self) -> None:
        if self.inactive[0] in self.names:
            self.forget(self.inactive.pop(0))
            self.free += 1
        else:
            super()._evict_oldest()


@dataclass
class State:
    """What a running request has of it: `working` blocks, the tokens they stand for, its last copy."""

    working: list[Block] = field(default_factory=list)
    computed: int = 0
    copy: list[Block] = field(default_factory=list)
    copied: int | None = None  # the prefix that the copy belongs to
    step: int = 0  # in which the copy was made


class StateRank(RankScheduler):
    """A rank whose requests have a state of `state_blocks`."""

    def __init__(self, rank: dict[str, Any], identities: Identities, number: int = 0) -> None:
        super().__init__(rank, identities, number)
        size = rank["state_cache"]["bytes_per_request"]
        self.state_blocks = -(-size // (self.block_size * rank["kv_cache_bytes_per_token"]))
        self.pool: StatePool = StatePool(self.num_gpu_blocks)
        self.made: set[int] = set()  # prefixes whose state was written in this pass
        self.step = 0
        self.states: dict[Request, State] = {}
        self.impossible: list[Request] = []

    def plan(self, now_ns: int) -> Pass:
        """Choose the work of a pass that starts now and price it."""
        self.step += 1
        self.made.clear()
        self.impossible = []
        return super().plan(now_ns)

    # The joint lookup -----------------------------------------------------------------------------------

    def _hits(self, request: Request) -> list[Block]:
        hits = super()._hits(request)
        identities = self.identities.of(request.tokens, self.block_size)
        most = super()._most_cached(request, hits)
        while most and not self._has_state(identities[most - 1]):
            most -= 1
        return hits[:most]

    def _most_cached(self, request: Request, hits: list[Block]) -> int:
        return len(hits)

    def _has_state(self, prefix: int) -> bool:
        names = [(prefix, index) for index in range(self.state_blocks)]
        return prefix not in self.made and all(name in self.pool.states for name in names)

    def _source(self, request: Request, hits: list[Block]) -> list[Block]:
        if not hits:
            return []
        prefix = self.identities.of(request.tokens, self.block_size)[len(hits) - 1]
        return [self.pool.states[prefix, index][0] for index in range(self.state_blocks)]

    def _fits(self, request: Request, hits: list[Block]) -> bool:
        referenced = sum(block.references > 0 for block in hits)
        source = self._source(request, hits)
        needed = self._blocks_needed(request) - referenced + self.state_blocks
        needed += sum(block.references == 0 for block in source)
        return needed <= self.num_gpu_blocks - self.pool.active

    def _impossible(self, request: Request, hits: list[Block]) -> str | None:
        reason = super()._impossible(request, hits)
        copies = 2 if hits else 1
        if reason is None and self._blocks_needed(request) + copies * self.state_blocks > self.num_gpu_blocks:
            return "sequence_exceeds_kv_capacity"
        return reason

    # Writing --------------------------------------------------------------------------------------------

    def _continue_running(self, work: Pass) -> None:
        super()._continue_running(work)
        work.rejected += [(request, "sequence_exceeds_kv_capacity") for request in self.impossible]

    def _schedule(self, request: Request, hits: list[Block], work: Pass) -> Step:
        if request in self.running and not self._can_compute(request, request.length):
            self.running.remove(request)
            self._give_back(request)
            self.impossible.append(request)
            return Step.SELF_PREEMPTED
        return super()._schedule(request, hits, work)

    def _can_compute(self, request: Request, tokens: int) -> bool:
        blocks = -(-tokens // self.block_size) + self.state_blocks
        return blocks + self._write_blocks(request, tokens) <= self.num_gpu_blocks

    def _write_blocks(self, request: Request, tokens: int) -> int:
        state = self.states.get(request)
        if state is None or tokens == state.computed:
            return 0
        return self.state_blocks if state.working[0] in self.pool.names else 0

    def _grow(self, request: Request, hits: list[Block], tokens: int) -> bool:
        pool, state = self.pool, self.states.get(request)
        source = self._source(request, hits) if state is None else []
        extra = self.state_blocks if state is None else self._write_blocks(request, tokens)
        held = len(request.blocks)
        fresh = max(held, -(-tokens // self.block_size)) - held - len(hits)
        blocks = pool.allocate(hits + source, fresh + extra)
        if blocks is None:
            return False
        taken = blocks[len(hits) + len(source) :]
        request.blocks += hits + taken[:fresh]
        pool.let_go(source)
        if state is None:
            self.states[request] = State(taken[fresh:], len(hits) * self.block_size)
        elif extra:
            self._preserve(state, taken[fresh:])
        return True

    def _preserve(self, state: State, copies: list[Block]) -> None:
        """Copy the state that is about to be overwritten."""
        assert state.copied is not None
        for index, (working, copy) in enumerate(zip(state.working, copies, strict=True)):
            self.pool.keep(copy, (state.copied, index))
            self.pool.forget(working)
        state.copy, state.step = copies, self.step
        self.made.add(state.copied)
        self.pool.let_go(copies)

    def _cache_completed(self, request: Request, before: int, after: int) -> None:
        super()._cache_completed(request, before, after)
        self._write(request, after)

    def _write(self, request: Request, after: int) -> None:
        """Let the state be that after so many tokens; at the end of a block it is that of a prefix."""
        state = self.states[request]
        if after == state.computed:
            return
        state.computed = after
        if after % self.block_size or not self.caching:
            return
        self.pool.discard(state.copy)
        prefix = self.identities.of(request.tokens, self.block_size)[after // self.block_size - 1]
        for index, block in enumerate(state.working):
            self.pool.keep(block, (prefix, index))
        state.copy, state.copied, state.step = state.working[:], prefix, self.step
        self.made.add(prefix)

    # Drafts ---------------------------------------------------------------------------------------------

    def _choose_emitting(self, work: Pass) -> None:
        if self.acceptance is not None:
            for request in [r for r in self.running if r.computed == r.length and self._remaining(r)]:
                if self._longest_bursts([request]) + len(request.blocks) > self._most_blocks:
                    self.running.remove(request)
                    self._give_back(request)
                    work.rejected.append((request, "sequence_exceeds_kv_capacity"))
        super()._choose_emitting(work)

    @property
    def _most_blocks(self) -> int:
        return self.num_gpu_blocks - self.state_blocks

    def _longest_bursts(self, requests: list[Request]) -> int:
        assert self.acceptance is not None
        writing = 0
        if self.acceptance.most_tokens > 1:
            writing = sum(
                self._write_blocks(request, request.length + 1)
                for request in requests
                if self._remaining(request) > 1
            )
        return super()._longest_bursts(requests) + writing

    def _emit(self, request: Request, end_ns: int) -> None:
        if self.acceptance is None:
            super()._emit(request, end_ns)
            return
        if request.bursts is None:
            request.bursts = self.acceptance.stream(request.number)
        for _ in range(min(next(request.bursts), self._remaining(request))):
            super()._cache_completed(request, request.length - 1, request.length)
            request.emit(end_ns)
            if -(-request.length // self.block_size) > len(request.blocks):
                request.blocks.append(self.pool.use_set_aside())
        request.computed = request.most_computed = request.length - 1
        if self._write_blocks(request, request.computed):
            self._preserve(
                self.states[request], [self.pool.use_set_aside() for _ in range(self.state_blocks)]
            )
        self._write(request, request.computed)

    # Leaving --------------------------------------------------------------------------------------------

    def _preempt(self, work: Pass) -> Request:
        victim = self.running[0 if self.fifo else -1]
        state = self.states.pop(victim)
        self.pool.let_go(state.working)
        if state.step == self.step:
            self.pool.discard(state.copy)
        return super()._preempt(work)

    def _let_go(self, request: Request) -> None:
        self._give_back(request)

    def _give_back(self, request: Request) -> None:
        self.pool.let_go(self.states.pop(request).working)
        self.pool.release(request.blocks)
        request.blocks = []

    def _complete(self, request: Request, end_ns: int) -> None:
        if request in self.states:
            self.pool.let_go(self.states.pop(request).working)
        super()._complete(request, end_ns)


class StateWorker(Worker):
    """Ranks whose requests have a state."""

    def _ranks(self, rank: dict[str, Any], dp_size: int, identities: Identities, first: int) -> list[Any]:
        return [StateRank(rank, identities, first + index) for index in range(dp_size)]
