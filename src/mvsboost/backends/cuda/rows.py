"""Kernels over rows: gradients, scores, sums, draws, losses.

Each does what the verb of the same name does in `backends.reference`. Exponentials, logarithms,
random numbers and rounding are those of the other backends (`device.formula`), gradients and losses
repeat theirs operation by operation, sums are of integers: results are the same to the bit.

The last two arguments of most kernels are the numbers of their program (`programs.Numbers`): what
is given to them, and what they find, which they add to or raise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvsboost.backends.cuda.device import (
    ROWS_AT_ONCE,
    add,
    add_of_block,
    batches,
    bits_of_float32,
    block,
    blocks,
    each,
    formula,
    kernel,
    nearest,
    nth,
    on_device,
    own_reals,
    own_rows,
    power_of_two,
    raise_by_block,
    root,
    scan_of_block,
    share_of_block,
    thread,
    threads,
    times,
    whole_numbers,
)
from mvsboost.exact import numerics, random
from mvsboost.exact.fixedpoint import HALF, QUARTER
from mvsboost.kernels import histogram, sampling

_exp, _log = formula(numerics.exp), formula(numerics.log)
_coarse_sigmoid = formula(numerics.coarse_sigmoid)
_row_bits, _uniform_from_bits = whole_numbers(random.row_bits), formula(random.uniform_from_bits)
_rounded, _pair_of = formula(sampling.rounded), whole_numbers(histogram.pair_of)
_TINY = 1e-16
_TWO_62, _TWO_52 = 2.0**62, 2.0**52
_LEAST_POWER, _LARGEST_POWER = 2.0**-1000, 2.0**1000
_INFINITE, _NOTHING = np.float32(np.inf), np.float32(0.0)

# --- targets ------------------------------------------------------------------------------------

# numbers of targets: what is found behind two scales; and behind sums the output, -1 of one alone
LARGEST_OMEGA, LARGEST_TARGET = map(np.int64, range(2, 4))
SUM_OMEGA, SUM_TARGET, TARGET_OUTPUT = map(np.int64, range(3))


@kernel
def look_at_targets(y: Any, weight: Any, reals: Any, integers: Any) -> None:
    """Largest ω and ω |y|, and fixed-point Σ ω and Σ ω y of an output; of several y is y == k."""
    by_omega, by_target, k = reals[0], reals[1], integers[TARGET_OUTPUT]
    heaviest = largest = 0.0
    a = b = np.int64(0)
    for i in each(y.shape[0]):
        w, value = 1.0, y[i]
        if weight.shape[0] > 0:
            w = weight[i]
        if k >= 0:
            value = 1.0 if value == k else 0.0
        weighted = times(w, value)
        heaviest, largest = max(heaviest, w), max(largest, abs(weighted))
        a += nearest(times(w, by_omega))
        b += nearest(times(weighted, by_target))
    raise_by_block(reals, LARGEST_OMEGA, heaviest)
    raise_by_block(reals, LARGEST_TARGET, largest)
    add_of_block(integers, SUM_OMEGA, a)
    add_of_block(integers, SUM_TARGET, b)


# --- gradients ----------------------------------------------------------------------------------


@kernel
def set_baseline(baseline: Any, start: Any, score: Any) -> None:
    """Scores of rows before any tree; `start` may be empty."""
    for i in each(score.shape[1]):
        for k in range(score.shape[0]):
            score[k, i] = baseline[k]
            if start.shape[1] > 0:
                score[k, i] += start[k, i]


# a row's, from its target, its score and the parameter of the objective


@on_device
def _logistic(y: Any, score: Any, _: Any) -> Any:
    p = _coarse_sigmoid(score)
    return p - y, max(times(p, 1.0 - p), _TINY)


@on_device
def _squared(y: Any, score: Any, _: Any) -> Any:
    return score - y, 1.0


@on_device
def _absolute(y: Any, score: Any, _: Any) -> Any:
    if score > y:
        return 1.0, 1.0
    return (-1.0 if score < y else 0.0), 1.0


@on_device
def _quantile(y: Any, score: Any, alpha: Any) -> Any:
    if score > y:
        return 1.0 - alpha, 1.0
    return (-alpha if score < y else 0.0), 1.0


@on_device
def _huber(y: Any, score: Any, delta: Any) -> Any:
    residual = score - y
    if residual > delta:
        return delta, 1.0
    return (-delta if residual < -delta else residual), 1.0  # what is no number stays so


@on_device
def _poisson(y: Any, score: Any, _: Any) -> Any:
    mean = _exp(score)
    return mean - y, mean


@on_device
def _gamma(y: Any, score: Any, _: Any) -> Any:
    ratio = times(y, _exp(-score))
    return 1.0 - ratio, ratio


@on_device
def _tweedie(y: Any, score: Any, power: Any) -> Any:
    part, mean = times(y, _exp(times(1.0 - power, score))), _exp(times(2.0 - power, score))
    return mean - part, times(2.0 - power, mean) + times(power - 1.0, part)


# numbers of gradients: found, and given
# (typed: functions would be compiled anew for every plain number they are called with)
LARGEST_G, LARGEST_H, LESS_H = map(np.int64, range(3))
"""Largest |g| and h, and the largest of −h."""
FIRST_ORDER, BAD = map(np.int64, range(2))
"""Whether h is 1, and whether a row is not finite."""


class _Out(NamedTuple):
    """Where gradients go: h is 1 at first order, then both are weighed, if there are weights."""

    g: Any
    h: Any
    weight: Any
    first_order: Any


class _Range(NamedTuple):
    """Of the gradients that a thread has written; see the numbers above."""

    largest_g: Any
    largest_h: Any
    less_h: Any
    bad: Any


@on_device
def _no_range() -> Any:
    return _Range(_NOTHING, -_INFINITE, -_INFINITE, np.int64(0))


@on_device
def _weighed(x: Any, weight: Any, i: Any) -> Any:
    """Multiplied by the row's weight, if there are any."""
    x = np.float32(x)
    return np.float32(times(x, weight[i])) if weight.shape[0] > 0 else x


