"""Kernels: a forest over binned rows.

The trees of a forest lie one after another in shared arrays; children are
numbered within the whole. A block of rows stays in the cache while all trees
pass over it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.runtime.jit import inlined, kernel


@inlined
def leaf_of(bins: Any, i: int, node: int, feature: Any, left: Any, right: Any, sets: Any) -> int:
    """The leaf below a node that row i is in."""
    while feature[node] >= 0:
        bin_ = np.int64(bins[i, feature[node]])
        side = (sets[node, bin_ >> 5] >> np.uint32(bin_ & 31)) & np.uint32(1)
        node = left[node] if side == 1 else right[node]
    return node


@kernel
def add_forest(
    bins: Any,
    roots: Any,
    outputs: Any,
    feature: Any,
    left: Any,
    right: Any,
    sets: Any,
    value: Any,
    start_row: int,
    scores: Any,
) -> None:
    """Add every tree to the scores (n_outputs, n_rows) of binned rows from `start_row` on."""
    block = 512
    for start in range(0, bins.shape[0], block):
        stop = min(start + block, bins.shape[0])
        for t in range(roots.shape[0]):
            k = outputs[t]
            for i in range(start, stop):
                node = leaf_of(bins, i, roots[t], feature, left, right, sets)
                scores[k, start_row + i] += value[node]


@kernel
def find_nodes(
    bins: Any, roots: Any, feature: Any, left: Any, right: Any, sets: Any, out: Any
) -> None:
    """The leaf of every row in every tree, as a node of the whole forest, into out."""
    for i in range(bins.shape[0]):
        for t in range(roots.shape[0]):
            out[i, t] = leaf_of(bins, i, roots[t], feature, left, right, sets)
