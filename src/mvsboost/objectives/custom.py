"""A user's own objective: any object with derivatives, wrapped and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mvsboost.errors import ObjectiveError, ParameterError
from mvsboost.objectives.base import Objective
from mvsboost.objectives.links import FloatArray, IdentityLink, Link, link_by_name

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
        several outputs or the link "logit"), ``baseline(means, quantile)`` and
        ``loss(target, scores)``.

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
        self.name = str(getattr(source, "name", type(source).__name__))
        self.n_outputs = _read_n_outputs(source)
        self.link = _read_link(source)
        of_classes = self.n_outputs > 1 or self.link.name in ("logit", "multinomial")
        self.is_classifier = bool(getattr(source, "is_classifier", of_classes))
        self.default_metric = _default_metric(self)

    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The user's derivatives, checked, as float64 arrays of shape (n_outputs, n)."""
        target, scores = _read_only(target), _read_only(scores)
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
        own = getattr(self.source, "baseline", None)
        if own is None:
            return super().baseline(means, quantile)
        array = np.atleast_1d(self._numbers("baseline", own(means, quantile)))
        if array.shape != (self.n_outputs,) or not np.all(np.isfinite(array)):
            raise ObjectiveError(
                f"objective {self.name!r}: the baseline must be {self.n_outputs} finite "
                f"number(s), got {array.tolist()}"
            )
        return array

    @property
    def has_loss(self) -> bool:
        """Whether the user gave a loss."""
        return callable(getattr(self.source, "loss", None))

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """The user's loss of each row, checked."""
        if not self.has_loss:
            return super().loss(target, scores)
        rows = self._numbers("loss", self.source.loss(_read_only(target), _read_only(scores)))
        n = scores.shape[1]
        if rows.shape not in ((n,), (1, n)):
            raise ObjectiveError(
                f"objective {self.name!r}: the loss must have shape {(n,)}, one number a row, "
                f"got {rows.shape}"
            )
        return rows.reshape(n)

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
    if isinstance(link, type) or not isinstance(link, Link):
        raise ParameterError(
            "objective.link", link, "a link's name or an object with name, link and inverse"
        )
    return link


def _default_metric(objective: Objective) -> str:
    if objective.has_loss:
        return "loss"
    if objective.is_classifier and objective.link.name not in _METRIC_BY_LINK:
        return "error"
    return _METRIC_BY_LINK.get(objective.link.name, "rmse")


def _read_only(array: FloatArray) -> FloatArray:
    view = array.view()
    view.flags.writeable = False
    return view


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    return f"an object of type {type(value).__name__}"
