"""`simulate`: one deployment under one workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisimulate.api.tables import figure, frame, html_table
from aisimulate.core.errors import InputError
from aisimulate.replay.execute import execute
from aisimulate.report.payload_file import read_payload
from aisimulate.report.replay_confidence import with_confidence
from aisimulate.report.replay_table import replay_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisimulate.replay.observe.hub import Observer

_SHOWN = {
    "completed_requests": "completed requests",
    "output_throughput_tok_s": "output tok/s",
    "mean_ttft_ms": "TTFT mean, ms",
    "p99_ttft_ms": "TTFT p99, ms",
    "mean_tpot_ms": "ITL per request mean, ms",
    "p99_itl_ms": "ITL per gap p99, ms",
    "p99_e2e_latency_ms": "request latency p99, ms",
    "goodput_completed_requests": "requests within the SLA",
    "prefix_cache_reused_ratio": "prompt tokens reused",
    "gpu_hours": "GPU hours",
}
_LATENCIES = {
    "ttft_ms": "time to first token",
    "itl_ms": "inter-token, per request",
    "e2e_latency_ms": "request",
}


@dataclass(frozen=True, slots=True)
class Simulation:
    """The report of a replay, as the JSON facade gives it, with ways to look at it."""

    report: dict[str, Any]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a value of the report
        return self.report[name]

    def __repr__(self) -> str:
        return replay_text(self.report)

    def _repr_html_(self) -> str:
        rows = [
            (title, f"{self.report[name]:,.4g}")
            for name, title in _SHOWN.items()
            if isinstance(self.report.get(name), int | float)
        ]
        return html_table("Replay", ("figure", "value"), rows)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """One record per request. Raises InputError when the payload asked for none."""
        records = self.report.get("per_request")
        if records is None:
            raise InputError("record_per_request is false in this payload: there are no records")
        return list(records)

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas DataFrame
        """Give the records of the requests as a frame."""
        return frame(self.requests)

    def latency_figure(self) -> Any:  # noqa: ANN401 - a plotly Figure
        """Plot the distributions of the latencies over all requests."""
        traces = []
        for name, title in _LATENCIES.items():
            values = sorted(item[name] for item in self.requests if item.get(name) is not None)
            shares = [(place + 1) / len(values) for place in range(len(values))]
            traces.append({"type": "scatter", "mode": "lines", "name": title, "x": values, "y": shares})
        axes = {"xaxis": {"type": "log", "title": {"text": "ms"}}, "yaxis": {"title": {"text": "share"}}}
        return figure(traces, axes)


def simulate(payload: Mapping[str, Any] | str | Path, *, observers: Sequence[Observer] = ()) -> Simulation:
    """Replay a payload, or the one in a JSON or YAML file.

    `confidence` in the result has the grade of the data behind its pass times and the reasons, where they are
    measured data.

    Raises `InputError`, `UnsupportedError`, `TimingError` or `ReplayError`, each with a one-line text.
    """
    given = payload if isinstance(payload, Mapping) else read_payload(Path(payload))
    return Simulation(with_confidence(execute(given, observers=observers), given))
