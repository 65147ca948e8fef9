"""The search itself: filter, enumerate, search each branch, merge (spec 05 section 11.1)."""

from __future__ import annotations

import importlib
import math
import uuid
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aisimulate.core.collector import paused_collector
from aisimulate.core.errors import Terminated, UnsupportedError
from aisimulate.replay.capabilities import CURRENT
from aisimulate.spica.bounds import near_misses
from aisimulate.spica.evaluate import EvaluationContext
from aisimulate.spica.evaluator import ReplayEvaluator
from aisimulate.spica.executor import open_pool, recruit
from aisimulate.spica.finalists import replay_finalists
from aisimulate.spica.finite_space import finite_size
from aisimulate.spica.kv_estimate import resolve_backend_version
from aisimulate.spica.ledger import RUNNING, LedgerError
from aisimulate.spica.load_predictor_sweep import forecasts_matter, sweep_load_predictor
from aisimulate.spica.loop import BranchReport, BranchSearch, SearchState, Stop
from aisimulate.spica.observer import Observer, SilentObserver
from aisimulate.spica.pipelined_loop import PipelinedSearch
from aisimulate.spica.plan import SearchPlan, plan_search
from aisimulate.spica.predictor_replay import PredictorReplays
from aisimulate.spica.progress import progress_observer
from aisimulate.spica.recorded_pool import RecordedPool
from aisimulate.spica.reported import answer
from aisimulate.spica.run_facts import begin_run, recorder
from aisimulate.spica.sampler import make_branch_sampler
from aisimulate.spica.samplers.base import SamplerContractError
from aisimulate.spica.samplers.checked import SamplerFactory, build_sampler, closing_sampler
from aisimulate.spica.samplers.vizier_sampler import AskLimits
from aisimulate.spica.screen.goals import no_screen_reason
from aisimulate.spica.summary import Coverage, Progress, summary_lines
from aisimulate.spica.time_budget import TimeBudget
from aisimulate.spica.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from aisimulate.spica.config import Candidate, SmartSearchConfig
    from aisimulate.spica.evaluator import Evaluator
    from aisimulate.spica.executor import EvaluationPool, Recruits
    from aisimulate.spica.ledger import Ledger
    from aisimulate.spica.loop import Budget, OnRound
    from aisimulate.spica.outcome import Outcome
    from aisimulate.spica.samplers.base import BranchSampler
    from aisimulate.spica.screen.branch_screen import BranchScreen
    from aisimulate.spica.search_space import BranchSpace


_SHOWN_MISSES = 3


@dataclass(slots=True)
class SearchResult:
    """Everything a search found. `candidates` are ranked, or the Pareto front; `outcomes` all attempts.

    A search that was interrupted (`terminated`: by SIGTERM), spent its time (`out_of_time`) or could no
    longer be recorded (`problem`) holds what was measured until then.
    """

    plan: SearchPlan
    backend_versions: dict[str, str]
    progress: Progress
    outcomes: list[Outcome] = field(default_factory=list)
    branches: list[BranchReport] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    interrupted: bool = False
    terminated: bool = False
    out_of_time: bool = False
    problem: LedgerError | None = None

    @property
    def near_misses(self) -> list[Outcome]:
        """The candidates that came nearest to the bounds of the goal, when none met them."""
        return [] if self.candidates else near_misses(self.outcomes, _SHOWN_MISSES)

    @property
    def status(self) -> str:
        """`done`, or what ended it early: `interrupted`, `out_of_time`, `not_recorded`."""
        if self.problem is not None:
            return "not_recorded"
        if self.interrupted:
            return "interrupted"
        return "out_of_time" if self.out_of_time else "done"


def run_smart_search(
    config: SmartSearchConfig,
    *,
    evaluator: Evaluator | None = None,
    sampler_factory: SamplerFactory = make_branch_sampler,
    show_progress: bool = True,
    on_round: OnRound | None = None,
) -> list[Candidate]:
    """Search for the best deployments; best first for a scalar goal, the front for a Pareto goal.

    `evaluator` measures a plan (default: our own replay). `sampler_factory(branch, study_id=...,
    objectives=...)` builds a sampler per deployment mode and is also given `seed` and `policy` if it takes
    them. `on_round(number, candidates)` sees all feasible candidates after every round; an exception in it
    ends the search. Nothing feasible gives an empty list.

    Raises:
        ValueError: the configuration leaves nothing to search (`InputError` for a bad trace or SKU).
        EvaluatorPoolError: the worker processes cannot run.
        SamplerContractError: a sampler broke its contract; it holds the candidates measured until then.
        KeyboardInterrupt: after all workers were stopped.
    """
    observer = progress_observer() if show_progress else SilentObserver()
    result = run_search(
        config, evaluator=evaluator, sampler_factory=sampler_factory, observer=observer, on_round=on_round
    )
    if result.interrupted:
        raise KeyboardInterrupt
    return result.candidates


