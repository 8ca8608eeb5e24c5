"""Kernels: the leaf of each row, sums over leaves, and the step of the scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.jit import kernel


@kernel
def find_leaves(bins: Any, feature: Any, left: Any, right: Any, goes_left: Any, leaf: Any) -> None:
    """Walk every row from the root to its leaf."""
    for i in range(bins.shape[0]):
        node = 0
        while feature[node] >= 0:
            side = goes_left[node, bins[i, feature[node]]]
            node = left[node] if side == 1 else right[node]
        leaf[i] = node


@kernel
def sum_leaves(leaf: Any, g: Any, h: Any, scales: Any, out: Any) -> None:
    """Fixed-point Σ g, Σ h and the number of rows of each leaf into out (n_nodes, 3)."""
    for i in range(leaf.shape[0]):
        node = np.uint64(leaf[i])
        out[node, 0] += np.int64(np.rint(np.float64(g[i]) * scales[0]))
        out[node, 1] += np.int64(np.rint(np.float64(h[i]) * scales[1]))
        out[node, 2] += 1


@kernel
def add_values(leaf: Any, value: Any, score: Any) -> None:
    """Add each row's leaf value to its score."""
    for i in range(leaf.shape[0]):
        score[i] += value[np.uint64(leaf[i])]


@kernel
def count_residuals(
    leaf: Any, keys: Any, prefix: Any, known_bits: int, digit_bits: int, weight: Any, out: Any
) -> None:
    """Add weights by leaf and by the next digit of the residual's key."""
    mask = (np.int64(1) << digit_bits) - 1
    for i in range(leaf.shape[0]):
        node, key = np.uint64(leaf[i]), np.int64(keys[i])
        if key >> (32 - known_bits) == prefix[node]:
            out[node, (key >> (32 - known_bits - digit_bits)) & mask] += weight[i]
