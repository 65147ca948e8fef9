"""Windows, losses, forecasters and the choice among them (spec 05 section 3.2, 03 part C)."""

import importlib
import json
import math

import pytest
from spica_configs import TOKEN_SLA, make_config

from aisimulate.core.errors import InputError
from aisimulate.forecast import OWN_PRESETS
from aisimulate.spica import load_predictor_sweep
from aisimulate.spica.load_predictor_sweep import (
    LOAD_PREDICTOR_PRESETS,
    PresetScore,
    ReplayCost,
    Window,
    build_windows,
    evaluate_preset,
    predictor_fields,
    score_preset,
    sweep_load_predictor,
    window_loss,
)
from aisimulate.workload.windows import aggregate, carry_shapes, detected_arrivals, read_arrivals

GOODPUT = {"target": "goodput", "sla": TOKEN_SLA}


def test_window_loss():
    actual = Window(5, 100, 20)
    assert window_loss(actual, actual) == 0
    assert window_loss(Window(0, 0, 0), Window(0, 0, 0)) == 0
    assert window_loss(Window(6, 100, 20), actual) > 0
    doubled = window_loss(Window(1, 200, 20), Window(1, 100, 20))
    assert doubled == pytest.approx(0.5 * abs(math.log(201) - math.log(101)))
    assert window_loss(Window(-6, 100, -20), Window(0, 100, 0)) == 0


def write_trace(path, rows):
    path.write_text(
        "".join(
            json.dumps({"timestamp": ms, "input_length": isl, "output_length": osl}) + "\n"
            for ms, isl, osl in rows
        )
    )
    return path


def test_windows_are_dense_between_the_first_and_the_last(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(0, 100, 10), (35000, 300, 30), (39999.5, 100, 20)])
    assert build_windows(path, 10) == [
        Window(1, 100, 10),
        Window(0, 0, 0),
        Window(0, 0, 0),
        Window(2, 200, 25),
    ]
    assert [window.num_req for window in build_windows(str(path), 40)] == [3]


def test_windows_start_at_the_first_request(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(25000, 1, 1), (12000, 1, 1)])
    assert [window.num_req for window in build_windows(path, 10)] == [1, 1]


