"""`recommend`: the deployments that serve a workload best."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.api.tables import figure, frame, html_table
from aisimulate.core.errors import InputError
from aisimulate.core.shown import cut
from aisimulate.report.answer import answer_of_run, answer_text
from aisimulate.report.confidence import candidate_grade, confidence_document
from aisimulate.report.export.targets import TARGETS, export_candidate
from aisimulate.report.figures import figures
from aisimulate.report.page.candidates import candidate_rows
from aisimulate.report.page.render import page_html
from aisimulate.report.search_file import read_search, search_of
from aisimulate.spica.confidence import config_confidence
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.observer import SilentObserver
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.recorded_run import RecordedRun, read_run
from aisimulate.spica.search import run_search

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.report.figures import Figure
    from aisimulate.spica.config import Candidate

_ROWS = 10


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What a search found, as its record tells it."""

    run: RecordedRun

    @property
    def candidates(self) -> list[Candidate]:
        """The ranking, best first, or the Pareto front."""
        return self.run.candidates

    @property
    def best(self) -> Candidate:
        """The first of them. Raises InputError when nothing was feasible."""
        if not self.run.candidates:
            raise InputError("the search has no feasible candidate")
        return self.run.candidates[0]

    def confidence(self, candidate: Candidate | None = None) -> dict[str, Any] | None:
        """Give `grade` and `reasons` of the data behind a candidate (the best one unless given).

        None where nothing is known of them. Raises InputError when nothing was feasible.
        """
        return confidence_document(config_confidence((candidate or self.best).config))

    def __repr__(self) -> str:
        if not self.run.candidates:
            return f"no feasible candidate in {len(self.run.attempts)} attempts\n"
        return answer_text(answer_of_run(self.run), _ROWS)

    def _repr_html_(self) -> str:
        shown = self._figures()[:6]
        heads = ("place", "candidate", "deployment", *(f"{item.title}, {item.unit}" for item in shown))
        rows = [
            (
                str(row.place or ""),
                str(row.number),
                row.label,
                *(item.text(row.candidate) for item in shown),
            )
            for row in candidate_rows(self.run)[:_ROWS]
        ]
        return html_table(
            f"{len(self.run.attempts)} attempts, goal {self.run.config.goal.target.value}", heads, rows
        )

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas DataFrame
        """Give every feasible candidate as a row: place, grade of its data, configuration and metrics."""
        return frame(
            [
                {
                    "place": row.place,
                    "candidate": row.number,
                    "deployment": row.label,
                    "confidence": candidate_grade(row.candidate),
                    **row.candidate.config,
                    **row.candidate.metrics,
                }
                for row in candidate_rows(self.run)
            ]
        )

    def figure(self, across: str = "throughput_per_user", up: str = "throughput_per_gpu") -> Any:  # noqa: ANN401
        """Plot two figures of all candidates. Raises InputError for a figure that there is not."""
        known = {item.name: item for item in self._figures()}
        unknown = [name for name in (across, up) if name not in known]
        if unknown:
            raise InputError(f"there is no figure {unknown[0]!r}; there are {', '.join(known)}")
        rows = candidate_rows(self.run)
        trace = {
            "type": "scatter",
            "mode": "markers",
            "x": [known[across].value(row.candidate) for row in rows],
            "y": [known[up].value(row.candidate) for row in rows],
            "text": [f"{row.number}: {row.label}".replace("<", "&lt;") for row in rows],
        }
        axes = {
            "xaxis": {"title": {"text": known[across].title}},
            "yaxis": {"title": {"text": known[up].title}},
        }
        return figure([trace], axes)

    def page(self, *, gpu_hour_price: float | None = None) -> str:
        """Write the result page, one HTML file."""
        return page_html(self.run, gpu_hour_price=gpu_hour_price)

    def export(self, target: str, candidate: Candidate | None = None) -> dict[str, str]:
        """Write what starts a candidate (the best one unless given), as files by name.

        Raises InputError for an unknown target, or one that cannot start it.
        """
        if target not in TARGETS:
            raise InputError(f"there is no target {target!r}; there are {', '.join(TARGETS)}")
        return export_candidate((candidate or self.best).config, self.run.config.goal, target).files

    def _figures(self) -> list[Figure]:
        return figures(self.run.config.goal)


def recommend(
    config: SmartSearchConfig | Mapping[str, Any] | str | Path,
    *,
    run: str | Path | None = None,
    show_progress: bool = False,
) -> Recommendation:
    """Search for the deployments that serve a workload best.

    `config` is a configuration, the same as a mapping, or the path of its YAML file. `run` is a file in which
    the search is recorded, for `aisimulate runs` and for resuming; without it nothing is kept.

    Candidates are replayed in spawned processes: a script calls this below `if __name__ == "__main__":`.

    Raises `InputError` for what a user can fix, `TimingError` where there are no data, `EvaluatorPoolError`
    when workers do not start, and KeyboardInterrupt.
    """
    asked = _config(config)
    observer = progress_observer() if show_progress else SilentObserver()
    with _place(run) as path:
        with Ledger.create(path) as ledger:
            result = run_search(asked, observer=observer, ledger=ledger)
        if result.interrupted:
            raise KeyboardInterrupt
        with Ledger.open_ledger(path) as ledger:
            return Recommendation(read_run(ledger))


def _config(config: SmartSearchConfig | Mapping[str, Any] | str | Path) -> SmartSearchConfig:
    if isinstance(config, SmartSearchConfig):
        return config
    if isinstance(config, str | Path):
        return read_search(Path(config))
    if not isinstance(config, Mapping):
        raise InputError(
            f"config: expected a SmartSearchConfig, a mapping or a path, got {cut(repr(config))}"
        )
    return search_of(config)


@contextmanager
def _place(run: str | Path | None) -> Iterator[Path]:
    if run is not None:
        yield Path(run)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "search.sqlite"
