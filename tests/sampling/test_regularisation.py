"""Where λ comes from."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.backends.draws import Score, ScoreRule
from mvsboost.errors import ParameterError
from mvsboost.sampling import LAMBDA_FLOOR, MVS, LeafSummary, regularisation
from mvsboost.sampling.base import score_rows
from mvsboost.testing import GradientRows

G = np.array([0.5, -1.0, 2.0, 0.25])
H = np.array([1.0, 0.5, 0.25, 1.25])


@pytest.fixture
def rows():
    return GradientRows(G, H)


def leaves():
    first = LeafSummary(np.array([1.0, -3.0]), np.array([2.0, 1.0]), shrinkage=0.1)
    second = LeafSummary(np.array([2.0]), np.array([5.0]), shrinkage=0.1)
    return [first, second]


def find(lam, rows, **more):
    return regularisation(lam, rows, rows.context(**more))


def test_a_number_is_taken_as_it_is(rows):
    assert find(0.0, rows) == 0.0
    assert find(3, rows) == 3.0


def test_root_is_the_squared_value_of_the_root(rows):
    assert find("root", rows) == pytest.approx((G.sum() / H.sum()) ** 2)


def test_root_over_several_outputs_is_the_weighted_mean(rows):
    both = GradientRows(np.array([G, -2 * G]), np.array([H, 3 * H]))
    values = np.array([G.sum() / H.sum(), -2 * G.sum() / (3 * H.sum())])
    assert find("root", both) == pytest.approx(np.average(values**2, weights=[1, 3]))


def test_leaf_is_the_weighted_mean_of_squared_values(rows):
    expected = (2 * 1 + 1 * 9 + 5 * 4) / 8
    assert find("leaf", rows, leaves=leaves()) == pytest.approx(expected)


def test_leaf_starts_where_both_terms_weigh_the_same(rows):
    assert find("leaf", rows) == pytest.approx((G**2).mean() / (H**2).mean())


@pytest.mark.parametrize("rule", ["root", "leaf"])
def test_adaptive_lambda_never_falls_under_the_floor(rule):
    rows = GradientRows([1.0, -1.0, 2.0, -2.0], np.full(4, 0.5))
    nothing = [LeafSummary(np.zeros(2), np.ones(2))]
    floor = LAMBDA_FLOOR * 2.5 / 0.25
    assert find(rule, rows, leaves=nothing) == pytest.approx(floor)


def test_floor_bounds_the_weights():
    rng = np.random.default_rng(0)
    g = rng.normal(size=4000) * rng.choice([1e-9, 1.0], size=4000)
    g -= g.mean()
    rows = GradientRows(g, np.ones(4000))
    sample = MVS(rate=0.1, lam="root").draw(rows, rows.context())
    assert sample.lam == pytest.approx(LAMBDA_FLOOR * (g**2).mean(), rel=1e-3)
    assert sample.summary.max_weight <= 100 / 0.1


def test_hessians_of_zero_do_not_divide():
    rows = GradientRows(G, np.zeros(4))
    assert find("root", rows) == 0.0
    assert find("leaf", rows) == 0.0
    assert find("leaf", rows, leaves=[LeafSummary(np.ones(2), np.zeros(2))]) == 0.0


@pytest.mark.parametrize("rule", ["root", "leaf"])
def test_scale_of_gradients_and_hessians_cancels(rule, rows):
    scaled = GradientRows(1e-3 * G, 1e-3 * H)
    assert find(rule, scaled) == pytest.approx(find(rule, rows), rel=1e-5)


@pytest.mark.parametrize("lam", [-0.1, np.nan, np.inf, True, None, "rooot", [0.1]])
def test_wrong_lambda_is_named(lam):
    with pytest.raises(ParameterError, match=r"lam must be .*'root', 'leaf'"):
        MVS(lam=lam).validate()


@pytest.mark.parametrize("lam", [0, 0.1, np.float32(2.0), np.int64(1), "leaf", "root"])
def test_right_lambda_passes(lam):
    MVS(lam=lam).validate()


@pytest.mark.parametrize("magnitude", [1e-37, 1e-30, 1.0, 1e18, 1e30, 1e38])
def test_scores_are_as_exact_at_any_magnitude(magnitude):
    spread = np.logspace(-7, 0, 50)
    g, h = (spread * magnitude).astype(np.float32), np.ones(50, np.float32)
    rows = GradientRows(g, h)
    # so small a λ that gradients decide
    lam = (1e-9 * magnitude) ** 2
    largest = score_rows(rows, rows.context(), ScoreRule(Score.MVS, lam))
    exact = np.hypot(g.astype(np.float64), 1e-9 * magnitude)
    smallest = np.finfo(np.float32).smallest_subnormal  # which results near 0 are multiples of
    assert np.allclose(rows.row_scores(), exact, rtol=2e-7, atol=smallest)
    assert largest == rows.row_scores().max()
