"""Kernels: row losses of the metrics that are watched most.

Each repeats the formula of its metric operation by operation, so that its result
is the same to the last bit; NumPy would pass over the rows some sixty times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.jit import kernel
from mvsboost.numerics import exp_scalar, log_scalar


@kernel
def logistic(y: Any, score: Any, start: int, stop: int, out: Any) -> None:
    """Logistic: log(1 + e**−|F|) + max(F, 0) − yF."""
    target, scores = y[start:stop], score[0, start:stop]
    for i in range(stop - start):
        f = scores[i]
        out[i] = log_scalar(1.0 + exp_scalar(-abs(f))) + max(f, 0.0) - target[i] * f


@kernel
def softmax(y: Any, score: Any, start: int, stop: int, out: Any) -> None:
    """Softmax: log Σ_k e**(F_k − m) + (m − F_y) with m = max F."""
    for i in range(start, stop):
        largest = score[0, i]
        for k in range(1, score.shape[0]):
            largest = max(largest, score[k, i])
        total = exp_scalar(score[0, i] - largest)
        for k in range(1, score.shape[0]):
            total += exp_scalar(score[k, i] - largest)
        out[i - start] = log_scalar(total) + (largest - score[np.int64(y[i]), i])


KERNELS = {"logistic": logistic, "softmax": softmax}
