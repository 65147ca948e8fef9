"""The pieces of the model-based search against independent calculations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from aisimulate.spica.pool_gp import hyperparameters as hyper
from aisimulate.spica.pool_gp.acquisition import boldest, pick_batch
from aisimulate.spica.pool_gp.considered import Expected
from aisimulate.spica.pool_gp.design import far_apart, spread_over_front
from aisimulate.spica.pool_gp.doubt import Doubt
from aisimulate.spica.pool_gp.fronts import area, front_of_many, front_of_two, layers
from aisimulate.spica.pool_gp.gaussian_process import GaussianProcess
from aisimulate.spica.pool_gp.improvement import (
    expected_area,
    expected_excess,
    expected_gain,
    expected_improvement,
    expected_volume,
    worth,
)
from aisimulate.spica.pool_gp.inputs import Inputs
from aisimulate.spica.pool_gp.model import squash_bad_half
from aisimulate.spica.pool_gp.optimizer import PoolOptimizer
from aisimulate.spica.pool_gp.screening import contradicts
from aisimulate.spica.pool_gp.trials import best_of_groups, hardly_known

RNG = np.random.default_rng(7)
KNOWN = np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 4.0], [0.5, 0.5]])


def draws(mean, deviation, count=400_000):
    return np.exp(mean + deviation * RNG.standard_normal((count, len(mean))))


def test_front_of_two_and_of_many_agree():
    points = RNG.random((200, 2)).round(1)
    brute = [
        row
        for row, point in enumerate(points)
        if not any(
            (other >= point).all() and ((other > point).any() or place < row)
            for place, other in enumerate(points)
            if place != row
        )
    ]
    assert sorted(front_of_two(points)) == list(front_of_many(points)) == brute


def test_area():
    assert area(KNOWN) == area(KNOWN[front_of_two(KNOWN)]) == 3 * 1 + 2 * 1 + 1 * 2
    assert area(np.empty((0, 2))) == 0.0


def test_layers_peel_everything_once():
    points = RNG.random((50, 2))
    peeled = np.concatenate(layers(points, 50))
    assert sorted(peeled) == list(range(50))


def test_excess_of_a_log_normal():
    values = draws(np.array([0.3]), np.array([0.4]))[:, 0]
    exact = expected_excess(np.array([0.3]), np.array([0.4]), np.array([0.0, 1.0, 2.5]))[0]
    sampled = [np.maximum(values - level, 0).mean() for level in (0.0, 1.0, 2.5)]
    assert exact == pytest.approx(sampled, rel=0.02)


def test_expected_improvement():
    values = np.log(draws(np.array([0.3]), np.array([0.4])))[:, 0]
    exact = expected_improvement(np.array([0.3]), np.array([0.4]), 0.5)[0]
    assert exact == pytest.approx(np.maximum(values - 0.5, 0).mean(), rel=0.02)


@pytest.mark.parametrize("known", [KNOWN, KNOWN[:1], KNOWN[:0]])
def test_expected_area_is_the_mean_gain_of_area(known):
    mean, deviation = np.array([0.6, 0.5]), np.array([0.5, 0.3])
    before = area(known)
    gains = [area(np.vstack([known, value])) - before for value in draws(mean, deviation, 20_000)]
    exact = expected_area(mean[None], deviation[None], known)[0]
    assert exact == pytest.approx(np.mean(gains), rel=0.03)


def test_expected_volume_orders_as_the_exact_area_does():
    means, deviations = RNG.normal(0.5, 0.5, (40, 2)), RNG.uniform(0.05, 0.3, (40, 2))
    exact, estimated = expected_area(means, deviations, KNOWN), expected_volume(means, deviations, KNOWN)
    assert np.corrcoef(exact, estimated)[0, 1] > 0.97
    assert set(np.argsort(-exact)[:3]) & set(np.argsort(-estimated)[:2])


def unlabelled(numbers):
    return Inputs.plain(numbers, np.empty((len(numbers), 0), dtype=np.intp))


def test_the_gradient_of_the_posterior():
    x = Inputs(RNG.random((30, 4)), RNG.integers(0, 3, (30, 2)), RNG.random((30, 2)))
    y = RNG.standard_normal(30)
    means, deviations = np.zeros(10), np.ones(10)
    at = np.array([-0.5, 0.2, 0.1, -0.3, -0.4, -1.1, -0.7, -0.2, 0.2, -2.0])
    args = (x, y, means, deviations)
    error = check_grad(lambda v: hyper._loss(v, *args)[0], lambda v: hyper._loss(v, *args)[1], at)
    assert error < 1e-4 * np.linalg.norm(hyper._loss(at, *args)[1])


def test_a_process_predicts_and_knows_where_it_does_not_know():
    x = RNG.random((60, 3))
    y = np.sin(4 * x[:, 0]) + x[:, 1] ** 2
    process = GaussianProcess()
    process.fit(unlabelled(x[:50]), y[:50])
    near, far = process.at(unlabelled(x[50:])), process.at(unlabelled(x[50:] + 3.0))
    assert np.abs(near.mean - y[50:]).max() < 0.2
    assert far.deviation.min() > 3 * near.deviation.max()


def test_labels_have_offsets_of_their_own():
    numbers, labels = RNG.random((60, 2)), RNG.integers(0, 4, (60, 1))
    values = numbers[:, 0] + np.array([0.0, 3.0, -2.0, 1.0])[labels[:, 0]]
    process = GaussianProcess()
    process.fit(Inputs.plain(numbers, labels), values)
    middle = np.full((5, 2), 0.5)
    prediction = process.at(Inputs.plain(middle, np.arange(5)[:, None]))
    assert prediction.mean[:4] - prediction.mean[0] == pytest.approx([0.0, 3.0, -2.0, 1.0], abs=0.1)
    assert prediction.deviation[4] > 5 * prediction.deviation[:4].max()  # a label never seen


def test_a_label_has_an_offset_on_either_side_of_a_limit():
    numbers, labels = RNG.random((90, 1)), RNG.integers(0, 3, (90, 1))
    beyond = RNG.integers(0, 2, 90)
    values = numbers[:, 0] + beyond * np.array([0.0, 3.0, -2.0])[labels[:, 0]]
    process = GaussianProcess()
    process.fit(Inputs(numbers, labels, np.column_stack([1 - beyond, beyond])), values)
    middle, each = np.full((3, 1), 0.5), np.arange(3)[:, None]
    before = process.at(Inputs(middle, each, np.tile([1.0, 0.0], (3, 1)))).mean
    after = process.at(Inputs(middle, each, np.tile([0.0, 1.0], (3, 1)))).mean
    assert before == pytest.approx(np.full(3, 0.5), abs=0.15)
    assert after == pytest.approx([0.5, 3.5, -1.5], abs=0.15)


def test_doubt_that_is_shared_shrinks_together():
    slopes = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]])
    doubt = Doubt(slopes, 0.04 * np.eye(2), np.full((1, 3), 0.1))
    assert doubt.variances[:, 0] == pytest.approx([0.04, 0.04, 0.16])
    doubt.believe(0)
    assert doubt.variances[:, 0] == pytest.approx([0.008, 0.008, 0.16])  # 1 / (1 / 0.04 + 1 / 0.01)


def test_believing_is_fitting_the_mean():
    x, y = RNG.random((40, 2)), RNG.standard_normal(40).cumsum()
    process = GaussianProcess()
    process.fit(unlabelled(x), y)
    candidates = unlabelled(RNG.random((20, 2)))
    prediction = process.at(candidates, beliefs=2)
    mean, before = prediction.mean.copy(), prediction.deviation
    prediction.believe(4)
    assert prediction.deviation[4] < 0.5 * before[4]
    assert (prediction.deviation <= before + 1e-12).all()
    assert (prediction.mean == mean).all()


def test_squashing_keeps_order_and_the_good_half():
    values = RNG.standard_normal(101)
    squashed = squash_bad_half(values)
    good = values >= np.median(values)
    assert (np.argsort(squashed) == np.argsort(values)).all()
    assert (squashed[good] == values[good]).all()
    assert squashed.min() > values.min()


def test_far_apart_takes_the_corners():
    places = np.array([[x, y] for x in range(5) for y in range(5)], dtype=float)
    assert {tuple(places[row]) for row in far_apart(places, 4)} == {(0, 0), (0, 4), (4, 0), (4, 4)}


def test_a_small_front_is_filled_up_from_the_next_layer():
    assert set(spread_over_front(KNOWN, 4)) == {0, 1, 2, 3}


def test_a_screen_is_dropped_when_it_contradicts():
    logs = RNG.standard_normal((20, 2))
    assert not contradicts(logs, logs + 3.0)
    assert not contradicts(logs, logs + 0.1 * RNG.standard_normal((20, 2)))
    assert contradicts(logs, -logs)
    assert contradicts(logs, RNG.standard_normal((20, 2)))
    assert not contradicts(logs[:5], -logs[:5])


class GridPool:
    """40 x 40 points; two objectives against each other along x, both better at y = 0.7."""

    calibration = None

    def __init__(self, screened=None):
        self.screened = screened

    def draw(self, count, rng):
        return [(int(x), int(y)) for x, y in rng.integers(0, 40, (count, 2))]

    def near(self, key, count, rng):
        moved = np.clip(np.array(key) + rng.integers(-2, 3, (count, 2)), 0, 39)
        return [(int(x), int(y)) for x, y in moved]

    def moved(self, key, count, rng):
        return []

    def features(self, keys):
        return np.array(keys, dtype=float).reshape(-1, 2) / 39

    def labels(self, keys):
        return np.empty((len(keys), 0), dtype=np.intp)

    def truth(self, keys):
        x, y = self.features(keys).T
        good = np.exp(-8 * (y - 0.7) ** 2)
        return np.column_stack([(0.05 + x) * good, (1.05 - x**3) * good])

    def screen(self, keys):
        return None if self.screened is None else self.screened(self, keys)

    def likenesses(self, keys):
        return None


def share_after(pool, measurements):
    optimizer = PoolOptimizer(pool, objectives=2, seed=3)
    seen = []
    while len(seen) < measurements:
        for key in optimizer.ask(8):
            value = pool.truth([key])[0]
            optimizer.tell(key, value)
            seen.append(value)
    whole = pool.truth([(x, y) for x in range(40) for y in range(40)])
    return area(np.array(seen)) / area(whole), optimizer


def wrong(pool, keys):
    return pool.truth([(39 - x, 39 - y) for x, y in keys])


def test_two_objectives_without_a_screen():
    assert share_after(GridPool(), 48)[0] > 0.97


def test_a_screen_helps_from_the_start():
    share, optimizer = share_after(GridPool(lambda pool, keys: 1.3 * pool.truth(keys)), 16)
    assert share > 0.93
    assert not optimizer.prior_dropped


def test_a_wrong_screen_is_dropped_and_overcome():
    share, optimizer = share_after(GridPool(wrong), 72)
    assert optimizer.prior_dropped
    assert share > 0.95


def test_worth_is_what_expected_gains_add_to():
    values = np.array([[0.6, 0.5]])
    for objectives in (1, 2, 3):
        known = RNG.random((6, objectives)) + 0.5
        unit = known.max(0)
        better = np.exp(np.full((1, objectives), 0.7))
        added = worth(np.concatenate([known, better]), unit) - worth(known, unit)
        sure = np.full((1, objectives), 1e-6)
        assert expected_gain(np.log(better), sure, known)[0] == pytest.approx(added, rel=1e-3)
    assert worth(values, values[0]) == pytest.approx(0.3)


class TestTrials:
    """Three engines: the first well known, the second tried once, the third never."""

    MEASURED = Inputs.plain(np.empty((4, 0)), np.array([[0], [0], [0], [1]]))
    CANDIDATES = Inputs.plain(np.empty((5, 0)), np.array([[0], [1], [2], [2], [2]]))

    def test_only_what_is_hardly_measured_is_a_group(self):
        groups = hardly_known(self.MEASURED, self.CANDIDATES)
        assert [list(rows) for rows in groups] == [[1], [2, 3, 4]]

    def test_each_side_of_a_limit_is_to_be_measured(self):
        sides = np.array([[1.0, 0.0], [0.9, 0.1], [1.0, 0.0], [0.0, 1.0]])
        measured = Inputs(np.empty((4, 0)), np.zeros((4, 1), dtype=int), sides)
        candidates = Inputs(np.empty((3, 0)), np.zeros((3, 1), dtype=int), sides[1:])
        groups = hardly_known(measured, candidates)
        assert [list(rows) for rows in groups] == [[0, 1], [2]]
        many = hardly_known(measured.joined(measured), candidates)
        assert [list(rows) for rows in many] == [[2]]

    def test_a_whole_curve_is_worth_more_than_one_point(self):
        means = np.log([[3.0, 1.0], [2.4, 1.8], [2.4, 1.8], [1.8, 2.4], [1.0, 3.0]])
        deviations = np.full((5, 2), 0.3)
        groups = hardly_known(self.MEASURED, self.CANDIDATES)
        first, second = best_of_groups(means, deviations, np.ones(5), groups, KNOWN[:3], 0.0)
        assert list(second.rows) == [1]
        assert set(first.rows) == {2, 3, 4}
        assert first.value > second.value > 0

    def test_nothing_is_worth_trying_when_other_measurements_gain_more(self):
        means, deviations = np.log(np.full((5, 2), 1.8)), np.full((5, 2), 0.1)
        groups = hardly_known(self.MEASURED, self.CANDIDATES)
        assert all(t.value == 0 for t in best_of_groups(means, deviations, np.ones(5), groups, KNOWN, 9.0))

    def test_what_is_hardly_feasible_is_not_tried(self):
        means, deviations = np.log(np.full((5, 2), 1.8)), np.full((5, 2), 0.1)
        groups = hardly_known(self.MEASURED, self.CANDIDATES)
        trials = best_of_groups(means, deviations, np.array([1, 1, 0, 0, 0.9]), groups, KNOWN, 0.0)
        assert sorted(list(trial.rows) for trial in trials) == [[1], [4]]


class EnginePool(GridPool):
    """The grid on 12 engines whose speeds the screen does not know. It takes the fastest for the slowest."""

    SPEEDS = np.array([0.93, 1.08, 0.96, 1.11, 0.9, 1.02, 1.0, 1.05, 0.97, 0.94, 1.1, 1.4])
    SCREENED = 0.85

    def draw(self, count, rng):
        return [(x, y, int(rng.integers(12))) for x, y in super().draw(count, rng)]

    def near(self, key, count, rng):
        return [(x, y, key[2]) for x, y in super().near(key[:2], count, rng)]

    def features(self, keys):
        numbers = np.array(keys, dtype=float).reshape(-1, 3)
        return numbers / (39, 39, 11)

    def labels(self, keys):
        return np.array([[engine] for _, _, engine in keys], dtype=np.intp).reshape(-1, 1)

    def truth(self, keys):
        x, y, _ = self.features(keys).T
        good = np.exp(-8 * (y - 0.7) ** 2) * self.SPEEDS[self.labels(keys)[:, 0]]
        return np.column_stack([(0.05 + x) * good, (1.05 - x**3) * good])

    def screen(self, keys):
        engines = self.labels(keys)
        return self.truth(keys) / self.SPEEDS[engines] * np.where(engines == 11, self.SCREENED, 1.0)


def test_an_engine_is_tried_when_the_screen_may_be_wrong_about_it():
    pool = EnginePool()
    optimizer = PoolOptimizer(pool, objectives=2, seed=3)
    tried = []
    for _ in range(6):
        for key in optimizer.ask(8):
            optimizer.tell(key, pool.truth([key])[0])
            tried.append(key[2])
    assert 11 in tried  # after 41 measurements; by expected improvement alone after 68


class BlindPool(EnginePool):
    """One goal and no screen; engine 11 is better than all others, in the corner where they are worst."""

    def moved(self, key, count, rng):
        return [(*key[:2], int(engine)) for engine in rng.permutation(12)[:count]]

    def truth(self, keys):
        x, y, _ = self.features(keys).T
        engines = self.labels(keys)[:, 0]
        corner = np.where(engines == 11, 1.6 * np.exp(-9 * ((x - 0.1) ** 2 + (y - 0.1) ** 2)), 0.0)
        return (0.2 * self.SPEEDS[engines] * (1 + x + y) * (engines < 11) + corner + 0.01)[:, None]

    def screen(self, keys):
        return None


def test_without_a_screen_half_a_batch_goes_to_other_engines():
    pool = BlindPool()
    optimizer = PoolOptimizer(pool, objectives=1, seed=3)
    found = []
    for turn in range(20):
        keys = optimizer.ask(8)
        for key in keys:
            optimizer.tell(key, pool.truth([key])[0])
        found += [(pool.truth([key])[0, 0], key[2]) for key in keys]
        engines = [key[2] for key in keys]
        assert turn < 2 or max(map(engines.count, engines)) <= 4
    assert max(found)[0] > 1.5
    assert max(found)[1] == 11


class TestPicks:
    """Six candidates of three groups; the best three are of the first."""

    MEANS = np.array([[1.0], [0.9], [0.8], [0.5], [0.4], [0.0]])
    GROUPS = np.array([0, 0, 0, 1, 1, 2])

    def outlook(self):
        class Sure:
            means, deviations = self.MEANS, np.full((6, 1), 0.2)
            chance = np.ones(6)

            def believe(self, index):
                self.deviations = self.deviations.copy()
                self.deviations[index] = 1e-9

        return Sure()

    def test_a_group_gets_half_a_batch_while_there_are_others(self):
        known = np.array([[1.0]])
        picked = pick_batch(self.outlook(), known, 4, groups=self.GROUPS)
        assert sorted(self.GROUPS[picked].tolist())[:2] == [0, 0]
        assert self.GROUPS[picked].tolist().count(0) == 2
        assert pick_batch(self.outlook(), known, 4, groups=np.zeros(6, dtype=int))[:1] == picked[:1]

    def test_wild_guesses_are_of_many_groups(self):
        deviations = np.array([[0.1], [0.1], [0.1], [0.1], [0.1], [2.0]])
        expected = Expected(np.zeros(6), self.MEANS, deviations, np.array([1, 1, 1, 1, 0.1, 1]))
        assert boldest(expected, np.array([[1.0]]), self.GROUPS, 3) == [5, 0, 1]


class KnobPool(GridPool):
    """The grid with a knob of 16 values that does nothing."""

    def draw(self, count, rng):
        return [(x, y, int(rng.integers(16))) for x, y in super().draw(count, rng)]

    def near(self, key, count, rng):
        moved = super().near(key[:2], count, rng)
        return [(x, y, int(rng.integers(16))) for x, y in moved]

    def features(self, keys):
        return super().features([key[:2] for key in keys])

    def likenesses(self, keys):
        return [key[:2] for key in keys]


def test_what_the_screen_holds_for_the_same_is_measured_once():
    pool = KnobPool(lambda pool, keys: pool.truth(keys))
    optimizer = PoolOptimizer(pool, objectives=2, seed=3)
    asked = []
    while len(asked) < 80:
        for key in optimizer.ask(8):
            optimizer.tell(key, pool.truth([key])[0])
            asked.append(key)
    assert len({key[:2] for key in asked[16:]}) == len(asked[16:])


def test_a_screen_that_is_not_believed_does_not_tell_what_is_alike():
    pool = KnobPool(lambda pool, keys: 1.0 / pool.truth(keys))
    optimizer = PoolOptimizer(pool, objectives=2, seed=3)
    asked = []
    while len(asked) < 120:
        for key in optimizer.ask(8):
            optimizer.tell(key, pool.truth([key])[0])
            asked.append(key)
    assert optimizer.prior_dropped
    assert len({key[:2] for key in asked[24:]}) < len(asked[24:])
