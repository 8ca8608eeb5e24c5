"""Kernels over rows: gradients, scores, sums, draws, losses.

Each does what the verb of the same name does in `backends.reference`. Exponentials, logarithms,
random numbers and rounding are those of the other backends (`device.formula`), gradients and losses
repeat theirs operation by operation, sums are of integers: results are the same to the bit. What
a kernel finds it adds to, or raises, in an array that begins with zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.backends.cuda.device import (
    add,
    add_of_block,
    bits_of_float32,
    each,
    formula,
    integers,
    kernel,
    nearest,
    on_device,
    raise_by_block,
    root,
    times,
)
from mvsboost.exact import numerics, random
from mvsboost.exact.fixedpoint import HALF, QUARTER
from mvsboost.kernels import sampling

_exp, _log = formula(numerics.exp), formula(numerics.log)
_coarse_sigmoid = formula(numerics.coarse_sigmoid)
_row_bits, _uniform_from_bits = integers(random.row_bits), formula(random.uniform_from_bits)
_rounded = formula(sampling.rounded)
_TINY = 1e-16
_INFINITE = np.float32(np.inf)

# what `weigh` finds
MAX_G, MAX_H, LESS_H, BAD = 0, 1, 2, 3
"""Largest |g|, largest h, the largest of −h, and whether a row is not finite."""


# --- gradients ----------------------------------------------------------------------------------


@kernel
def set_baseline(baseline: Any, start: Any, score: Any) -> None:
    """Scores of rows before any tree; `start` may be empty."""
    for i in each(score.shape[1]):
        for k in range(score.shape[0]):
            score[k, i] = baseline[k]
            if start.shape[1] > 0:
                score[k, i] += start[k, i]


@on_device
def _logistic(y: Any, score: Any, alpha: Any) -> Any:
    p = _coarse_sigmoid(score)
    return p - y, max(times(p, 1.0 - p), _TINY)


@on_device
def _squared(y: Any, score: Any, alpha: Any) -> Any:
    return score - y, 1.0


@on_device
def _quantile(y: Any, score: Any, alpha: Any) -> Any:
    if score > y:
        return 1.0 - alpha, 1.0
    return (-alpha if score < y else 0.0), 1.0


@on_device
def _absolute(y: Any, score: Any, alpha: Any) -> Any:
    if score > y:
        return 1.0, 1.0
    return (-1.0 if score < y else 0.0), 1.0


@on_device
def _poisson(y: Any, score: Any, alpha: Any) -> Any:
    mean = _exp(score)
    return mean - y, mean


def _of_one_output(gradient: Any) -> Any:
    """A kernel from the gradient and the hessian of a row."""

    @kernel
    def compute(y: Any, score: Any, alpha: Any, g: Any, h: Any) -> None:
        for i in each(y.shape[0]):
            g[0, i], h[0, i] = gradient(y[i], score[0, i], alpha)

    return compute


@kernel
def _softmax(y: Any, score: Any, alpha: Any, g: Any, h: Any) -> None:
    for i in each(y.shape[0]):
        largest = score[0, i]
        for k in range(1, score.shape[0]):
            largest = max(largest, score[k, i])
        total = 0.0
        for k in range(score.shape[0]):
            total += _exp(score[k, i] - largest)
        for k in range(score.shape[0]):
            chance = _exp(score[k, i] - largest) / total
            g[k, i] = chance - (1.0 if y[i] == k else 0.0)
            h[k, i] = max(times(chance, 1.0 - chance), _TINY)


GRADIENTS = {
    "logistic": _of_one_output(_logistic),
    "softmax": _softmax,
    "squared": _of_one_output(_squared),
    "quantile": _of_one_output(_quantile),
    "absolute": _of_one_output(_absolute),
    "poisson": _of_one_output(_poisson),
}
"""By the names that objectives have for their kernels."""


@kernel
def weigh(weight: Any, first_order: Any, g: Any, h: Any, found: Any) -> None:
    """Multiply by the row's weight, if there are any, and note the range of gradients."""
    largest_g, largest_h, less_h, bad = 0.0, -np.inf, -np.inf, 0
    for i in each(g.shape[1]):
        for k in range(g.shape[0]):
            if first_order:
                h[k, i] = 1.0
            if weight.shape[0] > 0:
                h[k, i] = times(h[k, i], weight[i])
                g[k, i] = times(g[k, i], weight[i])
            x, y = g[k, i], h[k, i]
            if abs(x) < _INFINITE and abs(y) < _INFINITE:
                largest_g = max(largest_g, np.float64(abs(x)))
                largest_h, less_h = max(largest_h, np.float64(y)), max(less_h, -np.float64(y))
            else:
                bad = 1
    raise_by_block(found, MAX_G, largest_g)
    raise_by_block(found, MAX_H, largest_h)
    raise_by_block(found, LESS_H, less_h)
    raise_by_block(found, BAD, np.float64(bad))


