"""Metrics by name, with their direction.

Two kinds. A `RowMean` is a weighted mean over rows: backends add it up in
fixed-point integers, so it has the same bits for any chunking, and rows stay
where they are. A plain `Metric` sees all rows at once: the scores are brought
back, in row order, and one function is called on them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from operator import mul
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import read_only
from mvsboost.backends.protocol import Backend
from mvsboost.dialects import METRICS, known_as
from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.fixedpoint import sum_scale
from mvsboost.exact.numerics import exp, log
from mvsboost.objectives.base import Objective
from mvsboost.objectives.builtin import Absolute, Logistic, Quantile, Quantiles, Softmax
from mvsboost.objectives.links import FloatArray, IdentityLink, Link

__all__ = [
    "METRIC_NAMES",
    "EvaluationRows",
    "Metric",
    "RowMean",
    "default_metric",
    "get_metric",
    "names_for",
    "pinball",
]


class EvaluationRows(Protocol):
    """What a metric asks of a data set."""

    @property
    def target(self) -> NDArray[np.float64]:
        """Target of each row; class codes for a classifier."""

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """Weight of each row, or None."""

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""


@dataclass(frozen=True)
class Metric:
    """A metric computed from all predictions at once. Use it for your own metrics.

    Parameters
    ----------
    name : str
        Name in histories and progress.
    function : callable
        ``function(y_true, y_pred) -> float``. Predictions are (n,) numbers, (n,) probabilities
        of class 1, or (n, K) probabilities. For a classifier ``y_true`` holds positions in
        ``classes_``. The arrays are read-only.
    greater_is_better : bool
        Whether a greater value is better.
    weighted : bool
        Whether to pass row weights (or None) as ``sample_weight``.
    raw : bool
        Whether the function takes raw scores instead of predictions.
    link : Link
        From scores to predictions; set to the objective's before use.

    Examples
    --------
    >>> from mvsboost.objectives import Squared
    >>> bias = Metric("bias", lambda y, p: abs(p.mean() - y.mean()), greater_is_better=False)
    >>> get_metric(bias, Squared()).name
    'bias'
    """

    name: str
    function: Callable[..., Any]
    greater_is_better: bool
    weighted: bool = False
    raw: bool = False
    link: Link = field(default_factory=IdentityLink)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ParameterError("Metric.name", self.name, "a text that is not empty")
        if not callable(self.function):
            raise ParameterError("Metric.function", self.function, "callable")
        if not isinstance(self.greater_is_better, bool | np.bool_):
            raise ParameterError("Metric.greater_is_better", self.greater_is_better, "a bool")

    def predictions(self, scores: FloatArray) -> FloatArray:
        """What the function takes, (n_outputs, n): raw scores or the link's predictions."""
        scores = read_only(scores)
        return scores if self.raw else read_only(self.link.inverse(scores))

    def evaluate(self, backend: Backend, data: EvaluationRows) -> float:
        """The metric at the backend's current scores."""
        predictions = self.predictions(backend.scores())
        y_pred = predictions[0] if len(predictions) == 1 else predictions.T
        y_true = read_only(data.target)
        if self.weighted:
            weight = None if data.weight is None else read_only(data.weight)
            value = self.function(y_true, y_pred, sample_weight=weight)
        else:
            value = self.function(y_true, y_pred)
        if np.ndim(value) != 0 or not isinstance(value, float | int | np.number | np.bool_):
            raise ParameterError(f"eval_metric {self.name!r}", value, "one real number")
        return float(value)


def _as_it_is(mean: float) -> float:
    return mean


