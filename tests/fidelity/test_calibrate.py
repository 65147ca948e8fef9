"""Calibration of logs whose truth is known."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from aisimulate.config.calibration_file import calibration_text
from aisimulate.core.errors import InputError
from aisimulate.fidelity.calibrate.calibration import Options, calibrate
from aisimulate.fidelity.calibrate.identified import in_flight
from aisimulate.fidelity.calibrate.offset import ttft_offset_ms
from aisimulate.fidelity.calibrate.prompts import has_prompts, with_prompts
from aisimulate.fidelity.calibrate.replayer import Candidate, LogReplayer
from aisimulate.fidelity.calibrate.request_log import read_log
from aisimulate.fidelity.calibrate.settings import read_settings, settings_of
from aisimulate.report.calibration import calibration_line
from aisimulate.report.numbers import percent_text

from .made_logs import RANK, calibrated, requests, spec, write_records


@pytest.fixture(scope="module")
def scaled_log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return write_records(folder / "log.jsonl", prefill_scale=1.3, decode_scale=0.8)


def test_factors_are_found_again(scaled_log):
    outcome = calibrated(scaled_log)
    calibration = outcome.calibration
    assert calibration.prefill_scale == pytest.approx(1.3, rel=0.02)
    assert calibration.decode_scale == pytest.approx(0.8, rel=0.01)
    assert (outcome.fitted, outcome.held_out) == (40, 40)
    assert abs(outcome.before[1].tpot) > 0.04
    assert abs(outcome.after[1].tpot) < 0.005
    assert calibration.source.file == "log.jsonl"
    assert calibration.source.requests == 40
    assert calibration.notes == ()
    assert calibration.training_error.tpot == pytest.approx(0.0, abs=0.005)


def test_the_same_log_gives_the_same_calibration(scaled_log):
    first, second = (calibration_text(calibrated(scaled_log).calibration) for _ in range(2))
    assert first == second


def test_a_step_model_is_found_without_tables(tmp_path):
    path = write_records(tmp_path / "log.jsonl", timing_mode="fused")
    settings = settings_of(spec(timing_model={"type": "linear"}), table_free=True)
    outcome = calibrate(read_log(path), settings, Options(fit_requests=40, table_free=True))
    assert outcome.before is None
    assert outcome.calibration.step_model.prefill_token_ms == pytest.approx(0.02, rel=0.5)
    assert abs(outcome.after[1].tpot) < 0.02
    assert abs(outcome.after[1].e2e) < 0.02


@pytest.mark.parametrize("mode", ["additive", "fused", "half"])
def test_the_way_to_time_mixed_passes_may_be_given(scaled_log, mode):
    outcome = calibrated(scaled_log, Options(40, timing_mode=mode, look_ahead="0", evaluations=5))
    assert outcome.calibration.timing_mode == mode
    assert [name for name, _ in outcome.losses] == [mode]


def test_few_requests_and_one_at_a_time_are_doubted(tmp_path):
    path = write_records(tmp_path / "log.jsonl", requests(count=6, rate_ms=5_000.0))
    notes = calibrated(path).calibration.notes
    assert any("only 6 requests completed" in note for note in notes)


def test_requests_without_a_second_token_do_not_tell_decode_times(tmp_path):
    made = [{**request, "output_tokens": 1} for request in requests()]
    path = write_records(tmp_path / "log.jsonl", made)
    notes = calibrated(path).calibration.notes
    assert any("times of passes that only decode: not identified" in note for note in notes)


def test_a_factor_at_its_bound_is_told(tmp_path):
    path = write_records(tmp_path / "log.jsonl", decode_scale=6.0, prefill_scale=6.0)
    calibration = calibrated(path).calibration
    assert calibration.decode_scale == 3.0
    assert any("decode_scale: 3 is at its bound" in note for note in calibration.notes)
    assert any("the fit is poor" in note for note in calibration.notes)


def test_a_log_of_larger_batches_than_the_fitted_ones_is_told(tmp_path):
    made = requests(count=30, rate_ms=4_000.0)
    last = made[-1]["arrival_time_ms"]
    made += [
        {**request, "id": f"x{number}", "arrival_time_ms": last + 5_000.0 + request["arrival_time_ms"] / 20}
        for number, request in enumerate(requests(count=60))
    ]
    log = read_log(write_records(tmp_path / "log.jsonl", made, max_num_seqs=64))
    assert in_flight(log, np.inf) > 4 * in_flight(log, last)
    outcome = calibrate(log, settings_of(spec(max_num_seqs=64)), Options(fit_requests=30, evaluations=5))
    assert any("larger batches are a guess" in note for note in outcome.calibration.notes)


def test_a_constant_between_client_and_engine_is_found(scaled_log):
    log = read_log(scaled_log)
    later = dataclasses.replace(log, ttft_ms=log.ttft_ms + 25.0, e2e_ms=log.e2e_ms + 25.0)
    replayed = LogReplayer(settings_of(spec()), log.workload()).replay(Candidate("additive", 1.3, 0.8))
    assert ttft_offset_ms(log, replayed, 80) == 0.0
    assert ttft_offset_ms(later, replayed, 80) == pytest.approx(25.0, abs=0.001)
    assert ttft_offset_ms(later, replayed, 10) == 0.0


@pytest.mark.parametrize("look_ahead", [0, 1])
def test_the_look_ahead_is_found_where_requests_were_scheduled(tmp_path, look_ahead):
    path = write_records(tmp_path / "log.jsonl", decode_scale=1.2, scheduling_look_ahead=look_ahead)
    outcome = calibrated(path, Options(40, timing_mode="additive"))
    assert outcome.calibration.scheduling_look_ahead == look_ahead
    assert outcome.calibration.decode_scale == pytest.approx(1.2, rel=0.02)
    assert [name for name, _ in outcome.losses] == ["additive", "additive with look-ahead"]
    told = calibrated(path, Options(40, timing_mode="additive", evaluations=5), scheduling_look_ahead=0)
    assert [name for name, _ in told.losses] == ["additive"]


def test_a_look_ahead_is_tried_without_times_of_scheduling_only_when_asked(scaled_log):
    log = dataclasses.replace(read_log(scaled_log), scheduled_ms=None)
    settings = settings_of(spec())
    few = Options(40, timing_mode="additive", evaluations=5)
    assert len(calibrate(log, settings, few).losses) == 1
    assert len(calibrate(log, settings, dataclasses.replace(few, look_ahead="best")).losses) == 2
    ahead = calibrate(log, settings, dataclasses.replace(few, look_ahead="1"))
    assert ahead.calibration.scheduling_look_ahead == 1


def test_a_look_ahead_that_is_not_built_beside_the_settings_is_refused_or_told(scaled_log):
    log = read_log(scaled_log)
    with pytest.raises(InputError, match="--look-ahead 1: the engine settings say 0"):
        calibrate(log, settings_of(spec(scheduling_look_ahead=0)), Options(look_ahead="1"))
    tier = {"native_host_offload": {"num_host_blocks": 100}, "kv_cache_bytes_per_token": 1}
    few = Options(40, timing_mode="additive", evaluations=5)
    with pytest.raises(InputError, match=r"scheduling_look_ahead: 1 is not supported yet with native_host"):
        calibrate(log, settings_of(spec(**tier)), dataclasses.replace(few, look_ahead="1"))
    asked = calibrate(log, settings_of(spec(**tier)), dataclasses.replace(few, look_ahead="best"))
    assert any("a look-ahead was not tried" in note for note in asked.calibration.notes)
    assert not any(
        "tried" in note for note in calibrate(log, settings_of(spec(**tier)), few).calibration.notes
    )


# Settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_in_flight": 4}, "spec.max_in_flight: 4 would delay the arrivals of the log"),
        ({"frontend": {"ttft_offset_ms": 3.0}}, "spec.frontend: may not be given"),
        ({"max_sim_time_ms": 5.0}, "spec.max_sim_time_ms: 5 would cut the log short"),
        ({"calibration": "x.yaml"}, "spec.calibration: may not be given"),
        ({"engine": {"rank": {**RANK, "decode_scale": 2.0}}}, "decode_scale: may not be given"),
        ({"engine": {"rank": {}}}, "timing_model: needed to be corrected; --table-free"),
        (
            {
                "topology": {
                    "kind": "disaggregated",
                    "prefill": {"initial_workers": 1},
                    "decode": {"initial_workers": 1},
                }
            },
            "spec.topology: a pair of pools cannot be calibrated",
        ),
    ],
)
def test_settings_that_do_not_suit_are_refused(changes, said):
    with pytest.raises(InputError) as caught:
        settings_of({**spec(), **changes})
    assert said in str(caught.value)


def test_settings_are_a_payload_or_its_engine(tmp_path):
    path = tmp_path / "engine.json"
    for document in ({"spec": spec(), "traffic": {}}, spec(), {"engine": {"rank": RANK}}):
        path.write_text(json.dumps(document))
        assert read_settings(path).spec.engine.rank.max_num_seqs == 16


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"backend": "vllm"}', "; backend belongs into engine.rank"),
        ('{"rank": {"backend": "vllm"}}', "; rank belongs into engine"),
        ('{"dp_size": 2}', "; dp_size belongs into engine"),
        ('{"other": 1}', ""),
    ],
)
def test_settings_without_an_engine_are_told_where_they_belong(tmp_path, text, hint):
    path = tmp_path / "engine.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_settings(path)
    assert str(caught.value).endswith("engine is missing (required)" + hint)


# Prompts ----------------------------------------------------------------------------------------------------


def test_prompts_are_told_by_tokens_or_blocks(tmp_path):
    log = read_log(write_records(tmp_path / "log.jsonl", requests(count=3)))
    lengths = list(log.input_tokens)
    common = list(range(32))
    tokens = [
        common + [1000 + 50 * number + k for k in range(length - 32)] for number, length in enumerate(lengths)
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"input_token_ids": row}) + "\n" for row in tokens))
    told = with_prompts(log, path, 16)
    assert [ids[:2] for ids in told.block_ids] == [[0, 1]] * 3
    assert [len(ids) for ids in told.block_ids] == [-(-length // 16) for length in lengths]
    assert len({ids[2] for ids in told.block_ids}) == 3
    path.write_text("".join(json.dumps({"hash_ids": ["a", "b"]}) + "\n" for _ in lengths))
    blocks = with_prompts(log, path, 16)
    assert [ids[:2] for ids in blocks.block_ids] == [[0, 1]] * 3
    assert len({ids[2] for ids in blocks.block_ids}) == 3
    assert has_prompts(path)
    assert not has_prompts(tmp_path / "log.jsonl")
    settings = settings_of(spec())
    alone, shared = (
        LogReplayer(settings, item.workload()).replay(Candidate("additive")) for item in (log, told)
    )
    assert np.sum(shared.ttft_ms) < np.sum(alone.ttft_ms)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ('{"hash_ids": [1]}\n', "has 1 prompts, but the log has a request 2"),
        ('{"input_token_ids": [1, 2]}\n' * 3, ":1: 2 tokens, but the log's prompt has"),
        ('{"tokens": [1]}\n' * 3, ":1: has no list of ids"),
        ('{"token_ids": ["x"]}\n' * 3, ":1: has token ids that are no integers"),
        ("[1]\n", ":1: [1] is not an object"),
        ("{\n", "no usable JSON Lines"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(tmp_path, text, said):
    log = read_log(write_records(tmp_path / "log.jsonl", requests(count=3)))
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        with_prompts(log, path, 16)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


# Logs -------------------------------------------------------------------------------------------------------


def test_a_log_in_which_nothing_completed_is_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    row = {
        "input_toks": 3,
        "output_toks": 4,
        "arrival_time": 1.0,
        "first_token_ts": None,
        "last_token_ts": None,
    }
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="no request completed"):
        read_log(path)


def test_only_those_whom_the_fitted_requests_met_are_replayed_to_fit(tmp_path, monkeypatch):
    made = requests(count=40)
    later = [
        {**request, "id": f"x{number}", "arrival_time_ms": 60_000.0 + request["arrival_time_ms"]}
        for number, request in enumerate(requests(count=200, seed=5))
    ]
    path = write_records(tmp_path / "log.jsonl", made + later, decode_scale=1.2)
    sizes = []
    run = LogReplayer._run

    def counted(self, candidate, passes):
        sizes.append(len(self._workload.sessions))
        return run(self, candidate, passes)

    monkeypatch.setattr(LogReplayer, "_run", counted)
    outcome = calibrated(path, Options(fit_requests=40, evaluations=10))
    assert set(sizes) == {40, 240}
    assert sizes.count(240) == 2  # before and after
    assert outcome.calibration.decode_scale == pytest.approx(1.2, rel=0.02)


def test_options_that_contradict_the_settings_are_refused_before_anything_is_replayed(tmp_path, monkeypatch):
    path = write_records(tmp_path / "log.jsonl", requests(count=4))
    monkeypatch.setattr("aisimulate.fidelity.calibrate.calibration.fit", lambda *_: pytest.fail("late"))
    aic = {"model": "meta-llama/Meta-Llama-3.1-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}
    timed = {"timing_model": {"type": "external", "provider": "aic", "config": aic}}
    with pytest.raises(InputError, match="--system x: the engine settings say h200_sxm"):
        calibrated(path, Options(system="x"), **timed)


def test_what_does_not_carry_over_to_held_out_requests_is_told_and_written(tmp_path):
    """The requests behind the fitted ones were served by a slower engine."""
    made = requests()
    log = read_log(write_records(tmp_path / "log.jsonl", made))
    slow = read_log(write_records(tmp_path / "slow.jsonl", made, prefill_scale=2.0, decode_scale=2.0))
    mixed = {
        name: np.concatenate([getattr(log, name)[:40], getattr(slow, name)[40:]])
        for name in ("ttft_ms", "tpot_ms", "e2e_ms", "scheduled_ms")
    }
    outcome = calibrate(
        dataclasses.replace(log, **mixed), settings_of(spec()), Options(40, "additive", "0", evaluations=5)
    )
    calibration = outcome.calibration
    assert calibration.held_out_error.tpot == pytest.approx(outcome.after[1].tpot, abs=1e-5)
    assert any(note.startswith("held-out tpot error -") for note in calibration.notes)
    assert "held_out_error:" in calibration_text(calibration)
    assert "; held-out error: " in calibration_line(calibration.model_dump(mode="json", exclude_none=True))


@pytest.mark.parametrize(("error", "said"), [(-0.0, "0.00%"), (-1e-9, "0.00%"), (-0.05, "-5.00%")])
def test_an_error_of_nothing_has_no_sign(error, said):
    assert percent_text(error, 2) == said