def test_later_turns_have_no_window(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [{"timestamp": 0, "input_length": 1, "output_length": 1}, {"delay": 5, "input_length": 1}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert build_windows(path, 10) == [Window(1, 1, 1)]


@pytest.mark.parametrize("row", ["[1]", '{"timestamp": 0, "input_length": "x", "output_length": 1}'])
def test_bad_rows_are_named(tmp_path, row):
    path = tmp_path / "t.jsonl"
    path.write_text("\n" + row + "\n")
    with pytest.raises(InputError, match=r"t\.jsonl:2: "):
        build_windows(path, 10)


def test_idle_windows_keep_the_last_lengths():
    idle = Window(0, 0, 0)
    assert carry_shapes([idle, Window(2, 8, 4), idle, idle]) == [
        idle,
        Window(2, 8, 4),
        Window(0, 8, 4),
        Window(0, 8, 4),
    ]


@pytest.mark.parametrize(
    ("preset", "fields"),
    [
        ("constant_last", {"load_predictor": "constant", "load_predictor_log1p": False}),
        ("arima_log1p", {"load_predictor": "arima", "load_predictor_log1p": True}),
        (
            "prophet_w20_raw",
            {"load_predictor": "prophet", "load_predictor_log1p": False, "prophet_window_size": 20},
        ),
        (
            "kalman_reactive_log1p",
            {
                "load_predictor": "kalman",
                "load_predictor_log1p": True,
                "kalman_q_level": 10.0,
                "kalman_q_trend": 1.0,
                "kalman_r": 5.0,
                "kalman_min_points": 3,
            },
        ),
        (
            {"load_predictor": "prophet", "kalman_r": 3},
            {"load_predictor": "prophet", "load_predictor_log1p": False, "prophet_window_size": 50},
        ),
    ],
)
def test_predictor_fields(preset, fields):
    assert list(predictor_fields(preset).items()) == list(fields.items())


def test_there_are_eleven_presets():
    assert len(LOAD_PREDICTOR_PRESETS) == 11


def test_evaluate_preset_averages_the_windows_after_warm_up():
    windows = [Window(1, 10, 10), Window(2, 10, 10), Window(4, 20, 10)]
    expected = (window_loss(windows[0], windows[1]) + window_loss(windows[1], windows[2])) / 2
    assert evaluate_preset("constant_last", windows, warmup=1) == pytest.approx(expected)


def test_evaluate_preset_without_windows():
    assert evaluate_preset("constant_last", [], warmup=1) == math.inf
    assert evaluate_preset("constant_last", [Window(1, 1, 1)], warmup=1) == math.inf


def test_a_raising_forecaster_scores_infinity():
    exploding = [Window(10.0 ** (100 * power), 1, 1) for power in range(4)]
    entry = {"load_predictor": "kalman", "load_predictor_log1p": True, "kalman_min_points": 3}
    assert score_preset(entry, exploding[:3]).n_scored == 2
    assert score_preset(entry, [*exploding, exploding[-1]]) == PresetScore(math.inf, 0)


def test_no_throughput_scaling_skips_the_sweep():
    result = sweep_load_predictor(make_config(), show_progress=False)
    assert result.best_by_interval != {}, "the default policies scale by throughput"
    none = make_config({"planner_scaling_policy": ["disabled", "load_180_5"]})
    skipped = sweep_load_predictor(none, show_progress=False)
    assert (skipped.best_by_interval, skipped.losses) == ({}, {})
    assert skipped.reason == "no_throughput_scaling_candidate"


def test_synthetic_traffic_is_constant():
    result = sweep_load_predictor(make_config(goal=GOODPUT), show_progress=False)
    assert result.best_by_interval == {180: "constant_last", 600: "constant_last"}
    assert result.reason == "static_workload_constant"


def swept(
    path, candidates, policies, *, show_progress=False, choose_by="forecast_error", replay=None, **workload
):
    space = {"load_predictor_candidates": candidates, "planner_scaling_policy": policies}
    config = make_config(space, {"trace_path": str(path), **workload}, GOODPUT)
    return sweep_load_predictor(config, show_progress=show_progress, choose_by=choose_by, replay=replay)


def test_equal_windows_are_forecast_exactly(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    result = swept(path, ["kalman_default_raw", "constant_last"], ["hybrid_180_5"])
    assert result.losses[180]["constant_last"] == 0
    assert result.n_scored[180] == {"kalman_default_raw": 7, "constant_last": 7}
    assert result.best_by_interval == {180: "kalman_default_raw"}, "list order breaks the tie"
    assert result.reason == "swept"


def test_a_short_trace_falls_back_where_nothing_was_scored(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    result = swept(path, ["kalman_default_raw"], ["throughput_180_5", "throughput_600_5"])
    assert result.best_by_interval == {180: "kalman_default_raw", 600: "constant_last"}
    assert result.losses[600] == {"kalman_default_raw": math.inf}
    assert result.reason == "swept; no_winner_fallback_constant_last@[600]"


def test_warm_up_is_the_longest_of_all_candidates(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    custom = {"load_predictor": "kalman", "kalman_min_points": 9}
    result = swept(path, ["constant_last", custom], ["throughput_180_5"])
    assert result.n_scored[180] == {"constant_last": 3, "custom_1": 3}


def test_missing_libraries_are_skipped_with_a_note(tmp_path, monkeypatch, capsys):
    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    candidates = ["arima_raw", "constant_last", "arima_log1p"]
    result = swept(path, candidates, ["throughput_180_5"], show_progress=True)
    assert result.best_by_interval == {180: "constant_last"}
    assert result.losses[180].keys() == {"constant_last"}
    assert result.n_scored[180] == {"constant_last": 7}, "arima's warm-up counts although it is skipped"
    assert len(result.notes) == 1 and result.notes[0].startswith(
        "load predictor candidates arima_raw, arima_log1p skipped: "
    )
    assert capsys.readouterr().err == result.notes[0] + "\n"


def test_our_own_presets_and_options_are_candidates(tmp_path):
    rows = [(180_000 * index + ms, 100, 10) for index in range(30) for ms in range(10 + 20 * (index % 3))]
    path = write_trace(tmp_path / "t.jsonl", rows)
    custom = {"load_predictor": "pool"}
    result = swept(path, ["constant_last", custom, *OWN_PRESETS], ["throughput_180_5"])
    assert result.losses[180]["custom_1"] != result.losses[180]["pool_log1p"], "it is not in log space"
    assert result.best_by_interval == {180: "ridge_ar8_log1p"}, "a period of three is learnt"


def costing(costs):
    """Replay nothing: look the costs up."""

    def replay(interval_s, entries):
        found = {label: costs[label] for label in entries}
        return {label: cost if isinstance(cost, str) else ReplayCost(*cost) for label, cost in found.items()}

    return replay


@pytest.mark.parametrize(
    ("costs", "best"),
    [
        ({"constant_last": (9.0, 3), "pool_log1p": (10.0, 2)}, "pool_log1p"),
        ({"constant_last": (9.0, 2), "pool_log1p": (8.5, 2)}, "pool_log1p"),
        ({"constant_last": (9.0, 2), "pool_log1p": (9.0, 2)}, "constant_last"),
        ({"constant_last": "too short", "pool_log1p": (9.0, 70)}, "pool_log1p"),
    ],
)
def test_the_choice_by_replay_takes_violations_then_gpu_hours(tmp_path, costs, best):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    result = swept(path, list(costs), ["throughput_180_5"], choose_by="replay", replay=costing(costs))
    assert result.best_by_interval == {180: best}
    assert result.costs[180]["pool_log1p"] == ReplayCost(*costs["pool_log1p"])
    assert result.losses[180].keys() == costs.keys(), "losses are told, they just do not decide"
    failed = [label for label, cost in costs.items() if isinstance(cost, str)]
    assert [note.split()[3] for note in result.notes] == failed


def test_the_choice_by_replay_needs_no_scored_window(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(0, 100, 10)])
    costs = {"constant_last": (2.0, 0), "pool_log1p": (1.0, 0)}
    result = swept(path, list(costs), ["throughput_180_5"], choose_by="replay", replay=costing(costs))
    assert (result.best_by_interval, result.n_scored) == (
        {180: "pool_log1p"},
        {180: {"constant_last": 0, "pool_log1p": 0}},
    )


def test_where_nothing_could_be_replayed_the_forecasts_decide(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    costs = {"kalman_default_raw": "too short", "constant_last": "too long"}
    by_replay = swept(path, list(costs), ["throughput_180_5"], choose_by="replay", replay=costing(costs))
    assert by_replay.best_by_interval == swept(path, list(costs), ["throughput_180_5"]).best_by_interval
    assert by_replay.notes == (
        "load predictor candidate kalman_default_raw at 180 s was not replayed: too short",
        "load predictor candidate constant_last at 180 s was not replayed: too long",
        "load predictors at 180 s were chosen by forecast error: none could be replayed",
    )


def test_what_was_chosen_is_told_with_what_it_rests_on(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    names = ["kalman_default_raw", "constant_last"]
    by_loss = swept(path, names, ["throughput_180_5", "throughput_600_5"])
    assert by_loss.choices() == [
        "load predictor at 180 s: kalman_default_raw, loss 0.0000 over 7 windows (best of 2)",
        "load predictor at 600 s: constant_last, because no window could be scored: "
        "the trace is too short for it",
    ]
    costs = {"kalman_default_raw": "too short", "constant_last": (1.5, 3)}
    by_replay = swept(path, names, ["throughput_180_5"], choose_by="replay", replay=costing(costs))
    assert by_replay.choices() == [
        "load predictor at 180 s: constant_last, 3 requests outside the SLA, 1.5 GPU hours "
        "(best of 1 by replay)"
    ]
    assert load_predictor_sweep.LoadPredictorResult().choices() == []


def test_a_choice_by_replay_needs_a_replay(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(0, 100, 10)])
    with pytest.raises(ValueError, match="belong together"):
        swept(path, ["constant_last"], ["throughput_180_5"], choose_by="replay")


def test_windows_follow_the_replayed_arrivals(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(24)])
    result = swept(path, ["constant_last"], ["throughput_180_5"], arrival_speedup_ratio=2)
    assert result.n_scored[180] == {"constant_last": 11}


def test_traces_of_other_formats_are_swept_too(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"2023-11-16 18:{3 * index:02}:10.0,{100 + index},10" for index in range(20)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    arrivals = read_arrivals(path, "azure")
    assert [(arrival.timestamp_ms, arrival.input_tokens) for arrival in arrivals[:2]] == [
        (0, 100),
        (180_000, 101),
    ]
    result = swept(path, ["constant_last", "pool_log1p"], ["throughput_180_5"], trace_format="azure")
    assert result.n_scored[180] == {"constant_last": 15, "pool_log1p": 15}


def test_the_trace_is_read_once(tmp_path, monkeypatch):
    path = write_trace(tmp_path / "t.jsonl", [(180_000 * index, 100, 10) for index in range(12)])
    reads = []
    original = load_predictor_sweep.read_arrivals
    monkeypatch.setattr(
        load_predictor_sweep, "read_arrivals", lambda *args: reads.append(args) or original(*args)
    )
    swept(path, ["constant_last"], ["throughput_180_5", "throughput_600_5"])
    assert reads == [(path, "mooncake")]


def test_the_format_of_a_trace_of_the_past_is_told_by_its_rows(tmp_path):
    ends = [{"request_received_ms": 1000 + 10_000 * n, "output_tokens": 4 + n} for n in range(2)]
    rows = [
        {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "event_time_unix_ms": end["request_received_ms"] + 10,
            "request": {
                "request_id": f"r{number}",
                **end,
                "replay": {
                    "trace_block_size": 64,
                    "input_length": 64 * (number + 1),
                    "input_sequence_hashes": [7] * (number + 1),
                },
            },
        }
        for number, end in enumerate(ends)
    ]
    path = tmp_path / "past.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert aggregate(detected_arrivals(path), 10) == [Window(1, 64, 4), Window(1, 128, 5)]
    path = write_trace(tmp_path / "mooncake.jsonl", [(0, 100, 10), (35000, 300, 30)])
    assert aggregate(detected_arrivals(path), 10) == build_windows(path, 10)