@on_device
def _write(out: Any, k: Any, i: Any, g: Any, h: Any, seen: Any) -> Any:
    """Write the gradients of a row; the range with them in it."""
    x = _weighed(g, out.weight, i)
    z = _weighed(1.0 if out.first_order else h, out.weight, i)
    out.g[k, i], out.h[k, i] = x, z
    if abs(x) < _INFINITE and abs(z) < _INFINITE:
        largest_h, less_h = max(seen.largest_h, z), max(seen.less_h, -z)
        return _Range(max(seen.largest_g, abs(x)), largest_h, less_h, seen.bad)
    return _Range(seen.largest_g, seen.largest_h, seen.less_h, np.int64(1))


@on_device
def _note(seen: Any, reals: Any, integers: Any) -> None:
    raise_by_block(reals, LARGEST_G, np.float64(seen.largest_g))
    raise_by_block(reals, LARGEST_H, np.float64(seen.largest_h))
    raise_by_block(reals, LESS_H, np.float64(seen.less_h))
    add_of_block(integers, BAD, seen.bad)


def _of_each_output(gradient: Any) -> Any:
    """A kernel from the gradients of a row at one score; `given` is a number for each output."""

    @kernel
    def compute(
        y: Any, score: Any, given: Any, weight: Any, g: Any, h: Any, reals: Any, integers: Any
    ) -> None:
        out, seen, n = _Out(g, h, weight, integers[FIRST_ORDER] != 0), _no_range(), y.shape[0]
        targets, scores = own_reals(), own_reals()
        # unsigned, as Numba would ask at each index whether it is negative
        for k in range(np.uint64(score.shape[0])):
            parameter = given[k]
            for first in batches(n):
                for u in range(ROWS_AT_ONCE):
                    i = min(nth(first, u), n - 1)
                    targets[u], scores[u] = y[i], score[k, i]
                for u in range(ROWS_AT_ONCE):
                    i = nth(first, u)
                    if i < n:
                        x, z = gradient(targets[u], scores[u], parameter)
                        seen = _write(out, k, i, x, z, seen)
        _note(seen, reals, integers)

    return compute


