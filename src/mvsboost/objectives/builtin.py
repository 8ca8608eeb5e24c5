"""The objectives that come with the library.

The order of floating-point operations in each ``gradients`` is a contract:
compiled kernels repeat it, and their results are compared bit for bit. The
formulas stand in the docstrings exactly as they are computed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.checks import first_where, first_without_code
from mvsboost.exact.numerics import coarse_sigmoid, exp, log
from mvsboost.objectives.base import Objective
from mvsboost.objectives.links import (
    LOG_STEP,
    LOGIT_STEP,
    FloatArray,
    LogitLink,
    LogLink,
    MultinomialLogit,
    OrderedLink,
)

__all__ = [
    "BUILTIN",
    "SMALLEST_HESSIAN",
    "Absolute",
    "CrossEntropy",
    "Gamma",
    "Huber",
    "Logistic",
    "Poisson",
    "Quantile",
    "Quantiles",
    "Softmax",
    "Squared",
    "Tweedie",
]

SMALLEST_HESSIAN = 1e-16
"""Floor of p(1 − p): a row that is predicted with certainty keeps a positive curvature."""


class BuiltinObjective(Objective):
    """An objective that a model file restores in full from its name and parameters.

    A class names the kernels of backends: `kernel` is that of its gradients and its loss,
    `gradient_kernel` of gradients alone. Its subclasses have none, unless they name them.
    """

    def parameters(self) -> dict[str, Any]:
        """Arguments of the constructor."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; of a user's subclass, what a file keeps of any user's objective."""
        kind = type(self)
        if BUILTIN.get(kind.name) is not kind:
            return super().to_dict()
        return {"kind": "builtin", "name": kind.name, **self.parameters()}

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({inside})"


class Logistic(BuiltinObjective):
    """Logistic loss of two classes coded 0 and 1.

    L = log(1 + e**F) − yF; p = sigmoid(F), to eight digits; g = p − y;
    h = max(p·(1 − p), 1e-16).

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().gradients(np.array([0.0, 1.0]), np.zeros((1, 2)))
    (array([[ 0.5, -0.5]]), array([[0.25, 0.25]]))
    """

    name = "logistic"
    kernel = "logistic"
    max_step = LOGIT_STEP
    link = LogitLink()
    is_classifier = True
    default_metric = "log_loss"

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = p − y and h = max(p·(1 − p), 1e-16)."""
        p = coarse_sigmoid(scores)
        return p - target, np.maximum(p * (1.0 - p), SMALLEST_HESSIAN)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss log(1 + e**−|F|) + max(F, 0) − yF, which overflows for no F."""
        score = scores[0]
        rows: FloatArray = log(1.0 + exp(-np.abs(score))) + np.maximum(score, 0.0) - target * score
        return rows

    def check_values(self, y: FloatArray) -> None:
        """Class codes are 0 and 1."""
        super().check_values(y)
        _check_codes(y, 2, self.name)

    def check_target(self, y: FloatArray) -> None:
        """Where one class occurs alone, there is a warning."""
        super().check_target(y)
        if _is_constant(y):
            text = "the target holds one class only: every prediction will be this class"
            warnings.warn(text, stacklevel=2)


class Softmax(BuiltinObjective):
    """Cross-entropy of K classes coded 0 … K − 1, with one score a class.

    L = log Σ_k e**F_k − F_y; p_k as in `MultinomialLogit.inverse`;
    g_k = p_k − [y = k]; h_k = max(p_k·(1 − p_k), 1e-16), the diagonal of the hessian.

    Parameters
    ----------
    n_classes : int
        K, at least 2.

    Examples
    --------
    >>> import numpy as np
    >>> g, h = Softmax(n_classes=4).gradients(np.array([2.0]), np.zeros((4, 1)))
    >>> g.ravel()
    array([ 0.25,  0.25, -0.75,  0.25])
    """

    name = "softmax"
    kernel = "softmax"
    max_step = LOGIT_STEP
    link = MultinomialLogit()
    is_classifier = True
    default_metric = "log_loss"

    def __init__(self, n_classes: int) -> None:
        if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer):
            raise ParameterError("n_classes", n_classes, "a whole number of at least 2")
        if n_classes < 2:
            raise ParameterError("n_classes", n_classes, "at least 2")
        self.n_classes = int(n_classes)
        self.n_outputs = self.n_classes

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g_k = p_k − [y = k] and h_k = max(p_k·(1 − p_k), 1e-16)."""
        p = self.link.inverse(scores)
        is_class = target == np.arange(self.n_classes)[:, np.newaxis]
        return p - is_class, np.maximum(p * (1.0 - p), SMALLEST_HESSIAN)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss log Σ_k exp(F_k − m) + m − F_y with m = max F."""
        largest = scores.max(axis=0)
        total = exp(scores[0] - largest)
        for score in scores[1:]:
            total = total + exp(score - largest)
        own = scores[target.astype(np.int64), np.arange(len(target))]
        rows: FloatArray = log(total) + (largest - own)
        return rows

    def check_values(self, y: FloatArray) -> None:
        """Class codes are 0 … K − 1."""
        super().check_values(y)
        _check_codes(y, self.n_classes, self.name)

    def check_target(self, y: FloatArray) -> None:
        """At least two classes must occur."""
        super().check_target(y)
        _check_two_classes(y)

    def parameters(self) -> dict[str, Any]:
        """The number of classes."""
        return {"n_classes": self.n_classes}


