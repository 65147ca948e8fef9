"""The KV pages of one SGLang rank: a radix tree whose nodes are runs of pages.

A sequence locks the path to its deepest node; pages of nodes that nobody locks can be evicted, from the end
of the leaf that was touched longest ago. A page with generated content belongs to its sequence alone: it
has no key, only the sequence's own. Rules: spec 01 section 4.4.

While a sequence decodes and is alone at the end of its path, every page it completes lengthens its node and
touches the path. Nobody sees that before somebody looks at the node or the sequence lets go, so such a node
(its `grower` is set) is brought up to date only then. The other decoders have an appointment for the pass in
which they complete their next page (spec 09 section 2: one structure of runs, private tails as counts).
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from aisimulate.engine.radix_node import RadixNode, Root

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence

_COMPACT_SLACK = 1024
_GONE = -1
# Order of touches after decode pass p: decoders in running order, completions in running order, the rest.
_COMPLETION = 1 << 32
_LATER = 2 << 32
_PASS = 4 << 32


# A cached prefix: pages hit, the node where the hit ends, and how many of that node's pages it covers.
Match = tuple[int, RadixNode, int]


class RadixPool:
    """Counts free and `inactive` (cached, unlocked) pages; both together can be allocated.

    `passes`: decode passes of the rank so far, which says how far the growers have come.
    """

    __slots__ = (
        "_ahead",
        "_clock",
        "_compact_above",
        "_first",
        "_leaves",
        "_nodes",
        "appointments",
        "caching",
        "free",
        "inactive",
        "miss",
        "page_size",
        "passes",
        "root",
        "stride",
    )

    def __init__(self, pages: int, page_size: int, caching: bool) -> None:
        self.page_size = page_size
        self.caching = caching  # if not, nothing ever gets into the tree
        self.free = pages
        self.inactive = 0
        self.stride = 1
        self.passes = 0
        self.root = Root()
        self.miss: Match = (0, self.root, 0)  # what a lookup finds when nothing is cached
        self._ahead = 0  # sequences before this place in the running order have done one pass more
        self._clock = 0
        self._nodes = 0
        # Decoders that do not grow by themselves, by the pass in which they have their next page.
        self.appointments: list[tuple[int, int, Sequence]] = []
        # Unlocked leaves by last touch, those before `_first` evicted; an entry is void when its node was
        # touched again, locked or grown. In order, because hardly one comes that is not the last by then.
        self._leaves: list[tuple[int, int, RadixNode]] = []
        self._first = 0
        self._compact_above = _COMPACT_SLACK

    # Lookup -----------------------------------------------------------------------------------------

    def match(self, sequence: Sequence, limit: int) -> Match:
        """Find the longest cached prefix of a prompt, at most `limit` pages. Changes nothing."""
        keys = sequence.keys
        if keys is None or limit > sequence.shared:
            return self._match_own(sequence, limit)
        node: RadixNode = self.root
        stride = self.stride
        position = used = 0
        while position < limit:
            first = position // stride
            child = node.children.get(keys[first])
            if child is None:
                break
            if child.grower is not None:
                child.len = self._grown(child.grower) - child.start
            # `_agreement`, without the call.
            end = position + child.len
            if end > limit:
                end = limit
            if end > child.tail:
                end = child.tail
            last, ids = -(-end // stride), child.ids
            if last > first + 1 and ids is not keys and ids[first:last] != keys[first:last]:  # type: ignore[index]
                end = position + self._agreement(child, sequence, position, end)
            used = end - position
            node = child
            position = end
            if used < child.len:
                break
        return position, node, used

    def _match_own(self, sequence: Sequence, limit: int) -> Match:
        """`match` where some of the pages can only be the sequence's own."""
        node: RadixNode = self.root
        position = used = 0
        while position < limit:
            child = self._child(node, sequence, position)
            if child is None:
                break
            used = self._agreement(child, sequence, position, limit)
            node = child
            position += used
            if used < child.len:
                break
        return position, node, used

    def _child(self, node: RadixNode, sequence: Sequence, position: int) -> RadixNode | None:
        """The child that goes on as `sequence` does; its length is up to date."""
        child = node.children.get(self._key(sequence, position))
        if child is not None and child.grower is not None:
            child.len = self._grown(child.grower) - child.start
        return child

    def _key(self, sequence: Sequence, position: int) -> int:
        if position < sequence.shared:
            keys = sequence.keys
            assert keys is not None
            return keys[position // self.stride]
        return ~sequence.ordinal

    def _agreement(self, child: RadixNode, sequence: Sequence, position: int, limit: int) -> int:
        """Count the pages of `child` that agree with those of `sequence`, at most up to page `limit`.

        The first page does, since it was found by its key.
        """
        end = position + child.len
        if end > limit:
            end = limit
        if child.owner == sequence.ordinal:
            return end - position
        if end > child.tail:
            end = child.tail
        if end > sequence.shared:
            end = sequence.shared
        ids, keys = child.ids, sequence.keys
        if ids is keys:
            return end - position
        assert ids is not None
        assert keys is not None
        stride = self.stride
        first = position // stride
        last = -(-end // stride)
        if last > first + 1 and ids[first:last] != keys[first:last]:
            index = first + 1
            while ids[index] == keys[index]:
                index += 1
            return index * stride - position
        return end - position

    def _grown(self, sequence: Sequence) -> int:
        """Pages a grower has in the tree; what its last token completes is left to its completion."""
        passes = self.passes + (sequence.order < self._ahead)
        return min(passes + sequence.base, sequence.end_tokens - 1) // self.page_size

    # Touching and locking ---------------------------------------------------------------------------

    def pin(self, sequence: Sequence, match: Match) -> None:
        """Let `sequence` lock the matched pages, and touch the nodes that they cover wholly."""
        _, node, used = match
        self._clock += 1
        now = self.passes * _PASS + _LATER + self._clock
        if used < node.len:
            sequence.leaf = node = self._split(node, used)
            if node.ref == 0:
                self.inactive -= node.len
            node.ref += 1
            node = node.parent
        else:
            sequence.leaf = node
            if node.grower is not None:
                self._stop_growing(node)
        while (parent := node.parent) is not node:
            if node.touched < now:
                node.touched = now
            if node.ref == 0:
                self.inactive -= node.len
                if len(self._leaves) > self._compact_above:  # that of a leaf is void now
                    self._compact()
            node.ref += 1
            node = parent

    def unpin(self, sequence: Sequence, now: int = 0) -> None:
        """Unlock the path of `sequence`, touched at `now` for the last time."""
        node = sequence.leaf
        while (parent := node.parent) is not node:
            if node.touched < now:
                node.touched = now
            ref = node.ref = node.ref - 1
            if not ref:
                self.inactive += node.len
                if not node.children:
                    self._queue(node)
            node = parent
        sequence.leaf = node

    def _touch(self, node: RadixNode, now: int) -> None:
        while (parent := node.parent) is not node:
            if node.touched < now:
                node.touched = now
            node = parent

    def _split(self, node: RadixNode, used: int) -> RadixNode:
        """Cut the first `used` pages off `node` as its new parent; the deep part stays the same object."""
        parent = node.parent
        top: RadixNode = object.__new__(RadixNode)
        top.start, top.len = node.start, used
        top.ids, top.tail, top.owner = node.ids, node.tail, node.owner
        top.parent, top.touched, top.ref, top.grower = parent, node.touched, node.ref, None
        self._nodes += 1
        top.serial = self._nodes
        parent.children[self._own_key(node)] = top
        node.start += used
        node.len -= used
        node.parent = top
        top.children = {self._own_key(node): node}
        return top

    def _own_key(self, node: RadixNode) -> int:
        if node.start < node.tail:
            assert node.ids is not None
            return node.ids[node.start // self.stride]
        return ~node.owner

    # Allocation ---------------------------------------------------------------------------------------

    def take(self, pages: int) -> None:
        """Allocate pages, evicting where needed; the caller checked `free + inactive`."""
        left = self.free - pages
        if left >= 0:
            self.free = left
            return
        self.free = 0
        self.inactive += left
        leaves, first = self._leaves, self._first
        while left:
            touched, _, node = leaves[first]
            if node.touched != touched or node.ref or node.children:
                first += 1
                continue
            left += node.len
            if left > 0:
                node.len = left
                if first == self._first:
                    return
                break
            first += 1
            node.len = 0
            node.touched = _GONE
            parent, start = node.parent, node.start
            # `_own_key`, without the call.
            key = node.ids[start // self.stride] if start < node.tail else ~node.owner  # type: ignore[index]
            del parent.children[key]
            if not (parent.ref or parent.children):
                self._first = first
                self._offer(parent)
                first = self._first
        self._first = first
        if first > _COMPACT_SLACK:
            del leaves[:first]
            self._first = 0

    def evict_all(self) -> None:
        """Free all pages that nobody locks."""
        pages = self.free + self.inactive
        self.take(pages)
        self.free = pages

    def _offer(self, leaf: RadixNode) -> None:
        """Queue an unlocked leaf for eviction."""
        self._queue(leaf)
        if len(self._leaves) > self._compact_above:
            self._compact()

    def _queue(self, leaf: RadixNode) -> None:
        leaves, entry = self._leaves, (leaf.touched, leaf.serial, leaf)
        if not leaves or leaves[-1] < entry:  # most are the latest, or nearly so
            leaves.append(entry)
        else:
            insort(leaves, entry, self._first)

    def _compact(self) -> None:
        """Drop void entries from the queue of leaves, in place."""
        kept = dict.fromkeys(
            (touched, serial, node)
            for touched, serial, node in self._leaves[self._first :]
            if node.touched == touched and not (node.ref or node.children)
        )
        self._leaves[:] = kept
        self._first = 0
        self._compact_above = 2 * len(kept) + _COMPACT_SLACK

    # Insertion ----------------------------------------------------------------------------------------

    def cache(self, sequence: Sequence, pages: int) -> None:
        """Put the first `pages` pages of `sequence` into the tree, and let it lock them."""
        if pages > sequence.inserted and self.caching:
            self._clock += 1
            self._insert(sequence, pages, self.passes * _PASS + _LATER + self._clock)

    def _insert(self, sequence: Sequence, pages: int, now: int) -> None:
        start = node = sequence.leaf
        while (parent := node.parent) is not node:  # `_touch`, without the call
            if node.touched < now:
                node.touched = now
            node = parent
        if start.ref == 1 and not start.children:  # the usual case of `_graft`
            start.ids, start.tail, start.owner = sequence.keys, sequence.shared, sequence.ordinal
            start.len += pages - sequence.inserted
            sequence.inserted = pages
            return
        first, keys = sequence.inserted, sequence.keys
        key = keys[first // self.stride] if keys and first < sequence.shared else ~sequence.ordinal
        if key not in start.children:  # a new branch
            if start.grower is not None:
                self._stop_growing(start)
            self._nodes += 1
            sequence.leaf = node = RadixNode(first, pages - first, sequence, start, now, self._nodes)
            node.ref = 1
            start.adopt(key, node)
            sequence.inserted = pages
            return
        node = self._graft(sequence, pages, now)
        sequence.leaf = node
        if node.grower is not None and node is not start:
            self._stop_growing(node)
        while node is not start:
            if node.ref == 0:
                self.inactive -= node.len
            node.ref += 1
            node = node.parent
        sequence.inserted = pages

    def _graft(self, sequence: Sequence, pages: int, now: int) -> RadixNode:
        """Hang the pages from `inserted` up to `pages` behind the path; return the node they end in.

        Pages that are there already are copies, which are freed.
        """
        start = node = sequence.leaf
        position = sequence.inserted
        if position < pages:
            self._touch(start, now)
        while position < pages:
            if not node.children and (node.ref == 0 or (node.ref == 1 and node is start)):
                self._lengthen(node, sequence, pages, now)
                break
            child = self._child(node, sequence, position)
            if child is None:
                child = self._hang(node, sequence, position, pages, now)
                self.inactive += child.len
                return child
            used = self._agreement(child, sequence, position, pages)
            position += used
            self.free += used
            if used < child.len:
                node = self._split(child, used)
            else:
                node = child
                node.touched = now
        return node

    def _lengthen(self, node: RadixNode, sequence: Sequence, pages: int, now: int) -> None:
        more = pages - node.start - node.len
        node.ids, node.tail, node.owner = sequence.keys, sequence.shared, sequence.ordinal
        node.len += more
        node.touched = now
        if node.ref == 0:
            self.inactive += more

    def _hang(self, node: RadixNode, sequence: Sequence, position: int, pages: int, now: int) -> RadixNode:
        if node.grower is not None:
            self._stop_growing(node)
        self._nodes += 1
        child = RadixNode(position, pages - position, sequence, node, now, self._nodes)
        key = self._key(sequence, position)
        node.adopt(key, child)
        return child

    # Decoders -----------------------------------------------------------------------------------------

    def begin_growth(self, sequence: Sequence) -> None:
        """Let a decoder's node grow by itself, or note when it has the next page for the tree."""
        if not self.caching:
            return
        passes = sequence.touched_to = self.passes
        node = sequence.leaf
        is_there = sequence.inserted == (passes + sequence.base) // self.page_size
        if is_there and node.ref == 1 and not node.children:
            node.grower = sequence
            if node.owner != sequence.ordinal:
                node.ids, node.tail, node.owner = sequence.keys, sequence.shared, sequence.ordinal
        else:
            self._appoint(sequence)

    def _stop_growing(self, node: RadixNode) -> None:
        """The grower of `node`, whose length is up to date, is no longer alone there."""
        sequence = node.grower
        assert sequence is not None
        self._catch_up(sequence)
        node.grower = None
        sequence.inserted = node.start + node.len
        self._appoint(sequence)

    def _catch_up(self, sequence: Sequence) -> None:
        """Apply the last touch of a grower."""
        pages = self._grown(sequence)
        completed = pages * self.page_size - sequence.base
        if completed > sequence.touched_to:
            sequence.touched_to = completed
            self._touch(sequence.leaf, completed * _PASS + sequence.order)

    def _appoint(self, sequence: Sequence) -> None:
        """Note the pass in which a decoder that does not grow by itself has the next page for the tree."""
        due = max((sequence.inserted + 1) * self.page_size - sequence.base, self.passes + 1)
        heappush(self.appointments, (due, sequence.order, sequence))

    def grow(self, passes: int) -> None:
        """Let the decoders have done `passes` passes; keep the appointments up to there in order."""
        appointments = self.appointments
        while appointments and appointments[0][0] <= passes:
            due, order, sequence = heappop(appointments)
            if sequence.order != order or sequence.leaf.grower is sequence:
                continue
            tokens = due + sequence.base
            if tokens >= sequence.end_tokens:
                continue
            self.passes, self._ahead = due - 1, order
            self._insert(sequence, tokens // self.page_size, due * _PASS + order)
            self.passes = due
            self.begin_growth(sequence)
        self.passes, self._ahead = passes, 0

    # Letting go ---------------------------------------------------------------------------------------

    def complete(self, sequence: Sequence, tokens: int) -> None:
        """Cache all full pages of a sequence that ended with `tokens` tokens in pages, and let go of them."""
        page_size = self.page_size
        full = tokens // page_size if self.caching else 0
        self.free += -(-tokens // page_size) - full
        node, touched, order = sequence.leaf, 0, sequence.order
        if node.grower is sequence:
            completed = full * page_size
            if completed == tokens:
                touched = self.passes * _PASS + _COMPLETION + order
            elif (due := completed - sequence.base) > sequence.touched_to:
                touched = due * _PASS + order
            node.grower = None
            node.len = full - node.start
        elif full > sequence.inserted:
            now = self.passes * _PASS + (_COMPLETION + order if order else _LATER)
            if not order:
                self._clock += 1
                now += self._clock
            deepest = self._graft(sequence, full, now)
            if deepest.ref == 0 and not deepest.children:
                self._offer(deepest)
        self.unpin(sequence, touched)
        sequence.inserted = sequence.order = 0

    def settle(self, sequence: Sequence, tokens: int) -> tuple[int, int]:
        """`complete`, as far as others can see it: cache the full pages, but keep them locked.

        Return what `let_go` needs: the pages outside the tree, and when the path was touched.
        """
        page_size = self.page_size
        full = tokens // page_size if self.caching else 0
        node, touched, order = sequence.leaf, 0, sequence.order
        if node.grower is sequence:
            completed = full * page_size
            if completed == tokens:
                touched = self.passes * _PASS + _COMPLETION + order
            elif (due := completed - sequence.base) > sequence.touched_to:
                touched = due * _PASS + order
            self._touch(node, touched)
            node.grower = None
            node.len = full - node.start
        elif full > sequence.inserted:
            now = self.passes * _PASS + (_COMPLETION + order if order else _LATER)
            if not order:
                self._clock += 1
                now += self._clock
            self._insert(sequence, full, now)
        sequence.inserted, sequence.order = full, 0
        return -(-tokens // page_size) - full, touched

    def let_go(self, sequence: Sequence, pages: int, touched: int) -> None:
        """Let go of the pages of a settled sequence, `pages` of them outside the tree."""
        self.free += pages
        self.unpin(sequence, touched)
        sequence.inserted = 0

    def release(self, sequence: Sequence, tokens: int) -> None:
        """Let go of everything; what is in the tree stays there. `tokens`: those that occupy pages."""
        node = sequence.leaf
        if node.grower is sequence:
            self._catch_up(sequence)
            sequence.inserted = self._grown(sequence)
            node.len = sequence.inserted - node.start
            node.grower = None
        self.free += -(-tokens // self.page_size) - sequence.inserted
        self.unpin(sequence)
        sequence.inserted = sequence.order = 0
