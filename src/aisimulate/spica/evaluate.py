"""One suggestion, from selection to outcome: pure, picklable, no search state (spec 05 section 11.3).

`prepare` is cheap and runs in the main process, so that equal deployments are found before anything is
replayed; `measure` is the replay and runs anywhere.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aisimulate.core.errors import Terminated, TimingError, UnsupportedError, cause_chain
from aisimulate.core.shown import cut
from aisimulate.spica.confidence import kept_share, too_low
from aisimulate.spica.deploy import DeploymentPlan, deployment_of_goal, plan_key
from aisimulate.spica.evaluator import ReplayEvaluator, RunnerContractError
from aisimulate.spica.judge import judge
from aisimulate.spica.kv_load import InfeasibleKVCapacity, check_kv_capacity, resolve_kv_load
from aisimulate.spica.outcome import REASON_LENGTH, Outcome, Reason, Status
from aisimulate.spica.sample import unroll_sample
from aisimulate.spica.score import discounted, is_feasible
from aisimulate.spica.short_replays import may_be_short, short_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.evaluator import Evaluator
    from aisimulate.spica.load_predictor_sweep import LoadPredictorResult
    from aisimulate.spica.samplers.base import Suggestion


@dataclass(frozen=True)
class EvaluationContext:
    """What every evaluation of a run shares; sent to each worker once.

    `backend_versions` holds the literal engine version per backend. `load_predictor` is the winner of the
    predictor sub-sweep, if there was one. `model_context_tokens` is the longest sequence the model takes,
    None when unknown. `trace_digest` tells the traffic apart in keys, `trace_sessions` counts the
    sessions of a trace.
    """

    config: SmartSearchConfig
    evaluator: Evaluator
    backend_versions: Mapping[str, str]
    load_predictor: LoadPredictorResult | None = None
    model_context_tokens: int | None = None
    trace_digest: str | None = None
    trace_sessions: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate that only needs its replay. `concurrency` is a cap derived for this candidate alone.

    Two candidates with the same `key` would run the same replay. `unchecked` tells why its KV capacity
    could not be checked, None when it was. `short`: a part of the replay is enough.
    """

    config: dict[str, Any]
    plan: DeploymentPlan
    concurrency: int | None
    key: str
    unchecked: str | None = None
    short: bool = False


def prepare(suggestion: Suggestion, context: EvaluationContext) -> Prepared | Outcome:
    """Unroll a suggestion, resolve its load, build its plan; an outcome when that already decides it."""
    sample: dict[str, Any] = {}
    try:
        sample |= _unroll(suggestion, context)
        refusal = _over_budget(sample) or _doubtful(sample, context)
        return refusal or _build(sample, suggestion, context)
    except InfeasibleKVCapacity as error:
        return _infeasible(sample, Reason.KV_CAPACITY, f"candidate KV capacity infeasible: {error}")
    except Exception as error:  # any defect of one candidate must not end the search
        return _failed(sample, Reason.CANDIDATE_MATERIALIZATION, "candidate build failed", error)


def measure(prepared: Prepared, context: EvaluationContext) -> Outcome:
    """Replay a prepared candidate and score it. Every failure is an outcome; Ctrl-C, SIGTERM are raised."""
    try:
        evaluator = context.evaluator
        evaluate = evaluator.evaluate
        if prepared.short and isinstance(evaluator, ReplayEvaluator):
            evaluate = evaluator.evaluate_short
        report = evaluate(prepared.plan, concurrency_override=prepared.concurrency)
        return _discounted(judge(prepared.config, report, context.config.goal), context)
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # an evaluator that calls sys.exit must not end the search either
        return _failed(prepared.config, _category(error), "replay failed", error)


def _discounted(outcome: Outcome, context: EvaluationContext) -> Outcome:
    """Let doubtful data count; those of another evaluator are its own."""
    penalty, candidate = context.config.goal.confidence_penalty, outcome.candidate
    if not penalty or candidate is None or not isinstance(context.evaluator, ReplayEvaluator):
        return outcome
    share = kept_share(candidate.config, penalty)
    return dataclasses.replace(outcome, candidate=discounted(candidate, context.config.goal, share))


def unsendable(prepared: Prepared, error: Exception) -> Outcome:
    """Tell that a candidate cannot be handed to a worker process."""
    return _failed(prepared.config, Reason.CANDIDATE_MATERIALIZATION, "candidate cannot be pickled", error)


def told_metrics(candidate: Candidate) -> dict[str, float]:
    """Give the metrics a sampler is told: the signed score, or the raw objective vector."""
    if candidate.objectives is None:
        return {"objective": candidate.score}
    return dict(candidate.objectives)


