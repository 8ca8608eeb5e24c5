"""Split kernels against a search in plain Python over everything they may choose."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mvsboost.exact.fixedpoint import Packing
from mvsboost.kernels.split import CATEGORY_NOISE, CATEGORY_SUPPORT
from mvsboost.trees.splitting import FeatureTable, Limits, SplitSearch

OPEN = Limits(l2=1.0, min_samples_leaf=1.0, min_child_weight=0.0, min_sampled=1)


@dataclass(frozen=True)
class Case:
    """A node's rows in bins of some features, and what its split must satisfy."""

    bins: np.ndarray
    n_bins: np.ndarray
    g: np.ndarray
    h: np.ndarray
    w: np.ndarray
    limits: Limits = OPEN
    categorical: tuple[bool, ...] = (False, False, False)
    monotone: tuple[int, ...] = (0, 0, 0)

    @property
    def packing(self) -> Packing:
        return Packing.choose(len(self.g), 8.0, 4.0, 8.0)

    @property
    def words(self) -> np.ndarray:
        return self.packing.pack(self.g, self.h, self.w, np.full(len(self.g), 0.5))

    def histogram(self, feature: int) -> np.ndarray:
        out = np.zeros((self.n_bins[feature] + 1, 2), np.int64)
        np.add.at(out, self.bins[:, feature].astype(int), self.words)
        return out

    def search(self, features: list[int] | None = None) -> SplitSearch:
        chosen = np.arange(len(self.n_bins)) if features is None else np.array(features)
        table = FeatureTable(
            self.n_bins, np.array(self.categorical), np.array(self.monotone, np.int8)
        )
        histogram = np.concatenate([self.histogram(f) for f in chosen])
        total = self.words.sum(axis=0)
        return SplitSearch(table, chosen, histogram, total, self.packing, self.limits)


def make_case(seed: int, n: int = 60, few: bool = False, **changes) -> Case:
    """Numbers are multiples of 1/8, so that every sum is exact however it is taken."""
    rng = np.random.default_rng(seed)
    n_bins = rng.integers(1, 4 if few else 9, 3)
    bins = rng.integers(0, n_bins + rng.integers(0, 2, 3), (n, 3))
    return Case(
        bins=bins.astype(np.uint8),
        n_bins=n_bins.astype(np.int64),
        g=rng.integers(-24, 25, n) / 8,
        h=rng.integers(0, 9, n) / 8,
        w=rng.integers(1, 25, n) / 8,
        **changes,
    )


# --- the search in plain Python ------------------------------------------------------------------


def clipped_value(g: float, h: float, limits: Limits) -> float:
    g -= math.copysign(min(abs(g), limits.l1), g)
    value = -g / (h + limits.l2) if h + limits.l2 > 0 else 0.0
    return min(max(value, limits.lower), limits.upper)


def leaf_score(g: float, h: float, limits: Limits) -> float:
    v = clipped_value(g, h, limits)
    return -(2 * g * v + (h + limits.l2) * v * v) - 2 * limits.l1 * abs(v)


def gain_of(case: Case, left: np.ndarray, sign: int = 0) -> float:
    """Gain of sending these rows left, or -inf where a limit forbids it."""
    limits, sides = case.limits, []
    for side in (left, ~left):
        g, h, w = case.g[side].sum(), case.h[side].sum(), case.w[side].sum()
        if (
            side.sum() < limits.min_sampled
            or w < limits.min_samples_leaf
            or h < limits.min_child_weight
        ):
            return -math.inf
        sides.append((g, h))
    (ga, ha), (gb, hb) = sides
    if sign * (clipped_value(gb, hb, limits) - clipped_value(ga, ha, limits)) < 0:
        return -math.inf
    parent = leaf_score(ga + gb, ha + hb, limits)
    return leaf_score(ga, ha, limits) + leaf_score(gb, hb, limits) - parent


def numeric_choices(case: Case, feature: int):
    bins, n_bins = case.bins[:, feature], case.n_bins[feature]
    missing = bins == n_bins
    for t in range(n_bins):
        for missing_left in (False, True):
            yield np.where(missing, missing_left, bins <= t)


def supported(case: Case, feature: int) -> list[int]:
    """Categories, the missing one among them, in order of their smoothed gradient ratio."""
    bins, n_bins = case.bins[:, feature], case.n_bins[feature]
    smoothing = CATEGORY_SUPPORT * case.h.sum() / max(len(bins), 1)
    kept = [c for c in range(n_bins + 1) if (bins == c).sum() >= CATEGORY_SUPPORT]
    ratio = {
        c: case.g[bins == c].sum() / max(case.h[bins == c].sum() + smoothing, 1e-300) for c in kept
    }
    return sorted(kept, key=lambda c: ratio[c])


def categorical_choices(case: Case, feature: int):
    order = supported(case, feature)
    for size in range(1, len(order) + 1):
        for chosen in (order[:size], order[-size:]):
            yield np.isin(case.bins[:, feature], chosen)