@kernel
def _softmax(
    y: Any, score: Any, _: Any, weight: Any, g: Any, h: Any, reals: Any, integers: Any
) -> None:
    out, seen = _Out(g, h, weight, integers[FIRST_ORDER] != 0), _no_range()
    for i in each(y.shape[0]):
        largest = score[0, i]
        for k in range(1, score.shape[0]):
            largest = max(largest, score[k, i])
        total = 0.0
        for k in range(score.shape[0]):
            total += _exp(score[k, i] - largest)
        for k in range(score.shape[0]):
            chance = _exp(score[k, i] - largest) / total
            x, z = chance - (1.0 if y[i] == k else 0.0), max(times(chance, 1.0 - chance), _TINY)
            seen = _write(out, k, i, x, z, seen)
    _note(seen, reals, integers)


GRADIENTS = {
    "logistic": _of_each_output(_logistic),
    "softmax": _softmax,
    "squared": _of_each_output(_squared),
    "absolute": _of_each_output(_absolute),
    "quantile": _of_each_output(_quantile),
    "huber": _of_each_output(_huber),
    "poisson": _of_each_output(_poisson),
    "gamma": _of_each_output(_gamma),
    "tweedie": _of_each_output(_tweedie),
}
"""By the names that objectives have for their kernels."""


@kernel
def weigh(weight: Any, g: Any, h: Any, reals: Any, integers: Any) -> None:
    """Weigh gradients that are there already, and note their range."""
    out, seen = _Out(g, h, weight, integers[FIRST_ORDER] != 0), _no_range()
    for i in each(g.shape[1]):
        for k in range(g.shape[0]):
            seen = _write(out, k, i, g[k, i], h[k, i], seen)
    _note(seen, reals, integers)


# numbers of moments: what is found, and the output
SUM_G, SUM_H, SUM_GG, SUM_HH, MOMENTS_OUTPUT = map(np.int64, range(5))


@kernel
def moment_sums(g: Any, h: Any, reals: Any, integers: Any) -> None:
    """Fixed-point Σ g, Σ h, Σ g², Σ h² of an output, by the scales in `reals`."""
    k, n = integers[MOMENTS_OUTPUT], g.shape[1]
    by_g, by_h, by_gg, by_hh = reals[0], reals[1], reals[2], reals[3]
    a = b = c = d = np.int64(0)
    first_moments = by_g != 0.0 or by_h != 0.0
    for first in batches(n):
        for u in range(ROWS_AT_ONCE):
            i = min(nth(first, u), n - 1)
            x = np.float64(g[k, i] if nth(first, u) < n else _NOTHING)
            y = np.float64(h[k, i] if nth(first, u) < n else _NOTHING)
            if first_moments:
                a += nearest(times(x, by_g))
                b += nearest(times(y, by_h))
            c += nearest(times(times(x, x), by_gg))
            d += nearest(times(times(y, y), by_hh))
    add_of_block(integers, SUM_G, a)
    add_of_block(integers, SUM_H, b)
    add_of_block(integers, SUM_GG, c)
    add_of_block(integers, SUM_HH, d)


# --- scores -------------------------------------------------------------------------------------

MVS, ABS_GRADIENT, ABS_PRODUCT = range(3)

# numbers of scores
LAMBDA, UP, DOWN, LARGEST_SCORE = map(np.int64, range(4))


