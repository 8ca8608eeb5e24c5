"""Three solvers, one answer."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.draws import Score, ScoreRule
from mvsboost.errors import ParameterError
from mvsboost.sampling import (
    inclusion_probabilities,
    threshold_by_newton,
    threshold_by_quickselect,
    threshold_by_sorting,
)
from mvsboost.testing import GradientRows

FLOAT32_MAX = float(np.float32(3.4e38))
SMALLEST = float(np.float32(1e-45))

one_score = st.one_of(
    st.floats(0.0, 10.0, width=32),
    st.sampled_from([0.0, 1.0, 2.0, SMALLEST, 1e-40, 1e-20, 1e20, FLOAT32_MAX]),
    st.floats(0.0, FLOAT32_MAX, width=32),
)
score_lists = st.lists(one_score, min_size=1, max_size=40).map(
    lambda values: np.array(values, np.float32)
)


def newton(scores, target, start=None, parts=1):
    """The distributed solver over rows whose score is |g|."""
    scores = np.asarray(scores, np.float32)
    edges = np.linspace(0, len(scores), parts + 1).astype(int)
    pieces = [GradientRows(scores[a:b], np.zeros(b - a), int(a)) for a, b in pairwise(edges)]
    rows = CompositeBackend(pieces)
    largest = rows.score_rows(ScoreRule(Score.ABS_GRADIENT))
    return threshold_by_newton(
        rows.threshold_sums, target, n_rows=len(scores), largest=largest, start=start
    )


def exact(scores, target):
    """F(µ) = t in rational numbers, trying every possible set of small scores."""
    values = sorted(Fraction(float(x)) for x in scores if x > 0)
    if len(values) <= target:
        return 0.0
    target = Fraction(target)
    for j in range(len(values) + 1):
        room = target - (len(values) - j)
        if room <= 0:
            continue
        mu = sum(values[:j], Fraction(0)) / room
        above_small = j == 0 or values[j - 1] <= mu
        if above_small and (j == len(values) or mu <= values[j]):
            return float(mu)
    raise AssertionError("no threshold")


class TestAgreement:
    @given(score_lists, st.floats(0.01, 0.999))
    @example(np.array([1, 1, 1, 1], np.float32), 0.5)
    @example(np.array([1, 1, 1] + [SMALLEST] * 20, np.float32), 3 / 23)
    @example(np.array([FLOAT32_MAX] + [1] * 9, np.float32), 0.5)
    @example(np.array([FLOAT32_MAX, 1e20] + [SMALLEST] * 9, np.float32), 0.5)
    @example(np.array([SMALLEST] * 9, np.float32), 0.25)
    @example(np.array([0.0, 1.0, SMALLEST, 1e20], np.float32), 0.5)
    @example(np.arange(30, dtype=np.float32), 0.3)
    @example(np.arange(30, dtype=np.float32)[::-1].copy(), 0.3)
    @settings(max_examples=200, deadline=None)
    def test_all_solvers_find_the_exact_root(self, scores, rate):
        target = max(1.0, rate * len(scores))
        truth = exact(scores, target)
        assert threshold_by_sorting(scores, target) == pytest.approx(truth, rel=1e-6)
        assert threshold_by_quickselect(scores, target) == pytest.approx(truth, rel=1e-6)
        assert newton(scores, target).mu == pytest.approx(truth, rel=2e-5)

    @given(score_lists, st.floats(0.01, 0.999))
    @settings(max_examples=100, deadline=None)
    def test_expected_size_is_the_target(self, scores, rate):
        target = max(1.0, rate * len(scores))
        assume((scores > 0).sum() > target)
        for mu in (
            threshold_by_sorting(scores, target),
            threshold_by_quickselect(scores, target),
            newton(scores, target).mu,
        ):
            assert inclusion_probabilities(scores, mu).sum() == pytest.approx(target, rel=2e-5)

    @pytest.mark.parametrize("order", ["ascending", "descending", "shuffled", "equal"])
    def test_long_arrays_in_any_order(self, order):
        scores = np.random.default_rng(0).lognormal(sigma=2, size=20_000).astype(np.float32)
        arranged = {
            "ascending": np.sort(scores),
            "descending": np.sort(scores)[::-1],
            "shuffled": scores,
            "equal": np.full(20_000, 0.3, np.float32),
        }[order]
        expected = threshold_by_sorting(arranged, 2000.0)
        assert threshold_by_quickselect(arranged, 2000.0) == pytest.approx(expected, rel=1e-10)
        assert newton(arranged, 2000.0).mu == pytest.approx(expected, rel=1e-6)


class TestNewton:
    @given(score_lists, st.floats(0.01, 0.999), one_score)
    @settings(max_examples=200, deadline=None)
    def test_result_does_not_depend_on_the_start(self, scores, rate, start):
        target = max(1.0, rate * len(scores))
        assert newton(scores, target, start).mu == newton(scores, target).mu

    @given(score_lists, st.floats(0.01, 0.999))
    @settings(max_examples=50, deadline=None)
    def test_its_own_answer_is_a_good_start(self, scores, rate):
        target = max(1.0, rate * len(scores))
        first = newton(scores, target)
        again = newton(scores, target, start=first.mu)
        assert again.mu == first.mu
        # a start that leads nowhere costs the pass that shows it
        assert again.passes <= max(first.passes + 1, 4)

    @given(score_lists, st.floats(0.01, 0.999), st.integers(2, 5))
    @settings(max_examples=50, deadline=None)
    def test_parts_do_not_matter(self, scores, rate, parts):
        target = max(1.0, rate * len(scores))
        assume(len(scores) >= parts)
        assert newton(scores, target, parts=parts).mu == newton(scores, target).mu

    @pytest.mark.parametrize("start", [0.0, -1.0, np.inf, np.nan, 1e-30, 1e30])
    def test_a_useless_start_is_ignored(self, start):
        scores = np.random.default_rng(1).random(500)
        assert newton(scores, 50.0, start).mu == newton(scores, 50.0).mu

    def test_warm_start_saves_passes(self):
        scores = np.random.default_rng(2).lognormal(size=5000).astype(np.float32)
        cold = newton(scores, 500.0)
        warm = newton(scores * np.float32(1.01), 500.0, start=cold.mu)
        assert warm.passes < cold.passes
        assert warm.passes <= 3

    def test_scores_over_many_magnitudes_take_the_finer_scale(self):
        scores = np.array([1e30] + [1.0] * 10 + [1e-6] * 10, np.float32)
        found = newton(scores, 5.0)
        assert found.mu == pytest.approx(exact(scores, 5.0), rel=1e-6)
        assert found.passes <= 50

    def test_exactly_as_many_large_scores_as_asked(self):
        scores = np.array([1.0, 1.0, 1.0] + [1e-30] * 50, np.float32)
        assert newton(scores, 3.0).mu == 1.0
        assert newton(scores, 3.0, start=1e-10).mu == 1.0

    def test_many_rows_of_one_huge_score_and_many_small_ones(self):
        scores = np.concatenate([[1e25], np.full(3000, 1e-3)]).astype(np.float32)
        expected = threshold_by_sorting(scores, 100.0)
        assert newton(scores, 100.0).mu == pytest.approx(expected, rel=1e-5)

    def test_finer_scale_with_the_threshold_over_all_scores(self):
        n, small = 2**24, 2.0**-30

        def sums(mu, scale):
            """One score of 1, all others tiny."""
            below = (n - 1) * round(small * scale) if small < mu else 0
            above = (mu <= 1.0) + (n - 1) * (small >= mu)
            return below + (round(scale) if mu > 1.0 else 0), above, 0

        found = threshold_by_newton(sums, 1.0, n_rows=n, largest=1.0)
        assert found.mu == pytest.approx(1.0 + (n - 1) * small, rel=1e-9)
        again = threshold_by_newton(sums, 1.0, n_rows=n, largest=1.0, start=0.01)
        assert again.mu == found.mu


class TestEdges:
    @pytest.mark.parametrize("solver", [threshold_by_sorting, threshold_by_quickselect])
    def test_too_few_positive_scores_are_all_certain(self, solver):
        assert solver([0.0, 0.0, 3.0, 1.0], 2.0) == 0.0
        assert solver([0.0, 0.0], 1.0) == 0.0
        assert solver([], 1.0) == 0.0

    def test_too_few_positive_scores_by_newton(self):
        assert newton([0.0, 0.0, 3.0, 1.0], 2.0).mu == 0.0
        found = newton([0.0, 0.0], 1.0)
        assert (found.mu, found.passes) == (0.0, 0)

    def test_zero_threshold_makes_positive_scores_certain(self):
        assert inclusion_probabilities([0.0, 1e-30, 2.0], 0.0).tolist() == [0.0, 1.0, 1.0]

    @pytest.mark.parametrize("target", [0.0, -1.0, np.nan, np.inf])
    def test_target_must_be_positive(self, target):
        with pytest.raises(ParameterError, match="target"):
            threshold_by_sorting([1.0], target)
        with pytest.raises(ParameterError, match="target"):
            newton([1.0], target)

    @pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
    def test_scores_must_be_finite_and_not_negative(self, bad):
        with pytest.raises(ParameterError, match="scores"):
            threshold_by_quickselect([1.0, bad], 1.0)

    def test_pivots_change_nothing(self):
        scores = np.random.default_rng(3).random(1000)
        found = [threshold_by_quickselect(scores, 100.0, seed=seed) for seed in range(5)]
        np.testing.assert_allclose(found, found[0], rtol=1e-12)