class Squared(BuiltinObjective):
    """Half the squared error: L = (F − y)² / 2; g = F − y; h = 1.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().gradients(np.array([3.0]), np.array([[5.0]]))
    (array([[2.]]), array([[1.]]))
    """

    name = "squared"
    kernel = "squared"
    default_metric = "rmse"

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = F − y and h = 1."""
        return scores - target, np.ones_like(scores)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """(F − y)² / 2."""
        residual = scores[0] - target
        rows: FloatArray = 0.5 * (residual * residual)
        return rows


class Absolute(BuiltinObjective):
    """Absolute error: L = |F − y|; g = sign(F − y), 0 where equal; h = 1; leaves are medians.

    Examples
    --------
    >>> import numpy as np
    >>> Absolute().gradients(np.array([3.0, 3.0]), np.array([[5.0, 3.0]]))[0]
    array([[1., 0.]])
    """

    name = "absolute"
    kernel = "absolute"
    leaf_quantile = 0.5
    default_metric = "mae"

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = sign(F − y) and h = 1."""
        return np.sign(scores - target), np.ones_like(scores)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """|F − y|."""
        rows: FloatArray = np.abs(scores[0] - target)
        return rows

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """The median of the target."""
        return np.array([quantile(0.5)])


class Quantile(BuiltinObjective):
    """Pinball loss, whose best constant is the α-quantile.

    L = α(y − F) where F < y, (1 − α)(F − y) elsewhere; g = 1 − α where F > y, −α where
    F < y, 0 where equal; h = 1; leaves are α-quantiles.

    Parameters
    ----------
    alpha : float
        The quantile, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> Quantile(alpha=0.75).gradients(np.array([3.0, 3.0]), np.array([[5.0, 1.0]]))[0]
    array([[ 0.25, -0.75]])
    """

    name = "quantile"
    kernel = "quantile"
    default_metric = "pinball"

    def __init__(self, alpha: float = 0.5) -> None:
        if isinstance(alpha, bool) or not isinstance(alpha, float | int | np.number):
            raise ParameterError("alpha", alpha, "a number in (0, 1)")
        if not 0.0 < alpha < 1.0:
            raise ParameterError("alpha", alpha, "in (0, 1)")
        self.alpha = float(alpha)
        self.leaf_quantile = self.alpha

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = 1 − α over the target, −α under it, 0 on it; h = 1."""
        under = np.where(scores < target, -self.alpha, 0.0)
        return np.where(scores > target, 1.0 - self.alpha, under), np.ones_like(scores)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """α(y − F) where F < y, (1 − α)(F − y) elsewhere."""
        residual = target - scores[0]
        side = np.where(residual > 0.0, self.alpha, self.alpha - 1.0)
        rows: FloatArray = side * residual
        return rows

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """The α-quantile of the target."""
        return np.array([quantile(self.alpha)])

    def parameters(self) -> dict[str, Any]:
        """The quantile."""
        return {"alpha": self.alpha}


class Quantiles(BuiltinObjective):
    """Pinball losses of several quantiles at once, a score for each; the loss is their sum.

    Predictions are put in order: a higher quantile is never below a lower one.

    Parameters
    ----------
    alphas : sequence of float
        Quantiles in (0, 1), ascending, each once.

    Examples
    --------
    >>> import numpy as np
    >>> Quantiles([0.25, 0.75]).gradients(np.array([3.0]), np.array([[5.0], [1.0]]))[0]
    array([[ 0.75],
           [-0.75]])
    """

    name = "quantiles"
    gradient_kernel = "quantile"
    default_metric = "pinball"
    link = OrderedLink()

    def __init__(self, alphas: Sequence[float]) -> None:
        self._each = [Quantile(alpha) for alpha in alphas]
        self.leaf_quantile = tuple(each.alpha for each in self._each)
        if not self._each or list(self.leaf_quantile) != sorted(set(self.leaf_quantile)):
            raise ParameterError("alphas", alphas, "numbers in (0, 1), ascending, each once")
        self.n_outputs = len(self._each)

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Those of each quantile by its own score."""
        found = [each.gradients(target, scores[k]) for k, each in enumerate(self._each)]
        return np.array([g for g, _ in found]), np.ones_like(scores)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Sum of the pinball losses of all quantiles."""
        losses = [each.loss(target, scores[k : k + 1]) for k, each in enumerate(self._each)]
        rows: FloatArray = np.sum(losses, axis=0)
        return rows

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """The quantiles of the target."""
        return np.array([quantile(each.alpha) for each in self._each])

    def parameters(self) -> dict[str, Any]:
        """The quantiles."""
        return {"alphas": [each.alpha for each in self._each]}


class Poisson(BuiltinObjective):
    """Poisson loss of a non-negative target: L = e**F − yF; e = exp(F); g = e − y; h = e.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().gradients(np.array([3.0]), np.array([[0.0]]))
    (array([[-2.]]), array([[1.]]))
    """

    name = "poisson"
    kernel = "poisson"
    max_step = LOG_STEP
    link = LogLink()
    default_metric = "poisson_deviance"

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = e − y and h = e with e = exp(F)."""
        mean = self.link.inverse(scores)
        return mean - target, mean

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss e**F − yF."""
        rows: FloatArray = exp(scores[0]) - target * scores[0]
        return rows

    def check_values(self, y: FloatArray) -> None:
        """No value may be negative."""
        super().check_values(y)
        _refuse(y, lambda y: y < 0, "not be negative", self.name)

    def check_target(self, y: FloatArray) -> None:
        """Some value must be positive: the logarithm of a mean of 0 is no score."""
        super().check_target(y)
        _check_some_positive(y, self.name)


class Gamma(BuiltinObjective):
    """Gamma loss of a positive target: L = F + y e**−F; g = 1 − r and h = r with r = y e**−F.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma().gradients(np.array([3.0]), np.array([[0.0]]))
    (array([[-2.]]), array([[3.]]))
    """

    name = "gamma"
    gradient_kernel = "gamma"
    max_step = LOG_STEP
    link = LogLink()
    default_metric = "loss"

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = 1 − r and h = r with r = y exp(−F)."""
        ratio = target * exp(-scores)
        return 1.0 - ratio, ratio

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss F + y e**−F."""
        rows: FloatArray = scores[0] + target * exp(-scores[0])
        return rows

    def check_values(self, y: FloatArray) -> None:
        """Every value must be positive."""
        super().check_values(y)
        _refuse(y, lambda y: y <= 0, "be positive", self.name)


class Tweedie(BuiltinObjective):
    """Tweedie loss of a target that is 0 or positive, between Poisson and gamma.

    With a = e**((1 − p)F) and b = e**((2 − p)F): L = b / (2 − p) − y a / (1 − p);
    g = b − y a; h = (2 − p) b − (1 − p) y a.

    Parameters
    ----------
    power : float
        p in (1, 2): the variance grows with this power of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> Tweedie(1.5).gradients(np.array([3.0]), np.array([[0.0]]))
    (array([[-2.]]), array([[2.]]))
    """

    name = "tweedie"
    gradient_kernel = "tweedie"
    max_step = LOG_STEP
    link = LogLink()
    default_metric = "loss"

    def __init__(self, power: float = 1.5) -> None:
        if isinstance(power, bool) or not isinstance(power, float | int | np.number):
            raise ParameterError("power", power, "a number in (1, 2)")
        if not 1.0 < power < 2.0:
            raise ParameterError("power", power, "in (1, 2)")
        self.power = float(power)

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = b − y a and h = (2 − p) b − (1 − p) y a."""
        p = self.power
        part, mean = target * exp((1.0 - p) * scores), exp((2.0 - p) * scores)
        return mean - part, (2.0 - p) * mean + (p - 1.0) * part

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss b / (2 − p) − y a / (1 − p)."""
        p = self.power
        part, mean = target * exp((1.0 - p) * scores[0]), exp((2.0 - p) * scores[0])
        rows: FloatArray = mean / (2.0 - p) + part / (p - 1.0)
        return rows

    def check_values(self, y: FloatArray) -> None:
        """No value may be negative."""
        super().check_values(y)
        _refuse(y, lambda y: y < 0, "not be negative", self.name)

    def check_target(self, y: FloatArray) -> None:
        """Some value must be positive."""
        super().check_target(y)
        _check_some_positive(y, self.name)

    def parameters(self) -> dict[str, Any]:
        """The power."""
        return {"power": self.power}


class Huber(BuiltinObjective):
    """Squared error of small residuals, absolute error of large ones: g = F − y within ±δ; h = 1.

    L = (F − y)² / 2 where |F − y| ≤ δ, δ (|F − y| − δ / 2) elsewhere.

    Parameters
    ----------
    delta : float
        δ, positive: the residual from which on it is large, in the unit of the target.

    Examples
    --------
    >>> import numpy as np
    >>> Huber(delta=1.0).gradients(np.array([3.0, 3.0]), np.array([[3.5, 9.0]]))[0]
    array([[0.5, 1. ]])
    """

    name = "huber"
    gradient_kernel = "huber"
    default_metric = "loss"

    def __init__(self, delta: float = 1.0) -> None:
        if isinstance(delta, bool) or not isinstance(delta, float | int | np.number):
            raise ParameterError("delta", delta, "a positive number")
        if not 0.0 < delta < np.inf:
            raise ParameterError("delta", delta, "positive")
        self.delta = float(delta)

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = F − y, at most δ and at least −δ; h = 1."""
        return np.clip(scores - target, -self.delta, self.delta), np.ones_like(scores)

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """(F − y)² / 2 within ±δ, δ (|F − y| − δ / 2) elsewhere."""
        size = np.abs(scores[0] - target)
        small = np.minimum(size, self.delta)
        rows: FloatArray = small * (size - 0.5 * small)
        return rows

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """The median of the target."""
        return np.array([quantile(0.5)])

    def parameters(self) -> dict[str, Any]:
        """The residual from which on it is large."""
        return {"delta": self.delta}


