"""Progress of a search on stderr: a live bar on a terminal, plain lines elsewhere (spec 05 section 11.5)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from aisimulate.spica.summary import headline_target

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from aisimulate.spica.observer import Observer
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.summary import Progress


def progress_observer() -> Observer:
    """Choose the observer for this process's stderr."""
    return BarObserver() if sys.stderr.isatty() else LineObserver()


class LineObserver:
    """Writes notes, one line per round and the summary."""

    def __init__(self) -> None:
        self._phase = ""

    def phase(self, name: str, progress: Progress) -> None:
        """Say what starts."""
        self._phase = name
        self._write(f"smart-sweep {name}")

    def suggested(self, count: int) -> None:
        """Nothing to say yet."""

    def settled(self, outcome: Outcome, *, cached: bool, progress: Progress) -> None:
        """Wait for the end of the round."""

    def round_ended(self, number: int, progress: Progress) -> None:
        """Say where the search stands."""
        self._write(f"smart-sweep {self._phase}: round {number}, {_standing(progress)}")

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
        print(text, file=sys.stderr, flush=True)


class BarObserver:
    """Draws a live bar: phase, measurements, counts and best so far."""

    def __init__(self) -> None:
        self._bar: Bar = _new_bar()
        self._task: TaskID = self._bar.add_task("smart-sweep", total=None, standing="")
        self._phase = ""
        self._bar.start()

    def phase(self, name: str, progress: Progress) -> None:
        """Show what starts."""
        self._phase = name
        self._bar.update(self._task, description=f"smart-sweep {name}", total=progress.total or None)

    def suggested(self, count: int) -> None:
        """Show that the sampler is done and the replays run."""
        self._bar.update(self._task, description=f"smart-sweep {self._phase}: evaluating")

    def settled(self, outcome: Outcome, *, cached: bool, progress: Progress) -> None:
        """Advance by one for a new feasible candidate; update the counts for any."""
        advance = 1 if outcome.candidate is not None and not cached else 0
        self._bar.update(self._task, advance=advance, standing=_standing(progress))

    def round_ended(self, number: int, progress: Progress) -> None:
        """Show that the sampler is at work again."""
        self._bar.update(self._task, description=f"smart-sweep {self._phase}: suggesting")

    def note(self, text: str) -> None:
        """Write the line above the bar."""
        self._write(f"note: {text}")

    def done(self, lines: list[str]) -> None:
        """End the bar and write the lines below it."""
        self._bar.stop()
        for line in lines:
            self._write(line)

    def close(self) -> None:
        """Stop drawing."""
        self._bar.stop()

    def _write(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _standing(progress: Progress) -> str:
    feasible = progress.tally.counts["feasible"]
    best = f"best {headline_target(progress.goal).value}={progress.best_text}"
    return f"{feasible}/{progress.total} feasible, {progress.tally.failed} failed, {best}"


def _new_bar() -> Bar:
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs rich
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[standing]}", markup=False),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
