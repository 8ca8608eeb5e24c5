"""Kernels: gradients of the built-in objectives, their range and their sums.

All run on the parts of a `pool`. Each repeats the formula of its objective operation by
operation, so that its result is the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.exact.numerics import coarse_sigmoid_scalar, exp_scalar, float32_of_bits
from mvsboost.runtime.intrinsics import wide_vectors
from mvsboost.runtime.jit import kernel
from mvsboost.runtime.pool import (
    CALLER,
    NOTHING,
    begin,
    end,
    largest_found,
    note,
    share,
    sum_parts,
    worth,
)

_TINY = 1e-16
_INFINITE = np.int32(0x7F800000)
_MAGNITUDE = np.int32(0x7FFFFFFF)


@kernel
def logistic(part: Any, pool: Any, y: Any, score: Any, g: Any, h: Any, _: Any) -> None:
    """Logistic: g = p − y, h = max(p (1 − p), tiny) with p = sigmoid(F)."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, y.shape[0]))
    start, stop = share(pool, mine, y.shape[0])
    target, scores = y[start:stop], score[0, start:stop]
    out_g, out_h = g[0, start:stop], h[0, start:stop]
    for i in range(stop - start):
        p = coarse_sigmoid_scalar(scores[i])
        out_g[i] = p - target[i]
        out_h[i] = max(p * (1.0 - p), _TINY)
    end(part, pool)


@kernel
def softmax(part: Any, pool: Any, y: Any, score: Any, g: Any, h: Any, room: Any) -> None:
    """Softmax: g_k = p_k − [y = k], h_k = max(p_k (1 − p_k), tiny).

    `room` has a row for each part.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, y.shape[0]))
    start, stop = share(pool, mine, y.shape[0])
    p = room[mine]
    n_outputs = score.shape[0]
    for i in range(start, stop):
        largest = score[0, i]
        for k in range(1, n_outputs):
            largest = max(largest, score[k, i])
        total = 0.0
        for k in range(n_outputs):
            p[k] = exp_scalar(score[k, i] - largest)
            total += p[k]
        for k in range(n_outputs):
            chance = p[k] / total
            g[k, i] = chance - (1.0 if y[i] == k else 0.0)
            h[k, i] = max(chance * (1.0 - chance), _TINY)
    end(part, pool)


@kernel
def squared(part: Any, pool: Any, y: Any, score: Any, g: Any, h: Any, _: Any) -> None:
    """Squared: g = F − y, h = 1."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, y.shape[0]))
    start, stop = share(pool, mine, y.shape[0])
    target, scores = y[start:stop], score[0, start:stop]
    out_g, out_h = g[0, start:stop], h[0, start:stop]
    for i in range(stop - start):
        out_g[i] = scores[i] - target[i]
        out_h[i] = 1.0
    end(part, pool)


@kernel
def quantile(part: Any, pool: Any, y: Any, score: Any, g: Any, h: Any, given: Any) -> None:
    """Quantile: g = 1 − α over the target, −α under it, 0 on it; h = 1."""
    wide_vectors()
    alpha = given[0, 0]
    mine = begin(part, pool, worth(pool, y.shape[0]))
    start, stop = share(pool, mine, y.shape[0])
    target, scores = y[start:stop], score[0, start:stop]
    out_g, out_h = g[0, start:stop], h[0, start:stop]
    for i in range(stop - start):
        over = scores[i] > target[i]
        under = scores[i] < target[i]
        out_g[i] = (1.0 - alpha) if over else (-alpha if under else 0.0)
        out_h[i] = 1.0
    end(part, pool)


@kernel
def absolute(part: Any, pool: Any, y: Any, score: Any, g: Any, h: Any, _: Any) -> None:
    """Absolute: g = sign(F − y), h = 1."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, y.shape[0]))
    start, stop = share(pool, mine, y.shape[0])
    target, scores = y[start:stop], score[0, start:stop]
    out_g, out_h = g[0, start:stop], h[0, start:stop]
    for i in range(stop - start):
        over = scores[i] > target[i]
        under = scores[i] < target[i]
        out_g[i] = 1.0 if over else (-1.0 if under else 0.0)
        out_h[i] = 1.0
    end(part, pool)


@kernel
def poisson(part: Any, pool: Any, y: Any, score: Any, g: Any, h: Any, _: Any) -> None:
    """Poisson: g = e^F − y, h = e^F."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, y.shape[0]))
    start, stop = share(pool, mine, y.shape[0])
    target, scores = y[start:stop], score[0, start:stop]
    out_g, out_h = g[0, start:stop], h[0, start:stop]
    for i in range(stop - start):
        mean = exp_scalar(scores[i])
        out_g[i] = mean - target[i]
        out_h[i] = mean
    end(part, pool)


