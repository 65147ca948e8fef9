"""A long replay lets go of requests that ended; its report does not change."""

import copy

import pytest

from aisimulate.replay import fleet
from aisimulate.replay.execute import execute
from aisimulate.workload import driver

RANK = {"num_gpu_blocks": 60, "block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 64}
OPEN = {"load_type": "poisson", "request_rate": 15.0, "arrival_seed": 7}
CAPPED = {"load_type": "concurrency", "concurrency": 30}


def payload(load, records=False, requests=400, **rank):
    return {
        "spec": {
            "version": 1,
            "topology": {"kind": "aggregated", "workers": {"initial_workers": 3}},
            "engine": {"rank": {**RANK, **rank}},
            "max_in_flight": load.get("concurrency"),
            "record_per_request": records,
            "sla": {"ttft_ms": 500.0},
            "requests": [],
        },
        "traffic": {
            "source_type": "synthetic",
            "isl": 30,
            "osl": 20,
            "request_count": requests,
            "turns_per_session": 1,
            **load,
        },
    }


def report(arguments, **more):
    result = execute(copy.deepcopy(arguments), **more)
    return {key: value for key, value in result.items() if "wall" not in key and "processed_" not in key}


@pytest.mark.parametrize("load", [OPEN, CAPPED], ids=["open", "capped"])
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_report_is_the_same(monkeypatch, load, batch):
    arguments = payload(load)
    expected = report(arguments)
    assert expected["completed_requests"] == 400
    monkeypatch.setattr(fleet, "_BATCH", batch)
    monkeypatch.setattr(fleet, "_MOST_KEPT", 40)
    assert report(arguments) == expected


@pytest.mark.parametrize("load", [OPEN, CAPPED], ids=["open", "capped"])
def test_ended_requests_are_let_go(monkeypatch, load):
    kept = []
    absorb = fleet.Fleet._tidy_up

    def tidy_up(self):
        absorb(self)
        kept.append(len(self._driver.sequences))

    monkeypatch.setattr(fleet.Fleet, "_tidy_up", tidy_up)
    monkeypatch.setattr(fleet, "_BATCH", 10)
    monkeypatch.setattr(fleet, "_MOST_KEPT", 40)
    monkeypatch.setattr(driver, "_MADE_AHEAD", 10)
    execute(payload(load))
    assert len(kept) > 3
    assert max(kept) < 200


def test_records_keep_every_request(monkeypatch):
    monkeypatch.setattr(fleet, "_BATCH", 10)
    monkeypatch.setattr(fleet, "_MOST_KEPT", 40)
    assert len(execute(payload(OPEN, records=True))["per_request"]) == 400


def test_requests_that_never_complete_are_counted(monkeypatch):
    arguments = payload(OPEN, max_model_len=40)
    arguments["spec"]["max_sim_time_ms"] = 20000.0
    expected = report(arguments)
    monkeypatch.setattr(fleet, "_MOST_KEPT", 20)
    assert report(arguments) == expected
    assert expected["unfinished_requests"] > 0