@kernel
def moment_sums(g: Any, h: Any, scales: Any, out: Any) -> None:
    """Fixed-point Σ g, Σ h, Σ g², Σ h² of each output, into (n_outputs, 4)."""
    for k in range(g.shape[0]):
        a = b = c = d = np.int64(0)
        for i in each(g.shape[1]):
            x, y = np.float64(g[k, i]), np.float64(h[k, i])
            a += nearest(times(x, scales[0]))
            b += nearest(times(y, scales[1]))
            c += nearest(times(times(x, x), scales[2]))
            d += nearest(times(times(y, y), scales[3]))
        add_of_block(out, (k, 0), a)
        add_of_block(out, (k, 1), b)
        add_of_block(out, (k, 2), c)
        add_of_block(out, (k, 3), d)


# --- scores -------------------------------------------------------------------------------------

MVS, ABS_GRADIENT, ABS_PRODUCT = range(3)


@kernel
def score_rows(
    kind: Any, g: Any, h: Any, lam: Any, up: Any, down: Any, out: Any, found: Any
) -> None:
    """Scores by the formula of a `ScoreRule`, and the largest of them."""
    largest = 0.0
    for i in each(out.shape[0]):
        first = second = 0.0
        for k in range(g.shape[0]):
            x, y = np.float64(g[k, i]), np.float64(h[k, i])
            if kind == MVS:
                first += times(x, x)
                second += times(y, y)
            else:
                first += abs(x if kind == ABS_GRADIENT else times(x, y))
        if kind == MVS:
            out[i] = root(np.float32(times(first + times(lam, second), up))) * np.float32(down)
        else:
            out[i] = first
        largest = max(largest, np.float64(out[i]))
    raise_by_block(found, 0, largest)


@kernel
def threshold_sums(scores: Any, mu: Any, scale: Any, out: Any) -> None:
    """Fixed-point sum of the scores under µ, rows at or over µ, rows at 0."""
    total = large = zero = np.int64(0)
    for i in each(scores.shape[0]):
        score = np.float64(scores[i])
        if score < mu:
            total += nearest(times(score, scale))
        else:
            large += 1
        if score == 0.0:
            zero += 1
    add_of_block(out, 0, total)
    add_of_block(out, 1, large)
    add_of_block(out, 2, zero)