@dataclass(frozen=True)
class RowMean(Metric):
    """A weighted mean of row losses: finish(Σ ω l / Σ ω).

    Parameters
    ----------
    name, greater_is_better, raw, link
        As for `Metric`.
    function : callable
        ``function(target, predictions) -> row losses`` of shape (n,) or (1, n), for
        predictions of shape (n_outputs, n); each row's loss must depend on that row only. The
        arrays handed in are read-only.
    weighted : bool
        Not looked at: backends always weight the mean.
    finish : callable
        From the mean to the metric, a square root for instance.
    kernel : str
        Name under which a backend may have `function` of raw scores compiled; it gives the
        same bits, faster.
    at_once : bool
        Whether a backend passes all its rows in one call; else it may pass slices of them.

    Examples
    --------
    >>> import numpy as np
    >>> from mvsboost.objectives import Squared
    >>> rmse = get_metric("rmse", Squared())
    >>> rmse.rowwise(np.array([1.0, 2.0]), np.array([[4.0, 2.0]]))
    array([9., 0.])
    >>> rmse.finish(9.0)
    3.0
    """

    finish: Callable[[float], float] = _as_it_is
    kernel: str = ""
    at_once: bool = False

    def rowwise(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss of each row, (n,), for raw scores of shape (n_outputs, n)."""
        n = scores.shape[1]
        rows = np.asarray(self.function(read_only(target), self.predictions(scores)))
        name = f"eval_metric {self.name!r}"
        if rows.shape not in ((n,), (1, n)):
            raise ParameterError(name, rows.shape, f"of shape {(n,)}, one number a row")
        if rows.dtype.kind not in "fiub":
            raise ParameterError(name, rows.dtype, "an array of real numbers")
        return rows.reshape(n).astype(np.float64, copy=False)

    def evaluate(self, backend: Backend, data: EvaluationRows) -> float:
        """The metric at the backend's current scores, summed where the rows are."""
        if not data.is_weighted:
            total_weight = float(backend.n_rows)
        else:
            total_weight = _fixed_point_sum(backend, _ROW_WEIGHT)
        if total_weight <= 0.0:
            raise DataError("weight: the rows to evaluate on must have a positive total weight")
        return float(self.finish(_fixed_point_sum(backend, self) / total_weight))


def _fixed_point_sum(backend: Backend, metric: RowMean) -> float:
    largest = backend.metric_range(metric)
    if not math.isfinite(largest):
        return largest
    scale = sum_scale(largest, backend.n_rows)
    return backend.metric_sums(metric, scale) / scale


def _one(target: FloatArray, scores: FloatArray) -> FloatArray:
    return np.ones_like(target)


_ROW_WEIGHT = RowMean("weight", _one, False, raw=True)
"""Its sum is Σ ω, through the same verbs as any other row mean."""


# --- row losses ---------------------------------------------------------------------------------


def _log_loss(target: FloatArray, scores: FloatArray) -> FloatArray:
    n_outputs = len(scores)
    objective = Logistic() if n_outputs == 1 else Softmax(n_outputs)
    return objective.loss(target, scores)


def _hit(target: FloatArray, scores: FloatArray) -> FloatArray:
    predicted = scores[0] > 0.0 if len(scores) == 1 else np.argmax(scores, axis=0)
    rows: FloatArray = (predicted == target).astype(np.float64)
    return rows


def _miss(target: FloatArray, scores: FloatArray) -> FloatArray:
    return 1.0 - _hit(target, scores)


def _brier(target: FloatArray, probabilities: FloatArray) -> FloatArray:
    if len(probabilities) == 1:
        return _squared_error(target, probabilities)
    total = np.zeros_like(target)
    for k, p in enumerate(probabilities):
        difference = p - (target == k)
        total = total + difference * difference
    return total


def _squared_error(target: FloatArray, predictions: FloatArray) -> FloatArray:
    difference = predictions[0] - target
    rows: FloatArray = difference * difference
    return rows


def _poisson_deviance(target: FloatArray, scores: FloatArray) -> FloatArray:
    # y log y is 0 at y = 0, since `log` is finite there
    rows: FloatArray = 2.0 * (target * (log(target) - scores[0]) + (exp(scores[0]) - target))
    return rows


def _relative_error(target: FloatArray, predictions: FloatArray) -> FloatArray:
    least = np.finfo(np.float64).eps
    rows: FloatArray = np.abs(predictions[0] - target) / np.maximum(np.abs(target), least)
    return rows


def _squared_log_error(target: FloatArray, predictions: FloatArray) -> FloatArray:
    if target.min(initial=0.0) < 0.0:
        raise DataError(f"eval_metric 'rmsle' needs targets >= 0, got {target.min():g}")
    difference = log(1.0 + np.maximum(predictions[0], 0.0)) - log(1.0 + target)
    rows: FloatArray = difference * difference
    return rows


# --- metrics of all rows ------------------------------------------------------------------------


def _auc(y_true: FloatArray, y_pred: FloatArray, sample_weight: FloatArray | None) -> float:
    if sample_weight is not None:
        kept = sample_weight > 0
        y_true, y_pred, sample_weight = y_true[kept], y_pred[kept], sample_weight[kept]
    # a class that no row or every row belongs to has no curve
    present = np.unique(y_true)
    if len(present) < 2:
        raise DataError(
            "eval_metric 'auc' needs rows of at least two classes to evaluate on, "
            f"got classes {present.tolist()}"
        )
    if y_pred.ndim == 1:
        return _one_auc(y_true == 1, y_pred, sample_weight)
    areas = [_one_auc(y_true == k, y_pred[:, int(k)], sample_weight) for k in present]
    return sum(areas) / len(areas)


def _one_auc(positive: Any, score: FloatArray, weight: FloatArray | None) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive, score, sample_weight=weight))


