"""Ordered target statistics: numbers for a column with more categories than bins.

A category becomes the mean of the target over its rows, smoothed towards the prior. Taken
over all rows, that mean contains the row's own target, and a tree would learn to read it.
So the rows are put in an order drawn from their own random numbers, and each sees only the
rows of its category that come earlier; prediction uses the totals.

The number of rows of the category comes along as a number of its own: it says how much the
mean is worth, holds nothing of the target, and so is the total in training too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mvsboost.data.columns import UNSEEN, CategoricalColumn
from mvsboost.errors import ParameterError
from mvsboost.exact.numerics import log
from mvsboost.exact.random import Purpose, row_bits, stream_key
from mvsboost.runtime.jit import kernel

__all__ = ["TargetStatistics", "row_order", "target_columns"]

SMOOTHING = 1.0
"""Weight of the prior, in rows of mean weight."""


@dataclass(frozen=True, eq=False)
class TargetStatistics:
    """The numbers that each category of one column stands for at prediction.

    Attributes
    ----------
    values : float64 array of shape (n_targets + 1, n_categories + 2)
        One row for each target's mean, and a last one for log(1 + rows of the category).
        Entry ``code + 2``: first an unseen category (the prior; no rows), then a missing
        value (a category of its own), then the categories.
    """

    values: NDArray[np.float64]

    @classmethod
    def fit_transform(
        cls,
        column: CategoricalColumn,
        targets: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
        *,
        order: NDArray[np.int64],
    ) -> tuple[TargetStatistics, NDArray[np.float64]]:
        """Statistics for prediction, and the numbers of the training rows.

        With ω the weights and t a target, row i of category c gets::

            (Σ ω_j t_j + a · prior) / (Σ ω_j + a)    over rows j of c earlier in the order

        where the prior is the weighted mean of t over all rows, and a the mean of the weights
        that are not 0 (1 without weights), so that only the proportions of weights count.

        Parameters
        ----------
        column : CategoricalColumn
        targets : float64 array of shape (n_targets, n_rows), see `target_columns`
        weight : float64 array of shape (n_rows,), optional
        order : int array of shape (n_rows,)
            Rows from the earliest to the latest; see `row_order`.

        Returns
        -------
        TargetStatistics, float64 array of shape (n_targets + 1, n_rows)

        Examples
        --------
        >>> import numpy as np
        >>> column = CategoricalColumn(np.array([0, 0, 0], np.int32), ("a",))
        >>> t = np.array([[1.0, 0.0, 0.5]])
        >>> _, rows = TargetStatistics.fit_transform(column, t, order=np.arange(3))
        >>> rows[0].tolist()
        [0.5, 0.75, 0.5]
        """
        w = np.ones(column.n_rows) if weight is None else _scaled(weight)[0]
        codes = column.codes - UNSEEN
        counts = np.bincount(codes[w > 0], minlength=len(column.categories) - UNSEEN)
        values = np.empty((len(targets) + 1, len(counts)))
        values[-1] = log(1.0 + counts)
        rows = np.empty((len(targets) + 1, column.n_rows))
        rows[-1] = values[-1, codes]
        total = math.fsum(w)
        smoothing = SMOOTHING * total / np.count_nonzero(w)
        for k, target in enumerate(targets):
            t, exponent = _scaled(target)
            # an exact sum has the same bits in any order
            prior = math.fsum(w * t) / total
            sums, weights = np.zeros((2, values.shape[1]))
            _running_means(codes, t, w, order, prior, smoothing, values[k], rows[k], sums, weights)
            for means in (values[k], rows[k]):
                # rounding may take a mean of equal numbers beyond them
                with np.errstate(over="ignore"):
                    np.ldexp(means, exponent, out=means)
                np.clip(means, target.min(), target.max(), out=means)
        return cls(values), rows

    def transform(self, column: CategoricalColumn) -> NDArray[np.float64]:
        """Numbers of rows at prediction, (n_targets + 1, n_rows)."""
        return self.values[:, column.codes - UNSEEN]


def _scaled(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """The values over 2**e, at most 1, and e: no sum overflows, and no mean changes a bit."""
    exponent = math.frexp(float(np.abs(values).max()))[1]
    return np.ldexp(values, -exponent), exponent


@kernel
def _running_means(
    codes: NDArray[np.int32],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    order: NDArray[np.int64],
    prior: float,
    smoothing: float,
    values: NDArray[np.float64],
    rows: NDArray[np.float64],
    sums: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> None:
    for position in range(len(order)):
        i = order[position]
        c = codes[i]
        rows[i] = (sums[c] + smoothing * prior) / (weights[c] + smoothing)
        sums[c] += weight[i] * target[i]
        weights[c] += weight[i]
    for c in range(len(values)):
        values[c] = (sums[c] + smoothing * prior) / (weights[c] + smoothing)


def row_order(n_rows: int, seed: int) -> NDArray[np.int64]:
    """Rows sorted by their own random numbers.

    Examples
    --------
    >>> sorted(row_order(4, seed=0).tolist())
    [0, 1, 2, 3]
    """
    bits = row_bits(stream_key(seed, 0, Purpose.TARGET_ORDER), np.arange(n_rows, dtype=np.uint64))
    return np.argsort(bits, kind="stable")


def target_columns(target: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """The targets whose means are taken, (n_targets, n_rows).

    A regression target (``n_classes=0``) and a binary class index stand for themselves;
    of K > 2 classes each has its own indicator.

    Examples
    --------
    >>> import numpy as np
    >>> target_columns(np.array([0.0, 2.0, 1.0]), n_classes=3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    if n_classes < 0 or n_classes == 1:
        raise ParameterError("n_classes", n_classes, "0 for regression, or at least 2")
    if n_classes <= 2:
        return target[None, :]
    same: NDArray[np.bool_] = target[None, :] == np.arange(n_classes)[:, None]
    return same.astype(np.float64)
