"""Rows that have scores of their own before the model's."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost import MVSClassifier, MVSRegressor, TrainConfig, train
from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.data import Dataset
from mvsboost.errors import DataError, ParameterError
from mvsboost.objectives import Squared
from mvsboost.sampling import MVS

SMALL = {"n_estimators": 20, "min_samples_leaf": 5}


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


def test_an_offset_is_left_to_the_rows():
    X, y = data()
    offset = 5.0 * X[:, 1]
    plain = MVSRegressor(**SMALL, sampler="none").fit(X, y)
    model = MVSRegressor(**SMALL, sampler="none").fit(
        X, y + offset, init_score=offset + float(plain.model_.baseline[0])
    )
    assert model.model_.baseline.tolist() == [0.0]
    expected = plain.predict(X) - plain.model_.baseline[0]
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-3)


def test_exposure_of_counts():
    rng = np.random.default_rng(0)
    X, exposure = rng.normal(size=(2000, 2)), rng.uniform(0.1, 5.0, 2000)
    y = rng.poisson(exposure * np.exp(X[:, 0] / 2))
    model = MVSRegressor(n_estimators=60, objective="poisson").fit(
        X, y, init_score=np.log(exposure)
    )
    assert np.corrcoef(np.log(model.predict(X)), X[:, 0])[0, 1] > 0.9


def test_evaluation_sets_have_their_own():
    X, y = data()
    offset = np.linspace(-3, 3, len(y))
    model = MVSRegressor(**SMALL)
    model.fit(
        X,
        y + offset,
        init_score=offset,
        eval_set=[(X, y + offset), (X, y)],
        eval_init_score=[offset, np.zeros(len(y))],
    )
    first, second = (model.evals_result_[name]["rmse"] for name in ("eval_0", "eval_1"))
    np.testing.assert_allclose(first, second)
    with pytest.raises(ParameterError, match="eval_init_score must be a list of 1 arrays"):
        model.fit(X, y, eval_set=[(X, y)], eval_init_score=[])
    with pytest.raises(DataError, match="for all sets of rows, or for none"):
        model.fit(X, y, init_score=offset, eval_set=[(X, y)])


def test_rows_set_aside_keep_theirs():
    X, y = data()
    offset = np.where(np.arange(len(y)) % 2, 100.0, -100.0)
    model = MVSRegressor(**SMALL, validation_fraction=0.25)
    model.fit(X, y + offset, init_score=offset)
    assert model.evals_result_["validation"]["rmse"][-1] < 1.0


def test_several_outputs():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    model = MVSClassifier(n_estimators=3)
    model.fit(X, y, init_score=np.zeros((300, 3)))
    assert model.model_.baseline.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(DataError, match=r"must have 3 score\(s\) a row .*, it has 1"):
        model.fit(X, y, init_score=np.zeros(300))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0], "X has 400 rows but init_score has 1"),
        (np.full(400, np.nan), "init_score must be finite, row 0"),
        (np.zeros((400, 1, 1)), "one-dimensional"),
        (np.array(["a"] * 400), "must hold numbers"),
    ],
)
def test_scores_that_are_none(scores, message):
    X, y = data()
    with pytest.raises(DataError, match=message):
        MVSRegressor().fit(X, y, init_score=scores)


def test_the_same_model_on_any_backend():
    X, y = data(200)
    rows = Dataset.from_data(X, y, init_score=np.sin(y))
    config = TrainConfig(Squared(), MVS(0.5), n_estimators=4)

    def chunks(data, objective):
        parts = [data.slice(0, 70), data.slice(70, 71), data.slice(71, 200)]
        return CompositeBackend([CPUBackend(part, objective) for part in parts])

    models = [
        train(rows, config, backend=backend).model.to_dict()["iterations"]
        for backend in (ReferenceBackend, CPUBackend, chunks)
    ]
    assert models[0] == models[1] == models[2]


def test_a_run_that_is_resumed(tmp_path):
    X, y = data()
    scores = np.cos(y)
    whole = MVSRegressor(n_estimators=8).fit(X, y, init_score=scores)
    path = tmp_path / "run.json"
    MVSRegressor(n_estimators=4).fit(X, y, init_score=scores, resume=path)
    again = MVSRegressor(n_estimators=8).fit(X, y, init_score=scores, resume=path)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    with pytest.raises(DataError, match="other data"):
        MVSRegressor(n_estimators=9).fit(X, y, init_score=scores + 1.0, resume=path)
