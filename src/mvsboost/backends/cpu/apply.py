"""Kernels: the leaf of each row, sums over leaves, and the step of the scores.

Leaves are found without walking. Number the leaves from left to right and give
every row a bit mask of those it may still be in, at first all. A test that a row
fails sends it right, so the leaves to its left are out; whatever order the tests
come in, the leaf is the lowest bit that remains (QuickScorer). The inner loop
compares a column's bytes with one number and vectorises; a walk would wait for a
byte before it knows which to ask for next.

A mask holds 64 leaves. Of a larger tree the first 63 splits are tested so, and
the few below them are walked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu.machine import stack_array
from mvsboost.backends.protocol import TreeArrays
from mvsboost.dtypes import BIN, NODE
from mvsboost.jit import kernel

MASKED_SPLITS = 63
"""Splits that a mask of 64 leaves has room for."""

BLOCK = 2048
"""Rows whose masks stay in the first-level cache."""

_whole_numbers = stack_array(np.int64, BLOCK)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOWER, _LOWER_OR_MISSING, _TABLE = 0, 1, 2


class Tests(NamedTuple):
    """The splits of a tree as tests on columns.

    Attributes
    ----------
    feature, kind : int64 arrays
        Column of each test, and how it is made.
    threshold, missing : uint8 arrays
        Rows with a bin up to the threshold pass, and, for one kind, those with a missing value.
    masks : array like `remaining`, of shape (n_categorical_tests, 256)
        Leaves that a row may still be in, by its bin.
    remaining : uint32 or uint64 array
        Leaves that a row which fails may still be in; half as wide where that is enough.
    exits : int32 array of shape (64,)
        Node that each bit stands for.
    """

    feature: NDArray[np.int64]
    kind: NDArray[np.int64]
    threshold: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    masks: NDArray[Any]
    remaining: NDArray[Any]
    exits: NDArray[np.int32]


def make_tests(tree: TreeArrays) -> Tests:
    """The first splits of a tree; children are numbered in the order of the splits."""
    leaves, left_out = _number_leaves(tree.left, tree.right)
    tested = np.array(sorted(left_out), np.int64)
    width = np.uint32 if len(leaves) <= 32 else np.uint64
    remaining = ~np.array([left_out[node] for node in sorted(left_out)], np.uint64)
    exits = np.zeros(MASKED_SPLITS + 1, NODE)
    exits[: len(leaves)] = leaves
    table = tree.goes_left()[tested]
    numeric = tree.threshold[tested] >= 0
    missing_left = table[np.arange(len(tested)), tree.missing_bin[tested]] == 1
    return Tests(
        feature=tree.feature[tested].astype(np.int64),
        kind=np.where(numeric, np.where(missing_left, _LOWER_OR_MISSING, _LOWER), _TABLE),
        threshold=np.where(numeric, tree.threshold[tested], 0).astype(BIN),
        missing=tree.missing_bin[tested].astype(BIN),
        masks=np.where(table[~numeric] == 1, _ALL, remaining[~numeric, None]).astype(width),
        remaining=remaining.astype(width),
        exits=exits,
    )


def _number_leaves(
    left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[list[int], dict[int, int]]:
    """Nodes where tests end, from left to right; for each tested node the mask of its lefts."""
    n = 2 * MASKED_SPLITS + 1
    lefts, rights = left[:n].tolist(), right[:n].tolist()
    exits: list[int] = []
    left_out: dict[int, int] = {}

    def visit(node: int) -> None:
        if not 0 <= lefts[node] < n:
            exits.append(node)
            return
        first = 1 << len(exits)
        visit(lefts[node])
        left_out[node] = (1 << len(exits)) - first
        visit(rights[node])

    visit(0)
    return exits, left_out


@kernel
def find_leaves(
    columns: Any,
    start: int,
    stop: int,
    tests: Any,
    feature: Any,
    left: Any,
    right: Any,
    goes_left: Any,
    mask: Any,
    leaf: Any,
) -> None:
    """Leaf of the rows start..stop; `columns` is (n_features, n_rows), `mask` is room."""
    one = mask.dtype.type(1)
    everything = ~(one ^ one)
    deep = left.shape[0] > 2 * MASKED_SPLITS + 1
    for block in range(start, stop, BLOCK):
        n = min(BLOCK, stop - block)
        for i in range(n):
            mask[i] = everything
        n_tables = 0
        for j in range(tests.feature.shape[0]):
            column, remaining = columns[tests.feature[j], block : block + n], tests.remaining[j]
            threshold, missing = tests.threshold[j], tests.missing[j]
            if tests.kind[j] == _LOWER:
                for i in range(n):
                    mask[i] &= everything if column[i] <= threshold else remaining
            elif tests.kind[j] == _LOWER_OR_MISSING:
                for i in range(n):
                    low = (column[i] <= threshold) | (column[i] == missing)
                    mask[i] &= everything if low else remaining
            else:
                by_bin = tests.masks[n_tables]
                n_tables += 1
                for i in range(n):
                    mask[i] &= by_bin[column[i]]
        out = leaf[block : block + n]
        for i in range(n):
            lowest = mask[i] & (~mask[i] + one)
            # a power of two as a float says in its exponent which
            out[i] = tests.exits[(np.float64(lowest).view(np.int64) >> 52) - 1023]
        if deep:
            for i in range(n):
                node = out[i]
                while feature[node] >= 0:
                    side = goes_left[node, columns[feature[node], block + i]]
                    node = left[node] if side == 1 else right[node]
                out[i] = node


@kernel
def sum_leaves(leaf: Any, g: Any, h: Any, scales: Any, out: Any) -> None:
    """Fixed-point Σ g, Σ h and the number of rows of each leaf into out (n_nodes, 3)."""
    whole_g, whole_h = _whole_numbers(), _whole_numbers()
    for block in range(0, leaf.shape[0], BLOCK):
        n = min(BLOCK, leaf.shape[0] - block)
        part_g, part_h, nodes = g[block : block + n], h[block : block + n], leaf[block : block + n]
        for i in range(n):
            whole_g[i] = np.int64(np.rint(np.float64(part_g[i]) * scales[0]))
            whole_h[i] = np.int64(np.rint(np.float64(part_h[i]) * scales[1]))
        for i in range(n):
            node = np.uint64(nodes[i])
            out[node, 0] += whole_g[i]
            out[node, 1] += whole_h[i]
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
