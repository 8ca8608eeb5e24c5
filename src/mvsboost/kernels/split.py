"""Kernels: the best split of each feature, read off a packed histogram.

As in docs/method.md, a leaf with sums G, H and value v scores −v (2 G + (H + l2) v) − 2 l1 |v|,
which is G² / (H + l2) unless monotone constraints bound the value or l1 draws it to 0. The gain
of a split is the score of its two leaves less that of their parent.

Sums over bins are sums of packed words, so they are exact; only the score is
floating-point, and it is computed here alone, whatever backend the histogram
came from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.exact.dtypes import TABLE
from mvsboost.exact.fixedpoint import HALF
from mvsboost.exact.numerics import bits_of
from mvsboost.runtime.intrinsics import stack_array
from mvsboost.runtime.jit import inlined, kernel, kernel_and_inlined

CATEGORY_SUPPORT = 10.0
"""Drawn rows under which a category is not moved on its own, and drawn rows of average
hessian that smooth its gradient ratio: a ratio of few rows is mostly noise, and one row
that stands for many is one row."""

CATEGORY_NOISE = 0.2
"""What each of a node's categories takes off the gain of splitting them, as a share of what
chance alone lets one gain: sorted by their own gradients, categories without any meaning
would gain some 0.64 of it each, and a column of many would always seem the best."""

SMALLEST_GAIN = 1e-10
"""Gain, relative to the parent's score, under which a split is rounding noise."""

_LOW = np.int64(0xFFFFFFFF)
_ONE = np.int64(1)
_SIGN, _BUT_SIGN = np.int64(63), np.int64(0x7FFFFFFFFFFFFFFF)
NEVER = np.int64(-0x7FF0000000000001)
"""The rank of a split that is not allowed: that of a gain of -inf."""

_LARGE = float(1 << 40)
_LARGE_L2 = 2.0**400  # products of two such numbers and of sums are finite still

GRADIENT, HESSIAN, WEIGHT = 0, 1, 2
"""Units in the array `units`: the real value of one step of each fixed-point field."""

L2, MIN_SAMPLES_LEAF, MIN_CHILD_WEIGHT, MIN_SAMPLED, LOWER, UPPER, DISPERSION, L1 = range(8)
N_LIMITS = 8
"""Limits in the array `limits`."""

_side_sums, _ranks_of_side = stack_array(np.int64, 2, 2, TABLE), stack_array(np.int64, TABLE)
_category_order, _category_ratios = stack_array(np.int64, TABLE), stack_array(np.float64, TABLE)
bin_list = stack_array(np.uint64, TABLE)
"""Room for a list of bins."""

ALL_BINS = np.int64(-1)
"""The length of a list that stands for all bins."""


@inlined
def drawn_to_zero(gradient: Any, l1: Any) -> Any:
    """A sum of gradients nearer to 0 by l1."""
    if gradient > l1:
        return gradient - l1
    return gradient + l1 if gradient < -l1 else 0.0


@inlined
def _value(gradient: Any, hessian: Any, limits: Any) -> Any:
    """Newton value of a leaf with these sums, within its bounds."""
    lower, upper, denominator = limits[LOWER], limits[UPPER], hessian + limits[L2]
    value = -drawn_to_zero(gradient, limits[L1]) / denominator if denominator > 0.0 else 0.0
    value = lower if value < lower else value
    return upper if value > upper else value


@inlined
def leaf_value(words: Any, units: Any, bits: Any, limits: Any) -> Any:
    """Newton value of a leaf with these packed words, within its bounds."""
    gradient, hessian = (words[0] >> bits) * units[GRADIENT], (words[1] >> HALF) * units[HESSIAN]
    return _value(gradient, hessian, limits)


@inlined
def smallest_gain(words: Any, units: Any, bits: Any, limits: Any) -> Any:
    """Gain that a split of a node with these words must exceed not to be rounding noise."""
    gradient, hessian = (words[0] >> bits) * units[GRADIENT], (words[1] >> HALF) * units[HESSIAN]
    return SMALLEST_GAIN * (gradient * gradient / max(hessian + limits[L2], 1e-300))


@inlined
def _swap_order(bits: Any) -> Any:
    """Bits of a float64 to an integer of the same order among floats.

    A maximum of integers vectorises, one of floats, with its rules for NaN, does not.
    """
    return bits ^ ((bits >> _SIGN) & _BUT_SIGN)


@inlined
def _score(gradient: Any, hessian: Any, limits: Any, value: Any) -> Any:
    size = 2.0 * limits[L1] * abs(value)
    return -value * (2.0 * gradient + (hessian + limits[L2]) * value) - size