@kernel
def score_rows(g: Any, h: Any, out: Any, reals: Any, integers: Any) -> None:
    """Scores by the formula of a `ScoreRule`, and the largest of them."""
    kind, lam, up, down = integers[0], reals[LAMBDA], reals[UP], np.float32(reals[DOWN])
    n, largest, sums, squares = out.shape[0], _NOTHING, own_reals(), own_reals()
    for first in batches(n):
        for u in range(ROWS_AT_ONCE):
            sums[u] = squares[u] = 0.0
        for k in range(g.shape[0]):
            for u in range(ROWS_AT_ONCE):
                i = min(nth(first, u), n - 1)
                x, y = np.float64(g[k, i]), np.float64(h[k, i])
                if kind == MVS:
                    sums[u] += times(x, x)
                    squares[u] += times(y, y)
                else:
                    sums[u] += abs(x if kind == ABS_GRADIENT else times(x, y))
        for u in range(ROWS_AT_ONCE):
            if nth(first, u) < n:
                score = np.float32(sums[u])
                if kind == MVS:
                    score = root(np.float32(times(sums[u] + times(lam, squares[u]), up))) * down
                out[nth(first, u)], largest = score, max(largest, score)
    raise_by_block(reals, LARGEST_SCORE, np.float64(largest))


UNDER, OVER, ZEROS = map(np.int64, range(3))


@kernel
def threshold_sums(scores: Any, reals: Any, integers: Any) -> None:
    """Fixed-point sum of the scores under µ, rows at or over µ, rows at 0; `reals`: µ, scale."""
    mu, scale, n = reals[0], reals[1], scores.shape[0]
    total = large = zero = np.int64(0)
    for first in batches(n):
        for u in range(ROWS_AT_ONCE):
            is_there = nth(first, u) < n
            score = np.float64(scores[min(nth(first, u), n - 1)])
            is_small = score < mu
            total += nearest(times(score if is_there & is_small else 0.0, scale))
            large += 1 if is_there & (not is_small) else 0
            zero += 1 if is_there & (score == 0.0) else 0
    add_of_block(integers, UNDER, total)
    add_of_block(integers, OVER, large)
    add_of_block(integers, ZEROS, zero)


