"""The paper's statements, as tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mvsboost.backends.draws import Score, ScoreRule
from mvsboost.sampling import (
    MVS,
    SAMPLERS,
    ImportanceSampling,
    inclusion_probabilities,
    make_sampler,
    threshold_by_sorting,
)
from mvsboost.testing import GradientRows


def gradients(n, seed=0):
    rng = np.random.default_rng(seed)
    g = (rng.normal(size=n) * rng.lognormal(size=n)).astype(np.float32)
    h = (rng.random(n) + 0.05).astype(np.float32)
    return g.astype(float), h.astype(float)


def regularised(g, h, lam):
    return np.sqrt(g**2 + lam * h**2)


def probabilities(g, h, rate, lam):
    scores = regularised(g, h, lam)
    return inclusion_probabilities(scores, threshold_by_sorting(scores, rate * len(g)))


def drawn_probabilities(sampler, rows):
    """Probability of every row, read off µ and the rows' scores after a draw."""
    sample = sampler.draw(rows, rows.context())
    return inclusion_probabilities(rows.row_scores(), sample.mu)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_is_unbiased_on_many_subsets(name):
    g, h = gradients(120, seed=1)
    rows = GradientRows(g, h)
    sampler, draws = make_sampler(name), 400
    weights = np.empty((draws, 120))
    for iteration in range(draws):
        sampler.draw(rows, rows.context(21, iteration))
        weights[iteration] = rows.weights
    subsets = np.random.default_rng(5).random((10, 120)) < 0.4
    for values in (g, h):
        estimates = weights @ (subsets * values).T
        noise = estimates.std(axis=0, ddof=1) / np.sqrt(draws)
        error = np.abs(estimates.mean(axis=0) - subsets @ values)
        assert (error <= 4.5 * noise + 1e-6 * np.abs(values).sum()).all()


