"""From names, objects and model files to objectives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mvsboost.boosting import train
from mvsboost.errors import DataError, ModelFormatError, ObjectiveError, ParameterError
from mvsboost.model import Model
from mvsboost.objectives import (
    OBJECTIVE_NAMES,
    Absolute,
    CrossEntropy,
    Gamma,
    Huber,
    Logistic,
    LogitLink,
    LogLink,
    Objective,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    Tweedie,
    make_objective,
    objective_from_dict,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("logistic", Logistic),
        ("binary", Logistic),
        ("log_loss", Logistic),
        ("squared", Squared),
        ("squared_error", Squared),
        ("absolute", Absolute),
        ("absolute_error", Absolute),
        ("quantile", Quantile),
        ("poisson", Poisson),
        ("huber", Huber),
        ("gamma", Gamma),
        ("tweedie", Tweedie),
        ("cross_entropy", CrossEntropy),
    ],
)
def test_by_name(name: str, kind: type[Objective]) -> None:
    assert name in OBJECTIVE_NAMES
    assert type(make_objective(name)) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("RMSE", Squared),
        ("l2", Squared),
        ("reg:squarederror", Squared),
        ("MAE", Absolute),
        ("Logloss", Logistic),
        ("binary:logistic", Logistic),
        ("count:poisson", Poisson),
    ],
)
def test_by_a_name_of_others(name: str, kind: type[Objective]) -> None:
    assert type(make_objective(name)) is kind


def test_classes_choose_between_logistic_and_softmax() -> None:
    assert isinstance(make_objective("log_loss", n_classes=2), Logistic)
    three = make_objective("log_loss", n_classes=3)
    assert isinstance(three, Softmax)
    assert three.n_outputs == 3
    assert make_objective("softmax", n_classes=2).n_outputs == 2
    with pytest.raises(ParameterError, match="n_classes must be given for objective 'softmax'"):
        make_objective("softmax")


def test_an_objective_is_passed_through() -> None:
    objective = Quantile(0.3)
    assert make_objective(objective) is objective


@pytest.mark.parametrize("spec", ["squared", Squared(), Quantile(0.5)])
def test_a_regression_objective_is_refused_for_classes(spec: Any) -> None:
    with pytest.raises(ParameterError, match="objective must be one for classes"):
        make_objective(spec, n_classes=2)


@pytest.mark.parametrize("spec", ["logistic", Logistic(), Softmax(4)])
def test_the_number_of_outputs_must_fit_the_classes(spec: Any) -> None:
    with pytest.raises(ParameterError, match="one for the 3 classes"):
        make_objective(spec, n_classes=3)


def test_unknown_name_lists_what_is_allowed() -> None:
    with pytest.raises(ParameterError, match=r"'logistic', 'softmax'.*got 'hinge'"):
        make_objective("hinge")


def test_alpha_is_for_quantile_only() -> None:
    assert make_objective("quantile", alpha=0.9).leaf_quantile == 0.9
    for spec in ("squared", Quantile(0.5)):
        with pytest.raises(ParameterError, match="alpha must be left out"):
            make_objective(spec, alpha=0.9)


def test_a_users_objective_may_not_take_a_built_in_name() -> None:
    class Focal(Logistic):
        pass

    with pytest.raises(ParameterError, match=r"objective.name must be another.*'logistic'"):
        make_objective(Focal())

    class Named(Focal):
        name = "focal"

    assert make_objective(Named()).name == "focal"


def test_a_users_subclass_is_an_objective_with_no_loss_of_its_own() -> None:
    class Plain(Objective):
        name = "plain"

        def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
            return scores - target, np.ones_like(scores)

    plain = make_objective(Plain())
    assert not plain.has_loss
    assert Squared().has_loss
    assert repr(plain) == "CustomObjective(Plain())"
    assert objective_from_dict(plain.to_dict()).name == "plain"


class Mine(Objective):
    """Squared error as a subclass of the public base; attributes as given."""

    name = "mine"

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
        return scores - target, np.ones_like(scores)


TARGET, SCORES = np.array([0.0, 1.0, 1.0]), np.zeros((1, 3))


def test_a_users_subclass_can_not_write_to_our_arrays() -> None:
    class InPlace(Mine):
        def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
            scores -= target
            return scores, np.ones_like(scores)

        def loss(self, target: np.ndarray, scores: np.ndarray) -> Any:
            target[:] = 0.0
            return target

        def check_values(self, y: np.ndarray) -> None:
            y.sort()

    objective = make_objective(InPlace())
    for call in (objective.gradients, objective.loss):
        with pytest.raises(ValueError, match="read-only"):
            call(TARGET.copy(), SCORES.copy())
    with pytest.raises(ValueError, match="read-only"):
        objective.check_target(TARGET.copy())


def test_results_of_a_users_subclass_are_checked() -> None:
    class Wrong(Mine):
        def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
            return scores - target, 1.0

        def baseline(self, means: np.ndarray, quantile: Any) -> Any:
            return np.zeros(2)

        def loss(self, target: np.ndarray, scores: np.ndarray) -> Any:
            return 0.0

    objective = make_objective(Wrong())
    with pytest.raises(ObjectiveError, match=r"'mine': the hessian must have shape .*got \(\)"):
        objective.gradients(TARGET, SCORES)
    with pytest.raises(ObjectiveError, match="'mine': the baseline must be 1 finite"):
        objective.baseline(np.ones(1), lambda alpha: 0.0)
    with pytest.raises(ObjectiveError, match="'mine': the loss must have shape"):
        objective.loss(TARGET, SCORES)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"leaf_quantile": 1.8}, "objective.leaf_quantile must be None or a number in"),
        ({"leaf_quantile": "0.5"}, "objective.leaf_quantile must be None or a number in"),
        ({"leaf_quantile": True}, "objective.leaf_quantile must be None or a number in"),
        ({"leaf_quantile": 0.5, "n_outputs": 3}, "leaf_quantile must be None for .* several"),
        ({"n_outputs": 1.5}, "objective.n_outputs must be a positive whole number"),
        ({"max_step": 0.0}, "objective.max_step must be a positive number"),
        ({"link": LogitLink}, "objective.link must be a link's name or"),
    ],
)
def test_attributes_of_a_users_subclass_are_checked(
    attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        make_objective(Mine(**attributes))


def test_a_users_subclass_keeps_what_it_says_of_itself() -> None:
    class Counts(Mine):
        link = LogLink()

        def check_values(self, y: np.ndarray) -> None:
            super().check_values(y)
            if np.any(y < 0):
                raise DataError("no counts")

        def check_target(self, y: np.ndarray) -> None:
            super().check_target(y)
            if not np.any(y > 1):
                raise DataError("no count above 1")

    counts = make_objective(Counts())
    assert (counts.name, counts.link, counts.is_classifier) == ("mine", LogLink(), False)
    assert (counts.max_step, counts.default_metric) == (Poisson.max_step, "poisson_deviance")
    assert counts.baseline(np.ones(1), lambda alpha: 0.0) == [0.0]
    counts.check_values(np.array([0.0, 1.0]))
    with pytest.raises(DataError, match="no counts"):
        counts.check_values(np.array([-1.0, 2.0]))
    with pytest.raises(DataError, match="no count above 1"):
        counts.check_target(np.array([0.0, 1.0]))
    with pytest.raises(DataError, match="finite"):
        counts.check_values(np.array([0.0, np.nan]))
    own = Mine(leaf_quantile=0.25, max_step=2, default_metric="mae", n_outputs=np.int64(1))
    objective = make_objective(own)
    assert (objective.leaf_quantile, objective.max_step) == (0.25, 2.0)
    assert objective.default_metric == "mae"
    with pytest.raises(DataError, match="scale the target"):
        objective.check_values(np.array([1e39]))


def test_numbers_of_outputs_of_numpy_can_be_saved() -> None:
    own = Mine(n_outputs=np.int64(3), is_classifier=np.True_)
    for objective in (make_objective(own, n_classes=3), own):
        assert json.loads(json.dumps(objective.to_dict()))["n_outputs"] == 3


def test_wrapping_happens_once_and_never_to_built_in_objectives() -> None:
    once = make_objective(Mine())
    assert make_objective(once) is once
    restored = objective_from_dict(once.to_dict())
    assert make_objective(restored) is restored
    for objective in (Logistic(), Softmax(3), Squared(), Absolute(), Quantile(0.5), Poisson()):
        assert make_objective(objective) is objective


class Focal(Logistic):
    """A built-in objective with other gradients and a name of its own."""

    name = "focal"

    def gradients(self, target: np.ndarray, scores: np.ndarray) -> Any:
        g, h = super().gradients(target, scores)
        return 0.5 * g, h


@pytest.mark.parametrize("prepare", [make_objective, lambda objective: objective])
def test_a_renamed_built_in_objective_predicts_after_loading(
    prepare: Any, make_data: Any, make_config: Any, tmp_path: Path
) -> None:
    data, X = make_data("logistic"), np.random.default_rng(0).normal(size=(20, 4))
    X[:, 3] = np.arange(20) % 6
    model = train(data, make_config(prepare(Focal()))).model
    model.save(tmp_path / "m.json")
    again = Model.load(tmp_path / "m.json")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.objective.name == "focal"
    assert again.objective.is_classifier
    plain = train(data, make_config(Logistic())).model
    assert not np.array_equal(plain.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "objective",
    [Logistic(), Softmax(5), Squared(), Absolute(), Quantile(0.1), Poisson()],
    ids=repr,
)
def test_dictionary_round_trip(objective: Objective) -> None:
    restored = objective_from_dict(json.loads(json.dumps(objective.to_dict())))
    assert type(restored) is type(objective)
    assert restored.to_dict() == objective.to_dict()
    assert repr(restored) == repr(objective)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"kind": "builtin"},
        {"kind": "builtin", "name": "hinge"},
        {"kind": "builtin", "name": "squared", "alpha": 0.5},
        {"kind": "builtin", "name": "quantile", "alpha": 2.0},
        {"kind": "builtin", "name": ["squared"]},
        {"kind": "other", "name": "squared"},
        {"kind": "custom", "name": "own"},
        {"kind": "custom", "name": "own", "link": 3, "n_outputs": 1, "is_classifier": False},
        {"kind": "custom", "name": "own", "link": "log", "n_outputs": 0, "is_classifier": False},
        {
            "kind": "custom",
            "name": "own",
            "link": "log",
            "n_outputs": 1,
            "is_classifier": False,
            "code": "print()",
        },
    ],
)
def test_damaged_dictionaries(state: dict[str, Any]) -> None:
    with pytest.raises(ModelFormatError, match="objective in the model file"):
        objective_from_dict(state)
