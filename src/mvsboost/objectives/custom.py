"""A user's own objective: any object with derivatives, wrapped and checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mvsboost.backends.messages import read_only
from mvsboost.errors import ObjectiveError, ParameterError
from mvsboost.objectives.base import Objective
from mvsboost.objectives.links import (
    STEP_OF_LINK,
    FloatArray,
    IdentityLink,
    Link,
    check_link,
    link_by_name,
)

__all__ = ["CustomObjective", "RestoredObjective"]

_METRIC_BY_LINK = {
    "logit": "log_loss",
    "multinomial": "log_loss",
    "log": "poisson_deviance",
}


class CustomObjective(Objective):
    """An objective around an object of the user's.

    Parameters
    ----------
    source : object
        It has ``gradients(target, scores)``, which returns g and h for scores of shape
        (n_outputs, n); or both ``gradient(target, score)`` and ``hessian(target, score)``,
        whose score has shape (n,) when there is one output. With one output the results
        may have shape (n,) or (1, n). The arrays handed in are read-only.

        It may have ``link`` (a link, the name of one; identity if missing), ``n_outputs``
        (1; with more, the target holds class codes), ``name``, ``is_classifier`` (true with
        several outputs or the link "logit"), ``baseline(means, quantile)``,
        ``loss(target, scores)``, ``default_metric`` (the loss, or one that fits the link),
        ``leaf_quantile`` (leaves are Newton steps; see `Objective`), ``max_step`` (largest
        magnitude of a leaf's value before shrinkage: 30 for the links "logit" and
        "multinomial", 3 for "log", otherwise infinity), and ``check_values(y)`` and
        ``check_target(y)``, which raise if the objective is not defined for a target, or
        cannot be trained on it.

        An `Objective` of the user's own is such an object too.

    Examples
    --------
    >>> import numpy as np
    >>> class LogCosh:
    ...     def gradient(self, target, score):
    ...         return np.tanh(score - target)
    ...     def hessian(self, target, score):
    ...         return 1 - np.tanh(score - target) ** 2
    >>> CustomObjective(LogCosh()).gradients(np.zeros(2), np.zeros((1, 2)))
    (array([[0., 0.]]), array([[1., 1.]]))
    """

    def __init__(self, source: Any) -> None:
        pair = callable(getattr(source, "gradient", None)) and callable(
            getattr(source, "hessian", None)
        )
        if isinstance(source, type) or not (callable(getattr(source, "gradients", None)) or pair):
            raise ParameterError(
                "objective",
                source,
                "a name, an Objective, or an instance with a method gradients(target, scores), "
                "or with both gradient(target, score) and hessian(target, score)",
            )
        self.source = source
        self.name = str(_own(source, "name") or type(source).__name__)
        self.n_outputs = _read_n_outputs(source)
        self.link = _read_link(source)
        self.leaf_quantile = _read_leaf_quantile(source, self.n_outputs)
        self.max_step = _read_max_step(source, self.link)
        of_classes = self.n_outputs > 1 or self.link.name in ("logit", "multinomial")
        self.is_classifier = bool(getattr(source, "is_classifier", of_classes))
        self.default_metric = _own(source, "default_metric") or _default_metric(self)

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The user's derivatives, checked, as float64 arrays of shape (n_outputs, n)."""
        target, scores = read_only(target), read_only(scores)
        if callable(getattr(self.source, "gradients", None)):
            result = self.source.gradients(target, scores)
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise ObjectiveError(
                    f"objective {self.name!r}: gradients must return two arrays, the gradient "
                    f"and the hessian, got {_describe(result)}"
                )
            gradient, hessian = result
        else:
            score = scores[0] if self.n_outputs == 1 else scores
            gradient = self.source.gradient(target, score)
            hessian = self.source.hessian(target, score)
        n = scores.shape[1]
        return self._checked("gradient", gradient, n), self._checked("hessian", hessian, n)

    def _checked(self, what: str, values: Any, n: int) -> FloatArray:
        array = self._numbers(what, values)
        shapes = [(self.n_outputs, n)] + ([(n,)] if self.n_outputs == 1 else [])
        if array.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            raise ObjectiveError(
                f"objective {self.name!r}: the {what} must have shape {expected}, got {array.shape}"
            )
        return array.reshape(self.n_outputs, n)

    def _numbers(self, what: str, values: Any) -> FloatArray:
        try:
            array = np.asarray(values)
        except ValueError:  # lists of unequal lengths
            array = np.empty(0, object)
        if array.dtype.kind not in "fiub":
            raise ObjectiveError(
                f"objective {self.name!r}: the {what} must hold real numbers, "
                f"got {_describe(values)}"
            )
        # a copy, for the user may keep or hand back an array of their own
        return np.array(array, np.float64)

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """The user's baseline, or the link of the target's mean."""
        baseline = _own(self.source, "baseline") or super().baseline
        array = np.atleast_1d(self._numbers("baseline", baseline(read_only(means), quantile)))
        if array.shape != (self.n_outputs,) or not np.all(np.isfinite(array)):
            raise ObjectiveError(
                f"objective {self.name!r}: the baseline must be {self.n_outputs} finite "
                f"number(s), got {array.tolist()}"
            )
        return array

    @property
    def has_loss(self) -> bool:
        """Whether the user gave a loss."""
        if isinstance(self.source, Objective):
            return self.source.has_loss
        return callable(getattr(self.source, "loss", None))

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """The user's loss of each row, checked."""
        if not self.has_loss:
            return super().loss(target, scores)
        rows = self._numbers("loss", self.source.loss(read_only(target), read_only(scores)))
        n = scores.shape[1]
        if rows.shape not in ((n,), (1, n)):
            raise ObjectiveError(
                f"objective {self.name!r}: the loss must have shape {(n,)}, one number a row, "
                f"got {rows.shape}"
            )
        return rows.reshape(n)

    def check_values(self, y: FloatArray) -> None:
        """Values must be finite, and such as the user's own check takes."""
        super().check_values(y)
        self._ask("check_values", y)

    def check_target(self, y: FloatArray) -> None:
        """The user's own check, if there is one, after that of the values."""
        super().check_target(y)
        self._ask("check_target", y)

    def _ask(self, check: str, y: FloatArray) -> None:
        own = _own(self.source, check)
        if own is not None:
            own(read_only(y))

    def __repr__(self) -> str:
        return f"CustomObjective({self.source!r})"


