"""Monotone constraints hold for the finished model, whatever the sample."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.boosting import train
from mvsboost.data import Dataset
from mvsboost.objectives import Absolute, CustomObjective, Logistic, Quantile, Squared
from mvsboost.sampling import MVS, SGB, BayesianBootstrap, ImportanceSampling, NoSampling


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (300, 3))
    # against the constraints: it turns with the first column and with the second
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] + 0.5 * rng.normal(size=300)
    X[rng.random(300) < 0.1, 0] = np.nan
    return X, y


def along(model, X, column, low=-2.5, high=2.5):
    """Scores of every row with one column replaced by a grid, (n_rows, n_grid)."""
    grid = np.linspace(low, high, 41)
    rows = np.repeat(X[:60], len(grid), axis=0)
    rows[:, column] = np.tile(grid, 60)
    return model.raw_scores(model.bin(rows))[0].reshape(60, -1)


@pytest.mark.large
@pytest.mark.parametrize("leaf_values", ["all", "sample"])
@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize(
    "sampler",
    [NoSampling(), MVS(0.3), MVS(0.05), SGB(0.2), ImportanceSampling(0.1), BayesianBootstrap()],
    ids=repr,
)
def test_constraints_hold_on_a_grid(sampler, second_look, leaf_values, table, make_config):
    X, y = table
    config = make_config(
        Squared(),
        sampler,
        n_estimators=8,
        monotone={0: 1, 1: -1},
        second_look=second_look,
        leaf_values=leaf_values,
        max_leaves=10,
    )
    model = train(Dataset.from_data(X, y, max_bins=24), config).model
    assert (np.diff(along(model, X, 0), axis=1) >= -1e-12).all()
    assert (np.diff(along(model, X, 1), axis=1) <= 1e-12).all()


@pytest.mark.large
@pytest.mark.parametrize("objective", [Logistic(), Absolute(), Quantile(0.8)], ids=repr)
@pytest.mark.parametrize("max_leaves", [None, 10])
def test_constraints_hold_for_other_losses_and_by_level(objective, max_leaves, table, make_config):
    X, y = table
    target = (y > np.median(y)).astype(float) if objective.is_classifier else y
    config = make_config(
        objective,
        MVS(0.3),
        n_estimators=8,
        monotone={0: 1, 1: -1},
        second_look=1,
        max_leaves=max_leaves,
        max_depth=4,
    )
    model = train(Dataset.from_data(X, target, max_bins=24), config).model
    assert (np.diff(along(model, X, 0), axis=1) >= -1e-12).all()
    assert (np.diff(along(model, X, 1), axis=1) <= 1e-12).all()


class Pinball:
    """A user's own objective whose leaves are quantiles."""

    leaf_quantile = 0.3

    def gradients(self, target, scores):
        return np.where(scores > target, 0.7, -0.3), np.ones_like(scores)

    def baseline(self, means, quantile):
        return quantile(self.leaf_quantile)


@pytest.mark.large
@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("second_look", [0, 2])
@pytest.mark.parametrize(
    "objective", [Absolute(), Quantile(0.3), CustomObjective(Pinball())], ids=lambda o: o.name
)
def test_constrained_quantiles_have_the_unit_of_the_target(
    objective, second_look, scale, make_config
):
    x = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    y = scale * x[:, 0]
    options = {"n_estimators": 30, "monotone": {0: 1}, "second_look": second_look}
    data = Dataset.from_data(x, y)
    model = train(data, make_config(objective, MVS(0.5), **options)).model
    scores = model.raw_scores(data.rows.bins)[0]
    assert np.abs(scores - y).mean() < 0.1 * scale
    assert (np.diff(along(model, x, 0), axis=1) >= 0).all()


def test_without_constraints_the_same_data_turn(table, make_config):
    X, y = table
    config = make_config(Squared(), n_estimators=8, max_leaves=10)
    model = train(Dataset.from_data(X, y, max_bins=24), config).model
    assert (np.diff(along(model, X, 0), axis=1) < -1e-3).any()
    assert (np.diff(along(model, X, 1), axis=1) > 1e-3).any()


def test_free_columns_stay_free(table, make_config):
    X, y = table
    config = make_config(Squared(), n_estimators=8, max_leaves=10, monotone={0: 1, 1: -1})
    model = train(Dataset.from_data(X, y, max_bins=24), config).model
    steps = np.diff(along(model, X, 2), axis=1)
    assert (steps > 1e-3).any()


@pytest.mark.parametrize("second_look", [0, 2])
def test_leaves_without_curvature_stay_finite(second_look, make_config):
    """No l2 and no floor under the hessian: a side may hold no curvature at all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(float)
    config = make_config(
        Logistic(),
        MVS(0.3),
        n_estimators=30,
        learning_rate=1.0,
        monotone={0: 1},
        l2=0.0,
        min_child_weight=0.0,
        second_look=second_look,
    )
    model = train(Dataset.from_data(X, y), config).model
    assert all(np.abs(tree.value).max() < 1e6 for trees in model.iterations for tree in trees)
