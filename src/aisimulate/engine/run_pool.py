"""The KV block pool of one rank, kept as runs of blocks instead of single blocks.

Shared prompt blocks form a tree: a `Node` is a run of consecutive full blocks of one content chain, and a
sequence holds the deepest node of its prefix (hence every ancestor). Generated blocks, and prompts that
nobody shares, are a private run that the sequence itself stands for (`tail_start`, `len`).
Blocks nobody holds stay cached ("inactive") in release order until the space is needed: a run enters that
order as one entry and is eaten from its deep end, so a block never outlives one of its ancestors. Blocks are
counted when they are taken; what that evicts is looked for once somebody looks at what is cached (`settle`).
Rules: spec 01 section 4, spec 09 section 2.
"""

from __future__ import annotations

from collections import deque

from aisimulate.engine.sequence import Sequence

_COMPACT_SLACK = 1024
_MOST_OWED = 4096  # blocks: those who ended and are to be evicted do not pile up


class Node:
    """A run of `len` cached blocks starting at block `start` of a content chain.

    `ids[p // stride]` names block p. `ref` counts holders; `stale` counts entries of this node in the
    eviction order that a later pin made void. A *shadow* is a second copy of a block that is already
    cached: `location` is the node it would hang from, lookups do not see it.
    """

    __slots__ = ("children", "ids", "len", "location", "parent", "ref", "shadows", "stale", "start")

    def __init__(self, start: int, length: int, ids: list[int], parent: Node | None, ref: int) -> None:
        self.start = start
        self.len = length
        self.ids = ids
        self.parent = parent
        self.ref = ref
        self.stale = 0
        self.children: dict[int, Node] = _NO_CHILDREN
        self.shadows: dict[int, list[Node]] | None = None
        self.location: Node | None = None


# Of all nodes that have none, most of which never get any: to be replaced, never to be changed.
_NO_CHILDREN: dict[int, Node] = {}

# A cached prefix: blocks hit, how many of them someone holds, the node where the hit ends, and how many of
# that node's blocks it covers. A plain tuple, because one is made for every admission.
Match = tuple[int, int, Node, int]


