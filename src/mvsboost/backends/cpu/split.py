"""Kernels: the best split of each feature, read off a packed histogram.

Scores follow METHOD: a leaf with sums G, H scores G² / (H + l2), and the gain of
a split is the score of its two leaves less that of their parent. Where monotone
constraints bound a leaf's value v, its score is −(2 G v + (H + l2) v²), which is
the same number at the unbounded optimum.

Sums over bins are sums of packed words, so they are exact; only the score is
floating-point, and it is computed here alone, whatever backend the histogram
came from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.dtypes import TABLE
from mvsboost.fixedpoint import HALF
from mvsboost.jit import inlined, twice

CATEGORY_SUPPORT = 10.0
"""Rows (by weight) under which a category is not moved on its own, and rows of average
hessian that smooth its gradient ratio: a ratio of few rows is mostly noise."""

SMALLEST_GAIN = 1e-10
"""Gain, relative to the parent's score, under which a split is rounding noise."""

_LOW = np.int64(0xFFFFFFFF)

GRADIENT, HESSIAN, WEIGHT = 0, 1, 2
"""Units in the array `units`: the real value of one step of each fixed-point field."""

L2, MIN_WEIGHT, MIN_HESSIAN, MIN_COUNT, LOWER, UPPER = 0, 1, 2, 3, 4, 5
"""Limits in the array `limits`."""


@inlined
def _score(gradient: Any, hessian: Any, limits: Any) -> Any:
    denominator = hessian + limits[L2]
    if denominator <= 0.0:
        return 0.0
    value = -gradient / denominator
    bounded = min(max(value, limits[LOWER]), limits[UPPER])
    if bounded == value:
        return gradient * gradient / denominator
    return -(2.0 * gradient * bounded + denominator * bounded * bounded)


@inlined
def _value(gradient: Any, hessian: Any, limits: Any) -> Any:
    denominator = hessian + limits[L2]
    value = -gradient / denominator if denominator > 0.0 else 0.0
    return min(max(value, limits[LOWER]), limits[UPPER])


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
def _gain(
    a0: Any, a1: Any, b0: Any, b1: Any, parent: float, units: Any, bits: Any, limits: Any, sign: Any
) -> Any:
    """Gain of leaves with packed words a and b over a parent's score; -inf if not allowed."""
    mask = (np.int64(1) << bits) - np.int64(1)
    if min(a0 & mask, b0 & mask) < limits[MIN_COUNT]:
        return -np.inf
    if min(a1 & _LOW, b1 & _LOW) * units[WEIGHT] < limits[MIN_WEIGHT]:
        return -np.inf
    ga, gb = (a0 >> bits) * units[GRADIENT], (b0 >> bits) * units[GRADIENT]
    ha, hb = (a1 >> HALF) * units[HESSIAN], (b1 >> HALF) * units[HESSIAN]
    if min(ha, hb) < limits[MIN_HESSIAN]:
        return -np.inf
    if sign != 0 and sign * (_value(gb, hb, limits) - _value(ga, ha, limits)) < 0.0:
        return -np.inf
    return _score(ga, ha, limits) + _score(gb, hb, limits) - parent


@inlined
def _free_gains(
    first: Any,
    second: Any,
    n: Any,
    total: Any,
    parent: Any,
    units: Any,
    bits: Any,
    limits: Any,
    out: Any,
) -> None:
    """`_gain` of n left sides where nothing bounds the values: no branch, so it vectorises."""
    mask = (np.int64(1) << bits) - np.int64(1)
    unit_g, unit_h, unit_w = units[GRADIENT], units[HESSIAN], units[WEIGHT]
    l2, min_weight, min_hessian = limits[L2], limits[MIN_WEIGHT], limits[MIN_HESSIAN]
    min_count, total0, total1 = np.int64(limits[MIN_COUNT]), total[0], total[1]
    for t in range(n):
        a0, a1 = first[t], second[t]
        b0, b1 = total0 - a0, total1 - a1
        ga, gb = (a0 >> bits) * unit_g, (b0 >> bits) * unit_g
        ha, hb = (a1 >> HALF) * unit_h, (b1 >> HALF) * unit_h
        wa, wb = (a1 & _LOW) * unit_w, (b1 & _LOW) * unit_w
        da, db = ha + l2, hb + l2
        score_a = ga * ga / da if da > 0.0 else 0.0
        score_b = gb * gb / db if db > 0.0 else 0.0
        allowed = ((a0 & mask) >= min_count) & ((b0 & mask) >= min_count)
        allowed &= (wa >= min_weight) & (wb >= min_weight)
        allowed &= (ha >= min_hessian) & (hb >= min_hessian)
        out[t] = score_a + score_b - parent if allowed else -np.inf


@inlined
def _bounded_gains(
    first: Any,
    second: Any,
    n: Any,
    total: Any,
    parent: Any,
    units: Any,
    bits: Any,
    limits: Any,
    sign: Any,
    out: Any,
) -> None:
    for t in range(n):
        a0, a1 = first[t], second[t]
        rest0, rest1 = total[0] - a0, total[1] - a1
        out[t] = _gain(a0, a1, rest0, rest1, parent, units, bits, limits, sign)


