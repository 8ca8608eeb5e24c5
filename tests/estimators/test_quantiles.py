"""Several quantiles at once."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost import MVSRegressor
from mvsboost.errors import ParameterError
from mvsboost.objectives import Quantiles

ALPHAS = [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 2))
    return X, X[:, 0] + (1.0 + np.abs(X[:, 1])) * rng.normal(size=3000)


@pytest.fixture(scope="module")
def fitted(rows):
    return MVSRegressor(objective="quantile", quantile=ALPHAS, n_estimators=60).fit(*rows)


def test_a_prediction_for_every_quantile_in_order(fitted, rows):
    X, y = rows
    found = fitted.predict(X)
    assert found.shape == (3000, 3)
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_allclose((y[:, None] <= found).mean(axis=0), ALPHAS, atol=0.04)
    # farther apart where the target is
    width = found[:, 2] - found[:, 0]
    assert width[np.abs(X[:, 1]) > 1.5].mean() > 1.5 * width[np.abs(X[:, 1]) < 0.5].mean()


def test_the_median_is_as_good_as_alone(fitted, rows):
    X, y = rows
    alone = MVSRegressor(objective="quantile", n_estimators=60).fit(X, y)
    ours, theirs = (np.abs(y - p).mean() for p in (fitted.predict(X)[:, 1], alone.predict(X)))
    assert ours == pytest.approx(theirs, rel=0.03)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_all_backends_grow_the_same_trees(device, rows):
    X, y = rows[0][:300], rows[1][:300]
    model = MVSRegressor(
        objective="quantile", quantile=ALPHAS, n_estimators=4, device=device, sampler="mvs"
    ).fit(X, y)
    other = MVSRegressor(
        objective="quantile", quantile=ALPHAS, n_estimators=4, sampler="mvs", n_jobs=1
    ).fit(X, y)
    assert model.predict(X).tolist() == other.predict(X).tolist()


def test_one_in_a_list_is_that_quantile(rows):
    X, y = rows
    one, many = (
        MVSRegressor(objective="quantile", quantile=quantile, n_estimators=5, sampler="none")
        for quantile in (0.9, np.array([0.9]))
    )
    np.testing.assert_allclose(many.fit(X, y).predict(X), one.fit(X, y).predict(X))


def test_early_stopping_files_contributions_and_refitting(rows, tmp_path):
    X, y = rows
    model = MVSRegressor(
        objective="quantile",
        quantile=[0.25, 0.75],
        n_estimators=300,
        learning_rate=0.5,
        early_stopping_rounds=5,
        validation_fraction=0.3,
    ).fit(X, y)
    assert list(model.evals_result_["validation"]) == ["pinball"]
    assert model.best_iteration_ < 300
    model.save(tmp_path / "m.json")
    again = MVSRegressor.load(tmp_path / "m.json")
    assert again.quantile == [0.25, 0.75]
    assert again.predict(X).tolist() == model.predict(X).tolist()
    parts = model.predict_contributions(X[:50]).sum(axis=2)
    np.testing.assert_allclose(np.sort(parts, axis=1), model.predict(X[:50]), atol=1e-9)
    assert model.refit(X, y + 10.0, keep=0.0).predict(X).mean() > model.predict(X).mean() + 1.0


def test_the_loss_is_the_sum_of_all():
    both = Quantiles([0.2, 0.6])
    y, scores = np.array([1.0, 3.0]), np.array([[0.0, 4.0], [2.0, 2.0]])
    # 0.2 of 1 and 0.4 of 1; 0.8 of 1 and 0.6 of 1
    np.testing.assert_allclose(both.loss(y, scores), [0.2 + 0.4, 0.8 + 0.6])
    assert repr(both.to_dict()) == "{'kind': 'builtin', 'name': 'quantiles', 'alphas': [0.2, 0.6]}"


@pytest.mark.parametrize("quantile", [[], [0.5, 0.1], [0.5, 0.5], [0.0, 0.5], ["a"], "0.5"])
def test_what_are_no_quantiles(quantile, rows):
    with pytest.raises(ParameterError, match=r"(quantile|alphas) must be"):
        MVSRegressor(objective="quantile", quantile=quantile).fit(*rows)
