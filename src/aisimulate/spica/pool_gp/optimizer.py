"""Chooses what to measure next, from a pool, by what has been measured (spec 06 section 6, 08 section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

import numpy as np

from aisimulate.spica.pool_gp.acquisition import boldest, expected_gains, pick_batch
from aisimulate.spica.pool_gp.considered import Considered
from aisimulate.spica.pool_gp.design import far_apart, spread_over_front
from aisimulate.spica.pool_gp.inputs import Inputs
from aisimulate.spica.pool_gp.model import Model
from aisimulate.spica.pool_gp.pool import Calibration, Key, Pool
from aisimulate.spica.pool_gp.screening import Band, contradicts
from aisimulate.spica.pool_gp.trials import PER_GROUP, best_of_groups, by_label, hardly_known

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from aisimulate.spica.pool_gp.model import Outlook

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

FIRST_POINTS = 16
_FIRST_SCREENED = 32
_FIRST_CALIBRATED = 16  # fewer do where the screen is corrected by them
_FEWEST_LEARNT = 8  # measurements before there is a model
_SCREENED = 12_000  # keys screened at the start
# Then, so many times, the neighbours of the best of them.
_SCREEN_ROUNDS, _SCREEN_BEST, _SCREEN_NEAR = 6, 100, 20
# Candidates per ask: from the whole pool, near the screened front, near the best measured ones.
_DRAWN, _BANDED, _NEAR_BEST = 800, 500, 1_000
_DRAWN_BESIDE_BAND = 200
_MOST_BEST = 60  # members of the front whose neighbours are candidates; of a single objective
_MOST_BEST_SINGLE = 8
_POLISH_ROUNDS, _POLISHED, _POLISH_NEAR = 2, 24, 16
_SHORTLIST = 400  # candidates that a batch is picked from
# Without a screen, for a single objective: the settings of the best on other engines, and wild guesses.
_MOVED_BEST, _MOST_MOVED, _MOST_WILD = 2, 300, 100
_MOST_TRIALS = 2  # of a batch
_MOST_HOPEFUL = 60  # groups that are kept in mind
_PRESSURES = (-2.0, 1.0)  # beyond, nothing changes any more
_TINY = 1e-9  # stands for values that have no logarithm
_WIDEST = 9.0  # logarithm of how far below the best a value may be to make a difference
# A single objective whose best has not grown by half a per cent for this many asks is stagnant.
_STAGNANT_ASKS, _GROWTH = 3, 1.005


class PoolOptimizer(Generic[Key]):
    """Asks for configurations to measure and learns their objectives (positive, larger is better).

    No key is asked for twice. Everything follows from the seed and the order of calls. `prior_dropped`
    tells whether measurements contradicted the pool's screen, which is then forgotten.
    """

    def __init__(self, pool: Pool[Key], *, objectives: int, seed: int) -> None:
        self.prior_dropped = False
        self._pool = pool
        self._objectives = objectives
        self._rng = np.random.default_rng(seed)
        self._asked: set[Key] = set()
        self._likenesses: set[Hashable] = set()  # of what was asked for
        self._keys: list[Key] = []
        self._logs: list[Floats] = []
        self._infeasible: list[Key] = []
        self._model = Model(objectives)
        self._hopeful: list[Key] = []
        self._shortlisted: list[Key] = []  # what the last ask chose from: as good a start as any
        self._queue: list[Key] | None = None
        self._band: Band[Key] | None = None
        self._best, self._stagnant = 0.0, 0

    def tell(self, key: Key, values: Sequence[float]) -> None:
        """Learn the objectives of a configuration, whoever asked for it."""
        self._take([key])
        self._keys.append(key)
        self._logs.append(np.log(np.maximum(np.asarray(values, dtype=np.float64), _TINY)))

    def tell_infeasible(self, key: Key) -> None:
        """Learn that a configuration cannot be measured."""
        self._asked.add(key)
        self._infeasible.append(key)

    def ask(self, count: int) -> list[Key]:
        """Choose up to `count` configurations that were not asked for before; none when all were."""
        if self._queue is None:
            self._queue = self._first_points()
        chosen, self._queue = self._queue[:count], self._queue[count:]
        self._take(chosen)
        if wanted := count - len(chosen):
            more = self._by_model(wanted) if len(self._keys) >= _FEWEST_LEARNT else self._at_random(wanted)
            self._take(more)
            chosen += more
        return chosen

    def _take(self, keys: Sequence[Key]) -> None:
        """Take note that configurations were asked for."""
        fresh = [key for key in keys if key not in self._asked]
        self._asked.update(fresh)
        self._likenesses.update(self._likenesses_of(fresh) or ())

    # Without a model ----------------------------------------------------------------------------------

    def _first_points(self) -> list[Key]:
        """Spread points over the screened front, or over the whole pool when there is no screen."""
        drawn = self._new(self._pool.draw(_SCREENED, self._rng))
        if not drawn:
            return []
        screened = self._pool.screen(drawn)
        if screened is None:
            drawn = drawn[: _SCREENED // 10]
            rows = far_apart(self._pool.features(drawn), FIRST_POINTS)
        else:
            drawn, screened = self._climbed(drawn, screened)
            self._band = Band(drawn, screened)
            groups = by_label(self._pool.labels(drawn))
            self._hopeful = [
                drawn[rows[row]] for rows in groups for row in spread_over_front(screened[rows], PER_GROUP)
            ]
            rows = spread_over_front(screened, _FIRST_CALIBRATED if self._calibration else _FIRST_SCREENED)
        return [drawn[row] for row in rows]

    def _climbed(self, keys: list[Key], screened: Floats) -> tuple[list[Key], Floats]:
        """Go on screening near the best, and return all that was screened."""
        for _ in range(_SCREEN_ROUNDS):
            best = spread_over_front(screened, _SCREEN_BEST)
            near = [key for row in best for key in self._pool.near(keys[row], _SCREEN_NEAR, self._rng)]
            seen = set(keys)
            fresh = [key for key in self._new(near) if key not in seen]
            if fresh and (more := self._pool.screen(fresh)) is not None:
                keys, screened = keys + fresh, np.concatenate([screened, more])
        return keys, screened

    def _new(self, keys: Sequence[Key]) -> list[Key]:
        return [key for key in dict.fromkeys(keys) if key not in self._asked]

    def _likenesses_of(self, keys: list[Key]) -> list[Hashable] | None:
        """Tell what keys are hardly different from; None where the screen is not believed: it has to tell."""
        return self._pool.likenesses(keys) if self._band is not None and keys else None

    def _unlike(self, keys: list[Key]) -> list[Key]:
        """Keep what differs from all that was asked for by more than next to nothing; else there is no use.

        All are kept where nothing would be left, and where it is not known.
        """
        likenesses = self._likenesses_of(keys)
        if likenesses is None:
            return keys
        known = self._likenesses
        return [key for key, like in zip(keys, likenesses, strict=True) if like not in known] or keys

    def _one_of_each(self, keys: list[Key]) -> list[Key]:
        """Keep the first of those that hardly differ."""
        likenesses = self._likenesses_of(keys)
        if likenesses is None:
            return keys
        first: dict[Hashable, Key] = {}
        for key, like in zip(keys, likenesses, strict=True):
            first.setdefault(like, key)
        return list(first.values())

    def _at_random(self, count: int) -> list[Key]:
        return self._new(self._pool.draw(8 * count, self._rng))[:count]

    # By the model ---------------------------------------------------------------------------------------

    def _by_model(self, count: int) -> list[Key]:
        model, known = self._learn()
        considered = self._consider(model, known)
        if not considered.keys:
            return self._at_random(count)
        self._shortlisted = considered.best(_SHORTLIST)
        given = self._trials(considered, known)[:count]
        found = given + self._shortlisted + self._wild(considered, known)
        candidates = self._one_of_each(list(dict.fromkeys(found)))
        outlook = self._outlook(model, candidates, count)
        rows = pick_batch(
            outlook,
            known,
            count,
            bold=self._explorers(known),
            given=len(given),
            groups=_numbered(self._pool.labels(candidates)) if self._is_blind else None,
        )
        return [candidates[row] for row in rows]

    @property
    def _is_blind(self) -> bool:
        """Whether a search for one best has no screen, so that it may settle on the wrong engine."""
        return self._objectives == 1 and self._band is None

    def _wild(self, considered: Considered[Key], known: Floats) -> list[Key]:
        """Choose candidates that might be much better than the model thinks, of many engines."""
        if not self._is_blind:
            return []
        groups = _numbered(self._pool.labels(considered.keys))
        return [considered.keys[row] for row in boldest(considered.expected(), known, groups, _MOST_WILD)]

    def _learn(self) -> tuple[Model, Floats]:
        """Fit the model; return it and what it now thinks of the measured configurations."""
        logs = np.array(self._logs)
        logs = np.maximum(logs, logs.max(0) - _WIDEST)
        if calibration := self._calibration:
            calibration.fit(self._keys, logs)
        prior = self._prior(self._keys)
        if prior is not None and contradicts(logs, prior):
            self._band, prior, self.prior_dropped = None, None, True
            self._model = Model(self._objectives)  # its inputs had the screen in them
        x = self._inputs(self._keys, prior)
        bad = x[slice(0)]
        if self._infeasible:
            bad = self._inputs(self._infeasible, self._prior(self._infeasible))
        self._model.fit(x, logs, prior, bad)
        return self._model, np.exp(self._model.at(x, prior, 0).means)

    def _inputs(self, keys: Sequence[Key], prior: Floats | None) -> Inputs:
        """Describe configurations to the model; what the screen says of them tells what limits them."""
        numbers = self._pool.features(keys)
        if prior is not None:
            numbers = np.column_stack([numbers, prior])
        if calibration := self._calibration:
            pressure = np.clip(calibration.pressure(keys), *_PRESSURES)
            numbers = np.column_stack([numbers, pressure])
        return self._labelled(numbers, keys)

    def _labelled(self, numbers: Floats, keys: Sequence[Key]) -> Inputs:
        """Label rows; where there is a limit, a label has an offset for each side of it."""
        labels = self._pool.labels(keys)
        if not (calibration := self._calibration):
            return Inputs.plain(numbers, labels)
        limited = calibration.limited(keys)
        return Inputs(numbers, labels, np.column_stack([1.0 - limited, limited]))

    @property
    def _calibration(self) -> Calibration[Key] | None:
        """What corrects the screen, while that is believed."""
        return None if self._band is None else self._pool.calibration

    def _prior(self, keys: Sequence[Key]) -> Floats | None:
        """Return the logarithms of the screened objectives, while the screen is believed."""
        if self._band is None:
            return None
        if calibration := self._calibration:
            return np.asarray(np.maximum(calibration.logs(keys), np.log(self._band.floor)))
        screened = self._pool.screen(keys)
        return None if screened is None else np.log(np.maximum(screened, self._band.floor))

    def _outlook(self, model: Model, keys: Sequence[Key], beliefs: int = 0) -> Outlook:
        prior = self._prior(keys)
        outlook = model.at(self._inputs(keys, prior), prior, beliefs)
        if calibration := self._calibration:
            outlook.doubt = calibration.doubt(keys)
        return outlook

    def _consider(self, model: Model, known: Floats) -> Considered[Key]:
        """Predict candidates, then go on from the most promising ones."""
        considered: Considered[Key] = Considered()
        fresh = self._unlike(self._new(self._candidates(known)))
        for round_ in range(_POLISH_ROUNDS + 1):
            if round_:
                near = [
                    key
                    for best in considered.best(_POLISHED)
                    for key in self._pool.near(best, _POLISH_NEAR, self._rng)
                ]
                fresh = self._unlike(considered.without_known(self._new(near)))
            if fresh:
                outlook = self._outlook(model, fresh)
                considered.add(fresh, outlook, expected_gains(outlook, known))
        return considered

    def _trials(self, considered: Considered[Key], known: Floats) -> list[Key]:
        """Choose what to try because much may follow from it, and remember what else was promising.

        Only with a screen, which is right about much but may be wrong about an engine as a whole.
        """
        if self._band is None:
            return []
        none = np.empty((0, 0))
        measured, candidates = self._labelled(none, self._keys), self._labelled(none, considered.keys)
        gains, means, deviations, chance = considered.expected()
        expected = float(gains.max())
        groups = hardly_known(measured, candidates)
        trials = best_of_groups(means, deviations, chance, groups, known, expected)
        self._hopeful = [considered.keys[row] for trial in trials[:_MOST_HOPEFUL] for row in trial.rows]
        worthy = [trial for trial in trials if trial.value > max(expected, 0.0)]
        rows = dict.fromkeys(int(trial.rows[0]) for trial in worthy)
        return [considered.keys[row] for row in rows][:_MOST_TRIALS]

    def _candidates(self, known: Floats) -> list[Key]:
        drawn = _DRAWN if self._band is None else _DRAWN_BESIDE_BAND
        keys = self._pool.draw(drawn, self._rng) + self._shortlisted + self._hopeful
        keys += [key for hopeful in self._hopeful for key in self._pool.near(hopeful, 1, self._rng)]
        if self._band is not None:
            keys += self._band.draw(_BANDED, self._rng)
        best = spread_over_front(known, _MOST_BEST if self._objectives > 1 else _MOST_BEST_SINGLE)
        each = -(-_NEAR_BEST // len(best))
        for row in best:
            keys += self._pool.near(self._keys[row], each, self._rng)
        for row in best[: _MOVED_BEST * self._is_blind]:
            keys += self._pool.moved(self._keys[row], _MOST_MOVED, self._rng)
        return keys

    def _explorers(self, known: Floats) -> tuple[int, ...]:
        """Choose the places of a batch that explore: more of them when the best no longer grows."""
        if self._objectives > 1:
            return ()
        best = float(known.max())
        self._stagnant = 0 if best > _GROWTH * self._best else self._stagnant + 1
        self._best = max(best, self._best)
        is_stagnant = self._stagnant >= _STAGNANT_ASKS
        if self._is_blind:
            return (4, 5, 6, 7) if is_stagnant else (5, 6, 7)
        return (1, 4, 7) if is_stagnant else (7,)


def _numbered(labels: Ints) -> Ints:
    """Give rows the same number that have all labels the same."""
    return np.asarray(np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1))
