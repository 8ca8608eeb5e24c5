"""Kernels over rows and nodes: histograms and partition verb by verb, leaves, sums over leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mvsboost.backends.cuda.device import (
    ROWS_AT_ONCE,
    add,
    batches,
    bits_of_float32,
    each,
    kernel,
    meet,
    nearest,
    nth,
    on_device,
    own_reals,
    own_rows,
    shared_ints,
    shared_words,
    thread,
    threads,
    times,
    whole_numbers,
)
from mvsboost.backends.messages import DIGIT_BITS
from mvsboost.kernels import histogram

_pair_of = whole_numbers(histogram.pair_of)


@on_device
def bin_of(bins: Any, row: Any, feature: Any) -> Any:
    """A bin of a row; eight lie in a word."""
    return (bins[row, feature >> 3] >> ((feature & 7) << 3)) & 0xFF


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
    for j in each(node.shape[0]):
        slot = slot_of_node[node[j]]
        if slot >= 0:
            i = np.int64(rows[j]) if rows.shape[0] > 0 else np.int64(j)
            first, second = _pair_of(words[j], bits[0])
            for k in range(features.shape[1]):
                entry = offsets[slot, k] + bin_of(bins, i, features[slot, k])
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
            side = goes_left[split, bin_of(bins, i, splits[split, 0])]
            node[j] = splits[split, 1] if side else splits[split, 2]


# --- finished trees -----------------------------------------------------------------------------

# A node's test in one word. The upper half: the left child, and the bin of missing values; negative
# in leaves. The lower half: the feature, the first bin that goes right, whether missing values go
# left, and whether the bins that do are looked up in a table.
_LEFT, _BOUND, _MISSING_LEFT, _IN_TABLE = 9, 20, 29, 30
_FEATURE_MASK, _BIN_MASK = (1 << 20) - 1, (1 << 9) - 1
MOST_FEATURES, MOST_NODES = 1 << 20, 1 << 22
"""What a test has room for."""

LEAF = np.int64(-1)
_LOW_MASK = np.int64(0xFFFFFFFF)


@on_device
def test_of(left: Any, feature: Any, threshold: Any, missing: Any, side: Any, in_table: Any) -> Any:
    """The test of a node in one word; `LEAF` stands for none."""
    upper = (left << _LEFT) | missing
    lower = feature | ((threshold + 1) << _BOUND) | (side << _MISSING_LEFT)
    return (upper << 32) | lower | (in_table << _IN_TABLE)


@on_device
def _leaf_of(walk: Any, near: Any, i: Any) -> Any:
    node, n_near = np.int32(0), np.int32(near.shape[0])
    test = near[0]
    while test >= 0:
        upper, lower = np.int32(test >> 32), np.int32(test & _LOW_MASK)
        value = np.int32(bin_of(walk.bins, i, lower & _FEATURE_MASK))
        goes_left = value < (lower >> _BOUND) & _BIN_MASK
        if value == upper & _BIN_MASK:
            goes_left = (lower >> _MISSING_LEFT) & 1 != 0
        if lower >> _IN_TABLE:
            goes_left = walk.tables[node, value] != 0
        node = (upper >> _LEFT) + np.int32(0 if goes_left else 1)  # children come in pairs
        test = near[node] if node < n_near else walk.tests[node]
    return node


class Walk(NamedTuple):
    """Where rows find their leaves.

    Attributes
    ----------
    bins : (rows, features / 8)
    tests : (nodes,)
    tables : (nodes, 256)
        Which bins go left; looked at in the tests of categories.
    leaf : (rows,)
        What is found.
    """

    bins: Any
    tests: Any
    tables: Any
    leaf: Any


@kernel
def find_leaves(walk: Any) -> None:
    """The leaf of every row; tests lie near, as many as there is room for."""
    near = shared_words()
    for node in range(thread(), min(walk.tests.shape[0], near.shape[0]), threads()):
        near[node] = walk.tests[node]
    meet()
    for i in each(walk.leaf.shape[0]):
        walk.leaf[i] = _leaf_of(walk, near, i)


@kernel
def pack_tests(nodes: Any, tests: Any) -> None:
    """Tests of a tree that comes from the host; `nodes` has the parts of `test_of`."""
    for node in each(nodes.shape[0]):
        left = nodes[node, 0]
        tests[node] = LEAF
        if left >= 0:
            tests[node] = test_of(
                left, nodes[node, 1], nodes[node, 2], nodes[node, 3], nodes[node, 4], nodes[node, 5]
            )


# numbers of leaf sums, behind three scales
LEAVES_OUTPUT, N_MEMBERS, N_NODES = range(3)


class LeafSums(NamedTuple):
    """What is added up over leaves.

    Attributes
    ----------
    leaf : (rows,)
    rows, weights : (members,)
        With no `rows`, all of them with weight 1.
    g, h : (outputs, rows)
    out : (nodes, 3)
    reals, integers
        Numbers of the program: scales; the output, members, nodes.
    """

    leaf: Any
    rows: Any
    weights: Any
    g: Any
    h: Any
    out: Any
    reals: Any
    integers: Any


@on_device
def _add_near(near: Any, entry: Any, value: Any) -> None:
    """Add an int64 to two int32, which the device does ten times as fast as to one int64."""
    low = (value << 32) >> 32
    before = np.int64(add(near, 2 * entry, np.int32(low))) & _LOW_MASK
    carry = (before + (low & _LOW_MASK)) >> 32
    add(near, 2 * entry + 1, np.int32((value >> 32) + carry))


@kernel
def sum_leaves(of: Any) -> None:
    """Fixed-point Σ w g, Σ w h and Σ w of each leaf; by each block first, if there is room."""
    near = shared_ints()
    k, n_nodes, scales = of.integers[LEAVES_OUTPUT], of.integers[N_NODES], of.reals
    is_near = 6 * n_nodes <= near.shape[0]
    for entry in range(thread(), near.shape[0], threads()):
        near[entry] = 0
    meet()
    for j in each(of.integers[N_MEMBERS]):
        i, w = np.int64(j), 1.0
        if of.rows.shape[0] > 0:
            i, w = np.int64(of.rows[j]), of.weights[j]
        a = nearest(times(times(w, of.g[k, i]), scales[0]))
        b, c = nearest(times(times(w, of.h[k, i]), scales[1])), nearest(times(w, scales[2]))
        node = np.int64(of.leaf[i])
        if is_near:
            _add_near(near, 3 * node, a)
            _add_near(near, 3 * node + 1, b)
            _add_near(near, 3 * node + 2, c)
        else:
            add(of.out, (node, 0), a)
            add(of.out, (node, 1), b)
            add(of.out, (node, 2), c)
    meet()
    if is_near:
        for entry in range(thread(), 3 * n_nodes, threads()):
            total = (np.int64(near[2 * entry + 1]) << 32) + (np.int64(near[2 * entry]) & _LOW_MASK)
            if total != 0:
                add(of.out, (entry // 3, entry % 3), total)


@kernel
def add_values(leaf: Any, value: Any, score: Any, reals: Any, integers: Any) -> None:
    """Add the value of its leaf to the score of each row, of one output."""
    k, n, leaves, scores = integers[0], leaf.shape[0], own_rows(), own_reals()
    for first in batches(n):
        for u in range(ROWS_AT_ONCE):
            i = min(nth(first, u), n - 1)
            leaves[u], scores[u] = leaf[i], score[k, i]
        for u in range(ROWS_AT_ONCE):
            if nth(first, u) < n:
                score[k, nth(first, u)] = scores[u] + value[leaves[u]]


@kernel
def count_residuals(
    leaf: Any, y: Any, score: Any, weight: Any, prefix: Any, out: Any, reals: Any, integers: Any
) -> None:
    """Fixed-point weights of rows by the next digit of their residual; see `residual_key`.

    The numbers are a scale; the output and the known bits.
    """
    k, known_bits = integers[0], integers[1]
    for i in each(leaf.shape[0]):
        bits = np.int64(bits_of_float32(np.float32(y[i] - score[k, i])))
        key = bits ^ (np.int64(0xFFFFFFFF) if bits >> 31 else np.int64(0x80000000))
        if key >> (32 - known_bits) == prefix[leaf[i]]:
            digit = (key >> (32 - known_bits - DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1)
            w = weight[i] if weight.shape[0] > 0 else 1.0
            add(out, (leaf[i], digit), nearest(times(w, reals[0])))
