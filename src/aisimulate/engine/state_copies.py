"""The recurrent states of a rank's requests, and the copies of them that prefixes can be resumed from.

Every running request works on a state of its own, of as many blocks as any other. When a pass ends a full
block of the request, its working state is that of the prefix up to there, and others may resume from it.
Before it is written again it is copied; of those copies the last one of each request is kept in the cache,
like any block that nobody holds, until the space is needed. A copy can be used from the next pass on.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.run_pool import RunPool


_MOST_COPIES = 8  # of a block, until those that were evicted are dropped


class StateBlock:
    """One block of a state. `len` is 1 while it is cached and nobody holds it (`RunPool` evicts it to 0).

    `stale` counts its entries in the eviction order that are void. `held`: a request works on it.
    """

    __slots__ = ("held", "len", "stale")

    def __init__(self) -> None:
        self.len = self.stale = 0
        self.held = True


class State:
    """What a running request works on: the state after `computed` tokens, in `working`.

    `kept` is its last copy, that of prefix `prefix`, made in the pass `made`; as long as nothing was
    computed since, that is the working state itself (`is_published`).
    """

    __slots__ = ("computed", "is_published", "kept", "made", "prefix", "working")

    def __init__(self, blocks: int, computed: int) -> None:
        self.working = [StateBlock() for _ in range(blocks)]
        self.computed = computed
        self.is_published = False
        self.kept: list[StateBlock] = []
        self.prefix = 0
        self.made = -1


class StateCopies:
    """Finds, makes and drops copies of states, each of `blocks` blocks of the `pool`.

    Prefixes have numbers: those below 0 are of what nobody else can ask for.
    """

    __slots__ = ("_copies", "_hidden", "_numbers", "_prefixes", "blocks", "pool")

    def __init__(self, pool: RunPool, blocks: int) -> None:
        self.blocks = blocks
        self.pool = pool
        self._copies: dict[int, list[list[StateBlock]]] = {}  # of each prefix, by block, the oldest first
        self._hidden: set[int] = set()  # prefixes whose state was written in the pass being planned
        self._prefixes: dict[
            tuple[int, int], int
        ] = {}  # by the prefix before the last block, and its content
        self._numbers = count(1)

    # Prefixes -------------------------------------------------------------------------------------------

    def prefixes(self, keys: list[int]) -> list[int]:
        """Number the prefixes of one block, two, .. of a chain; the content of a block names it if unique."""
        known, numbers, prefix = self._prefixes, self._numbers, 0
        chain = []
        for key in keys:
            if key < 0:
                chain.append(key)
                continue
            place = (prefix, key)
            if place not in known:
                known[place] = next(numbers)
            prefix = known[place]
            chain.append(prefix)
        return chain

    # Copies ---------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Let what was written in the last pass be found."""
        self._hidden.clear()

    def has(self, prefix: int) -> bool:
        """Whether there is a copy to resume from. The pool is settled."""
        copies = self._copies.get(prefix)
        if copies is None or prefix in self._hidden:
            return False
        return all(any(block.len or block.held for block in blocks) for blocks in copies)

    def source(self, prefix: int) -> list[StateBlock]:
        """Give the oldest copy of each block that nobody holds; those that are held cost nothing."""
        found = [
            next(block for block in blocks if block.len or block.held) for blocks in self._copies[prefix]
        ]
        return [block for block in found if not block.held]

    def pin(self, source: list[StateBlock]) -> None:
        """Keep a source from being evicted while blocks are taken."""
        for block in source:
            self._revive(block)

    def unpin(self, source: list[StateBlock]) -> None:
        """Let go of it: it was used last."""
        for block in source:
            self._retire(block)

    def preserve(self, state: State, made: int) -> None:
        """Copy the state before it is written; `blocks` were taken for that."""
        copies = self._copies.get(state.prefix)
        kept = [StateBlock() for _ in state.working]
        for index, (block, copy) in enumerate(zip(state.working, kept, strict=True)):
            copy.held = False
            if copies is not None:
                copies[index].append(copy)
                copies[index].remove(block)
            self._retire(copy)
        state.kept, state.made, state.is_published = kept, made, False
        self._hidden.add(state.prefix)

    def publish(self, state: State, prefix: int, made: int) -> None:
        """Let the working state be found as that of a prefix; the copy before it is given up."""
        self._discard(state)
        copies = self._copies.get(prefix)
        if copies is None:
            copies = self._copies[prefix] = [[] for _ in state.working]
        for blocks, block in zip(copies, state.working, strict=True):
            if len(blocks) > _MOST_COPIES:
                blocks[:] = [copy for copy in blocks if copy.len or copy.held]
            blocks.append(block)
        state.kept, state.prefix, state.made, state.is_published = state.working, prefix, made, True
        self._hidden.add(prefix)

    def leave(self, state: State) -> None:
        """Give back what a request works on; what was published stays in the cache."""
        if not state.is_published:
            self.pool.give_back(self.blocks)
        else:
            for block in state.working:
                block.held = False
                self._retire(block)

    def retract(self, state: State, made: int) -> None:
        """`leave` when a pass is called off: what it copied, or was to write, is not there."""
        self.leave(state)
        if state.made == made:
            self._discard(state)

    def forget(self, prefixes: list[int]) -> None:
        """Look no more for copies of what nobody will ask for: they go when their space is needed."""
        for prefix in prefixes:
            if prefix < 0:
                self._copies.pop(prefix, None)

    def _discard(self, state: State) -> None:
        """Free what is left of a copy that nobody holds."""
        copies = self._copies.get(state.prefix)
        self.pool.settle()
        for index, block in enumerate(state.kept):
            if block.len:
                self._revive(block)
                self.pool.give_back(1)
            if copies is not None and block in copies[index]:
                copies[index].remove(block)
        state.kept = []
        if copies is not None and not any(copies):
            del self._copies[state.prefix]

    def _retire(self, block: StateBlock) -> None:
        block.len = 1
        self.pool._retire(block)  # type: ignore[arg-type]  # all it needs is a length and stale entries

    def _revive(self, block: StateBlock) -> None:
        self.pool.revive(block)  # type: ignore[arg-type]
        block.len = 0
