"""Stand-ins for the slow or external parts of a search. Importable, so that workers can unpickle them."""

from __future__ import annotations

import os
import signal
import sys
import time

from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.evaluate import EvaluationContext, Prepared, measure, prepare
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.observer import SilentObserver
from aisimulate.spica.outcome import Outcome
from aisimulate.spica.parallel_enum import ParallelShape, ReplicaParallelConfig
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.search_space import BranchSpace

TP4_TWICE = ReplicaParallelConfig(ParallelShape(4, 1, 1, 1), 2)


def make_config(*, space=None, workload=None, goal=None, **sweep) -> SmartSearchConfig:
    """A small agg search of an imaginary model; runs in this process unless told otherwise."""
    return SmartSearchConfig.model_validate(
        {
            "search_space": {
                "model_name": "acme/dense",
                "hardware_sku": "h200_sxm",
                "gpu_budget": 8,
                "deployment_mode": ["agg"],
                "router_mode": ["round_robin"],
                "planner_scaling_policy": ["disabled"],
                "agg_max_num_batched_tokens": [8192],
            }
            | (space or {}),
            "workload": workload or {"isl": 100, "osl": 10, "concurrency": 4, "num_request_ratio": 2},
            "goal": goal or {"target": "throughput"},
            "sweep": {"max_rounds": 1, "parallel_evals": 1, "max_eval_seconds": None} | sweep,
        }
    )


def make_branch(configs=(TP4_TWICE,), *, seqs=(256, 512, 1024), mode="agg", **changes) -> BranchSpace:
    """A branch over `configs` and one batching knob."""
    fields = {
        "deployment_mode": mode,
        "parallel_configs": tuple(configs),
        "supported_backends": dict.fromkeys(configs, frozenset({"vllm"})),
        "knob_choices": {
            "router_mode": ["round_robin"],
            "planner_scaling_policy": ["disabled"],
            "agg_max_num_batched_tokens": [8192],
            "agg_max_num_seqs": list(seqs),
            "backend": ["vllm"],
        },
        "gpu_budget": 8,
    }
    return BranchSpace(**(fields | changes))


def suggest(seqs=256, config=TP4_TWICE, **selection) -> Suggestion:
    chosen = {
        "deployment_mode": "agg",
        "router_mode": "round_robin",
        "planner_scaling_policy": "disabled",
        "agg_max_num_batched_tokens": 8192,
        "agg_max_num_seqs": seqs,
        "backend": "vllm",
    }
    return Suggestion({k: v for k, v in (chosen | selection).items() if v is not None}, config)


def make_context(evaluator, **config) -> EvaluationContext:
    return EvaluationContext(make_config(**config), evaluator, {"vllm": "1.0", "sglang": "2.0"})


def evaluate_one(suggestion, context) -> Outcome:
    """The whole path of one suggestion: prepare it, and measure it unless that already decided."""
    prepared = prepare(suggestion, context)
    return measure(prepared, context) if isinstance(prepared, Prepared) else prepared


class ScriptedSampler:
    """Answers each ask with the next list of suggestions; remembers what it was told, in order."""

    def __init__(self, branch, asks, *, repeat=False):
        self.branch = branch
        self._asks = [list(ask) for ask in asks]
        self._repeat = repeat
        self.told: list[tuple[int, object]] = []

    def suggest(self, count):
        if not self._asks:
            return []
        ask = self._asks[0] if self._repeat else self._asks.pop(0)
        return ask[:count]

    def observe(self, suggestion, metrics):
        self.told.append((suggestion.selection.get("agg_max_num_seqs"), dict(metrics)))

    def observe_infeasible(self, suggestion, reason):
        self.told.append((suggestion.selection.get("agg_max_num_seqs"), reason))


class Notes(SilentObserver):
    """Keeps what the user is told."""

    def __init__(self):
        self.notes = []
        self.phases = []

    def note(self, text):
        self.notes.append(text)

    def phase(self, name, progress):
        self.phases.append(name)


