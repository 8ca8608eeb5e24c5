"""Gradient-boosted trees whose heart is the choice of rows.

Names and modules are imported when they are first used, so that ``import mvsboost`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "MVSClassifier": "estimators",
    "MVSRegressor": "estimators",
    "MVS": "sampling",
    "GOSS": "sampling",
    "SGB": "sampling",
    "Bernoulli": "sampling",
    "ImportanceSampling": "sampling",
    "NoSampling": "sampling",
    "BayesianBootstrap": "sampling",
    "PoissonBootstrap": "sampling",
    "Dataset": "data",
    "Model": "model",
    "Metric": "metrics",
    "TrainConfig": "boosting",
    "TreeParams": "trees",
    "compare": "comparison",
    "train": "boosting",
}

_MODULES = (
    "backends",
    "boosting",
    "callbacks",
    "comparison",
    "data",
    "datasets",
    "errors",
    "estimators",
    "interop",
    "metrics",
    "model",
    "objectives",
    "plots",
    "sampling",
    "testing",
    "trees",
)

__all__ = [
    "GOSS",
    "MVS",
    "SGB",
    "BayesianBootstrap",
    "Bernoulli",
    "Dataset",
    "ImportanceSampling",
    "MVSClassifier",
    "MVSRegressor",
    "Metric",
    "Model",
    "NoSampling",
    "PoissonBootstrap",
    "TrainConfig",
    "TreeParams",
    "__version__",
    "compare",
    "train",
]

if TYPE_CHECKING:
    from mvsboost import backends as backends
    from mvsboost import boosting as boosting
    from mvsboost import callbacks as callbacks
    from mvsboost import comparison as comparison
    from mvsboost import data as data
    from mvsboost import datasets as datasets
    from mvsboost import errors as errors
    from mvsboost import estimators as estimators
    from mvsboost import interop as interop
    from mvsboost import metrics as metrics
    from mvsboost import model as model
    from mvsboost import objectives as objectives
    from mvsboost import plots as plots
    from mvsboost import sampling as sampling
    from mvsboost import testing as testing
    from mvsboost import trees as trees
    from mvsboost.boosting import TrainConfig, train
    from mvsboost.comparison import compare
    from mvsboost.data import Dataset
    from mvsboost.estimators import MVSClassifier, MVSRegressor
    from mvsboost.metrics import Metric
    from mvsboost.model import Model
    from mvsboost.sampling import (
        GOSS,
        MVS,
        SGB,
        BayesianBootstrap,
        Bernoulli,
        ImportanceSampling,
        NoSampling,
        PoissonBootstrap,
    )
    from mvsboost.trees import TreeParams


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"mvsboost.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'mvsboost' has no attribute {name!r}")
    value = getattr(import_module(f"mvsboost.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # help() fetches all that is listed, and the suites of `testing` need pytest
    return sorted({*__all__, *_MODULES} - {"testing"})
