"""Models as LightGBM's: the same predictions, on every kind of column that it knows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import DataError
from mvsboost.interop.lightgbm import MVSObjective, to_lightgbm

lgb = pytest.importorskip("lightgbm")


def table(n=600, seed=0):
    """Numbers with and without missing values, flags, few and many categories."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.2, np.nan, x),
            "whole": rng.integers(0, 9, n),
            "single": rng.normal(size=n).astype(np.float32),
            "flag": rng.random(n) < 0.5,
            "colour": pd.Categorical(
                np.array(["red", "green", "blue", None], object)[rng.integers(0, 4, n)]
            ),
            "size, in [cm]": pd.Categorical(rng.integers(1, 6, n)),
            "town": pd.Categorical([f"t{k}" for k in rng.integers(0, 60, n)]),
        }
    )
    effect = np.nan_to_num(frame["x"]) + (frame["colour"] == "red") + 0.2 * frame["whole"]
    return frame, np.asarray(effect + 0.5 * rng.normal(size=n))


SMALL = {"n_estimators": 12, "min_samples_leaf": 4, "max_bins": 32, "max_leaves": 15}


def check(model, X, raw):
    booster = to_lightgbm(model)
    np.testing.assert_allclose(booster.predict(X, raw_score=True), raw, atol=1e-6)
    return booster


@pytest.mark.parametrize("objective", ["squared", "absolute", "quantile", "huber"])
def test_regression(objective):
    X, y = table()
    model = MVSRegressor(objective=objective, **SMALL).fit(X, y)
    new, _ = table(300, seed=1)
    booster = check(model, new, model.predict(new))
    np.testing.assert_allclose(booster.predict(new), model.predict(new), atol=1e-6)


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie"])
def test_positive_targets(objective):
    X, y = table()
    model = MVSRegressor(objective=objective, **SMALL).fit(X, np.exp(y / 4))
    booster = to_lightgbm(model)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-6)


def test_two_classes():
    X, y = table()
    model = MVSClassifier(**SMALL).fit(X, y > 1)
    booster = check(model, X, model.decision_function(X))
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(X)[:, 1], atol=1e-6)


def test_several_classes():
    X, y = table()
    model = MVSClassifier(**SMALL).fit(X, np.digitize(y, [0.5, 1.5]))
    booster = check(model, X, model.decision_function(X))
    np.testing.assert_allclose(booster.predict(X), model.predict_proba(X), atol=1e-6)


def test_only_trees_that_are_used():
    X, y = table()
    model = MVSRegressor(
        **{**SMALL, "n_estimators": 60, "learning_rate": 0.5},
        early_stopping_rounds=3,
        validation_fraction=0.3,
    ).fit(X, y)
    assert model.n_iter_ < model.model_.n_iterations
    assert check(model, X, model.predict(X)).num_trees() == model.n_iter_


def test_no_trees():
    X, _ = table(50)
    model = MVSRegressor(n_estimators=2).fit(X, np.full(50, 3.0))
    check(model, X, np.full(50, 3.0))


def test_values_at_and_beyond_the_edges():
    X = pd.DataFrame({"x": np.repeat(np.arange(8.0), 20)})
    model = MVSRegressor(n_estimators=5, min_samples_leaf=1).fit(X, X["x"] ** 2)
    at = [-np.inf, *np.arange(-1.0, 9.0, 0.5), np.nextafter(0.5, 0), np.inf, np.nan, 1e308]
    new = pd.DataFrame({"x": at})
    check(model, new, model.predict(new))


def test_missing_values_where_training_had_none():
    X = pd.DataFrame({"x": np.arange(200.0), "c": pd.Categorical(list("abcd") * 50)})
    model = MVSRegressor(n_estimators=8, min_samples_leaf=2).fit(X, X["x"] * (X["c"] == "a"))
    new = pd.DataFrame({"x": [np.nan, 3.0], "c": pd.Categorical(["a", None], list("abcd"))})
    check(model, new, model.predict(new))


def test_all_regular_values_on_one_side():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(400) < 0.5, np.nan, 1.0)
    X = pd.DataFrame({"x": x})
    model = MVSRegressor(n_estimators=3).fit(X, np.isnan(x) * 2.0)
    new = pd.DataFrame({"x": [np.nan, 1.0, 5.0, np.inf, -np.inf]})
    check(model, new, model.predict(new))