def _average_precision(
    y_true: FloatArray, y_pred: FloatArray, sample_weight: FloatArray | None
) -> float:
    from sklearn.metrics import average_precision_score

    classes = [1] if y_pred.ndim == 1 else np.unique(y_true).astype(int).tolist()
    columns = y_pred[:, None] if y_pred.ndim == 1 else y_pred[:, classes]
    areas = [
        average_precision_score(y_true == k, column, sample_weight=sample_weight)
        for k, column in zip(classes, columns.T, strict=True)
    ]
    return float(np.mean(areas))


def _classes_of(y_pred: FloatArray) -> FloatArray:
    """The class of largest probability of each row."""
    classes = y_pred > 0.5 if y_pred.ndim == 1 else y_pred.argmax(axis=1)
    return classes.astype(np.float64)


@dataclass(frozen=True)
class _OfClasses:
    """A metric of scikit-learn that takes classes, averaged over them where they are several."""

    name: str
    average: bool = True

    def __call__(
        self, y_true: FloatArray, y_pred: FloatArray, sample_weight: FloatArray | None
    ) -> float:
        import sklearn.metrics

        options: dict[str, Any] = {"sample_weight": sample_weight}
        if self.average:
            options["zero_division"] = 0.0
            options["average"] = "binary" if y_pred.ndim == 1 else "macro"
        return float(getattr(sklearn.metrics, self.name)(y_true, _classes_of(y_pred), **options))


def _r2(y_true: FloatArray, y_pred: FloatArray, sample_weight: FloatArray | None) -> float:
    weight = np.ones_like(y_true) if sample_weight is None else sample_weight
    centred = y_true - (weight * y_true).sum() / weight.sum()
    residual = y_true - y_pred
    unexplained = float((weight * residual * residual).sum())
    total = float((weight * centred * centred).sum())
    if total == 0.0:
        return 1.0 if unexplained == 0.0 else 0.0
    return 1.0 - unexplained / total


# --- by name ------------------------------------------------------------------------------------


def pinball(alpha: float) -> RowMean:
    """The mean pinball loss at quantile `alpha`, whatever the objective.

    Examples
    --------
    >>> pinball(0.9).name
    'pinball_0.9'
    """
    return RowMean(f"pinball_{alpha:g}", Quantile(alpha).loss, False)


