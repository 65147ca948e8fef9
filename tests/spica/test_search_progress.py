"""Counts, summary lines, and the observers that show them."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from aisimulate.spica.config import Candidate, OptimizationGoal
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.progress import BarObserver, LineObserver, Trend, progress_observer
from aisimulate.spica.summary import Coverage, Progress, summary_lines


def feasible(score: float, objectives=None) -> Outcome:
    made = Candidate(config={}, used_gpus=1, score=score, metrics={}, objectives=objectives)
    return Outcome(Status.FEASIBLE, {}, candidate=made)


def failed(reason: str, status=Status.FAILED) -> Outcome:
    return Outcome(status, {}, category=Reason.UNKNOWN, reason=reason)


def progress_of(goal, *outcomes) -> Progress:
    progress = Progress(OptimizationGoal.model_validate(goal), total=9)
    for outcome in outcomes:
        progress.add(outcome, cached=False)
    return progress


def test_the_parts_add_up():
    progress = progress_of(
        {},
        feasible(2.0),
        feasible(3.0),
        failed("a"),
        failed("slow", Status.TIMED_OUT),
        failed("big", Status.INFEASIBLE),
        failed("pair", Status.UNSUPPORTED),
    )
    progress.add(feasible(99.0), cached=True)
    tally = progress.tally
    assert (tally.evaluated, tally.failed, tally.cache_hits, progress.best) == (5, 2, 1, 3.0)
    assert summary_lines(progress, [feasible(3.0).candidate])[0] == (
        "smart-sweep done: 2/5 attempts feasible, 1 infeasible (gated), 1 backend-unsupported, "
        "1 replay-failed, 1 timed out, 1 cache hits; best throughput=3"
    )


def test_up_to_three_failure_reasons_most_frequent_first():
    progress = progress_of({}, *(failed(text) for text in "abbcddd"))
    lines = summary_lines(progress, [])
    assert "no feasible candidate" in lines[0]
    assert lines[1] == "smart-sweep failure reason(s): d (x3); b (x2); a (x1); +1 more distinct reason(s)"


@pytest.mark.parametrize(
    ("goal", "outcomes", "best"),
    [
        ({"target": "e2e_latency"}, [feasible(-70.0), feasible(-50.0), feasible(-60.0)], "50"),
        ({}, [], "-"),
        (
            {"target": "pareto", "pareto_objectives": ["e2e_latency", "throughput"]},
            [feasible(9.0, {"e2e_latency": 9.0}), feasible(8.12345, {"e2e_latency": 8.12345})],
            "8.123",
        ),
    ],
)
def test_the_best_is_shown_in_natural_units(goal, outcomes, best):
    assert progress_of(goal, *outcomes).best_text == best


def test_the_lines_after_the_first_tell_what_was_tried_and_refused():
    gated = [failed("big", Status.INFEASIBLE)] * 2
    coverage = [Coverage("agg", 1234, 2700), Coverage("disagg", 0, 12), Coverage("other", 5, None)]
    lines = summary_lines(progress_of({}, *gated, failed("a")), [], coverage=coverage)
    assert lines[1:] == [
        "smart-sweep tried: agg 1,234 of 2,700 points, disagg 0 of 12 points, "
        "other 5 points of a continuous space",
        "smart-sweep infeasible (gated): unknown (x2)",
        "smart-sweep failure reason(s): a (x1)",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(1024.0, "1024"), (12345.6, "12350"), (0.000012345, "0.00001234"), (250.66, "250.7")]
)
def test_the_best_has_four_digits_and_no_exponent(value, text):
    assert progress_of({}, feasible(value)).best_text == text


@pytest.mark.parametrize(
    ("width", "parts"),
    [
        (40, ["best"]),
        (70, ["best", "counts"]),
        (80, ["best", "counts", "pace"]),
        (84, ["best", "counts", "pace"]),
        (112, ["best", "counts", "pace", "phase"]),
        (200, ["best", "counts", "pace", "phase", "bar"]),
    ],
)
def test_a_narrow_terminal_keeps_the_best_so_far(width, parts):
    screen = io.StringIO()
    observer = BarObserver(Console(file=screen, width=width, force_terminal=True, color_system=None))
    progress = progress_of({"target": "throughput_per_gpu"}, feasible(12345.6))
    progress.total = 135
    observer.phase("disagg", progress)
    for _ in range(3):
        time.sleep(0.001)
        observer.settled(feasible(2.0), cached=False, progress=progress)
    observer.suggested(3)
    observer.close()
    shown = screen.getvalue()
    texts = {
        "best": "best throughput_per_gpu=12350",
        "counts": "1/135 feasible, 0 failed",
        "pace": " left",
        "phase": "disagg: replaying",
        "bar": "\u2501",
    }
    assert [name for name, text in texts.items() if text in shown] == parts
    assert "\u2026" not in shown


def test_a_terminal_that_went_away_does_not_end_the_search():
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

        def isatty(self):
            return True

    observer = BarObserver(Console(file=Gone()))
    observer.phase("agg", progress_of({}))
    observer.note("text")
    observer.done(["text"])
    observer.close()


@pytest.mark.parametrize("observer_class", [LineObserver, BarObserver])
def test_observers_write_to_stderr_only(capsys, observer_class):
    progress = progress_of({}, feasible(2.0))
    observer = observer_class()
    observer.phase("agg", progress)
    observer.suggested(3)
    observer.settled(feasible(2.0), cached=False, progress=progress)
    observer.note("a [bracketed] note")
    observer.round_ended(1, progress)
    observer.done(["smart-sweep done: x"])
    observer.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "note: a [bracketed] note" in captured.err
    assert "smart-sweep done: x" in captured.err


def test_without_a_terminal_there_are_plain_lines(capsys):
    observer = progress_observer()
    assert isinstance(observer, LineObserver)
    observer.phase("agg", progress_of({}))
    observer.round_ended(4, progress_of({}, feasible(2.0), failed("x")))
    assert capsys.readouterr().err.splitlines() == [
        "smart-sweep agg",
        "smart-sweep agg: round 4, 1/9 feasible, 1 failed, best throughput=2",
    ]


def test_the_trend_draws_improvements():
    trend = Trend()
    assert trend.text("utf-8") == ""
    for best in (10.0, 10.0, 20.0, 15.0, 45.0):
        trend.add(best, maximize=True)
    assert trend.text("utf-8") == "▁▃█"
    assert trend.text("ascii") == ""
    latencies = Trend()
    for best in (90.0, 50.0, 60.0, 10.0):
        latencies.add(best, maximize=False)
    assert latencies.text("UTF-8") == "▁▅█"
    for best in range(100):
        trend.add(100.0 + best, maximize=True)
    assert len(trend.text("utf-8")) == 12