class CrossEntropy(BuiltinObjective):
    """The logistic loss of a target in [0, 1], such as a share or a soft label; see `Logistic`.

    Examples
    --------
    >>> import numpy as np
    >>> CrossEntropy().gradients(np.array([0.25]), np.zeros((1, 1)))
    (array([[0.25]]), array([[0.25]]))
    """

    name = "cross_entropy"
    kernel = "logistic"
    max_step = LOGIT_STEP
    link = LogitLink()
    default_metric = "log_loss"

    gradients = Logistic.gradients
    loss = Logistic.loss

    def check_values(self, y: FloatArray) -> None:
        """Every value must lie in [0, 1]."""
        super().check_values(y)
        _refuse(y, lambda y: (y < 0) | (y > 1), "lie in [0, 1]", self.name)


BUILTIN: dict[str, type[BuiltinObjective]] = {
    kind.name: kind
    for kind in (
        Logistic,
        Softmax,
        Squared,
        Absolute,
        Quantile,
        Quantiles,
        Huber,
        Poisson,
        Gamma,
        Tweedie,
        CrossEntropy,
    )
}
"""By the name under which a model file knows them."""


def _check_codes(y: FloatArray, n_classes: int, name: str) -> None:
    row = first_without_code(y, n_classes)
    if row is not None:
        raise DataError(
            f"target must hold class codes 0 to {n_classes - 1} for objective {name!r}, "
            f"got {y[row]} in row {row}"
        )


def _refuse(y: FloatArray, is_wrong: Callable[[FloatArray], Any], must: str, name: str) -> None:
    """Raise an error that names the first of the rows that are wrong."""
    row = first_where(is_wrong, y)
    if row is not None:
        raise DataError(
            f"target must {must} for objective {name!r}, got {y[row]} in row {row} "
            f"({np.count_nonzero(is_wrong(y))} such rows)"
        )


def _check_some_positive(y: FloatArray, name: str) -> None:
    if not np.any(y > 0):
        raise DataError(f"target must have a positive value for objective {name!r}, got only 0")


def _check_two_classes(y: FloatArray) -> None:
    if _is_constant(y):
        raise DataError(f"target must have at least two classes, got one class only: {y[0]:g}")


def _is_constant(y: FloatArray) -> bool:
    return len(y) > 0 and first_where(lambda part: part != y[0], y) is None
