"""Kernels over the rows of trees: histograms and partition of nodes, leaves, sums over leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.backends.cuda.device import (
    add,
    bits_of_float32,
    each,
    integers,
    kernel,
    nearest,
    on_device,
    times,
)
from mvsboost.backends.messages import DIGIT_BITS
from mvsboost.kernels import histogram

_pair_of = integers(histogram.pair_of)

# columns of a tree's nodes on the device
FEATURE, THRESHOLD, MISSING_BIN, MISSING_LEFT, CATEGORIES, LEFT = range(6)
N_COLUMNS = 6


@kernel
def add_nodes(
    bins: Any,
    rows: Any,
    words: Any,
    bits: Any,
    node: Any,
    slot_of_node: Any,
    features: Any,
    offsets: Any,
    out: Any,
) -> None:
    """Add members to the histograms of their nodes, each of features of its own.

    `slot_of_node` says which of the histograms that is, or -1.
    """
    for j in each(words.shape[0]):
        slot = slot_of_node[node[j]]
        if slot < 0:
            continue
        i = np.int64(rows[j]) if rows.shape[0] > 0 else np.int64(j)
        first, second = _pair_of(words[j], bits)
        for k in range(features.shape[1]):
            entry = offsets[slot, k] + bins[i, features[slot, k]]
            add(out, (slot, entry, 0), first)
            add(out, (slot, entry, 1), second)


@kernel
def partition(
    bins: Any, rows: Any, node: Any, split_of_node: Any, splits: Any, goes_left: Any
) -> None:
    """Send members of split nodes to the children; `splits` has the feature, left and right."""
    for j in each(node.shape[0]):
        split = split_of_node[node[j]]
        if split >= 0:
            i = np.int64(rows[j]) if rows.shape[0] > 0 else np.int64(j)
            side = goes_left[split, bins[i, splits[split, 0]]]
            node[j] = splits[split, 1] if side else splits[split, 2]


# --- finished trees -----------------------------------------------------------------------------


@on_device
def _goes_left(nodes: Any, sets: Any, node: Any, value: Any) -> Any:
    among = nodes[node, CATEGORIES]
    if among >= 0:
        return (sets[among, value >> 5] >> np.uint32(value & 31)) & np.uint32(1) != 0
    if value == nodes[node, MISSING_BIN]:
        return nodes[node, MISSING_LEFT] != 0
    return value <= nodes[node, THRESHOLD]


@kernel
def find_leaves(columns: Any, nodes: Any, sets: Any, leaf: Any) -> None:
    """The leaf of every row."""
    for i in each(leaf.shape[0]):
        node = np.int64(0)
        while nodes[node, FEATURE] >= 0:
            value = np.int64(columns[nodes[node, FEATURE], i])
            left = nodes[node, LEFT]  # children come in pairs
            node = np.int64(left if _goes_left(nodes, sets, node, value) else left + 1)
        leaf[i] = node


@kernel
def sum_leaves(leaf: Any, rows: Any, weights: Any, g: Any, h: Any, scales: Any, out: Any) -> None:
    """Fixed-point Σ w g, Σ w h and Σ w of each leaf; with no `rows`, of all with weight 1."""
    n = rows.shape[0] if rows.shape[0] > 0 else leaf.shape[0]
    for j in each(n):
        i, w = np.int64(j), 1.0
        if rows.shape[0] > 0:
            i, w = np.int64(rows[j]), weights[j]
        add(out, (leaf[i], 0), nearest(times(times(w, g[i]), scales[0])))
        add(out, (leaf[i], 1), nearest(times(times(w, h[i]), scales[1])))
        add(out, (leaf[i], 2), nearest(times(w, scales[2])))


@kernel
def add_values(leaf: Any, value: Any, score: Any) -> None:
    """Add the value of its leaf to the score of each row."""
    for i in each(leaf.shape[0]):
        score[i] += value[leaf[i]]


@kernel
def count_residuals(
    leaf: Any, y: Any, score: Any, weight: Any, prefix: Any, known_bits: Any, scale: Any, out: Any
) -> None:
    """Fixed-point weights of rows by the next digit of their residual; see `residual_key`."""
    for i in each(leaf.shape[0]):
        bits = np.int64(bits_of_float32(np.float32(y[i] - score[i])))
        key = bits ^ (np.int64(0xFFFFFFFF) if bits >> 31 else np.int64(0x80000000))
        if key >> (32 - known_bits) == prefix[leaf[i]]:
            digit = (key >> (32 - known_bits - DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1)
            w = weight[i] if weight.shape[0] > 0 else 1.0
            add(out, (leaf[i], digit), nearest(times(w, scale)))
