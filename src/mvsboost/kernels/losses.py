"""Kernels: row losses of the metrics that are watched most, and their sums.

Each loss repeats the formula of its metric operation by operation, so that its result
is the same to the last bit; NumPy would pass over the rows some sixty times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.exact.numerics import MAGNITUDE, exp_scalar, log_scalar
from mvsboost.runtime.intrinsics import stack_array, wide_vectors
from mvsboost.runtime.jit import kernel
from mvsboost.runtime.pool import NOTHING, begin, end, largest_found, note, share, sums_found, worth

_BLOCK = 1024  # rows whose numbers stay in the first-level cache
_reals = stack_array(np.float64, _BLOCK)


@kernel
def logistic(part: Any, pool: Any, y: Any, score: Any, out: Any) -> None:
    """Logistic: log(1 + e**−|F|) + max(F, 0) − yF.

    Two short loops are faster than one: more of their turns run at the same time.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, out.shape[0]))
    start, stop = share(pool, mine, out.shape[0])
    exponential = _reals()
    for block in range(start, stop, _BLOCK):
        n = min(_BLOCK, stop - block)
        target, scores = y[block : block + n], score[0, block : block + n]
        rows = out[block : block + n]
        for i in range(n):
            exponential[i] = exp_scalar(-abs(scores[i]))
        for i in range(n):
            f = scores[i]
            rows[i] = log_scalar(1.0 + exponential[i]) + max(f, 0.0) - target[i] * f
    end(part, pool)


@kernel
def softmax(part: Any, pool: Any, y: Any, score: Any, out: Any) -> None:
    """Softmax: log Σ_k e**(F_k − m) + (m − F_y) with m = max F."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, out.shape[0]))
    start, stop = share(pool, mine, out.shape[0])
    for i in range(start, stop):
        largest = score[0, i]
        for k in range(1, score.shape[0]):
            largest = max(largest, score[k, i])
        total = exp_scalar(score[0, i] - largest)
        for k in range(1, score.shape[0]):
            total += exp_scalar(score[k, i] - largest)
        out[i] = log_scalar(total) + (largest - score[np.int64(y[i]), i])
    end(part, pool)


@kernel
def largest_bits(part: Any, pool: Any, bits: Any) -> Any:
    """The largest magnitude of float64 numbers, from and as their bits: NaN is above all."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, bits.shape[0]))
    start, stop = share(pool, mine, bits.shape[0])
    largest = np.int64(0)
    for i in range(start, stop):
        largest = max(largest, bits[i] & MAGNITUDE)
    note(pool, mine, NOTHING, (largest, np.int64(0), np.int64(0)))
    end(part, pool)
    return largest_found(pool)[0]


@kernel
def fixed_point_sum(part: Any, pool: Any, rows: Any, scale: float) -> Any:
    """Sum of the nearest integers of the scaled numbers."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, rows.shape[0]))
    start, stop = share(pool, mine, rows.shape[0])
    total = np.int64(0)
    for i in range(start, stop):
        total += np.int64(np.rint(rows[i] * scale))
    note(pool, mine, (total, np.int64(0), np.int64(0)), NOTHING)
    end(part, pool)
    return sums_found(pool)[0]


KERNELS = {"logistic": logistic, "softmax": softmax}
