"""Looks at many numbers that are nearly always right, without arrays of the same size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["extremes", "first_of", "first_where", "first_without_code"]

_LOOKED_AT = 1 << 15
"""Numbers that are looked at together: they stay in the cache."""


def first_where(
    is_wrong: Callable[[NDArray[np.float64]], NDArray[np.bool_]], values: NDArray[np.float64]
) -> int | None:
    """The first row whose value is wrong, if any is.

    Examples
    --------
    >>> first_where(np.isnan, np.array([1.0, np.nan, np.nan]))
    1
    """
    for start in range(0, len(values), _LOOKED_AT):
        row = first_of(is_wrong(values[start : start + _LOOKED_AT]))
        if row is not None:
            return start + row
    return None


def first_of(wrong: NDArray[np.bool_]) -> int | None:
    """The first row that is wrong, if any is."""
    return int(np.argmax(wrong)) if wrong.any() else None


def first_without_code(values: NDArray[np.float64], n_classes: int) -> int | None:
    """The first row that does not hold one of the class codes 0 to ``n_classes - 1``, if any.

    Examples
    --------
    >>> first_without_code(np.array([0.0, 1.0, np.nan]), 2)
    2
    """
    return first_where(lambda y: (y < 0) | (y >= n_classes) | (y != np.floor(y)), values)


def extremes(values: NDArray[np.float64]) -> tuple[float, float]:
    """The least and the largest number; NaN where there is one, 0 where there are none.

    Examples
    --------
    >>> extremes(np.array([1.0, -3.0, 2.0])), extremes(np.array([1.0, np.nan]))
    ((-3.0, 2.0), (nan, nan))
    """
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