KERNELS = {
    "logistic": logistic,
    "softmax": softmax,
    "squared": squared,
    "quantile": quantile,
    "absolute": absolute,
    "poisson": poisson,
}


@kernel
def weigh(part: Any, pool: Any, g: Any, h: Any, weight: Any, first_order: bool) -> None:
    """Multiply by the row weight; at first order the hessian is the row weight."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, g.shape[1]))
    start, stop = share(pool, mine, g.shape[1])
    of_rows = weight[start:stop]
    for k in range(g.shape[0]):
        row_g, row_h = g[k, start:stop], h[k, start:stop]
        for i in range(stop - start):
            row_h[i] = of_rows[i] if first_order else row_h[i] * of_rows[i]
            row_g[i] = row_g[i] * of_rows[i]
    end(part, pool)


@kernel
def bit_range(part: Any, pool: Any, g_bits: Any, h_bits: Any) -> Any:
    """Largest |g|, largest h, smallest h, all as the bits of float32 numbers.

    Non-negative floats are ordered like their bits, and a maximum of integers
    vectorises where one of floats, with its rules for NaN, does not.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, g_bits.shape[1]))
    start, stop = share(pool, mine, g_bits.shape[1])
    g_max, h_max, h_min = np.int32(0), np.int32(-2147483648), np.int32(0x7F800000)
    for k in range(g_bits.shape[0]):
        row_g, row_h = g_bits[k, start:stop], h_bits[k, start:stop]
        for i in range(stop - start):
            g_max = max(g_max, row_g[i] & _MAGNITUDE)
            h_max = max(h_max, row_h[i])
            h_min = min(h_min, row_h[i])
    note(pool, mine, NOTHING, (np.int64(g_max), np.int64(h_max), -np.int64(h_min)))
    end(part, pool)
    largest_g, largest_h, smallest_h = largest_found(pool)
    return largest_g, largest_h, -smallest_h


@kernel
def moment_sums(part: Any, pool: Any, g: Any, h: Any, scales: Any, out: Any) -> None:
    """Fixed-point Σ g, Σ h, Σ g², Σ h² of each output, in the end all in out[0].

    `out` has shape (parts, n_outputs, 4).
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, g.shape[1]))
    start, stop = share(pool, mine, g.shape[1])
    squares_only = scales[0] == 0.0 and scales[1] == 0.0
    for k in range(g.shape[0]):
        a = b = c = d = np.int64(0)
        row_g, row_h = g[k, start:stop], h[k, start:stop]
        if squares_only:
            for i in range(stop - start):
                x, y = np.float64(row_g[i]), np.float64(row_h[i])
                c += np.int64(np.rint(x * x * scales[2]))
                d += np.int64(np.rint(y * y * scales[3]))
        for i in range(0 if squares_only else stop - start):
            x, y = np.float64(row_g[i]), np.float64(row_h[i])
            a += np.int64(np.rint(x * scales[0]))
            b += np.int64(np.rint(y * scales[1]))
            c += np.int64(np.rint(x * x * scales[2]))
            d += np.int64(np.rint(y * y * scales[3]))
        out[mine, k, 0], out[mine, k, 1], out[mine, k, 2], out[mine, k, 3] = a, b, c, d
    end(part, pool)
    if part < 0:
        sum_parts(pool, out.reshape(-1), 4 * g.shape[0])


def range_of(
    pool: NDArray[np.int64], g: NDArray[np.float32], h: NDArray[np.float32]
) -> tuple[float, float, float, int]:
    """Largest |g|, largest and smallest h, and the first row that is not finite (or -1)."""
    g_max, h_max, h_min = bit_range(CALLER, pool, g.view(np.int32), h.view(np.int32))
    if g_max < _INFINITE and 0 <= h_max < _INFINITE and h_min >= 0:
        return float32_of_bits(g_max), float32_of_bits(h_max), float32_of_bits(h_min), -1
    bad = ~(np.isfinite(g) & np.isfinite(h)).all(axis=0)
    with np.errstate(invalid="ignore"):
        return (
            float(np.abs(g).max(initial=0.0)),
            float(h.max(initial=0.0)),
            float(h.min(initial=np.inf)),
            int(np.argmax(bad)) if bad.any() else -1,
        )
