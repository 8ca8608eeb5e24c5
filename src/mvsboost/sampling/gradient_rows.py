"""Rows that have nothing but gradients, to try samplers on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mvsboost.backends.messages import BinnedRows
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.exact.dtypes import BIN, GRADIENT
from mvsboost.sampling.context import SamplingContext

__all__ = ["GradientRows"]


class _GivenGradients:
    name = "given"

    def __init__(self, g: NDArray[np.float64], h: NDArray[np.float64]) -> None:
        self.n_outputs = len(g)
        self._derivatives = g, h

    def gradients(
        self, target: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._derivatives


class GradientRows(ReferenceBackend):
    """A backend of rows that have nothing but gradients: all that a sampler looks at.

    Parameters
    ----------
    g, h : array-like of shape (n_rows,) or (n_outputs, n_rows)
        Gradients and hessians; they are stored as float32.
    offset : int, default=0
        Global id of the first row.

    Examples
    --------
    >>> from mvsboost.sampling import SGB
    >>> rows = GradientRows([1.0, -2.0, 0.5, 3.0], [1.0, 1.0, 1.0, 1.0])
    >>> sample = SGB(rate=0.5).draw(rows, rows.context())
    >>> sorted(rows.weights.tolist())
    [0.0, 0.0, 2.0, 2.0]
    """

    def __init__(self, g: ArrayLike, h: ArrayLike, offset: int = 0) -> None:
        both = [np.atleast_2d(np.asarray(x, GRADIENT)).astype(np.float64) for x in (g, h)]
        n = both[0].shape[1]
        rows = BinnedRows(np.zeros((n, 1), BIN), np.ones(1, np.int64), np.zeros(n), None, offset)
        super().__init__(rows, _GivenGradients(*both))
        self.gradient_range = self.compute_gradients(order=2)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each row in the last draw, 0 where it was not drawn."""
        return self._weights.copy()

    def context(self, seed: int = 0, iteration: int = 0, **more: Any) -> SamplingContext:
        """What a sampler is told about these rows; `more` are fields of `SamplingContext`."""
        return SamplingContext(seed, iteration, self.n_rows, self.gradient_range, **more)
