"""Kernels: packed histograms of a node's rows.

A row's two packed words are added to one entry for each feature. For all features
a row's bins lie side by side (28 features are half a cache line); for a few features
of many rows columns are read, which stay in the cache from node to node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.exact.fixedpoint import HALF, QUARTER
from mvsboost.runtime.intrinsics import add_pair, copy_items, prefetch, stack_array
from mvsboost.runtime.jit import inlined, kernel_and_inlined

PREFETCH = 8
"""Rows that are fetched ahead: the rows of a node lie apart, and each costs a cache line."""

_CHUNK = 512  # rows whose words stay in the first-level cache while columns pass over them
_pairs = stack_array(np.int64, _CHUNK, 2)
_ONE = np.uint64(1)
_COUNT, _HALF, _QUARTER = np.int64(1), np.int64(HALF), np.int64(QUARTER)
_WEIGHT = (np.int64(1) << _QUARTER) - np.int64(1)
_HESSIAN = _WEIGHT << _QUARTER


@inlined
def pair_of(word: Any, bits: Any) -> Any:
    """The two packed words of a row, from its one; see `fixedpoint`."""
    first = ((word >> _HALF) << bits) + _COUNT
    return first, ((word & _HESSIAN) << _QUARTER) | (word & _WEIGHT)


def _add_rows(
    bins: Any,
    whole: Any,
    drawn: Any,
    words: Any,
    bits: Any,
    order: Any,
    features: Any,
    offsets: Any,
    histogram: Any,
) -> None:
    """Add the rows named in `order` to a histogram of shape (total bins, 2).

    Where `drawn` is not empty `bins` is room: row r is ``whole[drawn[r]]`` still, and is copied
    to ``bins[r]`` on the way, since waiting for memory costs nothing while others are added.
    """
    flat, own_bins = histogram.reshape(-1), bins.reshape(-1)
    fresh = drawn.shape[0] > 0
    all_bins = whole.reshape(-1) if fresh else own_bins
    n_rows, n_features, width = order.shape[0], features.shape[0], np.uint64(bins.shape[1])
    every = n_features == bins.shape[1]  # in order: then they need not be looked up, a sixth less
    for f in range(n_features):
        every = every and features[f] == f
    for j in range(n_rows):
        row, soon = np.uint64(order[j]), np.uint64(order[min(j + PREFETCH, n_rows - 1)])
        first, second = pair_of(words[row], bits)
        prefetch(words, soon)
        start = row * width
        if fresh:
            soon, start = np.uint64(drawn[soon]), np.uint64(drawn[row]) * width
            copy_items(own_bins, row * width, all_bins, start, width)
        prefetch(all_bins, soon * width)
        if every:
            for f in range(n_features):
                entry = np.uint64(offsets[f]) + np.uint64(all_bins[start + np.uint64(f)])
                add_pair(flat, entry << _ONE, first, second)
        else:
            for f in range(n_features):
                value = np.uint64(all_bins[start + np.uint64(features[f])])
                add_pair(flat, (np.uint64(offsets[f]) + value) << _ONE, first, second)


add_rows, add_rows_inlined = kernel_and_inlined(_add_rows)


@inlined
def add_columns_inlined(
    columns: Any, words: Any, bits: Any, order: Any, features: Any, offsets: Any, histogram: Any
) -> None:
    """The same for a few features, from bins by column, (n_features, n_rows).

    Features are added by threes and twos (four are two and two): fewer passes over the rows of
    a block, and their entries are fetched side by side.
    """
    flat, pairs, n = histogram.reshape(-1), _pairs(), features.shape[0]
    for start in range(0, order.shape[0], _CHUNK):
        rows, f = order[start : start + _CHUNK], 0
        for j in range(rows.shape[0]):
            pairs[j, 0], pairs[j, 1] = pair_of(words[np.uint64(rows[j])], bits)
        while f < n:
            a, at_a = columns[features[f]], np.uint64(offsets[f])
            if n - f == 3 or n - f > 4:
                b, at_b = columns[features[f + 1]], np.uint64(offsets[f + 1])
                c, at_c = columns[features[f + 2]], np.uint64(offsets[f + 2])
                for j in range(rows.shape[0]):
                    row, first, second = np.uint64(rows[j]), pairs[j, 0], pairs[j, 1]
                    add_pair(flat, (at_a + np.uint64(a[row])) << _ONE, first, second)
                    add_pair(flat, (at_b + np.uint64(b[row])) << _ONE, first, second)
                    add_pair(flat, (at_c + np.uint64(c[row])) << _ONE, first, second)
                f += 3
            elif n - f > 1:
                b, at_b = columns[features[f + 1]], np.uint64(offsets[f + 1])
                for j in range(rows.shape[0]):
                    row, first, second = np.uint64(rows[j]), pairs[j, 0], pairs[j, 1]
                    add_pair(flat, (at_a + np.uint64(a[row])) << _ONE, first, second)
                    add_pair(flat, (at_b + np.uint64(b[row])) << _ONE, first, second)
                f += 2
            else:
                for j in range(rows.shape[0]):
                    entry = at_a + np.uint64(a[np.uint64(rows[j])])
                    add_pair(flat, entry << _ONE, pairs[j, 0], pairs[j, 1])
                f += 1


def feature_offsets(n_bins: NDArray[np.int64], features: NDArray[np.int64]) -> NDArray[np.int64]:
    """First histogram entry of each feature in a concatenation, and at last their total."""
    offsets = np.zeros(len(features) + 1, np.int64)
    np.cumsum(n_bins[features] + 1, out=offsets[1:])
    return offsets
