"""Every point of a front, replayed alone once more: the record has to say the same, figure for figure."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from aisimulate.report.again import replay_again
from aisimulate.spica.candidate_payload import replayable_config
from tools.published_experiment.records import spending, spent_on


def replay_alone(run, path, parallel):
    """Replay the front of a run, so many points at a time; note beside `path` what came of it."""
    if path.exists():
        return
    config = replayable_config(run)
    front = sorted(enumerate(run.candidates, 1), key=lambda item: -item[1].config["concurrency"])
    spawn = multiprocessing.get_context("spawn")
    with spending(path, parallel), ProcessPoolExecutor(parallel, mp_context=spawn) as pool:
        jobs = [pool.submit(replay_again, config, number, candidate) for number, candidate in front]
        repeats = [job.result() for job in jobs]
    differ = sorted(again.number for again in repeats if again.differences)
    figures = sum(len(again.candidate.metrics) for again in repeats)
    found = {"points": len(repeats), "figures": figures, "differ": differ}
    path.write_text(json.dumps(found), encoding="utf-8")


def differs(path):
    """Whether a point that was replayed alone came out different."""
    return path.exists() and bool(json.loads(path.read_text(encoding="utf-8"))["differ"])


def alone_text(path):
    """Say how many points came out the same."""
    if not path.exists():
        return "The points of the front were not replayed alone."
    found, spent = json.loads(path.read_text(encoding="utf-8")), spent_on(path)
    same = found["points"] - len(found["differ"])
    text = f"Replayed alone, {same} of {found['points']} points of the search's front give the same figures"
    taken = f" ({spent.text()})" if spent else ""
    return f"{text}, {found['figures']:,} in all{taken}."
