"""`MVSClassifier` and `MVSRegressor`: the library in the manner of scikit-learn."""

from __future__ import annotations

from os import PathLike

from mvsboost.errors import ModelFormatError
from mvsboost.estimators.classifier import MVSClassifier
from mvsboost.estimators.regressor import MVSRegressor
from mvsboost.model import Model

__all__ = ["MVSClassifier", "MVSRegressor", "load_estimator"]


def load_estimator(path: str | PathLike[str]) -> MVSClassifier | MVSRegressor:
    """The estimator of a model file, of whichever kind it is."""
    said = Model.load(path).metadata.get("estimator")
    for kind in (MVSClassifier, MVSRegressor):
        if said == kind.__name__:
            return kind.load(path)
    raise ModelFormatError(f"{path} was not saved by an estimator: load it by Model.load")
