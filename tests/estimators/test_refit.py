"""New leaf values for the same trees."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import ParameterError, SchemaError


def data(n=500, seed=0, slope=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, slope * X[:, 0] + 0.1 * rng.normal(size=n)


SMALL = {"n_estimators": 30, "min_samples_leaf": 5}


def test_all_of_the_old_is_the_same_model():
    X, y = data()
    model = MVSRegressor(**SMALL).fit(X, y)
    again = model.refit(*data(seed=1, slope=-1.0), keep=1.0)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_none_of_the_old_learns_the_new_rows():
    X, y = data()
    model = MVSRegressor(**SMALL).fit(X, y)
    X_new, y_new = data(seed=1, slope=2.0)
    before = np.abs(model.predict(X_new) - y_new).mean()
    after = np.abs(model.refit(X_new, y_new, keep=0.0).predict(X_new) - y_new).mean()
    assert after < 0.4 * before
    assert np.abs(model.predict(X_new) - y_new).mean() == before  # the model is as it was


def test_its_own_rows_change_nothing_without_sampling():
    X, y = data()
    model = MVSRegressor(**SMALL, sampler="none").fit(X, y)
    np.testing.assert_allclose(model.refit(X, y, keep=0.0).predict(X), model.predict(X), atol=1e-6)


@pytest.mark.parametrize("objective", ["absolute", "quantile"])
def test_quantiles(objective):
    X, y = data()
    model = MVSRegressor(**SMALL, objective=objective, sampler="none").fit(X, y)
    np.testing.assert_allclose(model.refit(X, y, keep=0.0).predict(X), model.predict(X), atol=1e-4)


def test_classes_and_constraints():
    X, y = data()
    clf = MVSClassifier(**SMALL, monotone_constraints=[1, 0, 0]).fit(X, np.digitize(y, [-1, 1]))
    new, target = data(seed=3)
    again = clf.refit(new, np.digitize(target, [-1, 1]), keep=0.2)
    assert again.score(new, np.digitize(target, [-1, 1])) > 0.8
    line = np.zeros((50, 3))
    line[:, 0] = np.linspace(-3, 3, 50)
    model = MVSRegressor(**SMALL, monotone_constraints=[1, 0, 0]).fit(X, y)
    again = model.refit(*data(seed=1, slope=-1.0), keep=0.0)
    assert (np.diff(again.predict(line)) >= 0).all()


def test_bad_input():
    X, y = data()
    model = MVSRegressor(**SMALL).fit(X, y)
    with pytest.raises(ParameterError, match=r"keep must be a number in \[0, 1\]"):
        model.refit(X, y, keep=1.5)
    with pytest.raises((SchemaError, ValueError), match="2 features"):
        model.refit(X[:, :2], y)