class RestoredObjective(Objective):
    """What a model file gives back of a user's objective: it predicts but does not train.

    Examples
    --------
    >>> restored = RestoredObjective("focal", "logit")
    >>> restored.link
    LogitLink()
    """

    def __init__(
        self, name: str, link: str, n_outputs: int = 1, is_classifier: bool = False
    ) -> None:
        self.name = name
        self.n_outputs = n_outputs
        self.is_classifier = is_classifier
        try:
            self.link = link_by_name(link)
        except ParameterError:
            self.link = MissingLink(name, link)
        self.default_metric = _default_metric(self)

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """There are none: raises."""
        raise self._error()

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """Only training asks for it: raises."""
        raise self._error()

    def _error(self) -> ObjectiveError:
        return ObjectiveError(
            f"objective {self.name!r} comes from a model file, which holds no code; to train "
            f"on, pass the objective itself"
        )

    def __repr__(self) -> str:
        return f"RestoredObjective({self.name!r}, {self.link.name!r})"


class MissingLink:
    """A user's link, of which a model file knows the name only: raw scores are all there is."""

    def __init__(self, objective: str, name: str) -> None:
        self.objective = objective
        self.name = name

    def link(self, mean: FloatArray) -> FloatArray:
        """Raise: the function is not known."""
        raise self._error()

    def inverse(self, scores: FloatArray) -> FloatArray:
        """Raise: the function is not known."""
        raise self._error()

    def _error(self) -> ObjectiveError:
        return ObjectiveError(
            f"link {self.name!r} of objective {self.objective!r} is a user's own, and a model "
            f"file holds no code; only raw scores can be predicted"
        )


def _own(source: Any, name: str) -> Any:
    """What the user's object has under this name itself, or None: `Objective` does not count."""
    own = [getattr(source, "__dict__", {})]
    for kind in type(source).__mro__:
        if kind is Objective:
            return getattr(source, name) if any(name in names for names in own) else None
        own.append(vars(kind))
    return getattr(source, name, None)


def _read_n_outputs(source: Any) -> int:
    n_outputs = getattr(source, "n_outputs", 1)
    whole = isinstance(n_outputs, int | np.integer) and not isinstance(n_outputs, bool)
    if not whole or n_outputs < 1:
        raise ParameterError("objective.n_outputs", n_outputs, "a positive whole number")
    return int(n_outputs)


def _read_link(source: Any) -> Link:
    link = getattr(source, "link", None)
    if link is None:
        return IdentityLink()
    if isinstance(link, str):
        return link_by_name(link)
    return check_link(link)


def _read_leaf_quantile(source: Any, n_outputs: int) -> float | None:
    alpha = getattr(source, "leaf_quantile", None)
    if alpha is None:
        return None
    if not _is_number(alpha) or not 0.0 < alpha < 1.0:
        raise ParameterError("objective.leaf_quantile", alpha, "None or a number in (0, 1)")
    if n_outputs > 1:
        raise ParameterError(
            "objective.leaf_quantile", alpha, "None for an objective of several outputs"
        )
    return float(alpha)


def _read_max_step(source: Any, link: Link) -> float:
    step = _own(source, "max_step")
    if step is None:
        return STEP_OF_LINK.get(link.name, math.inf)
    if not _is_number(step) or not step > 0.0:
        raise ParameterError("objective.max_step", step, "a positive number, or left out")
    return float(step)


def _is_number(value: Any) -> bool:
    real = isinstance(value, float | int | np.floating | np.integer)
    return real and not isinstance(value, bool)


def _default_metric(objective: Objective) -> str:
    if objective.has_loss:
        return "loss"
    if objective.is_classifier and objective.link.name not in _METRIC_BY_LINK:
        return "error"
    return _METRIC_BY_LINK.get(objective.link.name, "rmse")


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    return f"an object of type {type(value).__name__}"