@given(st.floats(0.02, 0.98), st.floats(0.0, 100.0), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_probabilities_add_up_to_the_rate(rate, lam, seed):
    rows = GradientRows(*gradients(200, seed))
    p = drawn_probabilities(MVS(rate, lam), rows)
    assert p.sum() == pytest.approx(max(1.0, rate * 200), rel=1e-6)


def test_mvs_without_lambda_is_importance_sampling():
    g, h = gradients(500)
    rows = GradientRows(g, h)
    p = drawn_probabilities(MVS(0.2, 0.0), rows)
    inside = p < 1.0
    assert inside.any()
    np.testing.assert_allclose(
        p[inside] / p[inside].sum(), np.abs(g[inside]) / np.abs(g[inside]).sum(), rtol=1e-6
    )
    weights = rows.weights
    ImportanceSampling(0.2).draw(rows, rows.context())
    assert np.array_equal(weights, rows.weights)


def test_mvs_with_endless_lambda_and_equal_hessians_is_uniform():
    g, _ = gradients(500)
    rows = GradientRows(g, np.full(500, 0.25))
    p = drawn_probabilities(MVS(0.2, 1e12), rows)
    np.testing.assert_allclose(p, 0.2, rtol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("n", [8, 12])
@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_theorem_2_probabilities_minimise_the_variance(n, rate, lam):
    g, h = gradients(n, seed=n)
    squares = g**2 + lam * h**2
    squares /= squares.mean()
    found = minimize(
        lambda p: (squares / p).sum(),
        x0=np.full(n, rate),
        jac=lambda p: -squares / p**2,
        bounds=[(1e-4, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - rate * n, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    p = probabilities(g, h, rate, lam)
    assert (p < 1.0).any()
    assert (squares / p).sum() <= found.fun * (1 + 1e-9)
    np.testing.assert_allclose(p, found.x, atol=2e-3)


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_theorem_2_no_feasible_change_helps(lam):
    g, h = gradients(100)
    squares = g**2 + lam * h**2
    p = probabilities(g, h, 0.3, lam)
    assert (p == 1.0).any()
    best = (squares / p).sum()
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = np.clip(p * np.exp(0.05 * rng.normal(size=100)), 1e-6, 1.0)
        free = other < 1.0
        other[free] *= (30.0 - (~free).sum()) / other[free].sum()
        if other.max() <= 1.0:
            assert (squares / other).sum() >= best * (1 - 1e-12)


@pytest.mark.parametrize("lam", [0.05, 1.0])
def test_theorem_1_expected_deviation_of_a_split_score(lam):
    n, blocks = 2000, 10
    rng = np.random.default_rng(3)
    leaf = rng.random(n) < 0.4
    # leaves of clear value, as the expansion of x²/y around its mean asks for
    g = rng.normal(size=n) + np.where(leaf, 0.6, -0.5)
    h = rng.random(n) * 0.5 + 0.5
    p = probabilities(g, h, 0.3, lam)

    expected = covariance_term = 0.0
    for members in (leaf, ~leaf):
        gl, hl, spread = g[members], h[members], 1.0 / p[members] - 1.0
        c = gl.sum() / hl.sum()
        var_x, var_y = (spread * gl**2).sum(), (spread * hl**2).sum()
        covariance_term += c**2 * 4 * c * (spread * gl * hl).sum()
        expected += c**2 * (4 * var_x + c**2 * var_y)
    expected -= covariance_term

    squared = []
    for _ in range(blocks):
        weights = (rng.random((800, n)) < p) / p
        deviation = np.zeros(800)
        for members in (leaf, ~leaf):
            x, y = weights[:, members] @ g[members], weights[:, members] @ h[members]
            deviation += x**2 / y - g[members].sum() ** 2 / h[members].sum()
        squared.append(deviation**2)
    tolerance = 4 * np.std(squared) / np.sqrt(800 * blocks)
    assert np.mean(squared) == pytest.approx(expected, rel=0.02, abs=tolerance)
    assert abs(covariance_term) > 2 * tolerance  # or the test would not see that term


@given(st.floats(0.02, 0.9), st.floats(0.0, 10.0), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_no_weighted_score_is_larger_than_the_threshold_or_itself(rate, lam, seed):
    g, h = gradients(200, seed)
    rows = GradientRows(g, h)
    sample = MVS(rate, lam).draw(rows, rows.context())
    scores = rows.row_scores().astype(float)
    assert (rows.weights * scores <= np.maximum(sample.mu, scores) * (1 + 1e-12)).all()
    bound = max(sample.mu, float(scores.max()))
    assert sample.summary.max_gradient <= bound * (1 + 1e-6)


@given(st.floats(1e-6, 1e6), st.sampled_from([0.0, 0.1, "leaf", "root"]))
@settings(max_examples=30, deadline=None)
def test_a_common_scale_leaves_probabilities_as_they_are(factor, lam):
    g, h = gradients(200)
    rows, scaled = GradientRows(g, h), GradientRows(g * factor, h * factor)
    one, other = (drawn_probabilities(MVS(0.25, lam), r) for r in (rows, scaled))
    np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_drawn_shares_are_the_probabilities(lam):
    g, h = gradients(60, seed=4)
    rows = GradientRows(g, h)
    sampler, draws = MVS(0.4, lam), 1500
    drawn = np.zeros(60)
    for iteration in range(draws):
        sampler.draw(rows, rows.context(2, iteration))
        drawn += rows.weights > 0
    p = probabilities(g, h, 0.4, lam)
    noise = np.sqrt(p * (1 - p) / draws)
    assert (np.abs(drawn / draws - p) <= 4.5 * noise + 1e-6).all()


def test_scores_of_several_outputs_share_one_sample():
    g, h = gradients(400)
    g, h = g.reshape(2, 200), h.reshape(2, 200)
    rows = GradientRows(g, h)
    rows.score_rows(ScoreRule(Score.MVS, 0.3))
    expected = np.sqrt((g**2).sum(axis=0) + 0.3 * (h**2).sum(axis=0))
    np.testing.assert_allclose(rows.row_scores(), expected, rtol=1e-6)
    p = drawn_probabilities(MVS(0.2, 0.3), rows)
    assert p.sum() == pytest.approx(40.0, rel=1e-6)


def test_mvs_has_less_variance_than_uniform_sampling():
    g, h = gradients(1000)
    p = probabilities(g, h, 0.2, 0.1)
    squares = g**2 + 0.1 * h**2
    assert (squares / p).sum() < 0.7 * (squares / 0.2).sum()
