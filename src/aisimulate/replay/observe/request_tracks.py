"""The stages of a sample of requests, as begin and end events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisimulate.engine.sequence import Sequence

Event = dict[str, Any]
Args = dict[str, Any]


class RequestTracks:
    """Keeps at most `most` requests: those whose number is a multiple of `stride`, which doubles on demand.

    `seen` counts all of them. The sample depends on nothing but how many requests there are.
    """

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self.stride = 1
        self.seen = 0
        self._tracks: dict[Sequence, list[tuple[int, Event]]] = {}
        self._stages: dict[Sequence, str] = {}  # those that are open

    def enter(self, sequence: Sequence, now_ns: int) -> None:
        """Open the track of a request that was queued on a worker, or pass over it."""
        self.seen += 1
        if sequence.ordinal % self.stride:
            return
        self._tracks[sequence] = []
        lengths = {
            "input_tokens": sequence.input_tokens,
            "output_tokens": sequence.turn.output_tokens,
            "worker": sequence.worker,
            "rank": sequence.rank,
        }
        if sequence.arrival_ns < now_ns:
            self._open(sequence, "unplaced", sequence.arrival_ns, None)
            self.leave(sequence, now_ns)
        self._open(sequence, "queued", now_ns, lengths)
        if len(self._tracks) > self._most:
            self._thin_out()

    def move(self, sequence: Sequence, stage: str, now_ns: int, args: Args | None = None) -> None:
        """Let a request end its stage and begin another one."""
        if sequence in self._stages:
            self.leave(sequence, now_ns)
            self._open(sequence, stage, now_ns, args)

    def leave(self, sequence: Sequence, now_ns: int, args: Args | None = None) -> None:
        """End the stage of a request."""
        stage = self._stages.pop(sequence, None)
        if stage is not None:
            self._add(sequence, stage, "E", now_ns, args)

    def leave_all(self, now_ns: int) -> None:
        """End all stages that are open."""
        for sequence in [*self._stages]:
            self.leave(sequence, now_ns)

    def sampled(self) -> Iterable[Sequence]:
        """List the requests that have a track."""
        return self._tracks

    def events(self) -> Iterator[tuple[int, Event]]:
        """Give (instant in ns, event) for all tracks, one after the other."""
        for track in self._tracks.values():
            yield from track

    def _open(self, sequence: Sequence, stage: str, now_ns: int, args: Args | None) -> None:
        self._stages[sequence] = stage
        self._add(sequence, stage, "B", now_ns, args)

    def _add(self, sequence: Sequence, stage: str, phase: str, now_ns: int, args: Args | None) -> None:
        event = {
            "name": stage,
            "cat": "request",
            "ph": phase,
            "tid": sequence.ordinal + 1,
            "args": args or {},
        }
        self._tracks[sequence].append((now_ns, event))

    def _thin_out(self) -> None:
        self.stride *= 2
        for sequence in [s for s in self._tracks if s.ordinal % self.stride]:
            del self._tracks[sequence]
            self._stages.pop(sequence, None)