def run_search(
    config: SmartSearchConfig,
    *,
    evaluator: Evaluator | None = None,
    sampler_factory: SamplerFactory = make_branch_sampler,
    observer: Observer | None = None,
    on_round: OnRound | None = None,
    ledger: Ledger | None = None,
    check: bool = False,
) -> SearchResult:
    """Do the work of `run_smart_search` and keep everything; Ctrl-C ends it early with a partial result.

    So does SIGTERM under the command line, which has a handler.

    With `ledger`, everything is written down as it happens, and what is in it is not replayed again.
    `check` holds our own replays to the invariants; a candidate that breaks one fails with its number.
    Raises also `InputError` when the ledger is that of another search, `LedgerError` when it fails before
    the first replay; later that ends the search and is told in the result.
    """
    observer = observer or SilentObserver()
    try:
        with recruit(config.sweep, will_replay=evaluator is None) as recruits:
            return _search(config, evaluator, sampler_factory, observer, on_round, ledger, check, recruits)
    except SystemExit:  # such as that of a signal handler of the caller's
        _note_ending(ledger)
        raise
    finally:
        observer.close()


def _note_ending(ledger: Ledger | None) -> None:
    """Write down, if that can be, that a search which had begun was ended from outside."""
    with suppress(LedgerError):
        if ledger is not None and ledger.facts.get("status") == RUNNING:
            ledger.describe(status="interrupted")


def _search(
    config: SmartSearchConfig,
    evaluator: Evaluator | None,
    sampler_factory: SamplerFactory,
    observer: Observer,
    on_round: OnRound | None,
    ledger: Ledger | None,
    check: bool,
    recruits: Recruits,
) -> SearchResult:
    progress = Progress(config.goal)
    observer.phase("enumerating", progress)
    plan = _plan(config, evaluator, observer)
    context = _context(plan, evaluator, check)
    result = SearchResult(plan, dict(context.backend_versions), progress)
    state = SearchState(progress, ledger, outcomes=result.outcomes, recruits=recruits)
    if ledger is not None:
        begin_run(ledger, config, plan, context)
    try:
        context = _with_forecaster(plan, context, state, observer)
        screen = _screen(context, plan, observer) if evaluator is None else None
        # What comes before the first suggestion does not count: each resumption gets something done.
        state.time_budget = TimeBudget(config.sweep.max_seconds)
        _search_branches(plan, context, state, result, sampler_factory, observer, on_round, screen)
    except (KeyboardInterrupt, Terminated) as error:
        result.interrupted, result.terminated = True, isinstance(error, Terminated)
    except LedgerError as error:
        result.problem = error
    except SamplerContractError as error:
        error.candidates = answer(state.candidates, plan.config.goal)
        raise
    result.candidates = answer(state.candidates, plan.config.goal)
    if ledger is not None and result.problem is None:
        ledger.describe(status=result.status)
    coverage = _coverage(result)
    observer.done(
        summary_lines(progress, result.candidates, coverage=coverage, interrupted=result.interrupted)
    )
    return result


def _plan(config: SmartSearchConfig, evaluator: Evaluator | None, observer: Observer) -> SearchPlan:
    """Plan the search, and pass on what there is to say about it."""
    with paused_collector():  # libraries are imported and tables read: what is made stays
        plan = plan_search(config, capabilities=CURRENT if evaluator is None else None)
    for note in plan.notes:
        observer.note(note)
    return plan


def _coverage(result: SearchResult) -> list[Coverage]:
    """Count the points tried per branch, 0 for one that was not reached."""
    tried = {report.deployment_mode: report.tried_points for report in result.branches}
    return [
        Coverage(branch.deployment_mode, tried.get(branch.deployment_mode, 0), finite_size(branch))
        for branch in result.plan.branches
    ]


def _context(plan: SearchPlan, evaluator: Evaluator | None, check: bool) -> EvaluationContext:
    config = plan.config
    sku, asked = config.search_space.hardware_sku, config.search_space.backend_version
    return EvaluationContext(
        config=config,
        evaluator=evaluator
        or ReplayEvaluator(config.workload, config.goal, check=check, calibration=config.calibration),
        backend_versions={
            name: resolve_backend_version(sku, name, asked.get(name)) for name in plan.backends
        },
        model_context_tokens=plan.model_context_tokens,
        trace_digest=plan.trace_digest,
        trace_sessions=plan.trace_sessions,
    )


def _with_forecaster(
    plan: SearchPlan, context: EvaluationContext, state: SearchState, observer: Observer
) -> EvaluationContext:
    """Choose the load forecaster of every interval, by its errors or by what it costs."""
    if plan.config.sweep.load_predictor_choice == "replay" and forecasts_matter(plan.config):
        observer.phase("choosing load predictors by replay", state.progress)
        with _open_pool(plan, context, state) as pool:
            replay = PredictorReplays(plan.branches, context, pool)
            predictor = sweep_load_predictor(
                plan.config, show_progress=False, choose_by="replay", replay=replay
            )
    else:
        predictor = sweep_load_predictor(plan.config, show_progress=False)
    for note in (*predictor.notes, *predictor.choices()):
        observer.note(note)
    return replace(context, load_predictor=predictor)