@inlined
def split_gain(first: Any, second: Any, total: Any, units: Any, bits: Any, limits: Any) -> Any:
    """Gain of a split with these words on the left, and by how much the right's value is larger."""
    g, h = (total[0] >> bits) * units[GRADIENT], (total[1] >> HALF) * units[HESSIAN]
    # units are powers of two, so the right side's sums are exact differences
    ga, ha = (first >> bits) * units[GRADIENT], (second >> HALF) * units[HESSIAN]
    gb, hb = g - ga, h - ha
    v, va, vb = _value(g, h, limits), _value(ga, ha, limits), _value(gb, hb, limits)
    gain = _score(ga, ha, limits, va) + _score(gb, hb, limits, vb) - _score(g, h, limits, v)
    return gain, vb - va


@inlined
def plain_rank(
    first: Any,
    second: Any,
    g: Any,
    h: Any,
    bits: Any,
    l2: Any,
    min_h: Any,
    least_n: Any,
    most_n: Any,
) -> Any:
    """An integer in the order of the gains of splits of one node, with these words on the left.

    In units of the fields, which are powers of two, so that nothing rounds differently; the
    parent's score is the same for all, and one division serves both sides.
    """
    ga, ha = np.float64(first >> bits), np.float64(second >> HALF)
    gb, hb, n_left = g - ga, h - ha, first & ((_ONE << bits) - _ONE)
    a, b = ha + l2, hb + l2
    score = (ga * ga * b + gb * gb * a) / (a * b)
    allowed = (n_left >= least_n) & (n_left <= most_n) & (ha >= min_h) & (hb >= min_h)
    allowed &= score < np.inf
    return bits_of(score) if allowed else NEVER


@inlined
def bounded_rank(
    first: Any,
    second: Any,
    total: Any,
    units: Any,
    bits: Any,
    limits: Any,
    sign: Any,
    min_h: Any,
    least_n: Any,
    most_n: Any,
) -> Any:
    """The same where values are bounded, or drawn to zero."""
    gain, rise = split_gain(first, second, total, units, bits, limits)
    n_left, h = first & ((_ONE << bits) - _ONE), np.float64(total[1] >> HALF)
    ha = np.float64(second >> HALF)
    allowed = (n_left >= least_n) & (n_left <= most_n) & (ha >= min_h) & (h - ha >= min_h)
    allowed &= (sign * rise >= 0.0) & (gain == gain)
    return _swap_order(bits_of(gain)) if allowed else NEVER


@inlined
def is_bounded(units: Any, limits: Any, sign: Any) -> Any:
    """Whether splits are ranked by `bounded_rank`, not by `plain_rank`."""
    l2, min_h = limits[L2] / units[HESSIAN], limits[MIN_CHILD_WEIGHT] / units[HESSIAN]
    bounded = limits[LOWER] > -np.inf or limits[UPPER] < np.inf or sign != 0.0
    return bounded or limits[L1] > 0.0 or not (l2 + min_h > 0.0 and l2 < _LARGE_L2)


@inlined
def _rank(
    first: Any,
    second: Any,
    total: Any,
    units: Any,
    bits: Any,
    limits: Any,
    sign: Any,
    out: Any,
) -> None:
    """Ranks of candidates with these words on the left, `NEVER` where one is not allowed.

    Without a branch, so that it vectorises.
    """
    least_n = np.int64(limits[MIN_SAMPLED])
    most_n = (total[0] & ((_ONE << bits) - _ONE)) - least_n
    l2, min_h = limits[L2] / units[HESSIAN], limits[MIN_CHILD_WEIGHT] / units[HESSIAN]
    g, h = np.float64(total[0] >> bits), np.float64(total[1] >> HALF)
    if is_bounded(units, limits, sign):
        for t in range(first.shape[0]):
            out[t] = bounded_rank(
                first[t], second[t], total, units, bits, limits, sign, min_h, least_n, most_n
            )
        return
    for t in range(first.shape[0]):
        out[t] = plain_rank(first[t], second[t], g, h, bits, l2, min_h, least_n, most_n)


@inlined
def drawn_rows(words: Any, bits: Any) -> Any:
    """Rows of these words, of a node that has some."""
    return np.float64(max(words[0] & ((np.int64(1) << bits) - np.int64(1)), 1))


@inlined
def category_smoothing(total: Any, units: Any, bits: Any) -> Any:
    """Hessian that is added to that of a category, in a node with these words."""
    return CATEGORY_SUPPORT * ((total[1] >> HALF) * units[HESSIAN]) / drawn_rows(total, bits)


