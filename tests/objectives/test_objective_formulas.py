"""Built-in objectives: derivatives against differences, baselines against the loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.numerics import coarse_sigmoid, exp
from mvsboost.objectives import (
    Absolute,
    CrossEntropy,
    Gamma,
    Huber,
    Logistic,
    Objective,
    Poisson,
    Quantile,
    Quantiles,
    Softmax,
    Squared,
    Tweedie,
)

SMOOTH = [
    Logistic(),
    Softmax(3),
    Squared(),
    Poisson(),
    Gamma(),
    Tweedie(1.3),
    Tweedie(1.9),
    CrossEntropy(),
]
PIECEWISE = [Absolute(), Quantile(0.2), Quantile(0.9)]
EVERY = [*SMOOTH, *PIECEWISE, Quantiles([0.2, 0.7]), Huber(0.7)]


def make_rows(objective: Objective, n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(objective.n_outputs, n)) * 1.5
    if objective.is_classifier:
        target = rng.integers(0, max(objective.n_outputs, 2), n).astype(float)
        target[:3] = [0.0, 1.0, max(objective.n_outputs, 2) - 1]
    elif objective.name == "poisson":
        target = rng.poisson(2.0, n).astype(float)
    elif objective.link.name == "log":
        target = rng.gamma(2.0, size=n)
    elif objective.name == "cross_entropy":
        target = rng.random(n)
    else:
        target = rng.normal(size=n) * 2
    return target, scores


def shifted(scores: np.ndarray, output: int, by: float) -> np.ndarray:
    moved = scores.copy()
    moved[output] += by
    return moved


@pytest.mark.parametrize("objective", EVERY, ids=repr)
def test_gradient_is_the_slope_of_the_loss(objective: Objective) -> None:
    target, scores = make_rows(objective)
    g, _ = objective.gradients(target, scores)
    step = 1e-6
    for k in range(objective.n_outputs):
        up = objective.loss(target, shifted(scores, k, step))
        down = objective.loss(target, shifted(scores, k, -step))
        np.testing.assert_allclose(g[k], (up - down) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("objective", SMOOTH, ids=repr)
def test_hessian_is_the_slope_of_the_gradient(objective: Objective) -> None:
    target, scores = make_rows(objective)
    _, h = objective.gradients(target, scores)
    step = 1e-6
    for k in range(objective.n_outputs):
        up = objective.gradients(target, shifted(scores, k, step))[0][k]
        down = objective.gradients(target, shifted(scores, k, -step))[0][k]
        np.testing.assert_allclose(h[k], (up - down) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("objective", PIECEWISE, ids=repr)
def test_piecewise_linear_objectives_have_unit_hessian_and_rest_at_the_target(
    objective: Objective,
) -> None:
    target, scores = make_rows(objective)
    assert np.array_equal(objective.gradients(target, scores)[1], np.ones_like(scores))
    assert not objective.gradients(target, target[np.newaxis])[0].any()
    assert objective.leaf_quantile == getattr(objective, "alpha", 0.5)


@pytest.mark.parametrize("objective", EVERY, ids=repr)
def test_a_slice_of_rows_gives_a_slice_of_everything(objective: Objective) -> None:
    target, scores = make_rows(objective)
    whole = (*objective.gradients(target, scores), objective.loss(target, scores))
    for start, stop in ((0, 1), (3, 20), (20, 60)):
        part = (
            *objective.gradients(target[start:stop], scores[:, start:stop]),
            objective.loss(target[start:stop], scores[:, start:stop]),
        )
        for a, b in zip(whole, part, strict=True):
            assert np.array_equal(a[..., start:stop], b)
            assert b.dtype == np.float64


def weighted_quantile(y: np.ndarray, w: np.ndarray, alpha: float) -> float:
    order = np.argsort(y)
    reached = np.cumsum(w[order]) >= alpha * w.sum()
    return float(y[order][np.argmax(reached)])


@pytest.mark.parametrize("objective", SMOOTH + PIECEWISE, ids=repr)
def test_no_constant_has_less_loss_than_the_baseline(objective: Objective) -> None:
    target, _ = make_rows(objective)
    weight = np.random.default_rng(1).uniform(0.1, 2.0, len(target))
    if objective.n_outputs > 1:
        indicators = target == np.arange(objective.n_outputs)[:, np.newaxis]
        means = (weight * indicators).sum(axis=1) / weight.sum()
    else:
        means = np.array([(weight * target).sum() / weight.sum()])
    baseline = objective.baseline(means, lambda alpha: weighted_quantile(target, weight, alpha))
    assert baseline.shape == (objective.n_outputs,)

    def total(constant: np.ndarray) -> float:
        scores = np.tile(constant[:, np.newaxis], len(target))
        return float((weight * objective.loss(target, scores)).sum())

    least = total(baseline)
    for k in range(objective.n_outputs):
        for step in (1e-3, -1e-3, 0.1, -0.1, 1.0, -1.0):
            assert total(shifted(baseline, k, step)) >= least - 1e-12


@pytest.mark.parametrize("objective", SMOOTH, ids=repr)
def test_smooth_objectives_never_ask_for_a_quantile(objective: Objective) -> None:
    def forbidden(alpha: float) -> float:
        raise AssertionError(alpha)

    assert objective.leaf_quantile is None
    means = np.full(objective.n_outputs, 1.0 / (objective.n_outputs + 1))
    assert np.all(np.isfinite(objective.baseline(means, forbidden)))


@given(st.floats(-800, 800), st.floats(-800, 800))
@settings(max_examples=50)
def test_the_order_of_operations_is_the_documented_one(a: float, b: float) -> None:
    score, other = np.float64(a), np.float64(b)
    y = np.array([1.0])
    p = coarse_sigmoid(score)
    g, h = Logistic().gradients(y, np.array([[a]]))
    assert g[0, 0] == p - 1.0
    assert h[0, 0] == max(p * (1.0 - p), 1e-16)

    m = max(score, other)
    e0, e1 = exp(score - m), exp(other - m)
    p1 = e1 / (e0 + e1)
    g, h = Softmax(2).gradients(y, np.array([[a], [b]]))
    assert g[1, 0] == p1 - 1.0
    assert h[1, 0] == max(p1 * (1.0 - p1), 1e-16)

    e = exp(score)
    g, h = Poisson().gradients(y, np.array([[a]]))
    assert (g[0, 0], h[0, 0]) == (e - 1.0, e)


@pytest.mark.parametrize("score", [-1e4, -40.0, 40.0, 1e4])
def test_certain_predictions_keep_finite_losses_and_positive_hessians(score: float) -> None:
    target = np.array([0.0, 1.0])
    for objective in (Logistic(), Softmax(2)):
        scores = np.zeros((objective.n_outputs, 2))
        scores[-1] = score
        g, h = objective.gradients(target, scores)
        assert np.all(np.isfinite(g))
        assert np.all(h >= 1e-16)
        wrong = 0 if score > 0 else 1
        assert objective.loss(target, scores)[wrong] == pytest.approx(abs(score), rel=1e-12)
        assert objective.loss(target, scores)[1 - wrong] == pytest.approx(0.0, abs=1e-12)


def test_parameters_out_of_range() -> None:
    for alpha in (0.0, 1.0, -1, 2.0, float("nan")):
        with pytest.raises(ParameterError, match=r"alpha must be in \(0, 1\)"):
            Quantile(alpha)
    for alpha in ("half", True, None):
        with pytest.raises(ParameterError, match="alpha must be a number"):
            Quantile(alpha)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="n_classes must be at least 2, got 1"):
        Softmax(1)
    for power in (1.0, 2.0, float("nan")):
        with pytest.raises(ParameterError, match=r"power must be in \(1, 2\)"):
            Tweedie(power)
    for delta in (0.0, -1.0, float("inf")):
        with pytest.raises(ParameterError, match="delta must be positive"):
            Huber(delta)
    for kind, name in ((Tweedie, "power"), (Huber, "delta")):
        with pytest.raises(ParameterError, match=f"{name} must be a"):
            kind("much")
    for n_classes in (2.5, True, "3"):
        with pytest.raises(ParameterError, match="n_classes must be a whole number"):
            Softmax(n_classes)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", EVERY, ids=repr)
def test_targets_that_no_objective_takes(objective: Objective) -> None:
    objective.check_target(make_rows(objective)[0])
    for bad in (np.nan, np.inf, -np.inf):
        target = make_rows(objective)[0]
        target[5] = bad
        with pytest.raises(DataError, match=r"finite.*row 5"):
            objective.check_target(target)


@pytest.mark.parametrize(
    ("objective", "target", "message"),
    [
        (Logistic(), [0, 1, 2], r"codes 0 to 1 .*got 2.0 in row 2"),
        (Logistic(), [0, 0.5, 1], r"got 0.5 in row 1"),
        (Softmax(3), [0, 1, 3], r"codes 0 to 2 .*got 3.0 in row 2"),
        (Softmax(3), [-1, 1, 2], r"got -1.0 in row 0"),
        (Poisson(), [1, -2, 0], r"negative.*got -2.0 in row 1"),
        (Tweedie(), [1, -2, 0], r"negative.*'tweedie', got -2.0 in row 1"),
        (Gamma(), [1, 2, 0], r"positive.*'gamma', got 0.0 in row 2"),
        (CrossEntropy(), [0.5, 1.5], r"in \[0, 1\].*got 1.5 in row 1"),
    ],
)
def test_values_that_one_objective_does_not_take(
    objective: Objective, target: list[float], message: str
) -> None:
    for check in (objective.check_values, objective.check_target):
        with pytest.raises(DataError, match=message):
            check(np.array(target, dtype=float))


@pytest.mark.parametrize(
    ("objective", "value", "message"),
    [
        (Softmax(3), 2.0, "two classes, got one class only: 2"),
        (Poisson(), 0.0, "positive value"),
        (Tweedie(), 0.0, "positive value"),
        (Poisson(), 1e-33, "as small as 1e-33 in all rows.*scale the target"),
        (Squared(), -1e-40, "as small as 1e-40 in all rows.*scale the target"),
        (Absolute(), 1e-40, "as small as 1e-40 in all rows.*scale the target"),
    ],
)
def test_targets_good_for_evaluation_but_not_for_training(
    objective: Objective, value: float, message: str
) -> None:
    target = np.full(4, value)
    objective.check_values(target)
    with pytest.raises(DataError, match=message):
        objective.check_target(target)


def test_one_class_alone_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="one class only"):
        Logistic().check_target(np.ones(3))


@pytest.mark.parametrize("objective", [Absolute(), Quantile(0.3), Squared()], ids=repr)
def test_targets_whose_residuals_are_no_float32(objective: Objective) -> None:
    objective.check_target(np.array([-1e38, 1e38]))
    for check in (objective.check_values, objective.check_target):
        with pytest.raises(DataError, match=r"got -3e\+38 in row 1 .*scale the target"):
            check(np.array([0.0, -3e38]))