def test_arrays_have_categories_as_codes():
    X, y = table()
    model = MVSRegressor(**SMALL).fit(X, y)
    codes = X.assign(**{c: X[c].cat.codes.replace(-1, np.nan) for c in X.select_dtypes("category")})
    found = to_lightgbm(model).predict(codes.to_numpy(np.float64))
    np.testing.assert_allclose(found, model.predict(X), atol=1e-6)


def test_contributions_are_lightgbms():
    X, y = table()
    X = X[["x", "whole", "single", "colour"]]
    model = MVSRegressor(**SMALL).fit(X, y)
    found = to_lightgbm(model).predict(X, pred_contrib=True)
    np.testing.assert_allclose(found, model.predict_contributions(X), atol=1e-6)


def test_times_cannot_be_said():
    X = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=60)})
    model = MVSRegressor(n_estimators=2).fit(X, np.arange(60.0))
    with pytest.raises(DataError, match="column 'when' holds values of the kind 'time'"):
        to_lightgbm(model)


def test_files_of_lightgbm(tmp_path):
    X, y = table()
    model = MVSRegressor(**SMALL).fit(X, y)
    model.to_lightgbm().save_model(tmp_path / "m.txt")
    again = lgb.Booster(model_file=str(tmp_path / "m.txt"))
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-6)


# --- MVS in LightGBM ----------------------------------------------------------------------------


def rows(n=2000):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def boosted(objective, X, y, trees=40):
    data = lgb.Dataset(X, y, init_score=objective.start_score(y), params={"verbose": -1})
    return lgb.train({"objective": objective, "verbose": -1, "num_threads": 1}, data, trees)


@pytest.mark.parametrize(
    ("objective", "y"),
    [
        (MVSObjective("binary"), [0, 1, 1]),
        (MVSObjective("regression_l1"), [0.5, 2.0, 7.0]),
        (MVSObjective("multiclass", n_classes=3), [0, 1, 2]),
    ],
    ids=["logistic", "absolute", "softmax"],
)
def test_weighted_rows_start_where_their_copies_do(objective, y):
    copies = np.repeat(y, [1, 2, 4])
    found, expected = objective.start_score(y, [1, 2, 4]), objective.start_score(copies)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)


def test_all_rows_are_lightgbms_own_training():
    X, y = rows()
    objective = MVSObjective("binary", "none")
    ours = boosted(objective, X, y).predict(X) + objective.start_score(y)
    theirs = lgb.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1}, lgb.Dataset(X, y), 40
    )
    np.testing.assert_allclose(ours, theirs.predict(X, raw_score=True), atol=1e-3)


def test_a_sample_learns_as_well():
    X, y = rows()
    objective = MVSObjective("binary", "mvs")
    scores = boosted(objective, X, y).predict(X) + objective.start_score(y)
    assert ((scores > 0) == y).mean() > 0.9
    assert len(objective.samples) == 40
    drawn = np.mean([sample.summary.n_rows for sample in objective.samples])
    assert drawn == pytest.approx(0.3 * len(y), rel=0.1)


def test_an_objective_of_the_host():
    X, y = rows()

    def theirs(predictions, data):
        return predictions - data.get_label(), np.ones_like(predictions)

    objective = MVSObjective(theirs, "sgb")
    data = lgb.Dataset(X, y.astype(float), params={"verbose": -1})
    model = lgb.train({"objective": objective, "verbose": -1, "num_threads": 1}, data, 20)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.7


@pytest.mark.filterwarnings("ignore:'force_all_finite':FutureWarning")  # of older LightGBM
def test_scikit_learns_manner_and_weights():
    X, y = rows(500)
    model = lgb.LGBMRegressor(
        objective=MVSObjective("l2", "bernoulli"), n_estimators=20, verbosity=-1, n_jobs=1
    )
    model.fit(X, y.astype(float), sample_weight=np.ones(500))
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.5


def test_several_outputs():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(900, 3)), rng.integers(0, 3, 900)
    objective = MVSObjective("multiclass", n_classes=3)
    data = lgb.Dataset(X, y, init_score=objective.start_score(y), params={"verbose": -1})
    parameters = {"objective": objective, "num_class": 3, "verbose": -1, "num_threads": 1}
    assert lgb.train(parameters, data, 5).predict(X).shape == (900, 3)
    assert len(objective.samples) == 5
