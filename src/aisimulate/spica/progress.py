"""Progress of a search on stderr: a live bar on a terminal, plain lines elsewhere (spec 05 section 11.5)."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from aisimulate.core.console import say
from aisimulate.spica.summary import headline_target

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import Task, TaskID

    from aisimulate.spica.observer import Observer
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.summary import Progress


def progress_observer() -> Observer:
    """Choose the observer for this process's stderr."""
    return BarObserver() if sys.stderr is not None and sys.stderr.isatty() else LineObserver()


class LineObserver:
    """Writes notes, one line per round and the summary."""

    def __init__(self) -> None:
        self._phase = ""
        self._told: set[str] = set()

    def phase(self, name: str, progress: Progress) -> None:
        """Say what starts, once."""
        self._phase = name
        if name not in self._told:
            self._told.add(name)
            self._write(f"smart-sweep {name}")

    def suggested(self, count: int) -> None:
        """Nothing to say yet."""

    def settled(self, outcome: Outcome, *, cached: bool, progress: Progress) -> None:
        """Wait for the end of the round."""

    def round_ended(self, number: int, progress: Progress) -> None:
        """Say where the search stands."""
        self._write(
            f"smart-sweep {self._phase}: round {number}, {_counts_text(progress)}, {_best_text(progress)}"
        )

    def note(self, text: str) -> None:
        """Pass the line on."""
        self._write(f"note: {text}")

    def done(self, lines: list[str]) -> None:
        """Pass the lines on."""
        for line in lines:
            self._write(line)

    def close(self) -> None:
        """Nothing to leave."""

    def _write(self, text: str) -> None:
        say(text)


class BarObserver:
    """Draws a live bar: best so far, counts, pace, phase; as much of it as the terminal is wide."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on `console`, or on this process's stderr."""
        self._bar: Bar = _new_bar(console)
        self._task: TaskID = self._bar.add_task(
            "smart-sweep", total=None, best="", counts="", pace="", trend=""
        )
        self._phase = ""
        self._trend = Trend()
        with suppress(OSError):
            self._bar.start()

    def phase(self, name: str, progress: Progress) -> None:
        """Show what starts."""
        self._phase = name
        self._bar.update(self._task, description=name, total=progress.total or None)
        self._show_standing(progress)

    def suggested(self, count: int) -> None:
        """Show that the sampler is done and the replays run."""
        self._bar.update(self._task, description=f"{self._phase}: replaying")

    def settled(self, outcome: Outcome, *, cached: bool, progress: Progress) -> None:
        """Advance by one for a new feasible candidate; update the counts for any."""
        advance = 1 if outcome.candidate is not None and not cached else 0
        self._bar.advance(self._task, advance)
        self._show_standing(progress)

    def round_ended(self, number: int, progress: Progress) -> None:
        """Show that the sampler is at work again."""
        self._bar.update(self._task, description=f"{self._phase}: suggesting")

    def note(self, text: str) -> None:
        """Write the line above the bar."""
        self._write(f"note: {text}")

    def done(self, lines: list[str]) -> None:
        """End the bar and write the lines below it."""
        self.close()
        for line in lines:
            self._write(line)

    def close(self) -> None:
        """Stop drawing."""
        with suppress(OSError):
            self._bar.stop()

    def _show_standing(self, progress: Progress) -> None:
        if progress.best is not None:
            self._trend.add(progress.best, maximize=headline_target(progress.goal).maximize)
        self._bar.update(
            self._task,
            best=_best_text(progress),
            counts=_counts_text(progress),
            pace=_pace_text(self._bar.tasks[0]),
            trend=self._trend.text(self._bar.console.encoding),
        )

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Trend:
    """The best value after each improvement, as a row of bars; the newest at the right."""

    _BARS = "▁▂▃▄▅▆▇█"
    _MOST = 12

    def __init__(self) -> None:
        self._values: list[float] = []

    def add(self, best: float, *, maximize: bool) -> None:
        """Note the best value so far."""
        value = best if maximize else -best
        if not self._values or value > self._values[-1]:
            self._values = [*self._values, value][-self._MOST :]

    def text(self, encoding: str) -> str:
        """Draw it; nothing where a terminal has no such characters, or nothing has improved yet."""
        low, high = (min(self._values), max(self._values)) if self._values else (0.0, 0.0)
        if high <= low or "utf" not in encoding.lower():
            return ""
        last = len(self._BARS) - 1
        return "".join(self._BARS[round((value - low) / (high - low) * last)] for value in self._values)


def _best_text(progress: Progress) -> str:
    return f"best {headline_target(progress.goal).value}={progress.best_text}"


def _pace_text(task: Task) -> str:
    """How many candidates a second, and how long for what may still come; nothing before the first ones."""
    if not task.speed or task.time_remaining is None:
        return ""
    minutes, seconds = divmod(round(task.time_remaining), 60)
    pace = f"{task.speed:.1f}/s" if task.speed >= 1 else f"{60 * task.speed:.1f}/min"
    return f"{pace}, {minutes}:{seconds:02} left"


def _counts_text(progress: Progress) -> str:
    feasible = progress.tally.counts["feasible"]
    return f"{feasible}/{progress.total} feasible, {progress.tally.failed} failed"


def _new_bar(console: Console | None) -> Bar:
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs rich
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = console or Console(stderr=True)
    # (column, width from which it fits together with all before it): rich would cut each of them a little.
    columns = (
        (TextColumn("{task.fields[best]}", markup=False), 0),
        (TextColumn("{task.fields[counts]}", markup=False), 66),
        (TextColumn("{task.fields[pace]}", markup=False), 79),
        (TextColumn("{task.description}", markup=False), 100),
        (TextColumn("{task.fields[trend]}", markup=False), 113),
        (TimeElapsedColumn(), 121),
        (BarColumn(bar_width=24), 146),
    )
    shown = [column for column, width in columns if console.width >= width]
    return Progress(*shown, console=console, transient=True)
