"""Kernels: row losses of the metrics that are watched most, and their sums.

Each loss repeats the formula of its metric operation by operation, so that its result
is the same to the last bit; NumPy would pass over the rows some sixty times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.backends.cpu.machine import stack_array, wide_vectors
from mvsboost.jit import kernel
from mvsboost.numerics import MAGNITUDE, exp_scalar, log_scalar

_BLOCK = 1024  # rows whose numbers stay in the first-level cache
_reals = stack_array(np.float64, _BLOCK)


@kernel
def logistic(y: Any, score: Any, start: int, stop: int, out: Any) -> None:
    """Logistic: log(1 + e**−|F|) + max(F, 0) − yF.

    Two short loops are faster than one: more of their turns run at the same time.
    """
    wide_vectors()
    exponential = _reals()
    for block in range(start, stop, _BLOCK):
        n = min(_BLOCK, stop - block)
        target, scores = y[block : block + n], score[0, block : block + n]
        rows = out[block - start : block - start + n]
        for i in range(n):
            exponential[i] = exp_scalar(-abs(scores[i]))
        for i in range(n):
            f = scores[i]
            rows[i] = log_scalar(1.0 + exponential[i]) + max(f, 0.0) - target[i] * f


@kernel
def softmax(y: Any, score: Any, start: int, stop: int, out: Any) -> None:
    """Softmax: log Σ_k e**(F_k − m) + (m − F_y) with m = max F."""
    wide_vectors()
    for i in range(start, stop):
        largest = score[0, i]
        for k in range(1, score.shape[0]):
            largest = max(largest, score[k, i])
        total = exp_scalar(score[0, i] - largest)
        for k in range(1, score.shape[0]):
            total += exp_scalar(score[k, i] - largest)
        out[i - start] = log_scalar(total) + (largest - score[np.int64(y[i]), i])


@kernel
def largest_bits(bits: Any) -> Any:
    """The largest magnitude of float64 numbers, from and as their bits: NaN is above all."""
    wide_vectors()
    largest = np.int64(0)
    for i in range(bits.shape[0]):
        largest = max(largest, bits[i] & MAGNITUDE)
    return largest


@kernel
def fixed_point_sum(rows: Any, scale: float) -> Any:
    """Sum of the nearest integers of the scaled numbers."""
    wide_vectors()
    total = np.int64(0)
    for i in range(rows.shape[0]):
        total += np.int64(np.rint(rows[i] * scale))
    return total


KERNELS = {"logistic": logistic, "softmax": softmax}
