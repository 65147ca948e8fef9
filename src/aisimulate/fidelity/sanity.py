"""Numbers of a result that cannot be what they are called, most often seconds taken for milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisimulate.fidelity.measured.metrics import TITLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisimulate.fidelity.measured.run import MeasuredRun

# A file and its own requests are summarised alike up to how percentiles are taken.
_OWN_TOLERANCE = 0.05
_THOUSAND = (300.0, 3000.0)
_LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_latency_ms")


def run_doubts(run: MeasuredRun) -> Iterator[str]:
    """Tell what in a run contradicts itself, one line each."""
    name = run.path.name
    for metric in _LATENCIES:
        reported = run.reported.get(metric, {}).get("mean")
        own = None if run.requests is None else run.requests.statistics(metric).get("mean")
        if reported and own and abs(reported / own - 1.0) > _OWN_TOLERANCE:
            yield (
                f"{name}: says a mean {metric} of {reported:.6g}, its requests give {own:.6g}"
                f"{_unit_hint(reported / own)}"
            )
    ttft, e2e = (run.statistics(metric).get("mean") for metric in ("ttft_ms", "e2e_latency_ms"))
    if ttft and e2e and ttft > e2e * (1.0 + _OWN_TOLERANCE):
        rule = f"is above the mean e2e_latency_ms {e2e:.6g}: a unit is wrong"
        yield f"{name}: the mean ttft_ms {ttft:.6g} {rule}"


def pair_doubts(measured: MeasuredRun, simulated: MeasuredRun) -> Iterator[str]:
    """Tell where two runs are swapped, a factor of about 1,000 apart, or did not serve the same."""
    if _is_ours(measured) and not _is_ours(simulated):
        yield (
            f"{measured.path.name} (measured) is a simulation, {simulated.path.name} (simulated) "
            f"is of {simulated.tool}: are they swapped?"
        )
    for metric in _LATENCIES:
        left, right = (_typical(run, metric) for run in (measured, simulated))
        if left and right and (hint := _unit_hint(left / right)):
            title = TITLES[metric]
            yield f"{title}: {left:.6g} measured against {right:.6g} simulated{hint}"
    for metric in ("input_tokens", "output_tokens", "completed_requests"):
        left, right = (_typical(run, metric) for run in (measured, simulated))
        if left and right and abs(right / left - 1.0) > _OWN_TOLERANCE:
            title = TITLES[metric]
            yield f"{title}: {left:.6g} measured against {right:.6g} simulated: not the same traffic"


def _is_ours(run: MeasuredRun) -> bool:
    return run.tool.startswith("aisimulate")


def _typical(run: MeasuredRun, metric: str) -> float | None:
    told = run.statistics(metric)
    return told.get("mean", told.get("value"))


def _unit_hint(ratio: float) -> str:
    low, high = _THOUSAND
    is_thousand = low <= ratio <= high or low <= 1.0 / ratio <= high
    return ": about 1,000 apart, as seconds and milliseconds are" if is_thousand else ""
