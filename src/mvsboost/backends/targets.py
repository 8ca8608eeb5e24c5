"""What is asked of targets once a fit, wherever rows lie: their range, and their sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows

_AT_ONCE = 1 << 18  # rows that temporary arrays are made for, which stay in the cache


def target_range(rows: BinnedRows) -> tuple[float, float]:
    """Largest ω and largest ω |y|."""
    largest = np.zeros(2)
    for weight, target in _blocks(rows):
        weighted = target if weight is None else weight * target
        heaviest = 1.0 if weight is None else weight.max(initial=0.0)
        size = np.maximum(weighted.max(initial=0.0), -weighted.min(initial=0.0))
        largest = np.maximum(largest, (heaviest, size))
    return float(largest[0]), float(largest[1])


def target_sums(rows: BinnedRows, n_outputs: int, scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """Σ ω and Σ ω y for each output (of several: y == k), fixed-point: (n_outputs, 2)."""
    sums = np.zeros((n_outputs, 2), np.int64)
    for weight, target in _blocks(rows):
        if weight is None:
            sums[:, 0] += len(target) * np.rint(scales[0]).astype(np.int64)
        else:
            sums[:, 0] += _sum(weight * scales[0])
        for k in range(n_outputs):
            of_output = target if n_outputs == 1 else target == k
            weighted = of_output if weight is None else weight * of_output
            sums[k, 1] += _sum(weighted * scales[1])
    return sums


def _sum(values: NDArray[np.float64]) -> np.int64:
    """Sum of the nearest integers."""
    total: np.int64 = np.rint(values, out=values).astype(np.int64).sum()
    return total


def _blocks(
    rows: BinnedRows,
) -> Iterator[tuple[NDArray[np.float64] | None, NDArray[np.float64]]]:
    """Weights, if there are any, and targets, some rows at a time."""
    for start in range(0, rows.n_rows, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield None if rows.weight is None else rows.weight[part], rows.target[part]
