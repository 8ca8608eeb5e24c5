"""Kernels: packed histograms of a node's rows.

A row's two packed words are added to one entry for each feature; the kernels do not
know what the words mean. For all features a row's bins lie side by side (28 features
are half a cache line); for a few features of many rows columns are read, which stay
in the cache from node to node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.backends.cpu.machine import add_pair, prefetch
from mvsboost.jit import inlined, twice

AHEAD = 8
"""Rows that are fetched ahead: the rows of a node lie apart, and each costs a cache line."""

_CHUNK = 512  # rows whose words stay in the first-level cache while columns pass over them
_ONE = np.uint64(1)


def _add_rows(
    bins: Any, words: Any, order: Any, features: Any, offsets: Any, histogram: Any
) -> None:
    """Add the rows named in `order` to a histogram of shape (total bins, 2)."""
    flat, all_bins, all_words = histogram.reshape(-1), bins.reshape(-1), words.reshape(-1)
    n_rows, n_features, width = order.shape[0], features.shape[0], np.uint64(bins.shape[1])
    for j in range(n_rows):
        soon = np.uint64(order[min(j + AHEAD, n_rows - 1)])
        prefetch(all_bins, soon * width)
        prefetch(all_words, soon << _ONE)
        row = np.uint64(order[j])
        first, second = all_words[row << _ONE], all_words[(row << _ONE) + _ONE]
        for f in range(n_features):
            value = np.uint64(all_bins[row * width + np.uint64(features[f])])
            add_pair(flat, (np.uint64(offsets[f]) + value) << _ONE, first, second)


add_rows, add_rows_inlined = twice(_add_rows)


@inlined
def add_columns_inlined(
    columns: Any, words: Any, order: Any, features: Any, offsets: Any, histogram: Any
) -> None:
    """The same from bins by column, (n_features, n_rows)."""
    flat, all_words = histogram.reshape(-1), words.reshape(-1)
    for start in range(0, order.shape[0], _CHUNK):
        part = order[start : start + _CHUNK]
        last = part.shape[0] - 1
        for f in range(features.shape[0]):
            column, offset = columns[features[f]], np.uint64(offsets[f])
            for j in range(part.shape[0]):
                if f == 0:
                    prefetch(all_words, np.uint64(part[min(j + AHEAD, last)]) << _ONE)
                row = np.uint64(part[j])
                first, second = all_words[row << _ONE], all_words[(row << _ONE) + _ONE]
                add_pair(flat, (offset + np.uint64(column[row])) << _ONE, first, second)
