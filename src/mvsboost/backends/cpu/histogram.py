"""Kernel: packed histograms of a node's rows.

A row's bins lie side by side (28 features are half a cache line), and its two
packed words are added to one entry for each feature. The kernel does not know
what the words mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.jit import twice


def _add_rows(
    bins: Any, words: Any, order: Any, features: Any, offsets: Any, histogram: Any
) -> None:
    """Add the rows named in `order` to a histogram of shape (total bins, 2)."""
    flat = histogram.reshape(-1)
    n_features = features.shape[0]
    for j in range(order.shape[0]):
        i = np.uint64(order[j])
        first, second = words[i, 0], words[i, 1]
        for f in range(n_features):
            entry = (
                np.uint64(offsets[f]) + np.uint64(bins[i, np.uint64(features[f])])
            ) << np.uint64(1)
            flat[entry] += first
            flat[entry + np.uint64(1)] += second


add_rows, add_rows_inlined = twice(_add_rows)
