"""Bad input gets an error that names the parameter, the value and what is allowed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from mvsboost import GOSS, MVS, SGB, MVSClassifier, MVSRegressor
from mvsboost.callbacks import EarlyStopping, TimeLimit
from mvsboost.errors import DataError, MVSBoostError, ObjectiveError, ParameterError
from mvsboost.exact.random import rows_set_aside

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


def classifier(**parameters):
    return MVSClassifier(**{"n_estimators": 2, "n_jobs": 1, "min_samples_leaf": 1, **parameters})


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_estimators", 0),
        ("n_estimators", 2.5),
        ("n_estimators", True),
        ("learning_rate", 0),
        ("learning_rate", float("nan")),
        ("learning_rate", "fast"),
        ("max_leaves", 1),
        ("max_depth", 0),
        ("min_samples_leaf", 0),
        ("min_child_weight", -1.0),
        ("l2", -0.5),
        ("l2", float("inf")),
        ("min_gain", -1),
        ("max_bins", 1),
        ("max_bins", 256),
        ("colsample", 0.0),
        ("colsample", 1.5),
        ("leaf_values", "some"),
        ("second_look", -1),
        ("order", 3),
        ("early_stopping_rounds", 0),
        ("validation_fraction", 1.0),
        ("n_jobs", 0),
        ("device", "abacus"),
        ("verbose", -1),
        ("sampler", "magic"),
        ("objective", "magic"),
        ("objective", "squared"),
        ("class_weight", "heavy"),
        ("class_weight", np.array([1.0, 2.0])),
        ("class_weight", {0: 1.0, 1: -1.0}),
        ("class_weight", {0: "a", 1: 1}),
        ("class_weight", {0: 1, 5: 3}),
        ("class_weight", {0: 0.0, 1: 0.0}),
        ("callbacks", ["not a callback"]),
        ("callbacks", TimeLimit(1.0)),
        ("categorical_features", 3),
        ("monotone_constraints", 1),
        ("random_state", "a"),
        ("eval_metric", "magic"),
        ("eval_metric", []),
        ("eval_metric", ["log_loss", "log_loss"]),
    ],
)
def test_parameters(parameter, value):
    with pytest.raises(ParameterError) as error:
        classifier(**{parameter: value}).fit(X, Y)
    assert parameter in str(error.value)
    assert "must be" in str(error.value)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan"), "half"])
@pytest.mark.parametrize("kind", [MVS, SGB])
def test_rate(kind, rate):
    with pytest.raises(ParameterError, match=r"rate must be in \(0, 1\], got"):
        classifier(sampler=kind(rate=rate)).fit(X, Y)


def test_rates_of_goss():
    with pytest.raises(ParameterError, match="rate"):
        classifier(sampler=GOSS(top_rate=0.8, other_rate=0.8)).fit(X, Y)


def test_no_limit_at_all():
    with pytest.raises(ParameterError, match="max_depth must be given when max_leaves is None"):
        classifier(max_leaves=None).fit(X, Y)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.where(np.arange(20) == 7, np.nan, Y), "NaN"),
        (Y[:-1], "20.*19|19.*20"),
        (np.linspace(0, 1, 20), "(?i)continuous"),
        (None, "requires y"),
        (np.array(["a", None] * 10, object), "missing label: row 1 holds None"),
        (np.array(["a", np.nan] * 10, object), "missing label: row 1 holds nan"),
        (np.array(["a", 1] * 10, object), "one type: row 0 holds 'a' and row 1 holds 1"),
        (np.arange(20).astype("datetime64[D]"), "numbers, text or booleans"),
        (["yes", "no", float("nan"), "no"] * 5, "missing label: row 2 holds nan"),
        (("yes", 1) * 10, "one type: row 0 holds 'yes' and row 1 holds 1"),
        (np.ma.array(Y, mask=np.arange(20) == 7), "y contains a masked value, first in row 7"),
        ([], "y is empty"),
        (Y + 1j, "Complex data not supported, got y of dtype complex128$"),
    ],
)
def test_class_targets(target, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.where(np.arange(20) == 7, np.nan, 1.0 * Y), "finite.*row 7"),
        (np.where(np.arange(20) == 7, np.inf, 1.0 * Y), "finite.*row 7"),
        (Y + 1j, "Complex data not supported, got y of dtype complex128$"),
        (np.ma.array(Y, mask=np.arange(20) == 7), "y contains a masked value, first in row 7"),
        (np.arange(20).astype("datetime64[D]"), "y must hold numbers, not datetime64"),
        (np.arange(20).astype("timedelta64[s]"), "y must hold numbers, not timedelta64"),
        ([], "y is empty"),
        (np.array(["a"] * 20), "numbers"),
        (Y[:5], "20.*5|5.*20"),
    ],
)
def test_number_targets(target, message):
    with pytest.raises(ValueError, match=message):
        MVSRegressor(n_jobs=1).fit(X, target)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(20) == 3, -1.0, 1.0), "weight.*row 3"),
        (np.zeros(20), "weight must not be zero for every row"),
        (np.ones(19), "20.*19|19.*20"),
        (np.full(20, np.nan), "weight"),
        (np.ones((20, 2)), "weight"),
        (1.0, "sample_weight must be one-dimensional"),
        (["heavy"] * 20, "sample_weight must hold numbers"),
    ],
)
@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}])
def test_weights(weight, message, parameters):
    with pytest.raises(DataError, match=message):
        classifier(**parameters).fit(X, Y, sample_weight=weight)


def test_labels_in_a_list_are_what_they_are_in_an_array():
    labels = np.array(["no", "yes"])[Y]
    for same in (labels.tolist(), tuple(labels.tolist())):
        assert classifier().fit(X, same).classes_.dtype == labels.dtype
    assert classifier().fit(X, np.ma.array(Y)).classes_.tolist() == [0, 1]


def test_weights_that_others_made_zero():
    with pytest.raises(ParameterError, match="class_weight must be such that it leaves a row"):
        classifier(class_weight={0: 0.0}).fit(X, Y, sample_weight=Y == 0)
    halves = MVSRegressor(n_jobs=1, n_estimators=1, validation_fraction=0.5)
    apart = rows_set_aside(np.zeros(20), 0.5, 0)
    for rows, verb in ((apart, "sets aside"), (~apart, "leaves to train on")):
        with pytest.raises(DataError, match=rf"sample_weight .* validation_fraction=0\.5 {verb}"):
            halves.fit(X, Y, sample_weight=~rows)


def test_class_weights_may_name_a_class_that_these_rows_lack():
    weighted = classifier(class_weight={0: 1.0, 1: 2.0, 5: 3.0}).fit(X, Y)
    assert weighted.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("fraction", [0.01, 0.99])
@pytest.mark.parametrize("kind", [MVSClassifier, MVSRegressor])
def test_both_parts_of_a_validation_need_rows(kind, fraction):
    with pytest.raises(ParameterError, match=r"validation_fraction must be (large|small) enough"):
        kind(validation_fraction=fraction, n_jobs=1).fit(X, Y)
    assert kind(validation_fraction=0.5, n_jobs=1, n_estimators=1).fit(X, Y).n_iter_ == 1


def test_every_class_is_left_to_train_on():
    y = np.where(np.arange(20) == 3, 1, 0)
    with pytest.raises(ParameterError, match=r"validation_fraction .* of every class"):
        classifier(validation_fraction=0.6).fit(X, y)


def test_what_is_passed_to_fit():
    with pytest.raises(ParameterError, match="eval_set must be a list"):
        classifier().fit(X, Y, eval_set=3)
    with pytest.raises(ParameterError, match="init_model must be an estimator"):
        classifier().fit(X, Y, init_model=3)
    with pytest.raises(ParameterError, match="init_model must be an estimator"):
        classifier().fit(X, Y, init_model=DummyClassifier().fit(X, Y))
    with pytest.raises(ParameterError, match="quantile must be left out"):
        MVSRegressor(quantile=0.3).fit(X, Y)
    with pytest.raises(DataError, match="must not be negative"):
        MVSRegressor(objective="poisson", n_estimators=1).fit(X, Y, eval_set=[(X, -1.0 * Y)])
    with pytest.raises(ParameterError, match="early_stopping_rounds must be a positive integer"):
        EarlyStopping("3")
    with pytest.raises(ParameterError, match="seconds must be positive"):
        TimeLimit("3")


def test_columns_of_the_same_name():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="Duplicate column names"):
        classifier().fit(pandas.DataFrame(X, columns=["a", "a"]), Y)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.empty((0, 3)), r"0 sample\(s\)"),
        (np.empty((20, 0)), r"0 feature\(s\)"),
        (X + 1j, "Complex data not supported"),
        ({"a": [object()] * 20}, "'a'"),
        (np.arange(20.0), "2"),
        ([[1.0, 2.0], [3.0]] * 10, "Rows of X differ in length"),
    ],
)
def test_tables(table, message):
    with pytest.raises((ValueError, TypeError), match=message):
        classifier().fit(table, Y)


def test_rows_of_several_lengths_at_prediction():
    with pytest.raises(DataError, match="Rows of X differ in length"):
        classifier().fit(X, Y).predict([[1.0, 2.0], [3.0]])


def test_wrong_columns_at_prediction():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": X[:, 0], "height": X[:, 1]})
    clf = classifier().fit(frame, Y)
    with pytest.raises(ValueError, match="height"):
        clf.predict(frame[["age"]])
    with pytest.raises(ValueError, match="width"):
        clf.predict(frame.rename(columns={"height": "width"}))
    with pytest.raises(ValueError, match="same order"):
        clf.predict(frame[["height", "age"]])
    with pytest.raises(DataError, match="'age' was numeric"):
        clf.predict(frame.assign(age="old"))
    with pytest.raises(DataError, match="Column 'height' is missing"):
        clf.predict({"age": X[:, 0]})
    with pytest.raises(ValueError, match="3 features"):
        classifier().fit(X, Y).predict(np.zeros((2, 3)))


class Objective:
    name = "mine"
    link = "identity"

    def __init__(self, gradients):
        self._gradients = gradients

    def gradients(self, target, scores):
        return self._gradients(target, scores)


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        (lambda y, F: (F[:, :3] - y[:3], np.ones((1, 3))), "'mine'.*shape"),
        (lambda y, F: (np.where(y == 7, np.nan, F - y), np.ones_like(F)), "'mine'.*row 7"),
        (lambda y, F: (F - y, np.where(y == 7, np.inf, np.ones_like(F))), "'mine'.*row 7"),
        (lambda y, F: (F - y, -np.ones_like(F)), "'mine'.*negative hessian"),
        (lambda y, F: F - y, "'mine'"),
    ],
)
def test_custom_objectives(gradients, message):
    model = MVSRegressor(objective=Objective(gradients), n_jobs=1, n_estimators=2)
    with pytest.raises(ObjectiveError, match=message):
        model.fit(X, np.arange(20.0))


def test_custom_sampler_with_probabilities_outside_the_range():
    class Wrong:
        def probabilities(self, gradients, hessians, iteration):
            return np.full(gradients.shape[1], 1.5)

    with pytest.raises(ParameterError, match="Wrong"):
        classifier(sampler=Wrong()).fit(X, Y)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [({"nobody": 1}, "nobody"), ([1], "length 2"), ({0: 2}, "-1, 0 and 1")],
)
def test_monotone_constraints(constraints, message):
    with pytest.raises(ParameterError, match=message):
        classifier(monotone_constraints=constraints).fit(X, Y)


def test_monotone_constraint_on_categories():
    table = {"kind": np.array(["a", "b"] * 10, object), "x": X[:, 0]}
    with pytest.raises(ParameterError, match="kind"):
        classifier(monotone_constraints={"kind": 1}).fit(table, Y)


def test_monotone_constraint_on_more_categories_than_bins():
    table = {"kind": np.array([f"k{i}" for i in range(300)], object), "x": np.arange(300.0)}
    with pytest.raises(ParameterError, match=r"\{'kind': 1\}"):
        classifier(monotone_constraints={"kind": 1}).fit(table, np.arange(300) % 2)
    free = classifier(monotone_constraints={"kind": 0, "x": 1})
    assert free.fit(table, np.arange(300) % 2).n_iter_ >= 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((X, Y + 4), "class 4, which is not"),
        ((X, Y[:-1]), "20.*19|19.*20"),
        ((X, None), "y is None|requires y"),
        ((X[:, :1], Y), "2 features"),
        (({"f0": [object()] * 20}, Y), "'f0'"),
        ((X, Y, np.zeros(20)), "zero for every row"),
        ((X, np.ones((20, 2))), "shape"),
    ],
)
def test_errors_say_which_evaluation_set(wrong, message):
    with pytest.raises(DataError, match=rf"^eval_set\[1\]: .*({message})"):
        classifier().fit(X, Y, eval_set=[(X, Y), wrong])


def test_values_outside_an_objective_say_which_evaluation_set():
    counts = MVSRegressor(objective="poisson", n_estimators=1, n_jobs=1)
    with pytest.raises(DataError, match=r"^eval_set\[1\]: .*must not be negative"):
        counts.fit(X, Y, eval_set=[(X, Y), (X, -1.0 * Y)])


def test_evaluation_sets_may_stand_in_tuples():
    part = (X[:10], Y[:10])
    lines = (tuple(map(tuple, X[:2].tolist())), (0, 1))  # two rows of two columns: one set
    for given, names in (((part, part), 2), (part, 1), ((part,), 1), (lines, 1)):
        assert len(classifier().fit(X, Y, eval_set=given).evals_result_) == names


def test_evaluation_sets():
    with pytest.raises(DataError, match="class 4, which is not"):
        classifier().fit(X, Y, eval_set=[(X, Y + 4)])
    with pytest.raises(ParameterError, match="eval_set"):
        classifier().fit(X, Y, eval_set=[X])
    with pytest.raises(ParameterError, match=r"early_stopping_rounds.*eval_set"):
        classifier(early_stopping_rounds=3).fit(X, Y)
    with pytest.raises(ParameterError, match="eval_metric"):
        classifier(eval_metric="magic").fit(X, Y, eval_set=[(X, Y)])
    with pytest.raises(ValueError, match="2 features"):
        classifier().fit(X, Y, eval_set=[(X[:, :1], Y)])


def test_going_on_from_two_places(tmp_path):
    fitted = classifier().fit(X, Y)
    with pytest.raises(ParameterError, match="resume"):
        classifier().fit(X, Y, init_model=fitted, resume=tmp_path / "x.json")


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    for path in ("", True, tmp_path, tmp_path / "no" / "run.json"):
        with pytest.raises(ParameterError, match=r"^resume must be "):
            classifier().fit(X, Y, resume=path)


def test_an_error_leaves_the_fitted_model_as_it_was():
    clf = classifier().fit(X, Y)
    before = clf.predict_proba(X)
    with pytest.raises(MVSBoostError):
        clf.fit(X, Y, sample_weight=-np.ones(20))
    np.testing.assert_array_equal(clf.predict_proba(X), before)


def test_an_error_takes_back_labels_and_columns():
    clf = classifier().fit(X, Y.astype(str))
    before = clf.predict(X)
    with pytest.raises(DataError):
        clf.fit(np.ones((20, 3)), Y + 5, sample_weight=[1])
    assert clf.n_features_in_ == 2
    np.testing.assert_array_equal(clf.predict(X), before)
    fresh = classifier()
    with pytest.raises(DataError):
        fresh.fit(X, Y, sample_weight=[1])
    assert set(vars(fresh)) == set(fresh.get_params())


@pytest.mark.parametrize("n_iterations", [2.5, "2", 3, -1])
def test_iterations_to_predict_with_are_checked(n_iterations):
    fitted = classifier().fit(X, Y)
    with pytest.raises(ParameterError, match="n_iterations must be an integer from 0 to 2, got"):
        fitted.predict(X, n_iterations=n_iterations)


def test_classes_are_for_the_classifier():
    with pytest.raises(ParameterError, match="'softmax'") as error:
        MVSRegressor(objective="softmax").fit(X, Y)
    assert "MVSClassifier is for classes" in str(error.value)


def test_columns_in_another_order_do_not_continue_a_model():
    frame = pd.DataFrame(X, columns=["a", "b"])
    start = classifier().fit(frame, Y)
    with pytest.raises(DataError, match=r"in another order than .* \['a', 'b'\]: put them in"):
        classifier().fit(frame[["b", "a"]], Y, init_model=start)
    columns = {name: frame[name].to_numpy() for name in ("b", "a")}
    assert classifier().fit(columns, Y, init_model=start).n_iter_ == 4


def test_scores_without_a_link_are_no_probabilities():
    class Own:
        n_outputs = 3

        def gradients(self, target, scores):
            hit = target == np.arange(3)[:, None]
            return scores - hit, np.ones_like(scores)

    labels = np.arange(20) % 3
    fitted = classifier(objective=Own()).fit(X, labels)
    assert fitted.decision_function(X).shape == (20, 3)
    assert set(fitted.predict(X)) <= {0, 1, 2}
    with pytest.raises(ObjectiveError, match=r"'Own' has no link .*, or use decision_f"):
        fitted.predict_proba(X)