def _gives_probabilities(objective: Objective) -> bool:
    return objective.link.name in ("logit", "multinomial")


def _is_classifier(objective: Objective) -> bool:
    return objective.is_classifier


def _tells_classes(objective: Objective) -> bool:
    return objective.is_classifier and _gives_probabilities(objective)


def _is_regressor(objective: Objective) -> bool:
    return not objective.is_classifier and objective.n_outputs == 1


def _make_auc(objective: Objective) -> Metric:
    # probabilities of many rows round to the same 1.0; raw scores keep their order
    return Metric("auc", _auc, True, weighted=True, raw=objective.n_outputs == 1)


def _make_log_loss(objective: Objective) -> Metric:
    kernel = "logistic" if objective.n_outputs == 1 else "softmax"
    return RowMean("log_loss", _log_loss, False, raw=True, kernel=kernel)


def _make_loss(objective: Objective) -> Metric:
    # of the class itself: a subclass may have a loss of its own
    kernel = vars(type(objective)).get("kernel", "")
    # without one it is a user's, who may hold an array beside the target
    return RowMean("loss", objective.loss, False, raw=True, kernel=kernel, at_once=not kernel)


def _make_pinball(objective: Objective) -> Metric:
    alphas = objective.leaf_quantile
    assert alphas is not None
    if isinstance(alphas, tuple):
        mean = partial(mul, 1.0 / len(alphas))
        return RowMean("pinball", Quantiles(alphas).loss, False, raw=True, finish=mean)
    return replace(pinball(alphas), name="pinball")


def _constant(metric: Metric) -> Callable[[Objective], Metric]:
    return lambda objective: metric


_Fits = Callable[[Objective], bool]
_Make = Callable[[Objective], Metric]

_TABLE: dict[str, tuple[_Fits, _Make]] = {
    "log_loss": (_gives_probabilities, _make_log_loss),
    "auc": (_is_classifier, _make_auc),
    "accuracy": (_is_classifier, _constant(RowMean("accuracy", _hit, True, raw=True))),
    "error": (_is_classifier, _constant(RowMean("error", _miss, False, raw=True))),
    "average_precision": (
        _tells_classes,
        _constant(Metric("average_precision", _average_precision, True, weighted=True)),
    ),
    **{
        name: (_tells_classes, _constant(Metric(name, function, True, weighted=True)))
        for name, function in (
            ("f1", _OfClasses("f1_score")),
            ("precision", _OfClasses("precision_score")),
            ("recall", _OfClasses("recall_score")),
            ("balanced_accuracy", _OfClasses("balanced_accuracy_score", average=False)),
        )
    },
    "brier": (_gives_probabilities, _constant(RowMean("brier", _brier, False))),
    "rmse": (_is_regressor, _constant(RowMean("rmse", _squared_error, False, finish=math.sqrt))),
    "mse": (_is_regressor, _constant(RowMean("mse", _squared_error, False))),
    "mae": (_is_regressor, _constant(RowMean("mae", Absolute().loss, False))),
    "mape": (_is_regressor, _constant(RowMean("mape", _relative_error, False))),
    "rmsle": (
        _is_regressor,
        _constant(RowMean("rmsle", _squared_log_error, False, finish=math.sqrt)),
    ),
    "r2": (_is_regressor, _constant(Metric("r2", _r2, True, weighted=True))),
    "pinball": (lambda objective: objective.leaf_quantile is not None, _make_pinball),
    "poisson_deviance": (
        lambda objective: _is_regressor(objective) and objective.link.name == "log",
        _constant(RowMean("poisson_deviance", _poisson_deviance, False, raw=True)),
    ),
    "loss": (lambda objective: objective.has_loss, _make_loss),
}

METRIC_NAMES: tuple[str, ...] = tuple(_TABLE)
"""Every name that `get_metric` knows; ``"loss"`` is the objective's own."""


