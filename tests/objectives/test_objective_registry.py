"""From names, objects and model files to objectives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mvsboost.errors import ModelFormatError, ParameterError
from mvsboost.objectives import (
    OBJECTIVE_NAMES,
    Absolute,
    Logistic,
    Objective,
    Poisson,
    Quantile,
    Softmax,
    Squared,
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
    ],
)
def test_by_name(name: str, kind: type[Objective]) -> None:
    assert name in OBJECTIVE_NAMES
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
    assert repr(plain) == "Plain()"
    assert objective_from_dict(plain.to_dict()).name == "plain"


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
