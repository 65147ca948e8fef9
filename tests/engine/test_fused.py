"""Mixed passes as one forward, by hand; the differential test holds them against the oracle at large."""

from __future__ import annotations

import pytest

from aisimulate.engine.fused import FusedScheduler
from aisimulate.engine.params import RankParams
from aisimulate.engine.ranks import make_rank
from aisimulate.engine.scheduler import RankScheduler
from aisimulate.replay.execute import execute
from aisimulate.timing import FixedTiming, PolynomialTiming
from aisimulate.timing.polynomial import decode_ms, prefill_ms

RANK = {"block_size": 4, "num_gpu_blocks": 64, "max_num_seqs": 16, "max_num_batched_tokens": 64}
FIXED = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0}


def replay(requests, dp_size=1, **rank):
    """Report of requests (arrival in ms, input tokens, output tokens) on one worker."""
    rows = [
        {"id": str(number), "arrival_time_ms": at, "input_tokens": isl, "output_tokens": osl}
        for number, (at, isl, osl) in enumerate(requests)
    ]
    topology = {"kind": "aggregated", "workers": {"initial_workers": 1}}
    engine = {"dp_size": dp_size, "rank": RANK | rank}
    return execute({"topology": topology, "engine": engine, "requests": rows, "record_per_request": True})


def ends(report):
    """First and last token of each request, in ms."""
    return [(row["first_token_ms"], row["last_token_ms"]) for row in report["per_request"]]


def test_fixed_times_overlap():
    requests = [(0, 8, 10), (11.5, 9, 3)]
    additive = replay(requests, timing_model=FIXED)
    assert (additive["timing_mode"], ends(additive)) == ("additive", [(10, 29), (23, 25)])
    fused = replay(requests, timing_model=FIXED, timing_mode="fused")
    assert (fused["timing_mode"], ends(fused)) == ("fused", [(10, 28), (22, 24)])


def test_chunks_of_a_long_prompt_overlap_with_the_decoder():
    requests = [(0, 8, 4), (10, 20, 2)]
    fused = replay(requests, timing_model=FIXED, timing_mode="fused", max_num_batched_tokens=8)
    # Three chunks of 7, 7 and 6 tokens beside one decoder: 30 ms and not 33.
    assert ends(fused) == [(10, 40), (40, 41)]


def test_polynomial_counts_all_tokens_and_the_attention_of_decoders():
    fused = replay([(0, 8, 3), (1, 9, 1)], timing_mode="fused")
    first = prefill_ms(8)
    mixed = prefill_ms(9 + 1) + decode_ms(9, 256) - decode_ms(0, 256)
    last = decode_ms(10, 256)
    (one, one_last), (two, _) = ends(fused)
    assert [one, two, one_last] == pytest.approx([first, first + mixed, first + mixed + last], abs=3e-6)


def test_prompts_that_start_together_are_not_averaged():
    # 40 + 3 tokens: the means of the additive mode lose one to rounding.
    together = replay([(0, 40, 1), (0, 3, 1)], timing_mode="fused")
    assert ends(together)[0][0] == pytest.approx(prefill_ms(43), abs=2e-6)
    assert ends(replay([(0, 40, 1), (0, 3, 1)]))[0][0] == pytest.approx(prefill_ms(42), abs=2e-6)


def test_recomputed_tokens_count_and_need_no_decode_forward():
    # Two requests outgrow six blocks; the second comes back with 13 known tokens, 8 of them cached.
    requests = [(0, 9, 8), (0, 10, 8)]
    additive = replay(requests, timing_model=FIXED, num_gpu_blocks=6)
    assert ends(additive) == [(10, 17), (10, 32)]
    fused = replay(requests, timing_model=FIXED, num_gpu_blocks=6, timing_mode="fused")
    assert ends(fused) == [(10, 17), (10, 31)]


def test_ranks_of_a_group_price_alike():
    requests = [(0, 8, 10), (0, 8, 10), (11.5, 9, 3)]
    fused = replay(requests, dp_size=2, timing_model=FIXED, timing_mode="fused")
    assert ends(fused) == [(10, 28), (10, 28), (22, 24)]


def test_passes_of_one_kind_are_the_same_in_both_modes():
    requests = [(0, 9, 5), (100, 200, 1), (400, 31, 9)]
    reports = [
        replay(requests, timing_mode=mode, max_num_batched_tokens=64) for mode in ("additive", "fused")
    ]
    assert ends(reports[0]) == ends(reports[1])


def test_measured_data_time_a_replay_either_way():
    config = {"model": "Qwen/Qwen3-8B", "backend": "vllm", "system": "h200_sxm", "tp": 1}
    requests = [(5.0 * number, 700, 30) for number in range(40)]
    timing = {"type": "external", "provider": "aic", "config": config}
    rank = {"timing_model": timing, "num_gpu_blocks": 4096, "block_size": 16, "max_num_batched_tokens": 512}
    additive, fused = (replay(requests, **rank, timing_mode=mode) for mode in ("additive", "fused"))
    assert (additive["timing_mode"], fused["timing_mode"]) == ("additive", "fused")
    assert 0.5 * additive["mean_itl_ms"] < fused["mean_itl_ms"] < 0.95 * additive["mean_itl_ms"]
    assert fused["completed_requests"] == 40


def test_the_pricing_is_chosen_once():
    timer = FixedTiming(1.0, 1.0).timer(0, 1.0, 1.0)
    assert type(make_rank(RankParams(), timer, 0, False)) is RankScheduler
    assert type(make_rank(RankParams(fused=True), timer, 0, False)) is FusedScheduler
    assert not hasattr(make_rank(RankParams(fused=True), timer, 0, False), "__dict__")


def test_a_chunk_taken_back_is_not_priced():
    class Chunk:
        input_tokens = tokens = 8
        end_tokens = 9
        keys = None
        planned = False

    params = RankParams(block_size=4, num_gpu_blocks=64, fused=True)
    timer = PolynomialTiming().timer(256, 1.0, 1.0)
    rank = FusedScheduler(params, timer)
    kept, victim = Chunk(), Chunk()
    for sequence in (kept, victim):
        rank.schedule_chunk(sequence, 0, 8)
    rank.unschedule(victim)
    rank._price()
    assert rank.pass_ns == timer.prefill_ns(1, 8, 0)
