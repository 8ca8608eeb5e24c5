"""The estimator of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from mvsboost.callbacks import Callback
from mvsboost.data.targets import numbers_of, vector_of
from mvsboost.dialects import checks_names
from mvsboost.errors import ParameterError
from mvsboost.estimators.documentation import documentation
from mvsboost.estimators.fitting import MVSEstimator, is_auto
from mvsboost.model import Model
from mvsboost.objectives import Objective, make_objective

__all__ = ["MVSRegressor"]

_EXAMPLE = """>>> from sklearn.datasets import load_diabetes
    >>> from mvsboost import MVSRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(MVSRegressor(n_estimators=20).fit(X, y).score(X, y) > 0.4)
    True"""


class MVSRegressor(RegressorMixin, MVSEstimator):  # type: ignore[misc]
    @checks_names()
    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaves: int | str | None = "auto",
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        l2: float = 1.0,
        l1: float = 0.0,
        min_gain: float = 0.0,
        max_bins: int = 255,
        colsample: float = 1.0,
        sampler: Any = "mvs",
        leaf_values: str = "all",
        second_look: int | None = None,
        order: int = 2,
        objective: Any = "auto",
        quantile: float | None = None,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        categorical_features: Any = "auto",
        early_stopping_rounds: int | None = None,
        validation_fraction: float | None = None,
        eval_metric: Any = None,
        callbacks: Sequence[Callback] | None = None,
        n_jobs: int | None = -1,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.l2 = l2
        self.l1 = l1
        self.min_gain = min_gain
        self.max_bins = max_bins
        self.colsample = colsample
        self.sampler = sampler
        self.leaf_values = leaf_values
        self.second_look = second_look
        self.order = order
        self.objective = objective
        self.quantile = quantile
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.categorical_features = categorical_features
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _encode_target(self, y: Any, start: Model | None) -> NDArray[np.float64]:
        return numbers_of(vector_of(y))

    def _make_objective(self) -> Objective:
        spec = "squared" if is_auto(self.objective) else self.objective
        if self.quantile is not None and spec != "quantile":
            allowed = "left out unless objective is 'quantile'"
            raise ParameterError("quantile", self.quantile, allowed)
        # softmax cannot be made without a number of classes
        objective = None if spec == "softmax" else make_objective(spec, alpha=self.quantile)
        if objective is None or objective.is_classifier:
            raise ParameterError(
                "objective", self.objective, "one for numbers; MVSClassifier is for classes"
            )
        return objective

    def _predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        values: NDArray[Any] = self.model_.objective.link.inverse(scores)
        return values[0] if len(values) == 1 else values.T


MVSRegressor.__doc__ = documentation("MVSRegressor", "regression", _EXAMPLE)
