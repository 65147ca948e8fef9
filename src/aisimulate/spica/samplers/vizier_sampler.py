"""Vizier as a sampler: Google's optimiser, asked in a process of its own (spec 05 section 7, D36)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aisimulate.core.seeds import named_seed
from aisimulate.core.shown import visible
from aisimulate.spica.samplers.base import Suggestion
from aisimulate.spica.samplers.guarded import Guarded, GuardTripped
from aisimulate.spica.samplers.latent_space import LatentSpace
from aisimulate.spica.samplers.quasi_random import QuasiRandomSampler
from aisimulate.spica.samplers.vizier_study import StudyRequest, ToldTrial, VizierStudy, user_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.spica.search_space import BranchSpace

# After so many asks in a row that failed, Vizier is not asked again.
_MOST_FAILURES = 2
_NO_STUDY = 0
# Seeds of NumPy and of Vizier's designers are 32 bits wide, some signed.
_SEED_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class AskLimits:
    """What one ask may take: real time, and resident memory of Vizier's process in MB (2^20 bytes)."""

    max_seconds: float = 120.0
    max_mb: float = 4096.0


class Study(Protocol):
    """A study as the sampler uses it. `call` names a method of `VizierStudy`; it may raise GuardTripped."""

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of the study."""
        ...

    def close(self) -> None:
        """End it."""
        ...


OpenStudy: TypeAlias = Callable[[StudyRequest, "list[ToldTrial]", AskLimits], Study]


@dataclass(slots=True)
class _Trial:
    """A suggestion of a study: the values of its parameters, its id there, and which opening it was."""

    values: dict[str, Any]
    number: int
    opening: int


class VizierSampler:
    """Asks Vizier for each round. An ask that fails is answered quasi-randomly instead, with a note.

    A study that failed is opened anew, with all that was told, for the next ask; after two failures in a
    row the rest of the branch is quasi-random.
    """

    overlaps = True

    def __init__(
        self,
        branch: BranchSpace,
        *,
        study_id: str,
        seed: int,
        objectives: Sequence[tuple[str, bool]] | None = None,
        algorithm: str = "DEFAULT",
        limits: AskLimits | None = None,
        open_study: OpenStudy | None = None,
    ) -> None:
        self.branch = branch
        self._space = LatentSpace(branch)
        self._request = StudyRequest(
            study_id=study_id,
            parameters=tuple(self._space.parameters),
            metrics=tuple(objectives) if objectives else (("objective", True),),
            algorithm=algorithm,
            seed=named_seed(seed, "sampler", branch.deployment_mode) & _SEED_MASK,
            store=user_store(),
        )
        self._limits = limits or AskLimits()
        self._open = open_study or open_guarded
        self._study: Study | None = None
        self._openings = 0
        self._told: list[ToldTrial] = []
        self._instead = QuasiRandomSampler(branch, seed=seed)
        self._asks = self._failures = 0
        self._notes: list[str] = []

    def suggest(self, count: int) -> list[Suggestion]:
        """Ask for up to `count` suggestions."""
        self._asks += 1
        if self._failures < _MOST_FAILURES:
            try:
                found = self._ask(count)
            except GuardTripped as trouble:
                self._fail(str(trouble))
            else:
                self._failures = 0
                return found
        return [self._foreign(suggestion) for suggestion in self._instead.suggest(count)]

    def observe(self, suggestion: Suggestion, metrics: Mapping[str, float]) -> None:
        """Complete the trial, with what its features were projected to."""
        self._complete(suggestion, dict(metrics), "")

    def observe_infeasible(self, suggestion: Suggestion, reason: str) -> None:
        """Complete the trial as infeasible."""
        self._complete(suggestion, None, reason)

    def notes(self) -> list[str]:
        """Tell of every ask that Vizier did not answer."""
        return list(self._notes)

    def close(self) -> None:
        """End Vizier's process."""
        if self._study is not None:
            self._study.close()
            self._study = None

    def _ask(self, count: int) -> list[Suggestion]:
        if self._study is None:
            self._openings += 1
            request = self._request
            if self._openings > 1:
                suffix = f"_{self._openings}"
                request = replace(
                    request, study_id=request.study_id + suffix, seed=request.seed ^ self._openings
                )
            self._study = self._open(request, list(self._told), self._limits)
        trials = self._study.call("suggest", count)
        return [
            self._space.suggestion(values, _Trial(values, number, self._openings))
            for number, values in trials
        ]

    def _foreign(self, suggestion: Suggestion) -> Suggestion:
        """Mark a suggestion that no study made; its outcome is told to the next one all the same."""
        return replace(suggestion, handle=_Trial(self._space.values(suggestion), 0, _NO_STUDY))

    def _fail(self, reason: str) -> None:
        self._study = None
        self._failures += 1
        text = f"ask {self._asks}: vizier {visible(reason)}; suggestions were drawn quasi-randomly instead"
        if self._failures == _MOST_FAILURES:
            text += ", as all later ones will be"
        self._notes.append(text)

    def _complete(self, suggestion: Suggestion, metrics: dict[str, float] | None, reason: str) -> None:
        trial = suggestion.handle
        if not isinstance(trial, _Trial):
            return
        projection = suggestion.projection
        metadata = None if projection is None else json.dumps(projection.metadata(), sort_keys=True)
        told = ToldTrial(trial.values, metrics, reason, metadata)
        self._told.append(told)
        if self._study is None:
            return
        try:
            if trial.opening == self._openings:
                self._study.call("complete", trial.number, told)
            else:
                self._study.call("add", told)
        except GuardTripped as trouble:
            self._study = None
            self._notes.append(f"after ask {self._asks}: vizier {visible(str(trouble))}; it is started anew")


def open_guarded(request: StudyRequest, history: list[ToldTrial], limits: AskLimits) -> Study:
    """Open a study of Vizier's in a process that is ended when it stalls or takes too much memory."""
    return Guarded(VizierStudy, (request, history), max_seconds=limits.max_seconds, max_mb=limits.max_mb)
