"""The nodes of the radix tree of an SGLang rank (`RadixPool`): runs of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisimulate.engine.sequence import Sequence

_ENDLESS = 1 << 62
_NOBODY = -1


class RadixNode:
    """A run of `len` pages from page `start` of a content chain on; `ref` counts the sequences that lock it.

    Pages below `tail` are named by `ids[p // stride]`, the others belong to the sequence number `owner`.
    """

    children: dict[int, RadixNode]

    __slots__ = (
        "children",
        "grower",
        "ids",
        "len",
        "owner",
        "parent",
        "ref",
        "serial",
        "start",
        "tail",
        "touched",
    )

    def __init__(
        self, start: int, length: int, sequence: Sequence, parent: RadixNode, touched: int, serial: int
    ) -> None:
        self.start = start
        self.len = length
        self.ids = sequence.keys
        self.tail = sequence.shared
        self.owner = sequence.ordinal
        self.parent = parent
        self.touched = touched
        self.serial = serial
        self.ref = 0
        self.children = _NO_CHILDREN
        self.grower: Sequence | None = None

    def adopt(self, key: int, child: RadixNode) -> None:
        """Let a node follow this one."""
        if self.children is _NO_CHILDREN:
            self.children = {key: child}
        else:
            self.children[key] = child


# Of all nodes that have none, most of which never get any: to be replaced, never to be changed.
_NO_CHILDREN: dict[int, RadixNode] = {}


class Root(RadixNode):
    """Ends every path; always locked, never evicted."""

    __slots__ = ()

    def __init__(self) -> None:
        self.start = self.len = self.touched = self.serial = 0
        self.ids = None
        self.tail, self.owner = 0, _NOBODY
        self.parent = self
        self.ref = _ENDLESS
        self.children = {}
        self.grower = None