@on_device
def _score_key(key: Any, score: Any, row: Any) -> Any:
    """One row of `draws.score_key`."""
    low = np.uint32(row) ^ np.uint32(key & np.uint64(0xFFFFFFFF))
    low = np.uint32((low ^ (low >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    low = np.uint32((low ^ (low >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    low = low ^ (low >> np.uint32(16))
    return (np.uint64(bits_of_float32(score)) << np.uint64(32)) | np.uint64(low)


# numbers of ranks
OFFSET, RANK_KEY, BY_SCORE, ONLY_BELOW, CUT_KEY, BELOW, KNOWN_BITS, PREFIX = range(8)


@kernel
def count_ranks(scores: Any, out: Any, reals: Any, integers: Any) -> None:
    """Count rows by the bits of their rank key that follow the known ones; see `RankKey`."""
    key, by_score = np.uint64(integers[RANK_KEY]), integers[BY_SCORE] != 0
    cut_key, below = np.uint64(integers[CUT_KEY]), np.uint64(integers[BELOW])
    known_bits, prefix = integers[KNOWN_BITS], np.uint64(integers[PREFIX])
    for i in each(scores.shape[0]):
        row = np.uint64(integers[OFFSET]) + np.uint64(i)
        rank = _score_key(key, scores[i], row) if by_score else _row_bits(key, row)
        counts = integers[ONLY_BELOW] == 0 or _score_key(cut_key, scores[i], row) < below
        if known_bits > 0:
            counts = counts and rank >> np.uint64(64 - known_bits) == prefix
        if counts:
            digit = (rank << np.uint64(known_bits)) >> np.uint64(64 - sampling.RANK_BITS)
            add(out, np.int64(digit), 1)


@kernel
def clear(out: Any) -> None:
    """Set all entries of a flat array to 0."""
    for i in each(out.shape[0]):
        out[i] = 0


# --- draws --------------------------------------------------------------------------------------

POISSON, SMALLEST_KEYS, TOP_AND_REST = range(3)

# numbers of draws: given, and found; OFFSET comes first here too
MU, REST_WEIGHT, LARGEST_WEIGHT, LARGEST_WG, LARGEST_WH = map(np.int64, range(5))
KIND, TOP_KEY, TOP_CUT, KEY, CUT = range(1, 6)
N_DRAWN, N_CERTAIN, SUM_WEIGHT, SUM_SQUARED = map(np.int64, range(6, 10))


class _Rule(NamedTuple):
    """The numbers of a draw, read once."""

    kind: Any
    mu: Any
    top_key: Any
    top_cut: Any
    key: Any
    cut: Any
    weight: Any


@on_device
def _rule_of(reals: Any, integers: Any) -> Any:
    top = np.uint64(integers[TOP_KEY]), np.uint64(integers[TOP_CUT])
    rest = np.uint64(integers[KEY]), np.uint64(integers[CUT])
    return _Rule(integers[KIND], reals[MU], *top, *rest, reals[REST_WEIGHT])


@on_device
def _weight_of(rule: Any, score: Any, row: Any) -> Any:
    """The weight of a row, 0 where it is not drawn; see the rules of `draws`."""
    if rule.kind == POISSON:
        wide = np.float64(score)
        if wide >= rule.mu and wide > 0.0:
            return 1.0
        u = _uniform_from_bits(_row_bits(rule.key, row))
        return rule.mu / wide if wide > 0.0 and times(u, rule.mu) < wide else 0.0
    if rule.kind == TOP_AND_REST and _score_key(rule.top_key, score, row) >= rule.top_cut:
        return 1.0
    return rule.weight if _row_bits(rule.key, row) <= rule.cut else 0.0


@kernel
def draw(scores: Any, rows: Any, weights: Any, reals: Any, integers: Any) -> None:
    """Write the rows that are drawn, a tile after the other, with their weights."""
    n, largest, size, own = scores.shape[0], 0.0, ROWS_AT_ONCE * threads(), own_reals()
    offset, rule = np.uint64(integers[OFFSET]), _rule_of(reals, integers)
    for tile in range(block(), (n + size - 1) // size, blocks()):
        first, drawn, count = tile * size + thread(), np.int64(0), np.int64(0)
        for u in range(ROWS_AT_ONCE):
            own[u] = scores[min(first + u * threads(), n - 1)]
        for u in range(ROWS_AT_ONCE):
            i = first + u * threads()
            own[u] = _weight_of(rule, np.float32(own[u]), offset + np.uint64(i))
            if i < n and own[u] > 0.0:
                drawn, count = drawn | (np.int64(1) << u), count + 1
        before, total = scan_of_block(count)
        at = np.int64(0)
        if thread() == 0:
            at = np.int64(add(integers, N_DRAWN, total))
        at = share_of_block(at) + before
        for u in range(ROWS_AT_ONCE):
            if (drawn >> u) & 1:
                rows[at], weights[at] = first + u * threads(), own[u]
                largest, at = max(largest, own[u]), at + 1
    raise_by_block(reals, LARGEST_WEIGHT, largest)


@on_device
def _sum_scale(largest: Any, n: Any) -> Any:
    """`fixedpoint.sum_scale` of n > 0 rows of positive weight."""
    x = min(_TWO_62 / n, _TWO_52) / largest
    return min(max(power_of_two(x), _LEAST_POWER), _LARGEST_POWER)


@kernel
def settle_draw(g: Any, h: Any, rows: Any, weights: Any, reals: Any, integers: Any) -> None:
    """Rows of weight 1, fixed-point Σ w and Σ w²; the largest w |g| and w h."""
    certain = total = squared = np.int64(0)
    largest_g = largest_h = 0.0
    n, heaviest = integers[N_DRAWN], reals[LARGEST_WEIGHT]
    scale, scale_squared = _sum_scale(heaviest, n), _sum_scale(times(heaviest, heaviest), n)
    own, drawn = own_rows(), own_reals()
    for first in batches(n):
        for u in range(ROWS_AT_ONCE):
            j = min(nth(first, u), n - 1)
            own[u], drawn[u] = rows[j], weights[j] if nth(first, u) < n else 0.0
        for u in range(ROWS_AT_ONCE):
            certain += 1 if drawn[u] == 1.0 else 0
            total += nearest(times(drawn[u], scale))
            squared += nearest(times(times(drawn[u], drawn[u]), scale_squared))
        for k in range(g.shape[0]):
            for u in range(ROWS_AT_ONCE):
                largest_g = max(largest_g, abs(times(drawn[u], g[k, own[u]])))
                largest_h = max(largest_h, times(drawn[u], h[k, own[u]]))
    add_of_block(integers, N_CERTAIN, certain)
    add_of_block(integers, SUM_WEIGHT, total)
    add_of_block(integers, SUM_SQUARED, squared)
    raise_by_block(reals, LARGEST_WG, largest_g)
    raise_by_block(reals, LARGEST_WH, largest_h)


# numbers of packed rows: scales; and, after OFFSET, what is given and found
ROUNDING_KEY, OUTPUT, N_ROWS, COUNT_BITS, FIRST_WORD, SECOND_WORD = map(np.int64, range(1, 7))


@kernel
def pack_rows(
    g: Any,
    h: Any,
    rows: Any,
    weights: Any,
    words: Any,
    whole_bins: Any,
    bins: Any,
    reals: Any,
    integers: Any,
) -> None:
    """Quantise weighted gradients, a word a row, and add up their pairs; see `fixedpoint`.

    With no `rows`, all of them with weight 1; bins of others are put side by side.
    """
    key, offset = np.uint64(integers[ROUNDING_KEY]), np.uint64(integers[OFFSET])
    bits, k = integers[COUNT_BITS], integers[OUTPUT]
    by_g, by_h, by_w = reals[0], reals[1], reals[2]
    first = second = np.int64(0)
    for j in each(integers[N_ROWS]):
        i, w = np.int64(j), 1.0
        if rows.shape[0] > 0:
            i, w = np.int64(rows[j]), weights[j]
            for at in range(bins.shape[1]):
                bins[j, at] = whole_bins[i, at]
        u = _uniform_from_bits(_row_bits(key, offset + np.uint64(i)))
        gradient = _rounded(times(times(w, g[k, i]), by_g), u)
        hessian = _rounded(times(times(w, h[k, i]), by_h), u)
        word = (gradient << HALF) + (hessian << QUARTER) + _rounded(times(w, by_w), u)
        words[j] = word
        more_first, more_second = _pair_of(word, bits)
        first, second = first + more_first, second + more_second
    add_of_block(integers, FIRST_WORD, first)
    add_of_block(integers, SECOND_WORD, second)


# --- bins ---------------------------------------------------------------------------------------

BINS_OF_WORD = 8
"""Bins of a row that lie in one uint64."""


@kernel
def lay_out(source: Any, bins: Any) -> None:
    """Bins of rows, eight to a word."""
    n_features = source.shape[1]
    for i in each(source.shape[0]):
        for at in range(bins.shape[1]):
            word = np.int64(0)
            for f in range(BINS_OF_WORD * at, min(BINS_OF_WORD * (at + 1), n_features)):
                word |= np.int64(source[i, f]) << (8 * (f % BINS_OF_WORD))
            bins[i, at] = word


# --- losses -------------------------------------------------------------------------------------


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


LARGEST_LOSS = ODD = SUM = np.int64(0)


def _losses_by(loss: Any) -> Any:
    """A kernel from the loss of a row."""

    @kernel
    def compute(y: Any, score: Any, weight: Any, out: Any, reals: Any, integers: Any) -> None:
        largest, odd = 0.0, np.int64(0)
        for i in each(out.shape[0]):
            found = loss(y, score, i)
            if weight.shape[0] > 0:
                found = times(found, weight[i])
            out[i] = found
            if found == found:
                largest = max(largest, abs(found))
            else:
                odd = np.int64(1)
        raise_by_block(reals, LARGEST_LOSS, largest)
        add_of_block(integers, ODD, odd)

    return compute


LOSSES = {"logistic": _losses_by(_logistic_of), "softmax": _losses_by(_softmax_of)}
"""By the names that metrics have for their kernels; the largest loss, and whether one is odd."""


@kernel
def fixed_point_sum(values: Any, reals: Any, integers: Any) -> None:
    """Sum of the nearest integers of the numbers times the first of `reals`."""
    total = np.int64(0)
    for i in each(values.shape[0]):
        total += nearest(times(values[i], reals[0]))
    add_of_block(integers, SUM, total)