def by_chance(case: Case, feature: int) -> float:
    """What a categorical feature has to gain more than, for the number of its categories."""
    if not case.categorical[feature]:
        return 0.0
    each = CATEGORY_NOISE * case.limits.dispersion * case.w.sum() / len(case.w)
    return each * len(supported(case, feature))


def best_gain(case: Case, feature: int) -> float:
    if case.categorical[feature]:
        noise = by_chance(case, feature)
        gains = [gain_of(case, left) - noise for left in categorical_choices(case, feature)]
    else:
        sign = case.monotone[feature]
        gains = [gain_of(case, left, sign) for left in numeric_choices(case, feature)]
    return max(gains, default=-math.inf)


def check(case: Case) -> None:
    """The kernels find the best gain of each feature, and the split they name has it."""
    search = case.search()
    expected = [best_gain(case, f) for f in range(3)]
    assert search.gains == pytest.approx(expected, rel=1e-9, abs=1e-9)
    split = search.best(min_gain=0.0)
    if max(expected) <= 1e-6:
        return
    assert split is not None
    assert split.gain == search.gains.max()
    assert split.feature == int(np.argmax(search.gains))
    left = split.goes_left[case.bins[:, split.feature]].astype(bool)
    gain = gain_of(case, left, case.monotone[split.feature]) - by_chance(case, split.feature)
    assert gain == pytest.approx(split.gain)
    assert np.array_equal(split.left, case.words[left].sum(axis=0))
    assert np.array_equal(search.words_left(split), split.left)
    assert (split.threshold == -1) == case.categorical[split.feature]


# --- tests ---------------------------------------------------------------------------------------

seeds = st.integers(0, 10**6)
relaxed = settings(deadline=None, max_examples=60)


@relaxed
@given(seeds)
def test_numeric_splits(seed):
    check(make_case(seed))


@relaxed
@given(seeds, st.floats(0, 20), st.floats(0, 8), st.integers(1, 15), st.sampled_from([0.0, 1.0]))
@example(seed=1, min_samples_leaf=0.0, min_child_weight=1.0, min_sampled=1, l2=0.0)
def test_limits_of_both_leaves(seed, min_samples_leaf, min_child_weight, min_sampled, l2):
    case = make_case(seed, limits=Limits(l2, min_samples_leaf, min_child_weight, min_sampled))
    # without l2 a side without hessian has 0 / 0 as its score: compiled or not it is not allowed,
    # but a scalar of NumPy warns of it
    with np.errstate(invalid="ignore"):
        check(case)
        split = case.search().best(0.0)
    if split is not None:
        left = split.goes_left[case.bins[:, split.feature]].astype(bool)
        for side in (left, ~left):
            assert side.sum() >= min_sampled
            assert case.w[side].sum() >= min_samples_leaf
            assert case.h[side].sum() >= min_child_weight


@relaxed
@given(seeds, st.tuples(*[st.sampled_from([-1, 0, 1])] * 3))
def test_monotone_signs(seed, monotone):
    check(make_case(seed, few=True, monotone=monotone))


@relaxed
@given(seeds, st.floats(-1, 0.5), st.floats(0, 1))
def test_bounds_of_values(seed, lower, width):
    limits = replace(OPEN, lower=lower, upper=lower + width)
    check(make_case(seed, limits=limits, monotone=(1, 0, -1)))


@relaxed
@given(seeds, st.floats(0, 20), st.booleans(), st.sampled_from([-1, 0, 1]))
def test_sums_drawn_to_zero(seed, l1, categorical, sign):
    limits = replace(OPEN, l1=l1)
    case = make_case(seed, limits=limits, categorical=(categorical, False, False))
    check(replace(case, monotone=(0, sign, 0)))


@relaxed
@given(seeds, st.tuples(*[st.booleans()] * 3))
def test_categorical_splits(seed, categorical):
    check(make_case(seed, n=100, categorical=categorical))


@relaxed
@given(seeds)
def test_categorical_splits_with_limits(seed):
    limits = Limits(l2=0.5, min_samples_leaf=20.0, min_child_weight=3.0, min_sampled=9)
    check(make_case(seed, n=100, limits=limits, categorical=(True, True, True)))


def test_rare_categories_stay_with_the_others():
    rare = make_case(1, n=60, categorical=(True, True, True))
    bins = rare.bins.copy()
    bins[:, 0] = np.repeat([0, 1, 2], [29, 29, 2])
    g = np.where(bins[:, 0] == 2, 3.0, np.where(bins[:, 0] == 1, 0.5, -0.5))
    case = replace(rare, bins=bins, n_bins=np.array([3, 1, 1]), g=g, w=np.ones(60))
    split = case.search([0]).best(0.0)
    assert split is not None
    # two rows are no reason to move a category by itself, however large their gradients
    assert split.goes_left[2] == 0
    assert split.goes_left[:2].sum() == 1
    # a category that training never met goes where missing values go
    assert split.goes_left[3] == 0


