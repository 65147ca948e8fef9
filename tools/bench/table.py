"""The benchmark's table: one row per measured replay, and the bounds that were missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.bench.measuring import Cost
from tools.bench.scenarios import Benchmark

HEADER = ("scenario", "ours s", "peer s", "ratio", "ours MB", "peer MB", "passes", "plans", "requests")
PLANS_SLACK = 1.03


@dataclass(frozen=True, slots=True)
class Row:
    """The measured costs of one scenario; `peer` is None when no peer's interpreter was given."""

    benchmark: Benchmark
    ours: Cost
    peer: Cost | None

    def cells(self) -> Iterator[tuple[str, ...]]:
        """One line for a fresh process and, where it was measured, one for the second replay in it."""
        ours, peer = self.ours, self.peer
        yield (
            self.benchmark.name,
            f"{ours.user_s:.3f}",
            f"{peer.user_s:.2f}" if peer else "-",
            _ratio(ours.user_s, peer and peer.user_s),
            f"{ours.peak_rss_mb:.0f}",
            f"{peer.peak_rss_mb:.0f}" if peer else "-",
            f"{ours.passes:,}",
            f"{ours.plans:,}",
            f"{ours.completed:,}",
        )
        if ours.warm_user_s is not None:
            warm_peer = peer.warm_user_s if peer else None
            yield (
                "  second replay, same process",
                f"{ours.warm_user_s:.3f}",
                f"{warm_peer:.2f}" if warm_peer is not None else "-",
                _ratio(ours.warm_user_s, warm_peer),
                *[""] * 5,
            )

    def missed(self) -> Iterator[str]:
        """Say which bounds this row does not keep."""
        bounds, ours, peer = self.benchmark.bounds, self.ours, self.peer
        checks = [
            ("peak MB", ours.peak_rss_mb, bounds.rss_mb),
            ("plans", ours.plans, bounds.plans and bounds.plans * PLANS_SLACK),
        ]
        if peer:
            checks.append(("ratio", ours.user_s / peer.user_s, bounds.ratio))
            if ours.warm_user_s is not None and peer.warm_user_s:
                checks.append(("second-replay ratio", ours.warm_user_s / peer.warm_user_s, bounds.warm_ratio))
            if ours.completed != peer.completed:
                yield f"{self.benchmark.name}: {ours.completed:,} requests completed, peer {peer.completed:,}"
        for name, value, bound in checks:
            if value is not None and bound is not None and value > bound:
                yield f"{self.benchmark.name}: {name} {value:.4g} is above its bound of {bound:.4g}"


def table_lines(rows: list[Row]) -> list[str]:
    """Lay all rows out in columns."""
    cells = [HEADER, *(line for row in rows for line in row.cells())]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    return [_line(line, widths) for line in cells]


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers = cells
    padded = (text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))
    return "  ".join([name.ljust(widths[0]), *padded]).rstrip()


def _ratio(ours_s: float, peer_s: float | None) -> str:
    return f"{ours_s / peer_s:.3f}" if peer_s else "-"