@inlined
def _numeric(
    histogram: Any,
    n_bins: Any,
    total: Any,
    parent: Any,
    units: Any,
    bits: Any,
    limits: Any,
    sign: Any,
    left: Any,
    sums: Any,
    gains: Any,
) -> Any:
    """Best threshold t (left: bin <= t) and side of missing values; words of the left leaf."""
    m0, m1 = histogram[n_bins, 0], histogram[n_bins, 1]
    sides = 2 if m0 != 0 or m1 != 0 else 1
    n = n_bins - 2 + sides
    p0 = p1 = np.int64(0)
    for t in range(n):
        p0 += histogram[t, 0]
        p1 += histogram[t, 1]
        sums[0, 0, t], sums[0, 1, t] = p0, p1
        sums[1, 0, t], sums[1, 1, t] = p0 + m0, p1 + m1
    free = sign == 0 and limits[LOWER] == -np.inf and limits[UPPER] == np.inf
    for side in range(sides):
        first, second, out = sums[side, 0], sums[side, 1], gains[side]
        if free:
            _free_gains(first, second, n, total, parent, units, bits, limits, out)
        else:
            _bounded_gains(first, second, n, total, parent, units, bits, limits, sign, out)
    best, threshold, missing_left = -np.inf, np.int64(0), np.int64(0)
    for t in range(n):
        for side in range(sides):
            if gains[side, t] > best:
                best, threshold, missing_left = gains[side, t], np.int64(t), np.int64(side)
    if best > -np.inf:
        left[0], left[1] = sums[missing_left, 0, threshold], sums[missing_left, 1, threshold]
        if sides == 1:
            # a missing value not seen here follows the larger side
            missing_left = np.int64(2 * (left[1] & _LOW) >= (total[1] & _LOW))
    return best, threshold, missing_left


@inlined
def _sort_categories(
    histogram: Any, n_bins: Any, total: Any, units: Any, bits: Any, order: Any
) -> Any:
    """Categories with support in order of gradient over smoothed hessian; returns how many."""
    ratio = np.empty(n_bins + 1)
    weight = (total[1] & _LOW) * units[WEIGHT]
    smoothing = CATEGORY_SUPPORT * (total[1] >> HALF) * units[HESSIAN] / max(weight, 1.0)
    n = 0
    for c in range(n_bins + 1):
        if (histogram[c, 1] & _LOW) * units[WEIGHT] < CATEGORY_SUPPORT:
            continue
        gradient = (histogram[c, 0] >> bits) * units[GRADIENT]
        hessian = (histogram[c, 1] >> HALF) * units[HESSIAN]
        value = gradient / max(hessian + smoothing, 1e-300)
        j = n
        while j > 0 and ratio[j - 1] > value:
            ratio[j], order[j] = ratio[j - 1], order[j - 1]
            j -= 1
        ratio[j], order[j] = value, c
        n += 1
    return n


@inlined
def _categorical(
    histogram: Any,
    n_bins: Any,
    total: Any,
    parent: float,
    units: Any,
    bits: Any,
    limits: Any,
    left: Any,
) -> Any:
    """Best set of categories to go left: the first t + 1 of the sorted ones, from either end."""
    order = np.empty(n_bins + 1, np.int64)
    n = _sort_categories(histogram, n_bins, total, units, bits, order)
    best, threshold, from_end = -np.inf, 0, 0
    for end in range(2):
        p0 = p1 = np.int64(0)
        for t in range(n):
            c = order[n - 1 - t] if end == 1 else order[t]
            p0 += histogram[c, 0]
            p1 += histogram[c, 1]
            gain = _gain(
                p0, p1, total[0] - p0, total[1] - p1, parent, units, bits, limits, np.int64(0)
            )
            if gain > best:
                best, threshold, from_end = gain, t, end
                left[0], left[1] = p0, p1
    return best, threshold, from_end


def _best_splits(
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
    lefts: Any,
) -> None:
    """Best split of each feature: gain, threshold, side, and the words of its left leaf.

    `side` says whether missing values go left (numeric features) or whether the set is
    taken from the upper end of the sorted categories (categorical ones).
    """
    gradient, hessian = (total[0] >> bits) * units[GRADIENT], (total[1] >> HALF) * units[HESSIAN]
    parent = _score(gradient, hessian, limits)
    sums, side_gains = np.empty((2, 2, TABLE), np.int64), np.empty((2, TABLE))
    for f in range(offsets.shape[0] - 1):
        part = histogram[offsets[f] : offsets[f + 1]]
        n_bins = part.shape[0] - 1
        if categorical[f]:
            gain, threshold, side = _categorical(
                part, n_bins, total, parent, units, bits, limits, lefts[f]
            )
        else:
            gain, threshold, side = _numeric(
                part,
                n_bins,
                total,
                parent,
                units,
                bits,
                limits,
                np.int64(monotone[f]),
                lefts[f],
                sums,
                side_gains,
            )
        gains[f], thresholds[f], sides[f] = gain, threshold, side


best_splits, best_splits_inlined = twice(_best_splits)


def _category_set(
    histogram: Any, total: Any, units: Any, bits: Any, threshold: int, from_end: int, table: Any
) -> None:
    """Mark the bins of the left set that `best_splits` chose for a categorical feature."""
    n_bins = histogram.shape[0] - 1
    order = np.empty(n_bins + 1, np.int64)
    n = _sort_categories(histogram, n_bins, total, units, bits, order)
    for t in range(threshold + 1):
        c = order[n - 1 - t] if from_end == 1 else order[t]
        table[c] = 1


category_set, category_set_inlined = twice(_category_set)
