"""The round loop of one branch: suggest, evaluate what is new, tell (spec 05 section 11.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from aisimulate.spica.dedupe import point_key
from aisimulate.spica.evaluate import EvaluationContext, Prepared, prepare, told_metrics
from aisimulate.spica.finite_space import finite_size
from aisimulate.spica.outcome import Outcome, Reason, Status
from aisimulate.spica.parallel_enum import describe_config
from aisimulate.spica.reported import was_short
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.checked import CheckedSampler, ForeignChoice, own_choices
from aisimulate.spica.time_budget import TimeBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aisimulate.spica.config import Candidate
    from aisimulate.spica.executor import EvaluationPool, Recruits
    from aisimulate.spica.ledger import Ledger
    from aisimulate.spica.observer import Observer
    from aisimulate.spica.samplers.base import BranchSampler
    from aisimulate.spica.search_space import BranchSpace
    from aisimulate.spica.summary import Progress

    OnRound = Callable[[int, list[Candidate]], None]

# A round gives up after this many suggestions per wanted measurement.
ATTEMPTS_PER_MEASUREMENT = 11


class Stop(StrEnum):
    """Why a branch ended."""

    BUDGET = "budget spent"
    EXHAUSTED = "space exhausted"
    STALLED = "stopped early"
    TIME = "time budget spent"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Budget:
    """The effort per branch: rounds, feasible measurements per round, and suggestions of all rounds.

    An exhaustive search is not stopped by rounds that give too few feasible candidates.
    """

    max_rounds: int
    per_round: int
    max_trials: int | None = None
    is_exhaustive: bool = False

    @property
    def max_attempts(self) -> int:
        """The most suggestions one round may take."""
        return ATTEMPTS_PER_MEASUREMENT * self.per_round

    @property
    def total(self) -> int:
        """The most feasible measurements of one branch."""
        rounds = self.max_rounds * self.per_round
        return rounds if self.max_trials is None else min(rounds, self.max_trials)


@dataclass(slots=True)
class SearchState:
    """What a whole search has found so far, over all branches; `outcomes` are the fresh ones, in order.

    `cache` holds the outcomes by key, so that a deployment suggested again is not replayed again. `short` has
    the tasks of candidates that were replayed in part, by the identity of the candidate. `recruits` are
    workers that were started before it was known what they work on.
    """

    progress: Progress
    ledger: Ledger | None = None
    time_budget: TimeBudget = field(default_factory=TimeBudget)
    cache: dict[str, Outcome] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    short: dict[int, Prepared] = field(default_factory=dict)
    rounds: int = 0
    recruits: Recruits | None = None

    @property
    def candidates(self) -> list[Candidate]:
        """Every feasible candidate, in suggestion order."""
        return [outcome.candidate for outcome in self.outcomes if outcome.candidate is not None]


@dataclass(slots=True)
class BranchReport:
    """How the search of one branch went. `finite_size` is None for a continuous space.

    `attempts` counts every suggestion, `tried_points` the distinct ones that were settled.
    """

    deployment_mode: str
    finite_size: int | None
    rounds: int = 0
    attempts: int = 0
    tried_points: int = 0
    feasible: int = 0
    stop: Stop = Stop.INTERRUPTED

    @property
    def is_complete(self) -> bool:
        """Whether every point was tried, so that the best found is the best there is."""
        return self.finite_size is not None and self.tried_points >= self.finite_size


@dataclass(frozen=True, slots=True)
class Step:
    """One suggestion on its way: its key, and either its outcome or what is left to measure.

    `point` is the key of its point in the branch's space, None when it lies outside.
    """

    suggestion: Suggestion
    key: str
    work: Prepared | Outcome
    point: str | None = None


class BranchSearch:
    """Searches one branch with one sampler. All state that outlives it is in `state` and `report`."""

    def __init__(
        self,
        branch: BranchSpace,
        sampler: BranchSampler,
        *,
        budget: Budget,
        pool: EvaluationPool,
        context: EvaluationContext,
        state: SearchState,
        observer: Observer,
    ) -> None:
        self.report = BranchReport(branch.deployment_mode, finite_size(branch))
        self._branch = branch
        self._sampler = CheckedSampler(sampler)
        self._budget = budget
        self._pool = pool
        self._context = context
        self._state = state
        self._observer = observer
        self.granted_rounds = 0
        self._sharing = [self.report]
        self._keys: set[str] = set()
        self._points: set[str] = set()
        self._noted: set[str] = set()

    def run(self, on_round: OnRound | None) -> None:
        """Run rounds until a budget is spent, the space is exhausted or the sampler stalls."""
        for _ in self.rounds(on_round):
            pass

    def rounds(self, on_round: OnRound | None) -> Iterator[None]:
        """Run a round at a time, as `run` does, and yield after each that others may follow."""
        while self.rounds_left and self._trials_left != 0:
            attempts, stop = self._round()
            if attempts:
                self._end_round(on_round)
            if stop is not None and not (stop is Stop.STALLED and self._budget.is_exhaustive):
                self._stop_early(stop, attempts)
                return
            yield
        self.report.stop = Stop.BUDGET

    @property
    def rounds_left(self) -> int:
        """The rounds of its budget that it has not run, with those that were granted later."""
        return self._budget.max_rounds + self.granted_rounds - self.report.rounds

    def share_trials(self, reports: list[BranchReport]) -> None:
        """Let the budget of trials be one of several branches, whose `reports` are these and its own."""
        self._sharing = reports

    def _round(self) -> tuple[int, Stop | None]:
        """Measure up to `per_round` new feasible candidates; return the attempts and a reason to stop."""
        unique = attempts = 0
        while unique < self._budget.per_round and attempts < self._budget.max_attempts:
            if self._state.time_budget.is_spent:
                return attempts, Stop.TIME
            suggestions = self._ask(min(self._budget.per_round - unique, self._allowed(attempts)))
            if not suggestions:
                return attempts, Stop.EXHAUSTED
            settled_before, known = self.report.attempts, len(self._keys)
            unique += self._settle(suggestions)
            settled = self.report.attempts - settled_before
            attempts += settled
            if settled < len(suggestions):
                return attempts, Stop.TIME
            if len(self._keys) == known and self._all_seen():
                return attempts, Stop.EXHAUSTED
            if self._trials_left == 0:
                return attempts, None
        return attempts, None if unique == self._budget.per_round else Stop.STALLED

    @property
    def _trials_left(self) -> int | None:
        most = self._budget.max_trials
        return None if most is None else most - sum(report.attempts for report in self._sharing)

    def _allowed(self, attempts: int) -> int:
        """Tell how many more suggestions a round may take after `attempts`."""
        allowed, left = self._budget.max_attempts - attempts, self._trials_left
        return allowed if left is None else min(allowed, left)

    def _ask(self, wanted: int) -> list[Suggestion]:
        suggestions = self._sampler.suggest(wanted)
        if self._sampler.gave_too_many:
            self._note_once("the sampler gave more suggestions than asked for; those are ignored")
        self._pass_notes()
        return suggestions

    def _pass_notes(self) -> None:
        for note in self._sampler.notes():
            self._note_once(note)

    def _all_seen(self) -> bool:
        size = self.report.finite_size
        return size is not None and len(self._keys) >= size

    def _settle(self, suggestions: Sequence[Suggestion]) -> int:
        """Bring suggestions to their outcomes, in order; return how many new feasible ones there were.

        When the time is spent, those that follow the first one not begun are dropped without an outcome.
        """
        steps = [self._step(suggestion) for suggestion in suggestions]
        self._observer.suggested(len(steps))
        fresh: dict[str, Prepared] = {}
        for step in steps:
            if isinstance(step.work, Prepared) and step.key not in self._state.cache:
                fresh.setdefault(step.key, step.work)
        results = self._pool.run(list(fresh.values()))
        new = 0
        for step in steps:
            is_new = self._finish(step, results)
            if is_new is None:
                break
            new += is_new
        if self._state.ledger is not None:
            self._state.ledger.commit()
        return new

    def _step(self, suggestion: Suggestion) -> Step:
        asked = self._admit(suggestion)
        if isinstance(asked, Outcome):
            return Step(suggestion, point_key(suggestion), asked)
        work, point = prepare(asked, self._context), point_key(asked)
        if isinstance(work, Outcome):
            return Step(suggestion, point, work, point)
        if work.unchecked is not None:
            self._note_once("the KV capacity of candidates could not be checked", work.unchecked)
        return Step(suggestion, work.key, work, point)

    def _admit(self, suggestion: Suggestion) -> Suggestion | Outcome:
        """Put a suggestion in the branch's own values, or refuse it."""
        try:
            asked = Suggestion(own_choices(suggestion, self._branch), suggestion.parallel_config)
        except ForeignChoice as error:
            reason = f"suggestion outside the search space: {error}"
            return Outcome(Status.FAILED, {}, category=Reason.RUNNER_CONTRACT, reason=reason)
        return self._unsupported(asked) or asked

    def _unsupported(self, suggestion: Suggestion) -> Outcome | None:
        backend = suggestion.selection.get("backend")
        config = suggestion.parallel_config
        if backend is None or backend in self._branch.supported_backends.get(config, ()):
            return None
        reason = f"backend {backend!r} does not support {describe_config(config)}"
        known = {"deployment_mode", *self._branch.knob_choices, *self._branch.float_ranges}
        selected = {name: value for name, value in suggestion.selection.items() if name in known}
        return Outcome(Status.UNSUPPORTED, selected, category=Reason.BACKEND_TOPOLOGY, reason=reason)

    def _finish(self, step: Step, results: Iterator[Outcome]) -> bool | None:
        """Settle one suggestion; tell whether it is a new feasible measurement, None when time is spent.

        `results` yields the outcomes of new keys in step order.
        """
        earlier = self._state.cache.get(step.key)
        if earlier is not None and earlier.status is not Status.UNSUPPORTED:
            self._tell(step, earlier, cached=True)
            return False
        outcome = step.work if isinstance(step.work, Outcome) else next(results, None)
        if outcome is None:
            return None
        if step.point is not None:
            self._keys.add(step.key)
        self._state.cache[step.key] = outcome
        self._state.outcomes.append(outcome)
        if isinstance(step.work, Prepared) and outcome.candidate and was_short(outcome.candidate):
            self._state.short[id(outcome.candidate)] = step.work
        self._tell(step, outcome, cached=False)
        return outcome.candidate is not None

    def _tell(self, step: Step, outcome: Outcome, *, cached: bool) -> None:
        progress, suggestion = self._state.progress, step.suggestion
        self.report.attempts += 1
        progress.add(outcome, cached=cached)
        if self._state.ledger is not None:
            number = self._state.rounds + 1
            branch = self._branch.deployment_mode
            self._state.ledger.add_attempt(branch, number, step.key, outcome, cached=cached)
        if step.point is not None:
            self._points.add(step.point)
        self.report.tried_points = len(self._points)
        if outcome.candidate is None:
            self._sampler.observe_failure(suggestion, outcome.reason, outcome.missed)
        else:
            self._sampler.observe(suggestion, told_metrics(outcome.candidate))
            self.report.feasible += not cached
        self._observer.settled(outcome, cached=cached, progress=progress)

    def _end_round(self, on_round: OnRound | None) -> None:
        self._pass_notes()
        self.report.rounds += 1
        self._state.rounds += 1
        if on_round is not None:
            on_round(self._state.rounds, self._state.candidates)
        self._observer.round_ended(self._state.rounds, self._state.progress)

    def _stop_early(self, stop: Stop, attempts: int) -> None:
        self.report.stop = stop
        mode, report = self._branch.deployment_mode, self.report
        if stop is Stop.TIME:
            limit = f"{self._state.time_budget.seconds:g} s of sweep.max_seconds"
            text = f"stopped after {limit}, {report.attempts} suggestions, {report.feasible} feasible"
        elif stop is Stop.EXHAUSTED:
            what = "space exhausted" if report.is_complete else "its sampler has nothing left to suggest"
            text = f"{what} after {report.attempts} suggestions, {report.feasible} feasible"
        else:
            text = (
                f"stopped early: projection stalled, {attempts} attempts in round {report.rounds} gave "
                f"fewer than {self._budget.per_round} new feasible candidates"
            )
        self._observer.note(f"smart-sweep {mode}: {text}")

    def _note_once(self, text: str, detail: str = "") -> None:
        """Tell the user something once per branch, with the detail of its first time."""
        if text not in self._noted:
            self._noted.add(text)
            mode = self._branch.deployment_mode
            self._observer.note(f"smart-sweep {mode}: {text}{': ' if detail else ''}{detail}")