def test_ties_go_to_the_first_feature():
    case = make_case(4)
    bins = np.repeat(case.bins[:, :1], 3, axis=1)
    case = replace(case, bins=bins, n_bins=np.repeat(case.n_bins[:1], 3))
    search = case.search()
    assert search.gains[0] == search.gains[1] == search.gains[2]
    assert search.best(0.0).feature == 0
    assert search.ranked(2).tolist() == [0, 1]


def test_ranked_features_come_by_gain():
    case = make_case(5)
    search = case.search()
    gains = dict(zip(range(3), search.gains, strict=True))
    assert search.ranked(3).tolist() == sorted(gains, key=lambda f: -gains[f])
    assert len(search.ranked(10)) == 3


def test_nothing_is_gained_where_nothing_can_be_split():
    case = make_case(6, limits=replace(OPEN, min_sampled=1000))
    assert case.search().largest_gain == -np.inf
    assert case.search().best(0.0) is None


def test_a_split_must_gain_more_than_min_gain():
    search = make_case(7).search()
    best = float(search.gains.max())
    assert search.best(best) is None
    assert search.best(math.nextafter(best, 0)).gain == best


def test_equal_gradients_leave_nothing_to_gain():
    case = make_case(8)
    case = replace(case, g=np.ones(60), h=np.ones(60), limits=replace(OPEN, l2=0.0))
    assert case.search().best(0.0) is None


@pytest.mark.parametrize(("lower_rows", "expected"), [(20, False), (40, True)])
def test_missing_values_not_seen_follow_the_larger_side(lower_rows, expected):
    case = make_case(9)
    bins = np.zeros((60, 3), np.uint8)
    bins[lower_rows:] = 1
    g = np.where(bins[:, 0] == 0, -1.0, 1.0)
    case = replace(case, bins=bins, n_bins=np.full(3, 2), g=g, w=np.ones(60))
    assert bool(case.search([1]).best(0.0).goes_left[2]) is expected


def test_missing_values_alone_can_be_split_off():
    case = make_case(10)
    bins = np.repeat(np.where(np.arange(60) < 20, 1, 0)[:, None], 3, axis=1).astype(np.uint8)
    g = np.where(bins[:, 0] == 1, -2.0, 1.0)
    case = replace(case, bins=bins, n_bins=np.ones(3, np.int64), g=g)
    split = case.search([0]).best(0.0)
    assert split.goes_left[:2].tolist() == [1, 0]
    assert split.threshold == 0


@relaxed
@given(seeds, st.floats(0.0, 10.0))
def test_categories_pay_for_their_number(seed, dispersion):
    limits = Limits(1.0, 1.0, 0.0, 1, dispersion=dispersion)
    check(make_case(seed, n=200, limits=limits, categorical=(True, False, True)))


def test_what_chance_gains_is_taken_off_categories_alone():
    rng = np.random.default_rng(0)
    n = 4000
    bins = np.stack([rng.integers(0, 200, n), rng.integers(0, 8, n)], axis=1).astype(np.uint8)
    g = rng.choice([-1.0, 1.0], n) + 0.125 * (bins[:, 1] > 3)
    case = Case(
        bins,
        np.array([200, 8]),
        g,
        np.ones(n),
        np.ones(n),
        categorical=(True, False),
        monotone=(0, 0),
    )
    fair = replace(case, limits=replace(OPEN, dispersion=float((g**2).mean())))
    gains = [of.search().gains for of in (case, fair)]
    assert gains[1][1] == gains[0][1]
    each = CATEGORY_NOISE * fair.limits.dispersion
    assert gains[0][0] - gains[1][0] == pytest.approx(each * len(supported(case, 0)))
    assert len(supported(case, 0)) > 150


def test_all_bins_a_byte_can_hold():
    n = 6000
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 256, (n, 3)).astype(np.uint8)
    g = np.where(bins[:, 0] > 200, 1.0, -1.0)
    base = Case(bins, np.full(3, 255), g, np.ones(n), np.full(n, 8.0))
    for categorical in (False, True):
        case = replace(base, categorical=(categorical,) * 3)
        split = case.search().best(0.0)
        left = split.goes_left[bins[:, split.feature]].astype(bool)
        assert split.gain == pytest.approx(gain_of(case, left))
        assert split.feature == 0


@pytest.mark.filterwarnings("ignore:.* encountered in scalar")  # without the JIT
def test_a_gain_beyond_floats_is_no_split():
    """A child next to no hessian, whose score no file could keep."""
    units, limits = Packing(2.0**-600, 1.0, 1.0, 8), replace(OPEN, l2=2.0**-500)
    words = units.pack(np.array([2.0**602, -(2.0**602)]), np.zeros(2), np.ones(2), np.zeros(2))
    n_bins = np.array([2])
    table = FeatureTable(n_bins, np.array([False]), np.array([0], np.int8))
    histogram = np.concatenate([words, np.zeros((1, 2), np.int64)])
    search = SplitSearch(table, np.array([0]), histogram, words.sum(axis=0), units, limits)
    assert search.gains.tolist() == [-np.inf]
    assert search.best(0.0) is None
