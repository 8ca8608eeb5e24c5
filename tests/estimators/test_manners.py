"""What users of other libraries expect of an estimator."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import DataError, ParameterError


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


SMALL = {"n_estimators": 8, "min_samples_leaf": 5}


def test_names_of_evaluation_sets():
    X, y = data()
    clf = MVSClassifier(**SMALL)
    clf.fit(X, y, eval_set=[(X, y), data(seed=1)], eval_names=["train", "new"])
    assert list(clf.evals_result_) == ["train", "new"]
    for names in (["one"], ["a", "a"], "ab", [1, 2]):
        with pytest.raises(ParameterError, match="eval_names must be a list of 2 different names"):
            clf.fit(X, y, eval_set=[(X, y), (X, y)], eval_names=names)


def test_validation_rows_of_their_own():
    X, y = data()
    X_val, y_val = data(seed=1)
    one = MVSClassifier(**SMALL).fit(X, y, X_val=X_val, y_val=y_val)
    other = MVSClassifier(**SMALL).fit(X, y, eval_set=[(X_val, y_val)], eval_names=["validation"])
    assert one.evals_result_ == other.evals_result_
    weighted = MVSClassifier(**SMALL).fit(
        X, y, X_val=X_val, y_val=y_val, sample_weight_val=np.arange(200.0)
    )
    assert weighted.evals_result_ != one.evals_result_
    with pytest.raises(ParameterError, match="X_val must be given together"):
        MVSClassifier().fit(X, y, X_val=X_val)
    with pytest.raises(ParameterError, match="validation_fraction must be left out"):
        MVSClassifier(validation_fraction=0.2).fit(X, y, X_val=X_val, y_val=y_val)


def test_a_pipeline_transforms_validation_rows():
    sklearn = pytest.importorskip("sklearn", minversion="1.6")
    X, y = data()
    clf = MVSClassifier(**SMALL, early_stopping_rounds=3)
    with sklearn.config_context(enable_metadata_routing=True):
        clf.set_fit_request(X_val=True, y_val=True)
        pipeline = make_pipeline(StandardScaler(), clf, transform_input=["X_val"])
        pipeline.fit(X, y, X_val=X, y_val=y)
    assert list(clf.evals_result_) == ["validation"]
    assert clf.best_score_["validation"]["log_loss"] < 0.6


def test_the_best_score():
    X, y = data()
    clf = MVSClassifier(n_estimators=60, early_stopping_rounds=5, learning_rate=0.5)
    clf.fit(X, y, eval_set=[data(seed=1)])
    losses = clf.evals_result_["eval_0"]["log_loss"]
    assert clf.n_iter_ < len(losses)
    assert clf.best_score_ == {"eval_0": {"log_loss": min(losses)}}
    assert MVSClassifier(**SMALL).fit(X, y).best_score_ == {}


def test_one_class():
    X, _ = data()
    with pytest.warns(UserWarning, match="one class only"):
        clf = MVSClassifier(**SMALL).fit(X, np.array(["yes"] * 200))
    assert clf.predict(X[:3]).tolist() == ["yes"] * 3
    assert clf.predict_proba(X[:3]).tolist() == [[1.0]] * 3


def test_one_class_in_a_file(tmp_path):
    X, _ = data()
    with pytest.warns(UserWarning, match="one class only"):
        MVSClassifier(**SMALL).fit(X, np.full(200, 7)).save(tmp_path / "m.json")
    assert MVSClassifier.load(tmp_path / "m.json").predict(X[:2]).tolist() == [7, 7]


def test_depth_alone_bounds_a_tree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=5000)

    def leaves(**given):
        model = MVSRegressor(n_estimators=1, min_samples_leaf=1, sampler="none", **given).fit(X, y)
        return model.model_.iterations[0][0].n_leaves

    assert leaves(max_depth=6) == 2**6
    assert leaves(max_depth=7, max_leaves=31) == 31
    assert leaves() == 31


def test_verbose_says_where_training_ended(caplog):
    X, y = data()
    with caplog.at_level(logging.INFO, "mvsboost"):
        MVSClassifier(**SMALL, verbose=4).fit(X, y)
    assert caplog.messages[-1] == "stopped at 8"
    with caplog.at_level(logging.INFO, "mvsboost"):
        clf = MVSClassifier(n_estimators=60, early_stopping_rounds=5, learning_rate=0.5, verbose=4)
        clf.fit(X, y, eval_set=[data(seed=1)])
    last = f"stopped at {clf.model_.n_iterations}, best {clf.best_iteration_}"
    assert caplog.messages[-1] == last


def test_one_rule_for_the_order_of_columns():
    X, y = data()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    other = table[["b", "a", "c"]]
    clf = MVSClassifier(**SMALL).fit(table, y)
    with pytest.raises(ValueError, match="same order"):
        clf.predict(other)
    with pytest.raises(ValueError, match=r"(?s)eval_set\[0\].*same order"):
        MVSClassifier(**SMALL).fit(table, y, eval_set=[(other, y)])
    with pytest.raises(ValueError, match=r"(?s)X_val.*same order"):
        MVSClassifier(**SMALL).fit(table, y, X_val=other, y_val=y)
    # a dict has no order
    as_dict = {name: other[name].to_numpy() for name in other}
    np.testing.assert_array_equal(clf.predict(as_dict), clf.predict(table))


@pytest.mark.parametrize(
    ("n", "parameters", "why"),
    [
        (10, {}, "10 rows are fewer than twice min_samples_leaf=20"),
        (200, {"min_gain": 1e9}, "no split improves the loss"),
    ],
)
def test_why_there_is_no_split(n, parameters, why, caplog):
    X, y = data(n)
    MVSRegressor(n_estimators=3, **parameters).fit(X, y)
    assert caplog.messages == [f"no tree has a split: {why}"]


def test_collections_of_dask():
    class Collection:
        def __dask_graph__(self):
            return {}

    with pytest.raises(DataError, match=r"X is a collection of dask \(Collection\); call compute"):
        MVSClassifier().fit(Collection(), [0, 1])


def test_l1_draws_leaves_to_zero():
    X, y = data(400)
    sizes = []
    for l1 in (0.0, 5.0, 1000.0):
        model = MVSRegressor(n_estimators=3, l1=l1, sampler="none").fit(X, y)
        values = np.concatenate([t.value[t.is_leaf] for (t,) in model.model_.iterations])
        sizes.append(np.abs(values).max())
    assert sizes[0] > sizes[1] > sizes[2] == 0.0
