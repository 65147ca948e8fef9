"""Prefill tokens that decay with predicted durations (spec 03 section A4)."""

from __future__ import annotations

from aisimulate.router.prefill_load import PredictedPrefillLoads, PrefillLoads


def loads(*prefills: tuple[int, int]) -> PredictedPrefillLoads:
    """One target with prefills of (tokens, predicted ns), all placed at 100 ns."""
    made = PredictedPrefillLoads()
    made.add_target()
    for request, (tokens, duration_ns) in enumerate(prefills):
        made.add(0, request, tokens, duration_ns, 100)
    return made


def test_the_anchor_decays() -> None:
    assert [loads((1000, 50)).active(now)[0] for now in (100, 101, 125, 150, 400)] == [1000, 980, 500, 0, 0]


def test_an_overdue_anchor_spills_into_the_next_if_all_are_predicted() -> None:
    assert loads((1000, 50), (600, 10)).active(175)[0] == 1600 - 1500


def test_else_only_the_anchor_decays() -> None:
    assert loads((1000, 50), (600, 0)).active(125)[0] == 600 + 500
    assert loads((1000, 50), (600, 0)).active(175)[0] == 600
    assert loads((999, 50), (600, 0)).active(101)[0] == 600 + 980  # 979.02, rounded up


def test_without_a_prediction_the_anchor_does_not_decay() -> None:
    assert loads((1000, 0), (600, 10)).active(175)[0] == 1600


def test_the_next_anchor_starts_its_clock_when_the_first_is_done() -> None:
    made = loads((1000, 50), (600, 10))
    made.drop(0, 0, 1000, 170)
    assert [made.active(now)[0] for now in (170, 175, 180)] == [600, 300, 0]


def test_the_clock_goes_on_when_another_than_the_anchor_ends() -> None:
    made = loads((1000, 50), (600, 10))
    made.drop(0, 1, 600, 120)
    assert made.active(125)[0] == 500
    made.drop(0, 0, 1000, 130)
    assert made.active(140) == [0]


def test_without_predictions_tokens_just_count() -> None:
    made = PrefillLoads()
    made.add_target()
    made.add_target()
    made.add(1, 0, 70, 0, 5)
    made.add(1, 1, 30, 0, 6)
    made.drop(1, 0, 70, 9)
    assert made.active(99) == [0, 30]