def names_for(objective: Objective) -> list[str]:
    """The names of the metrics that fit an objective.

    Examples
    --------
    >>> from mvsboost.objectives import Squared
    >>> names_for(Squared())
    ['rmse', 'mse', 'mae', 'mape', 'rmsle', 'r2', 'loss']
    """
    return [name for name, (fits, _) in _TABLE.items() if fits(objective)]


def get_metric(spec: str | Metric, objective: Objective) -> Metric:
    """The metric that a user means, bound to the objective's link.

    Parameters
    ----------
    spec : str, Metric or callable
        A name out of `METRIC_NAMES`, one that another library has for it, in any case; a metric
        of the user's own; or a function of ``sklearn.metrics``. Another function is refused,
        since nothing says whether more or less of it is better.
    objective : Objective

    Examples
    --------
    >>> from mvsboost.objectives import Logistic, Squared
    >>> get_metric("auc", Logistic()).greater_is_better
    True
    >>> get_metric("auc", Squared())
    Traceback (most recent call last):
        ...
    mvsboost.errors.ParameterError: eval_metric must be one that fits objective 'squared' \
('rmse', 'mse', 'mae', 'mape', 'rmsle', 'r2', 'loss'), got 'auc'
    """
    if isinstance(spec, Metric):
        return replace(spec, link=objective.link)
    if callable(spec) and getattr(spec, "__module__", "").startswith("sklearn.metrics"):
        return replace(_of_sklearn(spec, objective), link=objective.link)
    if not isinstance(spec, str):
        hint = "Metric(name, function, greater_is_better=...)" if callable(spec) else "a Metric"
        raise ParameterError("eval_metric", spec, f"a name or {hint}")
    fitting = names_for(objective)
    spec = known_as(spec, _TABLE, METRICS)
    if spec not in fitting:
        which = "one that fits objective" if spec in _TABLE else "one of those for objective"
        raise ParameterError(
            "eval_metric",
            spec,
            f"{which} {objective.name!r} ({', '.join(map(repr, fitting))})",
        )
    return replace(_TABLE[spec][1](objective), link=objective.link)


_OF_PROBABILITIES = [
    "roc_auc_score",
    "average_precision_score",
    "log_loss",
    "brier_score_loss",
    "top_k_accuracy_score",
    "d2_log_loss_score",
    "d2_brier_score",
]
"""Functions of scikit-learn that take probabilities; others take classes or numbers."""


def _of_sklearn(function: Callable[..., Any], objective: Objective) -> Metric:
    """A function of ``sklearn.metrics``; its name says whether more is better.

    Those that end with ``_score`` are better if greater, those with ``_error``, ``_loss`` or
    ``_deviance`` if less.
    """
    name = function.__name__
    if not name.endswith(("_score", "_error", "_loss", "_deviance")):
        allowed = "a function whose name ends with _score, _error, _loss or _deviance, or a Metric"
        raise ParameterError("eval_metric", name, allowed)
    of_classes = objective.is_classifier and name not in _OF_PROBABILITIES
    asked = _AfterClasses(function) if of_classes else function
    weighted = "sample_weight" in inspect.signature(function).parameters
    return Metric(name, asked, name.endswith("_score"), weighted=weighted)


@dataclass(frozen=True)
class _AfterClasses:
    """A function of classes, given probabilities."""

    function: Callable[..., Any]

    def __call__(self, y_true: FloatArray, y_pred: FloatArray, **options: Any) -> Any:
        return self.function(y_true, _classes_of(y_pred), **options)


def default_metric(objective: Objective) -> Metric:
    """The metric that is watched when the user names none.

    Examples
    --------
    >>> from mvsboost.objectives import Poisson
    >>> default_metric(Poisson()).name
    'poisson_deviance'
    """
    return get_metric(objective.default_metric, objective)