class RunPool:
    """Counts free, inactive (cached, unheld) and held blocks; `room`, free and inactive, can be allocated."""

    __slots__ = (
        "_cached",
        "_compact_above",
        "_order",
        "_owed",
        "block_size",
        "miss",
        "room",
        "root",
        "stride",
    )

    def __init__(self, capacity_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.room = capacity_blocks
        # Blocks of the eviction order without those, `_owed`, that are known to go. What exceeds the room has
        # been taken, too.
        self._cached = self._owed = 0
        self.stride = 1
        self.root = Node(0, 0, [], None, 1)
        self.root.children = {}
        self.miss: Match = (0, 0, self.root, 0)  # what a lookup finds when nothing is cached
        self._order: deque[Node | Sequence] = deque()
        self._compact_above = _COMPACT_SLACK  # entries in the eviction order, void ones included

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return max(0, self.room - self._cached)

    @property
    def inactive(self) -> int:
        """Blocks that are cached and that nobody holds."""
        return min(self.room, self._cached)

    # Lookup and pinning -----------------------------------------------------------------------------

    def match(self, keys: list[int], limit: int) -> Match:
        """Find the longest cached prefix of a chain, at most `limit` blocks. Changes nothing.

        What somebody holds is not evicted, so only a run that nobody holds is a reason to `settle` first.
        """
        stride = self.stride
        node = self.root
        position = used = held = 0
        while position < limit:
            first = position // stride
            child = node.children.get(keys[first])
            if child is None:
                break
            if not child.ref and (self._owed or self._cached > self.room):
                self.settle()
                continue
            end = position + child.len
            if end > limit:
                end = limit
            used, ids = end - position, child.ids
            last = -(-end // stride)
            if last > first + 1 and ids is not keys and ids[first:last] != keys[first:last]:
                used = _agreement(ids, keys, first) * stride - position
            node = child
            position += used
            if child.ref:
                held += used
            if used < child.len:
                break
        return position, held, node, used

    def shorten(self, match: Match, blocks: int) -> Match:
        """Give up blocks at the end of a match so that `blocks` are left."""
        hit, held, node, used = match
        used -= hit - blocks
        while used <= 0 and node.parent is not None:
            node = node.parent
            used += node.len
        return blocks, min(held, blocks), node, used

    def unheld(self, match: Match) -> int:
        """Count the blocks of a match that nobody holds: a pin takes them out of what can be allocated."""
        _, _, node, used = match
        blocks = 0
        while node.parent is not None:
            if node.ref == 0:
                blocks += used
            node = node.parent
            used = node.len
        return blocks

    def has_heir(self, match: Match) -> bool:
        """Whether somebody holds a copy of a matched block that nobody holds: it takes the other's place."""
        node = match[2]
        while (parent := node.parent) is not None:
            if not node.ref and parent.shadows:
                copies = parent.shadows.get(node.ids[node.start // self.stride], ())
                if any(copy.ref for copy in copies):
                    return True
            node = parent
        return False

    def pin(self, sequence: Sequence, match: Match) -> None:
        """Let `sequence` hold the matched blocks; none were taken since the lookup."""
        _, _, node, used = match
        if used < node.len:
            node = self._split(node, used)
        sequence.node = node
        while node.parent is not None:
            if node.ref == 0:
                self.revive(node)
            node.ref += 1
            node = node.parent

    def revive(self, entry: Node | Sequence) -> None:
        """Take a cached run that nobody held out of the eviction order: someone holds it again.

        The caller has let the pool `settle` before it looked at the length of that run.
        """
        entry.stale += 1
        self.room -= entry.len
        self._cached -= entry.len
        if len(self._order) > self._compact_above:
            self._compact()

    def _split(self, node: Node, used: int) -> Node:
        """Cut the first `used` blocks off `node` as a new parent, which the caller pins at once.

        The deep part stays the same object: its place in the eviction order and its holders are kept.
        """
        parent = node.parent
        assert parent is not None
        top = Node(node.start, used, node.ids, parent, node.ref)
        parent.children[node.ids[node.start // self.stride]] = top
        node.start += used
        node.len -= used
        node.parent = top
        top.children = {node.ids[node.start // self.stride]: node}
        if node.ref == 0:
            top.stale = -1  # it has no entry in the eviction order that a pin could make void
        return top

    # Allocation ---------------------------------------------------------------------------------------

    def take(self, blocks: int) -> None:
        """Allocate blocks, the free ones before the oldest inactive ones; the caller checked the `room`."""
        self.room -= blocks

    def give_back(self, blocks: int) -> None:
        """Let blocks be free again."""
        if self._cached > self.room:
            self._owe()
        self.room += blocks

    def _owe(self) -> None:
        """Take note of the evictions so far: blocks that are free from now on spare none of them."""
        self._owed += self._cached - self.room
        self._cached = self.room
        if self._owed > _MOST_OWED:
            self.settle()

    def settle(self) -> None:
        """Evict as many blocks, the oldest inactive ones first, as were taken without being free."""
        need, order = self._owed, self._order
        if self._cached > self.room:
            need += self._cached - self.room
            self._cached = self.room
        self._owed = 0
        while need:
            entry = order.popleft()
            if entry.stale > 0:
                entry.stale -= 1
                continue
            left = entry.len - need
            if left > 0:
                entry.len = left
                order.appendleft(entry)
                return
            entry.len = 0
            need = -left
            if type(entry) is Node:
                parent = entry.parent
                if parent is None or parent.shadows or entry.location is not None:
                    self._forget(entry)
                else:  # the same, without the call
                    del parent.children[entry.ids[entry.start // self.stride]]

    def _forget(self, node: Node) -> None:
        """Remove a fully evicted node from the tree; the oldest shadow takes its place."""
        key = node.ids[node.start // self.stride]
        location = node.location
        if location is not None:
            assert location.shadows is not None
            location.shadows[key].remove(node)
            return
        parent = node.parent
        assert parent is not None
        heirs = parent.shadows.get(key) if parent.shadows else None
        if not heirs:
            del parent.children[key]
            return
        heir = heirs.pop(0)
        heir.location = None
        parent.children[key] = heir
        heir.children, heir.shadows = node.children, node.shadows
        for child in heir.children.values():
            child.parent = heir
        for copies in (heir.shadows or {}).values():
            for copy in copies:
                copy.parent = copy.location = heir

    def extend(self, sequence: Sequence, start: int, end: int) -> None:
        """Cache the blocks [start, end) that `sequence` just computed, behind the node it holds."""
        node = sequence.node or self.root
        keys = sequence.keys
        assert keys is not None
        if node.location is not None or keys[start // self.stride] in node.children:
            self.settle()  # else nothing that may have to go can be in the way
        if node.ref == 1 and not node.children and node.location is None and node.parent is not None:
            node.ids = keys
            node.len += end - start
            return
        while start < end:
            location = node if node.location is None else self._identity(node)
            key = keys[start // self.stride]
            if key in location.children:
                child = self._shadow(location, key, start, keys)
            else:
                child = Node(start, end - start, keys, location, 1)
                if location.children is _NO_CHILDREN:
                    location.children = {key: child}
                else:
                    location.children[key] = child
            if location is not node:  # not held by this sequence, so releases must not pass through it
                sequence.segments = [*(sequence.segments or ()), (node, sequence.segment_start)]
                sequence.segment_start = start
            sequence.node = node = child
            start += child.len

    def _shadow(self, location: Node, key: int, start: int, keys: list[int]) -> Node:
        """Make a second copy of a block that is cached behind `location` already."""
        shadow = Node(start, 1, keys, location, 1)
        shadow.location = location
        if location.shadows is None:
            location.shadows = {}
        location.shadows.setdefault(key, []).append(shadow)
        return shadow

    def _identity(self, node: Node) -> Node:
        """Return the visible node that ends where `node` ends (itself unless it is a shadow)."""
        location = node.location
        if location is None:
            return node
        primary = location.children[node.ids[node.start // self.stride]]
        if primary.len == 1:
            return primary
        top = self._split(primary, 1)
        if primary.ref == 0:
            top.stale = 0
            self._order.insert(self._last_entry(primary) + 1, top)
        return top

    def _last_entry(self, entry: Node) -> int:
        for index in range(len(self._order) - 1, -1, -1):
            if self._order[index] is entry:
                return index
        raise AssertionError("an unheld node has an entry in the eviction order")

    # Release --------------------------------------------------------------------------------------------

    def release_all(self, sequences: list[Sequence], uncomputed: int, cached: bool) -> None:
        """`release` for each of several that ended; `uncomputed` tokens of each have no KV."""
        size, order, free, inactive = self.block_size, self._order, 0, 0
        tokens = full = -1
        is_broken = False  # whether a block is not full
        if self._cached > self.room:
            self._owe()
        for sequence in sequences:
            if sequence.planned or sequence.segments is not None or not cached:
                self.release(sequence, sequence.tokens - uncomputed, cached)
                continue
            # `release_cached`, without the call: many may end together, most of them of the same length.
            if sequence.tokens != tokens:
                tokens = sequence.tokens
                full = (tokens - uncomputed) // size
                is_broken = tokens - uncomputed > full * size
            if is_broken:
                free += 1
            if (tail := full - sequence.tail_start) > 0:
                sequence.len = tail
                order.append(sequence)
                inactive += tail
            if (node := sequence.node) is not None:
                sequence.node = None
                while (parent := node.parent) is not None:
                    ref = node.ref = node.ref - 1
                    if not ref:
                        order.append(node)
                        inactive += node.len
                    node = parent
        self._cached += inactive
        self.room += inactive + free

    def release_cached(self, sequence: Sequence, computed_tokens: int) -> None:
        """`release` of one that ended, is cached as far as it is computed, and has no segments."""
        size, order, inactive = self.block_size, self._order, 0
        if self._cached > self.room:
            self._owe()
        full = computed_tokens // size
        is_broken = computed_tokens > full * size  # whether the last block is not full: it is free
        if (tail := full - sequence.tail_start) > 0:
            sequence.len = inactive = tail
            order.append(sequence)
        if (node := sequence.node) is not None:
            sequence.node = None
            while (parent := node.parent) is not None:
                ref = node.ref = node.ref - 1
                if not ref:
                    order.append(node)
                    inactive += node.len
                node = parent
        self._cached += inactive
        self.room += inactive + is_broken

    def release(self, sequence: Sequence, computed_tokens: int, cached: bool) -> None:
        """Give back everything a sequence holds, deepest block first.

        `computed_tokens`: tokens whose KV exists; the last block may be partial and is freed at once.
        """
        full = computed_tokens // self.block_size
        if computed_tokens > full * self.block_size:
            self.give_back(1)
        tail = full - sequence.tail_start
        if tail > 0:
            if not cached:
                self.give_back(tail)
            elif sequence.planned:
                self.extend(sequence, sequence.tail_start, full)
            else:
                sequence.len = tail
                self._retire(sequence)
        node = sequence.node
        if node is not None:
            if sequence.segments is not None:
                node = self._let_go_segments(sequence, sequence.segments)
            while (parent := node.parent) is not None:
                ref = node.ref = node.ref - 1
                if not ref:
                    self._retire(node)
                node = parent
            sequence.node = None

    def _let_go_segments(self, sequence: Sequence, segments: list[tuple[Node, int]]) -> Node:
        """Drop the nodes of all segments but the first; return the deepest node of the first."""
        node, first = sequence.node, sequence.segment_start
        while segments:
            while node is not None and node.start >= first:
                node.ref -= 1
                if node.ref == 0:
                    self._retire(node)
                node = node.parent
            node, first = segments.pop()
        sequence.segments, sequence.segment_start = None, 0
        assert node is not None
        return node

    def _retire(self, entry: Node | Sequence) -> None:
        self._order.append(entry)
        self._cached += entry.len
        self.room += entry.len

    def _compact(self) -> None:
        """Drop void entries from the eviction order."""
        kept: deque[Node | Sequence] = deque()
        for entry in self._order:
            if entry.stale > 0:
                entry.stale -= 1
            else:
                kept.append(entry)
        self._order.clear()
        self._order += kept
        self._compact_above = 2 * len(kept) + _COMPACT_SLACK


def _agreement(ids: list[int], keys: list[int], start: int) -> int:
    """Find the first index after `start` at which two chains differ; they agree at `start`."""
    index = start + 1
    while ids[index] == keys[index]:
        index += 1
    return index
