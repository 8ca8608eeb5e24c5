"""Links: how a raw score becomes a prediction, and back.

Scores have shape (K, n), one row an output; K is 1 for all links but the
multinomial one. Functions that work per element also take (K,) arrays, as a
baseline is. Exponentials and logarithms are those of `mvsboost.exact.numerics`, so a
prediction has the same bits on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import DataError, ParameterError
from mvsboost.exact.numerics import exp, log, sigmoid

__all__ = [
    "STEP_OF_LINK",
    "FloatArray",
    "IdentityLink",
    "Link",
    "LogLink",
    "LogitLink",
    "MultinomialLogit",
    "OrderedLink",
    "link_by_name",
]

FloatArray: TypeAlias = NDArray[np.float64]

SMALLEST_SHARE = 1e-15
"""A class share under this is taken as this, so that its score is finite."""


@runtime_checkable
class Link(Protocol):
    """What an objective asks of a link: a name and two functions, each the other's inverse."""

    @property
    def name(self) -> str:
        """Name under which a model file stores the link."""

    def link(self, mean: FloatArray) -> FloatArray:
        """Raw scores of predictions."""

    def inverse(self, scores: FloatArray) -> FloatArray:
        """Predictions of raw scores."""


@dataclass(frozen=True)
class IdentityLink:
    """The prediction is the score: µ = F.

    Examples
    --------
    >>> import numpy as np
    >>> IdentityLink().inverse(np.array([[1.5, -2.0]]))
    array([[ 1.5, -2. ]])
    """

    name: ClassVar[str] = "identity"

    def link(self, mean: FloatArray) -> FloatArray:
        """F = µ."""
        return mean

    def inverse(self, scores: FloatArray) -> FloatArray:
        """µ = F."""
        return scores


@dataclass(frozen=True)
class OrderedLink:
    """Predictions are the scores of a row in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> OrderedLink().inverse(np.array([[1.5], [-2.0]])).ravel()
    array([-2. ,  1.5])
    """

    name: ClassVar[str] = "ordered"

    def link(self, mean: FloatArray) -> FloatArray:
        """F = µ."""
        return mean

    def inverse(self, scores: FloatArray) -> FloatArray:
        """µ is F, put in order."""
        return np.sort(scores, axis=0)


@dataclass(frozen=True)
class LogLink:
    """The score is the logarithm of a positive mean: F = log µ, µ = e**F.

    Examples
    --------
    >>> import numpy as np
    >>> LogLink().inverse(LogLink().link(np.array([[0.5, 3.0]]))).round(12)
    array([[0.5, 3. ]])
    """

    name: ClassVar[str] = "log"

    def link(self, mean: FloatArray) -> FloatArray:
        """F = log µ, for µ > 0."""
        if not np.all(mean > 0.0):
            raise DataError(
                f"the mean of the target must be positive for link 'log', got {np.min(mean)}; "
                f"use another link, or a target that is not negative and not 0 everywhere"
            )
        scores: FloatArray = log(mean)
        return scores

    def inverse(self, scores: FloatArray) -> FloatArray:
        """µ = e**F."""
        mean: FloatArray = exp(scores)
        return mean


@dataclass(frozen=True)
class LogitLink:
    """The score is the log odds of class 1: F = log p − log(1 − p), p = 1 / (1 + e**−F).

    Examples
    --------
    >>> import numpy as np
    >>> LogitLink().inverse(np.array([[0.0]]))
    array([[0.5]])
    """

    name: ClassVar[str] = "logit"

    def link(self, mean: FloatArray) -> FloatArray:
        """F = log p − log(1 − p), with p kept 1e-15 away from 0 and 1."""
        p = np.clip(mean, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
        scores: FloatArray = log(p) - log(1.0 - p)
        return scores

    def inverse(self, scores: FloatArray) -> FloatArray:
        """Probability p = 1 / (1 + e**−F)."""
        mean: FloatArray = sigmoid(scores)
        return mean


@dataclass(frozen=True)
class MultinomialLogit:
    """One score a class: F_k = log p_k, p_k = e**F_k / Σ_j e**F_j.

    Examples
    --------
    >>> import numpy as np
    >>> MultinomialLogit().inverse(np.zeros((4, 1))).ravel()
    array([0.25, 0.25, 0.25, 0.25])
    """

    name: ClassVar[str] = "multinomial"

    def link(self, mean: FloatArray) -> FloatArray:
        """F_k = log p_k, with p_k at least 1e-15."""
        scores: FloatArray = log(np.maximum(mean, SMALLEST_SHARE))
        return scores

    def inverse(self, scores: FloatArray) -> FloatArray:
        """Shares p_k = e_k / s with e_k = exp(F_k − max F) and s = e_0 + e_1 + … in this order."""
        powers: FloatArray = exp(scores - scores.max(axis=0))
        # np.sum may regroup its terms; compiled kernels add them one after the other
        total = powers[0]
        for power in powers[1:]:
            total = total + power
        mean: FloatArray = powers / total
        return mean


_LINKS: dict[str, type[IdentityLink | OrderedLink | LogLink | LogitLink | MultinomialLogit]] = {
    link.name: link for link in (IdentityLink, LogLink, LogitLink, MultinomialLogit)
}

LOGIT_STEP = 30.0
"""Past scores of ±30 a probability is 0 or 1 to all that matters."""

LOG_STEP = 3.0
"""A leaf may multiply a mean by at most e³, about 20, before shrinkage."""

STEP_OF_LINK = {"logit": LOGIT_STEP, "multinomial": LOGIT_STEP, "log": LOG_STEP}
"""Largest magnitude of a leaf's value where the link is an exponential one, by its name."""


def check_link(link: Any) -> Link:
    """An objective's link, which a model file can keep by its name.

    Examples
    --------
    >>> check_link(LogitLink())
    LogitLink()
    """
    if isinstance(link, type) or not isinstance(link, Link):
        raise ParameterError(
            "objective.link", link, "a link's name or an object with name, link and inverse"
        )
    if not isinstance(link.name, str) or not link.name:
        raise ParameterError("objective.link.name", link.name, "a text that is not empty")
    # what is loaded under a built-in name is the built-in link
    if type(link) is not _LINKS.get(link.name, type(link)):
        raise ParameterError(
            "objective.link.name",
            link.name,
            "another name than that of a built-in link, when it is one of your own",
        )
    return link


def link_by_name(name: str) -> Link:
    """The link of this name.

    Examples
    --------
    >>> link_by_name("log")
    LogLink()
    """
    if name not in _LINKS:
        raise ParameterError("link", name, "one of " + ", ".join(map(repr, _LINKS)))
    return _LINKS[name]()