def _open_pool(plan: SearchPlan, context: EvaluationContext, state: SearchState) -> EvaluationPool:
    """Open the pool that the sweep asks for; with a ledger, one that knows and writes down its replays."""
    sweep = plan.config.sweep
    pool = open_pool(
        context,
        parallel_evals=sweep.parallel_evals,
        per_round=plan.budget.per_round,
        max_eval_seconds=sweep.max_eval_seconds,
        max_worker_mb=sweep.max_worker_mb,
        time_budget=state.time_budget,
        executor=sweep.executor,
        on_end=None if state.ledger is None else recorder(state.ledger),
        recruits=state.recruits,
    )
    return pool if state.ledger is None else RecordedPool(pool, state.ledger)


def _search_branches(
    plan: SearchPlan,
    context: EvaluationContext,
    state: SearchState,
    result: SearchResult,
    sampler_factory: SamplerFactory,
    observer: Observer,
    on_round: OnRound | None,
    screen: BranchScreen | None,
) -> None:
    state.progress.total = plan.total_measurements

    @contextmanager
    def opened(branch: BranchSpace, budget: Budget) -> Iterator[BranchSearch]:
        observer.phase(branch.deployment_mode, state.progress)
        sampler = _make_sampler(sampler_factory, branch, plan, screen)
        search = _search_kind(plan, sampler, branch, observer)(
            branch, sampler, budget=budget, pool=pool, context=context, state=state, observer=observer
        )
        result.branches.append(search.report)
        with closing_sampler(sampler):
            yield search

    with _open_pool(plan, context, state) as pool:
        if plan.config.sweep.mode_order == "interleaved":
            with ExitStack() as stack:
                searches = [stack.enter_context(opened(branch, plan.budget)) for branch in plan.branches]
                take_turns(searches, on_round, lambda mode: observer.phase(mode, state.progress))
        else:
            _one_by_one(plan, result, opened, on_round)
        result.out_of_time = any(report.stop is Stop.TIME for report in result.branches)
        if not replay_finalists(plan.config, state, pool, observer):
            result.out_of_time = True


def _one_by_one(
    plan: SearchPlan,
    result: SearchResult,
    opened: Callable[[BranchSpace, Budget], AbstractContextManager[BranchSearch]],
    on_round: OnRound | None,
) -> None:
    """Search one branch after the other, until the time of the search is spent."""
    for number, branch in enumerate(plan.branches):
        share = _share(plan.budget, result.branches, len(plan.branches) - number)
        with opened(branch, share) as search:
            search.run(on_round)
        if search.report.stop is Stop.TIME:
            return


def _search_kind(
    plan: SearchPlan, sampler: BranchSampler, branch: BranchSpace, observer: Observer
) -> type[BranchSearch]:
    """Choose the loop; not every sampler can be asked before it was told everything."""
    if plan.config.sweep.asks == "rounds":
        return BranchSearch
    if getattr(sampler, "overlaps", False):
        return PipelinedSearch
    name = plan.policies[branch.deployment_mode]
    observer.note(f"smart-sweep {branch.deployment_mode}: the sampler {name} is asked in rounds only")
    return BranchSearch


def _share(budget: Budget, done: Sequence[BranchReport], branches_left: int) -> Budget:
    """Give the next branch its share of the trials: what a branch does not need goes to those after it."""
    if budget.max_trials is None:
        return budget
    left = budget.max_trials - sum(report.attempts for report in done)
    return replace(budget, max_trials=math.ceil(left / branches_left))


def _screen(context: EvaluationContext, plan: SearchPlan, observer: Observer) -> BranchScreen | None:
    """Build the screen of a search, if a sampler asks for one and its candidates can be screened."""
    config = context.config
    if config.sweep.screen == "off" or "pool-gp" not in plan.policies.values():
        return None
    reason = no_screen_reason(config)
    if reason is None:  # imported on first use: it needs numpy
        module = importlib.import_module("aisimulate.spica.screen.branch_screen")
        try:
            screen: BranchScreen = module.BranchScreen(
                config, context.backend_versions, plan.model_context_tokens, plan.branches
            )
            return screen
        except UnsupportedError as error:
            reason = str(error)
    observer.note(f"searching without a screen: {reason}")
    return None


def _make_sampler(
    factory: SamplerFactory, branch: BranchSpace, plan: SearchPlan, screen: BranchScreen | None
) -> BranchSampler:
    goal = plan.config.goal
    objectives = None
    if goal.is_pareto:
        objectives = [(target.value, target.maximize) for target in goal.resolved_pareto_objectives]
    # Unique per run: a sampler with persistent studies must never inherit an older run's.
    study_id = f"spica_{branch.deployment_mode}_{uuid.uuid4().hex[:8]}"
    extras = {
        "seed": plan.config.sweep.random_seed,
        "policy": plan.policies[branch.deployment_mode],
        "screen": None if screen is None else screen.objectives,
        "algorithm": plan.config.sweep.sampler_algorithm,
        "limits": AskLimits(plan.config.sweep.max_suggest_seconds, plan.config.sweep.max_suggest_mb),
    }
    return build_sampler(factory, branch, study_id=study_id, objectives=objectives, extras=extras)
