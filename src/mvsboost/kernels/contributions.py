"""Kernels: exact SHAP values of a tree, by quadrature over its leaves.

A leaf of value v whose path tests the columns 1..d is a game of d players. Of column j a row
passes all tests (o_j = 1) or not (o_j = 0); without the column a share z_j of the training rows
would pass. The Shapley value of column i in this game is

    v (o_i − z_i) ∫ Π_{j≠i} (z_j (1 − t) + o_j t) dt,  t from 0 to 1,

since ∫ t^k (1 − t)^(d−1−k) dt = k! (d − 1 − k)! / d!. The integrand is a polynomial of degree
d − 1, so Gauss's rule of ⌈d / 2⌉ points is exact. All terms are positive: nothing cancels.

What a leaf adds depends on the row by d bits only, the tests it fails. So it is found once for each
pattern of bits that comes up, and kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.runtime.jit import inlined, kernel

KEPT_COLUMNS = 8
"""Columns on a path up to which every pattern of failed tests has room of its own."""

MOST_COLUMNS = 64
"""Columns that a path may test: bits of a word."""

N_PATTERNS = 1 << KEPT_COLUMNS

_ONE = np.uint64(1)


@inlined
def _fail(bins: Any, row: Any, paths: Any, failed: Any) -> None:
    """A bit for each column of a leaf's path that the row fails a test of, for every leaf.

    Leaves are numbered from left to right; below a node are those from `first` on, and from
    `middle` on those of its right child.
    """
    for leaf in range(paths.value.shape[0]):
        failed[leaf] = 0
    for node in range(paths.feature.shape[0]):
        bin_ = np.int64(bins[row, paths.feature[node]])
        goes_left = (paths.sets[node, bin_ >> 5] >> np.uint32(bin_ & 31)) & np.uint32(1)
        start, stop = paths.middle[node], paths.end[node]
        if goes_left == 0:
            start, stop = paths.first[node], paths.middle[node]
        bit = _ONE << np.uint64(paths.place[node])
        for leaf in range(start, stop):
            failed[leaf] |= bit


@inlined
def _is_impossible(share: Any, d: Any, pattern: Any) -> Any:
    """Whether the row fails a test that no training row fails: the leaf says nothing of it."""
    impossible = False
    for j in range(d):
        impossible |= share[j] == 0.0 and (pattern >> np.uint64(j)) & _ONE != 0
    return impossible


@inlined
def _factors(share: Any, d: Any, pattern: Any, t: Any, factor: Any) -> Any:
    """z_j (1 − t) + o_j t of each column, and their product."""
    product = 1.0
    for j in range(d):
        passed = 1.0 if (pattern >> np.uint64(j)) & _ONE == 0 else 0.0
        factor[j] = share[j] * (1.0 - t) + passed * t
        product *= factor[j]
    return product


@inlined
def _solve(share: Any, d: Any, pattern: Any, value: Any, rule: Any, factor: Any, out: Any) -> None:
    """Shapley values of a leaf's columns under a pattern of failed tests."""
    for i in range(d):
        out[i] = 0.0
    if _is_impossible(share, d, pattern):
        return
    n = (d + 1) // 2
    for q in range(n):
        product = _factors(share, d, pattern, rule[n, 0, q], factor)
        for i in range(d):
            out[i] += rule[n, 1, q] * product / factor[i]
    for i in range(d):
        passed = 1.0 if (pattern >> np.uint64(i)) & _ONE == 0 else 0.0
        out[i] *= value * (passed - share[i])


@kernel
def add_contributions(
    bins: Any,
    paths: Any,
    rule: Any,
    failed: Any,
    factor: Any,
    found: Any,
    kept: Any,
    own: Any,
    out: Any,
) -> None:
    """Add the SHAP values of a tree to `out` (n_rows, n_columns).

    Parameters
    ----------
    bins : uint8 array of shape (n_rows, n_features)
    paths : Paths
        See `model.contributions`.
    rule : float64 array of shape (n, 2, n)
        Points and weights of Gauss's rules on [0, 1], by their number.
    failed : uint64 array of shape (n_leaves,)
        Room, as are the others.
    factor, own : float64 array of shape (MOST_COLUMNS,)
    found : bool array of shape (n_leaves, N_PATTERNS)
        Whether `kept` has the values of a leaf and a pattern.
    kept : float64 array of shape (n_leaves, N_PATTERNS, KEPT_COLUMNS)
    out : float64 array of shape (n_rows, n_columns)
    """
    n_leaves = paths.value.shape[0]
    for leaf in range(n_leaves):
        for pattern in range(N_PATTERNS):
            found[leaf, pattern] = False
    for row in range(bins.shape[0]):
        _fail(bins, row, paths, failed)
        for leaf in range(n_leaves):
            d, pattern = paths.length[leaf], failed[leaf]
            share, columns, value = paths.share[leaf], paths.column[leaf], paths.value[leaf]
            if d > KEPT_COLUMNS:
                _solve(share, d, pattern, value, rule, factor, own)
                for i in range(d):
                    out[row, columns[i]] += own[i]
                continue
            if not found[leaf, pattern]:
                _solve(share, d, pattern, value, rule, factor, kept[leaf, pattern])
                found[leaf, pattern] = True
            for i in range(d):
                out[row, columns[i]] += kept[leaf, pattern, i]


@kernel
def add_interactions(
    bins: Any, paths: Any, rule: Any, failed: Any, factor: Any, own: Any, out: Any
) -> None:
    """Add the SHAP interaction values of a tree to `out` (n_rows, n_columns, n_columns).

    Those of two columns are half of v (o_i − z_i) (o_j − z_j) ∫ Π_{k≠i,j} (z_k (1 − t) + o_k t) dt
    each way; a column with itself has what is left of its SHAP value. Parameters as for
    `add_contributions`.
    """
    for row in range(bins.shape[0]):
        _fail(bins, row, paths, failed)
        for leaf in range(paths.value.shape[0]):
            d, pattern = paths.length[leaf], failed[leaf]
            share, columns, value = paths.share[leaf], paths.column[leaf], paths.value[leaf]
            _solve(share, d, pattern, value, rule, factor, own)
            for i in range(d):
                out[row, columns[i], columns[i]] += own[i]
            if _is_impossible(share, d, pattern):
                continue
            n = d // 2
            for q in range(n):
                product = _factors(share, d, pattern, rule[n, 0, q], factor)
                for i in range(d):
                    passed = 1.0 if (pattern >> np.uint64(i)) & _ONE == 0 else 0.0
                    half = 0.5 * rule[n, 1, q] * value * product * (passed - share[i]) / factor[i]
                    for j in range(d):
                        if i != j:
                            other = 1.0 if (pattern >> np.uint64(j)) & _ONE == 0 else 0.0
                            both = half * (other - share[j]) / factor[j]
                            out[row, columns[i], columns[j]] += both
                            out[row, columns[i], columns[i]] -= both