@on_device
def _score_key(key: Any, score: Any, row: Any) -> Any:
    """One row of `draws.score_key`."""
    low = np.uint32(row) ^ np.uint32(key & np.uint64(0xFFFFFFFF))
    low = np.uint32((low ^ (low >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    low = np.uint32((low ^ (low >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    low = low ^ (low >> np.uint32(16))
    return (np.uint64(bits_of_float32(score)) << np.uint64(32)) | np.uint64(low)


@kernel
def count_ranks(
    scores: Any,
    offset: Any,
    key: Any,
    by_score: Any,
    only_below: Any,
    cut_key: Any,
    cut: Any,
    known_bits: Any,
    prefix: Any,
    out: Any,
) -> None:
    """Count rows by the bits of their rank key that follow the known ones; see `RankKey`."""
    for i in each(scores.shape[0]):
        row = np.uint64(offset) + np.uint64(i)
        rank = _score_key(key, scores[i], row) if by_score else _row_bits(key, row)
        counts = not only_below or _score_key(cut_key, scores[i], row) < cut
        if known_bits > 0:
            counts = counts and rank >> np.uint64(64 - known_bits) == prefix
        if counts:
            digit = (rank << np.uint64(known_bits)) >> np.uint64(64 - sampling.RANK_BITS)
            add(out, np.int64(digit), 1)


# --- draws --------------------------------------------------------------------------------------

POISSON, SMALLEST_KEYS, TOP_AND_REST = range(3)

# what a draw finds
LARGEST_WEIGHT, LARGEST_G, LARGEST_H = range(3)


@kernel
def draw(
    kind: Any,
    scores: Any,
    offset: Any,
    mu: Any,
    top_key: Any,
    top_cut: Any,
    key: Any,
    cut: Any,
    weight: Any,
    rows: Any,
    weights: Any,
    n_drawn: Any,
    found: Any,
) -> None:
    """Write the rows that are drawn, in any order, with their weights; see the rules of `draws`."""
    largest = 0.0
    for i in each(scores.shape[0]):
        row = np.uint64(offset) + np.uint64(i)
        w = 0.0
        if kind == POISSON:
            score, u = np.float64(scores[i]), _uniform_from_bits(_row_bits(key, row))
            if score >= mu and score > 0.0:
                w = 1.0
            elif score > 0.0 and times(u, mu) < score:
                w = mu / score
        elif kind == TOP_AND_REST and _score_key(top_key, scores[i], row) >= top_cut:
            w = 1.0
        elif _row_bits(key, row) <= cut:
            w = weight
        if w > 0.0:
            at = add(n_drawn, 0, 1)
            rows[at], weights[at] = i, w
            largest = max(largest, w)
    raise_by_block(found, LARGEST_WEIGHT, largest)


@kernel
def settle_draw(
    g: Any, h: Any, rows: Any, weights: Any, scales: Any, sums: Any, found: Any
) -> None:
    """Rows of weight 1, fixed-point Σ w and Σ w²; the largest w |g| and w h."""
    certain = total = squared = np.int64(0)
    largest_g = largest_h = 0.0
    for j in each(rows.shape[0]):
        i, w = rows[j], weights[j]
        if w == 1.0:
            certain += 1
        total += nearest(times(w, scales[0]))
        squared += nearest(times(times(w, w), scales[1]))
        for k in range(g.shape[0]):
            largest_g = max(largest_g, abs(times(w, g[k, i])))
            largest_h = max(largest_h, times(w, h[k, i]))
    add_of_block(sums, 0, certain)
    add_of_block(sums, 1, total)
    add_of_block(sums, 2, squared)
    raise_by_block(found, LARGEST_G, largest_g)
    raise_by_block(found, LARGEST_H, largest_h)


@kernel
def pack_rows(
    g: Any,
    h: Any,
    rows: Any,
    weights: Any,
    key: Any,
    offset: Any,
    scales: Any,
    words: Any,
) -> None:
    """Quantise weighted gradients, a word a row; with no `rows`, of all with weight 1."""
    for j in each(words.shape[0]):
        i, w = np.int64(j), 1.0
        if rows.shape[0] > 0:
            i, w = np.int64(rows[j]), weights[j]
        u = _uniform_from_bits(_row_bits(key, np.uint64(offset) + np.uint64(i)))
        gradient = _rounded(times(times(w, g[i]), scales[0]), u)
        hessian = _rounded(times(times(w, h[i]), scales[1]), u)
        weight = _rounded(times(w, scales[2]), u)
        words[j] = (gradient << HALF) + (hessian << QUARTER) + weight


# --- losses -------------------------------------------------------------------------------------

# what losses find
LARGEST_LOSS, NO_NUMBER = range(2)


@on_device
def _logistic_of(y: Any, score: Any, i: Any) -> Any:
    """Logistic: log(1 + e**−|F|) + max(F, 0) − yF."""
    f = score[0, i]
    return _log(1.0 + _exp(-abs(f))) + max(f, 0.0) - times(y[i], f)


@on_device
def _softmax_of(y: Any, score: Any, i: Any) -> Any:
    """Softmax: log Σ_k e**(F_k − m) + (m − F_y) with m = max F."""
    largest = score[0, i]
    for k in range(1, score.shape[0]):
        largest = max(largest, score[k, i])
    total = _exp(score[0, i] - largest)
    for k in range(1, score.shape[0]):
        total += _exp(score[k, i] - largest)
    return _log(total) + (largest - score[np.int64(y[i]), i])


def _losses_by(loss: Any) -> Any:
    """A kernel from the loss of a row."""

    @kernel
    def compute(y: Any, score: Any, weight: Any, out: Any, found: Any) -> None:
        largest = odd = 0.0
        for i in each(out.shape[0]):
            out[i] = loss(y, score, i)
            if weight.shape[0] > 0:
                out[i] = times(out[i], weight[i])
            if out[i] == out[i]:
                largest = max(largest, abs(out[i]))
            else:
                odd = 1.0
        raise_by_block(found, LARGEST_LOSS, largest)
        raise_by_block(found, NO_NUMBER, odd)

    return compute


LOSSES = {"logistic": _losses_by(_logistic_of), "softmax": _losses_by(_softmax_of)}
"""By the names that metrics have for their kernels."""


@kernel
def fixed_point_sum(values: Any, scale: Any, out: Any) -> None:
    """Sum of the nearest integers of the scaled numbers."""
    total = np.int64(0)
    for i in each(values.shape[0]):
        total += nearest(times(values[i], scale))
    add_of_block(out, 0, total)
