"""What is asked of targets once a fit, wherever rows lie: their range, and their sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows

_AT_ONCE = 1 << 20  # rows that temporary arrays are made for


def target_range(rows: BinnedRows) -> tuple[float, float]:
    """Largest ω and largest ω |y|."""
    largest = np.zeros(2)
    for weight, target in _blocks(rows):
        weighted = np.abs(weight * target)
        largest = np.maximum(largest, (weight.max(initial=0.0), weighted.max(initial=0.0)))
    return float(largest[0]), float(largest[1])


def target_sums(rows: BinnedRows, n_outputs: int, scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """Σ ω and Σ ω y for each output (of several: y == k), fixed-point: (n_outputs, 2)."""
    sums = np.zeros((n_outputs, 2), np.int64)
    for weight, target in _blocks(rows):
        for k in range(n_outputs):
            of_output = target if n_outputs == 1 else target == k
            sums[k, 0] += np.rint(weight * scales[0]).astype(np.int64).sum()
            sums[k, 1] += np.rint(weight * of_output * scales[1]).astype(np.int64).sum()
    return sums


def _blocks(rows: BinnedRows) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Weights and targets, so many rows at a time that what is made for them is small."""
    for start in range(0, rows.n_rows, _AT_ONCE):
        target = rows.target[start : start + _AT_ONCE]
        weight = rows.weight
        yield (
            np.ones(len(target)) if weight is None else weight[start : start + len(target)],
            target,
        )
