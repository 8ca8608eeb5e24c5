"""The estimator of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mvsboost.arguments import class_weights
from mvsboost.callbacks import Callback
from mvsboost.data.targets import labels_of, read_labels, written_labels
from mvsboost.dialects import checks_names
from mvsboost.errors import DataError, ObjectiveError, ParameterError
from mvsboost.estimators.documentation import documentation
from mvsboost.estimators.fitting import MVSEstimator, is_auto
from mvsboost.exact.checks import first_of
from mvsboost.model import Model
from mvsboost.model.checking import check_labels
from mvsboost.objectives import Objective, make_objective

__all__ = ["MVSClassifier"]

_EXAMPLE = """>>> from sklearn.datasets import load_breast_cancer
    >>> from mvsboost import MVS, MVSClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MVSClassifier(n_estimators=20, sampler=MVS(rate=0.5)).fit(X, y)
    >>> bool(clf.score(X, y) > 0.95)
    True"""

_CLASSES = """classes_ : array
        Labels, in the order of probabilities.
    """


class MVSClassifier(ClassifierMixin, MVSEstimator):  # type: ignore[misc]
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
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        categorical_features: Any = "auto",
        class_weight: Any = None,
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
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _encode_target(self, y: Any, start: Model | None) -> NDArray[np.float64]:
        labels = labels_of(y)
        if start is not None and "classes" in start.metadata:
            self._restore_labels(start)
            return self._codes(labels, "y", "the classes of the model to go on from")
        self.classes_ = np.unique(labels)  # with the inverse it takes three times as long
        return np.searchsorted(self.classes_, labels).astype(np.float64)

    def _encode_eval(self, y: Any) -> NDArray[np.float64]:
        return self._codes(labels_of(y), "eval_set", "the training classes")

    def _codes(self, labels: NDArray[Any], what: str, known: str) -> NDArray[np.float64]:
        unknown = labels[~np.isin(labels, self.classes_)]
        if len(unknown):
            raise DataError(
                f"{what} holds class {unknown.tolist()[0]!r}, which is not among {known} "
                f"{self.classes_.tolist()}"
            )
        return np.searchsorted(self.classes_, labels).astype(np.float64)

    def _n_classes(self) -> int:
        return max(2, len(self.classes_))

    def _make_objective(self) -> Objective:
        spec = "log_loss" if is_auto(self.objective) else self.objective
        return make_objective(spec, n_classes=self._n_classes())

    def _class_weighted(self, target: Any, weight: Any) -> Any:
        if self.class_weight is None:
            return weight
        codes = target.astype(int)
        by_class = self._by_class(np.bincount(codes, minlength=len(self.classes_)))
        if by_class is None:
            return weight
        with np.errstate(over="ignore"):
            weights = by_class[codes] if weight is None else by_class[codes] * weight
        if (row := first_of(~np.isfinite(weights))) is not None:
            raise DataError(f"class_weight times sample_weight is infinite in row {row}")
        if not weights.any():
            allowed = "such that it leaves a row to train on with a weight greater than zero"
            raise ParameterError("class_weight", self.class_weight, allowed)
        return weights

    def _by_class(self, counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """A weight for each class, given the number of its rows."""
        if self.class_weight is None:
            return None
        by_class = np.ones(len(self.classes_))
        if isinstance(self.class_weight, Mapping):
            by_class[:] = class_weights(self.classes_.tolist(), self.class_weight)
        else:
            present = counts > 0  # a model may be continued without some
            by_class[present] = counts.sum() / (present.sum() * counts[present])
        return by_class

    def _take_classes(self, classes: NDArray[Any] | None, start: Model | None) -> None:
        if classes is None:
            raise DataError("the Dataset holds numbers: make it with labels=True for classes")
        known = None if start is None else start.metadata.get("classes")
        if known is not None and known != classes.tolist():
            raise DataError(
                f"the Dataset has classes {classes.tolist()}, the model to go on from {known}"
            )
        self.classes_ = classes

    def _labels(self) -> dict[str, Any]:
        return written_labels(self.classes_)

    def _restore_labels(self, model: Model) -> None:
        check_labels(model.metadata, model.objective)
        self.classes_ = read_labels(model.metadata)

    def _predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        best = (scores[0] > 0).astype(int) if len(scores) == 1 else scores.argmax(axis=0)
        best = np.minimum(best, len(self.classes_) - 1)  # of one class there is no other
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        objective = self.model_.objective
        if objective.link.name == "identity":
            raise ObjectiveError(
                f"objective {objective.name!r} has no link from scores to probabilities: give it "
                f"the link 'logit' or 'multinomial', or use decision_function"
            )
        shares = objective.link.inverse(scores)
        if len(self.classes_) == 1:
            return np.ones((scores.shape[1], 1))
        return np.column_stack([1.0 - shares[0], shares[0]]) if len(shares) == 1 else shares.T

    def _decisions(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores[0] if len(scores) == 1 else scores.T

    def predict_proba(self, X: Any, *, n_iterations: int | None = None) -> NDArray[np.float64]:
        """Probabilities of the classes in the order of ``classes_``, (n_rows, n_classes)."""
        now = self._snapshot()
        return now._probabilities(now._scores(X, n_iterations))

    def decision_function(self, X: Any, *, n_iterations: int | None = None) -> NDArray[np.float64]:
        """Raw scores: (n_rows,) for two classes, (n_rows, n_classes) for more."""
        now = self._snapshot()
        return now._decisions(now._scores(X, n_iterations))

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[Any]]:
        """Probabilities after each iteration in turn."""
        now = self._snapshot()
        return now._staged(X, now._probabilities)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[Any]]:
        """Raw scores after each iteration in turn."""
        now = self._snapshot()
        return now._staged(X, now._decisions)


MVSClassifier.__doc__ = documentation("MVSClassifier", "classification", _EXAMPLE, _CLASSES)