def _unroll(suggestion: Suggestion, context: EvaluationContext) -> dict[str, Any]:
    sample = unroll_sample(
        search_space=context.config.search_space,
        selection=suggestion.selection,
        parallel_config=suggestion.parallel_config,
        load_predictor=context.load_predictor,
    )
    return {**sample, "backend_version": context.backend_versions[sample["backend"]]}


def _over_budget(sample: Mapping[str, Any]) -> Outcome | None:
    used, budget = sample["used_gpus"], sample["gpu_budget"]
    if is_feasible(used, budget):
        return None
    return _infeasible(dict(sample), Reason.GPU_BUDGET, f"over gpu_budget: {used} GPUs > {budget}")


def _doubtful(sample: Mapping[str, Any], context: EvaluationContext) -> Outcome | None:
    """Refuse a candidate whose data are trusted less than asked; those of another evaluator are its own."""
    least = context.config.goal.min_confidence
    if least == "low" or not isinstance(context.evaluator, ReplayEvaluator):
        return None
    reason = too_low(sample, least)
    return None if reason is None else _infeasible(dict(sample), Reason.LOW_CONFIDENCE, reason)


def _build(sample: dict[str, Any], suggestion: Suggestion, context: EvaluationContext) -> Prepared:
    """Complete `sample` in place (so that a failure shows how far it got) and build the plan."""
    concurrency = _resolve_load(sample, suggestion, context)
    unchecked = _check_capacity(sample, suggestion, context)
    plan = deployment_of_goal(sample, context.config.goal)
    if plan.max_model_len is None:
        plan = dataclasses.replace(plan, max_model_len=context.model_context_tokens)
    key, short = _key(plan, concurrency, context), may_be_short(sample, context)
    return Prepared(sample, plan, concurrency, short_key(key) if short else key, unchecked, short)


def _resolve_load(sample: dict[str, Any], suggestion: Suggestion, context: EvaluationContext) -> int | None:
    """Add the load fields to `sample`; return the cap derived from a KV-load ratio, else None."""
    workload, version = context.config.workload, sample["backend_version"]
    config = suggestion.parallel_config
    if workload.kv_load_ratio is not None:
        ratio = suggestion.selection["kv_load_ratio"]
        load = resolve_kv_load(
            sample, workload=workload, parallel_config=config, ratio=ratio, backend_version=version
        )
        sample |= load.sample_fields()
    elif workload.concurrency is not None:
        sample["concurrency"] = workload.concurrency
    return sample["concurrency"] if workload.kv_load_ratio is not None else None


def _check_capacity(sample: dict[str, Any], suggestion: Suggestion, context: EvaluationContext) -> str | None:
    """Refuse what cannot hold one sequence, whatever the load shape (D6).

    The replay sizes its cache from the same data, so it will fail where there are none; an injected
    evaluator may not need them. So missing data is no refusal: the reason is returned.
    """
    try:
        check_kv_capacity(
            sample,
            workload=context.config.workload,
            parallel_config=suggestion.parallel_config,
            backend_version=sample["backend_version"],
        )
    except InfeasibleKVCapacity:
        raise
    except (ValueError, RuntimeError) as error:
        return cut(_text(error), REASON_LENGTH)
    return None


def _key(plan: DeploymentPlan, concurrency: int | None, context: EvaluationContext) -> str:
    workload = context.config.workload
    cap = workload.effective_in_flight_cap(concurrency)
    count = None if workload.is_trace_based else workload.resolved_request_count(cap)
    return plan_key(
        plan,
        in_flight_cap=cap,
        request_count=count,
        seed=context.config.sweep.random_seed,
        trace_digest=context.trace_digest,
    )


def _category(error: BaseException) -> Reason:
    if isinstance(error, RunnerContractError):
        return Reason.RUNNER_CONTRACT
    if isinstance(error, UnsupportedError):
        return Reason.ADAPTER_CONSTRAINT
    return Reason.DATA_GAP if isinstance(error, TimingError) else Reason.REPLAY_RUNTIME


def _infeasible(sample: dict[str, Any], category: Reason, reason: str) -> Outcome:
    return Outcome(Status.INFEASIBLE, sample, category=category, reason=reason)


def _failed(sample: dict[str, Any], category: Reason, prefix: str, error: BaseException) -> Outcome:
    reason = f"{prefix}: {type(error).__name__}: {_text(error)}"
    return Outcome(Status.FAILED, sample, category=category, reason=reason)


def _text(error: BaseException) -> str:
    try:
        return cause_chain(error)
    except Exception as broken:  # an exception of someone else's whose own text cannot be had
        return f"its message raised {type(broken).__name__}"