@inlined
def category_ratio(words: Any, smoothing: Any, units: Any, bits: Any) -> Any:
    """Gradient over smoothed hessian of a category."""
    gradient, hessian = (words[0] >> bits) * units[GRADIENT], (words[1] >> HALF) * units[HESSIAN]
    return gradient / max(hessian + smoothing, 1e-300)


@inlined
def _sort_categories(
    histogram: Any, listed: Any, n_listed: Any, total: Any, units: Any, bits: Any, order: Any
) -> Any:
    """Categories with support in order of gradient over smoothed hessian; returns how many."""
    ratio = _category_ratios()
    count, n, n_sorted = (np.int64(1) << bits) - np.int64(1), np.uint64(0), np.int64(0)
    if n_listed == ALL_BINS:
        for c in range(np.uint64(histogram.shape[0])):
            order[n] = c
            n += np.uint64(histogram[c, 0] & count >= CATEGORY_SUPPORT)
    else:
        for i in range(np.uint64(n_listed)):
            order[n] = listed[i]
            n += np.uint64(histogram[listed[i], 0] & count >= CATEGORY_SUPPORT)
    smoothing = category_smoothing(total, units, bits)
    for i in range(n):
        c = order[i]
        value, j = category_ratio(histogram[c], smoothing, units, bits), n_sorted
        while j > 0 and ratio[j - 1] > value:
            ratio[j], order[j] = ratio[j - 1], order[j - 1]
            j -= 1
        ratio[j], order[j] = value, c
        n_sorted += 1
    return n_sorted


@inlined
def _sum_categories(part: Any, order: Any, n: Any, side: Any, first: Any, second: Any) -> None:
    """Sums of the first 1, 2, ... n of the sorted categories, or of the last ones."""
    p0 = p1 = np.int64(0)
    for t in range(n):
        c = order[n - 1 - t] if side == 1 else order[t]
        p0 += part[c, 0]
        p1 += part[c, 1]
        first[t], second[t] = p0, p1


@inlined
def _sum_bins(
    part: Any, listed: Any, n_listed: Any, n: Any, order: Any, first: Any, second: Any
) -> Any:
    """Sums of the bins up to each of the first n that has rows, and which; returns how many."""
    p0 = p1 = np.int64(0)
    at = np.uint64(0)
    if n_listed == ALL_BINS:
        for t in range(np.uint64(n)):
            p0 += part[t, 0]
            p1 += part[t, 1]
            # a bin without rows is written over: a cut behind it is the one before it
            first[at], second[at], order[at] = p0, p1, t
            at += np.uint64(1) if part[t, 0] != 0 or t == 0 else np.uint64(0)
    else:
        while at < n_listed and listed[at] < n:
            p0 += part[listed[at], 0]
            p1 += part[listed[at], 1]
            first[at], second[at], order[at] = p0, p1, listed[at]
            at += np.uint64(1)
    return np.int64(at)


@inlined
def _between(second: Any, n: Any, least: Any, most: Any) -> Any:
    """First of the cuts whose weight on the left is allowed, and the end."""
    low, high = np.int64(0), n
    while low < high and second[low] & _LOW < least:
        low += 1
    while low < high and second[high - 1] & _LOW > most:
        high -= 1
    return low, high


@inlined
def _sum_side(
    part: Any,
    listed: Any,
    n_listed: Any,
    categorical: Any,
    n: Any,
    side: Any,
    cuts: Any,
    order: Any,
    sums: Any,
    full: Any,
) -> Any:
    """Sums on the left of each cut, for one of the sides; returns how many cuts there are.

    `cuts` is what it returned for the side before, `n` the number of bins to cut behind, or of
    sorted categories.
    """
    first, second = sums[side, 0], sums[side, 1]
    if full is not None and categorical:
        _sum_categories(part, order, n, side, first, second)
        return np.int64(n)
    if side == 0:
        return _sum_bins(part, listed, n_listed, n, order, first, second)
    missing0, missing1 = part[part.shape[0] - 1, 0], part[part.shape[0] - 1, 1]
    for i in range(cuts):  # the same cuts, with missing values on the left
        first[i] = sums[0, 0, i] + missing0
        second[i] = sums[0, 1, i] + missing1
    return cuts


@inlined
def _first_of_largest(ranks: Any, n: Any, best: Any) -> Any:
    """Place of the largest of n ranks, the first of equal ones; -1 if none exceeds `best`."""
    largest, place = best, np.int64(0)
    for i in range(n):
        largest = max(largest, ranks[i])
    if largest == best:
        return np.int64(-1)
    while ranks[place] != largest:
        place += 1
    return place


