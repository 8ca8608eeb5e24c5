"""A user's own sampler: an object that gives each row a probability."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mvsboost.backends.draws import GivenProbabilities
from mvsboost.backends.messages import read_only
from mvsboost.errors import ParameterError
from mvsboost.sampling.base import Sampler, draw_some
from mvsboost.sampling.context import Sample, SampledRows, SamplingContext

__all__ = ["CustomSampler", "WrappedSampler"]


@runtime_checkable
class CustomSampler(Protocol):
    """What a sampler of one's own must have.

    `mvsboost.testing.SamplerConformance` holds the tests that it should pass.

    Examples
    --------
    >>> import numpy as np
    >>> from mvsboost.sampling import make_sampler
    >>> from mvsboost.testing import GradientRows
    >>> class LargeGradientsTwiceAsLikely:
    ...     def probabilities(self, gradients, hessians, iteration):
    ...         size = np.abs(gradients).sum(axis=0)
    ...         return np.where(size > np.median(size), 0.4, 0.2)
    >>> rows = GradientRows(np.linspace(-1, 1, 1000), np.ones(1000))
    >>> sample = make_sampler(LargeGradientsTwiceAsLikely()).draw(rows, rows.context())
    >>> round(sample.rate, 2)
    0.3
    """

    def probabilities(
        self, gradients: NDArray[np.float32], hessians: NDArray[np.float32], iteration: int
    ) -> ArrayLike:
        """The probability of each row, in (0, 1]; 0 only for rows with g = h = 0.

        Parameters
        ----------
        gradients, hessians : float32 array of shape (n_outputs, n_rows)
            Read-only.
        iteration : int
            From 0 on.

        Returns
        -------
        array-like of shape (n_rows,)
        """


class WrappedSampler(Sampler):
    """Draws each row on its own with the probability that a `CustomSampler` gives it.

    The gradients of all rows are brought together for it, so it costs more than the
    built-in samplers where rows live on other machines. An empty draw is repeated under
    the next number of every row; after 64 empty draws the row with the largest probability
    is taken with weight 1. If the object has a ``share``, about how many of the rows it draws, that
    is this sampler's too.

    Parameters
    ----------
    custom : CustomSampler
        The user's object.
    """

    def __init__(self, custom: CustomSampler) -> None:
        self.custom = custom

    def validate(self) -> None:
        """Raise `ParameterError` unless the object has the method."""
        if not isinstance(self.custom, CustomSampler):
            raise ParameterError("custom", self.custom, "an object with a method probabilities")

    @property
    def share(self) -> float:
        """What the user's object says; all rows if it says nothing."""
        return float(getattr(self.custom, "share", 1.0))

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        p = self._probabilities(backend, context)
        summary = draw_some(backend, context, lambda key: GivenProbabilities(key, p))
        if summary is None:
            only = np.zeros(len(p))
            only[np.argmax(p)] = 1.0
            summary = backend.draw(GivenProbabilities(np.uint64(0), only))
        return Sample(summary, rate=float(p.mean()))

    def _probabilities(self, backend: SampledRows, context: SamplingContext) -> NDArray[np.float64]:
        g, h = (read_only(array) for array in backend.gradients())
        name = f"{type(self.custom).__name__}.probabilities(...)"
        given = self.custom.probabilities(g, h, context.iteration)
        try:
            p = np.array(given, np.float64)
        except (TypeError, ValueError):
            raise ParameterError(name, given, "an array of numbers") from None
        if p.shape != (g.shape[1],):
            raise ParameterError(name, p.shape, f"of shape {(g.shape[1],)}, one number a row")
        outside = ~((p >= 0.0) & (p <= 1.0))
        if outside.any():
            row = int(np.argmax(outside))
            raise ParameterError(name, float(p[row]), f"in (0, 1] for every row (row {row})")
        lost = (p == 0.0) & ((g != 0.0).any(axis=0) | (h != 0.0).any(axis=0))
        if lost.any():
            row = int(np.argmax(lost))
            allowed = f"positive where g or h is not zero, or sums are biased (row {row})"
            raise ParameterError(name, 0.0, allowed)
        return p