class SeqsEvaluator:
    """Throughput equals max_num_seqs; remembers its plans when it runs in this process."""

    def __init__(self, **report):
        self._report = report
        self.plans = []
        self.overrides = []

    def evaluate(self, plan, *, concurrency_override=None):
        self.plans.append(plan)
        self.overrides.append(concurrency_override)
        seqs = plan.agg_engine_args["max_num_seqs"]
        return {"output_throughput_tok_s": float(seqs), "completed_requests": 8} | self._report


def _has_simulator():
    return {"output_throughput_tok_s": float("aisimulate.replay.execute" in sys.modules)}


class OwnEvaluator:
    """Tells whether the simulator was imported; needs none."""

    def evaluate(self, plan, *, concurrency_override=None):
        return _has_simulator()


class OurEvaluator(ReplayEvaluator):
    """Tells whether the simulator was imported before the first replay."""

    def evaluate(self, plan, *, concurrency_override=None):
        return _has_simulator()


class MoodyEvaluator(SeqsEvaluator):
    """Sleeps for ever at 512 sequences, kills its process at 1024."""

    def evaluate(self, plan, *, concurrency_override=None):
        seqs = plan.agg_engine_args["max_num_seqs"]
        if seqs == 512:
            time.sleep(600)
        if seqs == 1024:
            os._exit(7)
        return super().evaluate(plan, concurrency_override=concurrency_override)


class CountedEvaluator(SeqsEvaluator):
    """Writes a line into `log` per start of a worker and per evaluation.

    Worker starts numbered in `dying` (from 1) end with SIGKILL, as the kernel does when memory runs out. In
    an evaluation, 512 sequences end the worker with `exit_code`, 1024 do so the first time only.
    """

    def __init__(self, log, *, dying=(), exit_code=0):
        super().__init__()
        self._log = log
        self._dying = dying
        self._exit_code = exit_code

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self._note("start") in self._dying:
            os.kill(os.getpid(), signal.SIGKILL)

    def evaluate(self, plan, *, concurrency_override=None):
        seqs = plan.agg_engine_args["max_num_seqs"]
        times = self._note(str(seqs))
        if seqs == 512 or (seqs == 1024 and times == 1):
            os._exit(self._exit_code)
        return super().evaluate(plan, concurrency_override=concurrency_override)

    def _note(self, what):
        """Append a line; tell how many such lines there are now."""
        with self._log.open("a+") as file:
            file.write(f"{what}\n")
            file.seek(0)
            return file.read().split("\n").count(what)


def _tell(what):
    """Write a line with this process's id to stderr, in one piece: others write there too."""
    os.write(2, f"{what} {os.getpid()}\n".encode())


class SlowEvaluator(SeqsEvaluator):
    """Takes its time to reach a worker and for ever to evaluate; tells on stderr where it is."""

    def __setstate__(self, state):
        self.__dict__.update(state)
        _tell("importing")
        time.sleep(1.0)

    def evaluate(self, plan, *, concurrency_override=None):
        _tell("evaluating")
        time.sleep(600)


class BrokenEvaluator:
    """Fails on every plan with a message of its own and several lines."""

    def __init__(self):
        self.calls = 0

    def evaluate(self, plan, *, concurrency_override=None):
        self.calls += 1
        raise OSError(f"no such\nplan {plan.agg_engine_args['max_num_seqs']}")


def forget_the_model(monkeypatch, branches=None):
    """Let a search run without model or hardware data: `branches` stand for the enumeration."""
    monkeypatch.setattr("aisimulate.spica.evaluate.check_kv_capacity", lambda *args, **kwargs: None)
    monkeypatch.setattr("aisimulate.spica.trace_facts.max_sequence_tokens", lambda *args: 4096)
    monkeypatch.setattr(
        "aisimulate.spica.search.resolve_backend_version", lambda sku, backend, requested: f"{backend}-1"
    )
    if branches is not None:
        monkeypatch.setattr("aisimulate.spica.plan.enumerate_branches", lambda config, **_: list(branches))
