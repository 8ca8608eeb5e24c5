"""Gradient-boosted trees whose heart is the choice of rows.

Names are imported when they are first used, so that ``import mvsboost`` is quick.
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
    "train": "boosting",
}

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
    "train",
]

if TYPE_CHECKING:
    from mvsboost.boosting import TrainConfig, train
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
    if name not in _HOMES:
        raise AttributeError(f"module 'mvsboost' has no attribute {name!r}")
    value = getattr(import_module(f"mvsboost.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
