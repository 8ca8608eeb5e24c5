"""Names of other libraries, and what is said of them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.dialects import METRICS, OBJECTIVES, PARAMETERS
from mvsboost.errors import MVSBoostError, UnknownParameterError
from mvsboost.metrics import METRIC_NAMES
from mvsboost.objectives import OBJECTIVE_NAMES
from mvsboost.parameters import PARAMETERS as OURS

DATA = np.arange(60.0).reshape(30, 2), np.arange(30) % 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("num_leaves", "'num_leaves' is called 'max_leaves' here"),
        ("reg_lambda", "'reg_lambda' is called 'l2' here"),
        ("colsample_bytree", "'colsample_bytree' is called 'colsample' here"),
        ("iterations", "'iterations' is called 'n_estimators' here"),
        ("subsample", "sampler=SGB"),
        ("top_rate", "sampler=GOSS"),
        ("grow_policy", "max_leaves=None"),
        ("lerning_rate", "did you mean 'learning_rate'"),
        ("zzz", "there are n_estimators, learning_rate"),
    ],
)
@pytest.mark.parametrize("kind", [MVSClassifier, MVSRegressor])
def test_parameters_of_others(kind, name, said):
    with pytest.raises(UnknownParameterError, match="^" + kind.__name__) as caught:
        kind(**{name: 1})
    assert said in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, MVSBoostError)


def test_every_unknown_name_is_told_at_once():
    with pytest.raises(TypeError, match=r"'num_leaves' is called.*; 'eta' is called"):
        MVSRegressor(num_leaves=3, eta=0.1)


@pytest.mark.parametrize(
    "name", ["eval_metric", "callbacks", "early_stopping_rounds", "verbose", "n_estimators"]
)
def test_arguments_of_fit_that_belong_elsewhere(name):
    with pytest.raises(TypeError, match=rf"constructor: MVSClassifier\({name}=\.\.\.\)"):
        MVSClassifier().fit(*DATA, **{name: 10})


def test_arguments_of_fit_by_the_names_of_others():
    with pytest.raises(TypeError, match="called 'categorical_features' here"):
        MVSRegressor().fit(*DATA, categorical_feature=[0])


def test_tables_point_at_names_that_exist():
    own = {parameter.name for parameter in OURS}
    called = {said.split("'")[3] for said in PARAMETERS.values() if "is called" in said}
    assert called <= own
    assert not own & set(PARAMETERS)
    assert set(METRICS.values()) <= set(METRIC_NAMES)
    assert not set(METRICS) & set(METRIC_NAMES)
    assert set(OBJECTIVES.values()) <= set(OBJECTIVE_NAMES)
    assert not set(OBJECTIVES) & set(OBJECTIVE_NAMES)


def test_estimators_keep_their_signature():
    parameters = inspect.signature(MVSClassifier).parameters
    assert list(parameters)[:2] == ["n_estimators", "learning_rate"]
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    model = MVSClassifier(max_leaves=7)
    assert clone(model).get_params() == model.get_params()
