"""What an objective is: a loss of raw scores, its two derivatives, and a link."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from mvsboost.errors import DataError, ObjectiveError
from mvsboost.exact.checks import extremes
from mvsboost.objectives.links import FloatArray, IdentityLink, Link

__all__ = ["Objective"]

LARGEST_TARGET = 1e38
"""Gradients and residuals are float32 numbers, which end at 3.4e38: the difference of two targets
must be one."""

SMALLEST_TARGET = 1e-30
"""What the largest target must reach, so that gradients in float32 still tell rows apart."""


class Objective(ABC):
    """A loss composed with a link.

    Gradients are those of an unweighted row; row weights and ``order`` are the
    backend's affair. The built-in objectives compute everything row by row, so that
    a slice of the rows gives a slice of the result, bit for bit. One of a user's own
    is called once for all rows of a backend, on one thread, so it may look at other
    rows too; but a composite backend calls it chunk by chunk, and then the model
    depends on the chunks unless it, too, works row by row.

    Attributes
    ----------
    name : str
        By which a model file knows the built-in objectives.
    n_outputs : int
        Scores a row has, and trees an iteration grows.
    link : Link
        From scores to predictions.
    leaf_quantile : float or None
        None: a leaf's value is the Newton step −G/(H + l2). A number α: it is the
        α-quantile of the residuals y − F in the leaf. Of several outputs each has its own, a
        tuple of them.
    max_step : float
        Largest magnitude of a leaf's value before shrinkage. A Newton step can be arbitrarily
        long where the hessian nearly vanishes, and where the link is an exponential one such
        step ends in an overflow. A user's own objective that does not set it has the step of
        its link: 30 for "logit" and "multinomial", 3 for "log", otherwise infinity.
    is_classifier : bool
        Whether the target holds class codes 0, 1, ….
    default_metric : str
        Name of the metric that is watched when the user names none. A user's own objective
        that does not set it has its loss, or else a metric that fits its link.
    """

    name: str = "objective"
    n_outputs: int = 1
    link: Link = IdentityLink()
    leaf_quantile: float | tuple[float, ...] | None = None
    max_step: float = math.inf
    is_classifier: bool = False
    default_metric: str = "rmse"

    @abstractmethod
    def gradients(self, target: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives: g = dL/dF and h = d²L/dF², (n_outputs, n) each.

        Parameters
        ----------
        target : array of shape (n,)
        scores : array of shape (n_outputs, n)
        """

    def loss(self, target: FloatArray, scores: FloatArray) -> FloatArray:
        """Loss of each row, (n,), up to a term that does not depend on the score."""
        raise ObjectiveError(f"objective {self.name!r} has no loss; give it a method loss")

    @property
    def has_loss(self) -> bool:
        """Whether `loss` is there to be called."""
        return type(self).loss is not Objective.loss

    def baseline(self, means: FloatArray, quantile: Callable[[float], float]) -> FloatArray:
        """The constant scores of least loss, (n_outputs,).

        Parameters
        ----------
        means : array of shape (n_outputs,)
            Weighted mean of the target; with several outputs, the weighted class shares.
        quantile : callable
            ``quantile(alpha)`` is the weighted α-quantile of the target; it costs passes
            over the data and is only called by objectives that need it.
        """
        return self.link.link(means)

    def quantile_of(self, output: int) -> float:
        """The quantile that leaves of an output are; `leaf_quantile` must not be None."""
        several = self.leaf_quantile
        assert several is not None
        return several[output] if isinstance(several, tuple) else several

    def check_values(self, y: FloatArray) -> None:
        """Raise a `DataError` if the objective is not defined for some value of `y`."""
        low, high = extremes(y)
        if low >= -LARGEST_TARGET and high <= LARGEST_TARGET:
            return
        bad = np.flatnonzero(~np.isfinite(y))
        if len(bad):
            raise DataError(
                f"target must be finite, got {y[bad[0]]} in row {bad[0]} "
                f"({len(bad)} such rows); remove or fill them"
            )
        large = np.flatnonzero(np.abs(y) > LARGEST_TARGET)
        raise DataError(
            f"target must be within ±{LARGEST_TARGET:g}, got {y[large[0]]} in row {large[0]} "
            f"({len(large)} such rows): gradients are float32 numbers; scale the target"
        )

    def check_target(self, y: FloatArray) -> None:
        """Raise a `DataError` if the objective cannot be trained on `y`."""
        self.check_values(y)
        if self.is_classifier:
            return
        low, high = extremes(y)
        largest = max(-low, high)
        if 0.0 < largest < SMALLEST_TARGET:
            raise DataError(
                f"target must not be as small as {largest:g} in all rows: gradients are float32 "
                f"numbers, which end near 1e-38; scale the target"
            )

    def to_dict(self) -> dict[str, Any]:
        """What a model file keeps of an objective made by a user: enough to predict."""
        return {
            "kind": "custom",
            "name": self.name,
            "link": self.link.name,
            "n_outputs": int(self.n_outputs),
            "is_classifier": bool(self.is_classifier),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