@inlined
def gain_by_chance(n: Any, total: Any, units: Any, bits: Any, limits: Any) -> Any:
    """What splitting n categories must gain to be more than noise; see `CATEGORY_NOISE`."""
    weight = (total[1] & _LOW) * units[WEIGHT] / drawn_rows(total, bits)
    return n * (CATEGORY_NOISE * limits[DISPERSION] * weight)


@inlined
def best_split_of(
    part: Any,
    listed: Any,
    n_listed: Any,
    categorical: Any,
    monotone: Any,
    total: Any,
    units: Any,
    bits: Any,
    limits: Any,
    f: Any,
    gains: Any,
    thresholds: Any,
    sides: Any,
    full: Any,
) -> None:
    """Best split of feature f, with the histogram `part`: gain, threshold t and side.

    Numeric features send bins up to t to the left, and missing values too if the side is 1;
    categorical ones t + 1 of the sorted categories, the last ones if the side is 1. Bins that
    are not `listed` have no rows; the list ascends and begins with 0, or is `ALL_BINS` long.
    `full` is None where no feature is categorical, so that Numba compiles nothing for them.
    """
    sums, ranks, order = _side_sums(), _ranks_of_side(), _category_order()
    # the smallest weight on the left, in units
    least = np.int64(np.ceil(min(limits[MIN_SAMPLES_LEAF] / units[WEIGHT], _LARGE)))
    n_bins = part.shape[0] - 1
    n_sides = 2 if categorical or part[n_bins, 0] != 0 or part[n_bins, 1] != 0 else 1
    n = n_bins - 2 + n_sides
    if full is not None and categorical:
        n = _sort_categories(part, listed, n_listed, total, units, bits, order)
    best, place, chosen, cuts = NEVER, np.int64(0), np.int64(0), np.int64(0)
    for side in range(n_sides):
        if (side == 1 and categorical) and (
            n == 0 or (sums[0, 0, n - 1] == total[0] and sums[0, 1, n - 1] == total[1])
        ):
            break  # nothing besides the sorted categories: the same sets, left and right
        cuts = _sum_side(part, listed, n_listed, categorical, n, side, cuts, order, sums, full)
        low, high = _between(sums[side, 1], cuts, least, (total[1] & _LOW) - least)
        first, second, sign = sums[side, 0, low:high], sums[side, 1, low:high], np.float64(monotone)
        _rank(first, second, total, units, bits, limits, sign, ranks)
        where = _first_of_largest(ranks, high - low, best)
        if where >= 0:
            best, place, chosen = ranks[where], low + where, np.int64(side)
    gains[f], thresholds[f] = -np.inf, 0
    if best > NEVER:
        first_word, second_word = sums[chosen, 0, place], sums[chosen, 1, place]
        gain, _ = split_gain(first_word, second_word, total, units, bits, limits)
        gains[f] = gain if gain < np.inf else -np.inf  # next to no hessian in a child
        thresholds[f] = place if categorical else order[place]
        if n_sides == 1:  # a missing value not seen here follows the larger side
            chosen = np.int64(2 * (second_word & _LOW) >= (total[1] & _LOW))
    if full is not None and categorical:
        gains[f] -= gain_by_chance(n, total, units, bits, limits)
    sides[f] = chosen


@kernel
def best_splits(
    histogram: Any,
    offsets: Any,
    categorical: Any,
    monotone: Any,
    total: Any,
    units: Any,
    bits: Any,
    limits: Any,
    gains: Any,
    thresholds: Any,
    sides: Any,
) -> None:
    """Best split of each feature of a histogram; see `best_split_of`."""
    listed = bin_list()
    for f in range(categorical.shape[0]):
        best_split_of(
            histogram[offsets[f] : offsets[f + 1]],
            listed,
            ALL_BINS,
            categorical[f],
            monotone[f],
            total,
            units,
            bits,
            limits,
            f,
            gains,
            thresholds,
            sides,
            True,
        )


def _category_set(
    histogram: Any, total: Any, units: Any, bits: Any, threshold: int, from_end: int, table: Any
) -> None:
    """Mark the bins of the left set that `best_splits` chose for a categorical feature."""
    listed, order = bin_list(), _category_order()
    n = _sort_categories(histogram, listed, ALL_BINS, total, units, bits, order)
    for t in range(threshold + 1):
        c = order[n - 1 - t] if from_end == 1 else order[t]
        table[c] = 1


category_set, category_set_inlined = kernel_and_inlined(_category_set)
