"""Kernels: the leaf of each row, sums over leaves, and the step of the scores.

Leaves are found without walking. Number the leaves from left to right and give
every row a bit for each that it may still be in, at first all. A test that a row
fails sends it right, so the leaves to its left are out; whatever order the tests
come in, the leaf is the lowest bit that remains (QuickScorer). Bits lie in planes
of a byte a row, eight leaves each, and a test touches only the planes with leaves
to its left, mostly one: the inner loop compares a column's bytes with one number
and clears bits in a plane's bytes, so a vector instruction serves 32 rows. A walk
would wait for a byte before it knows which to ask for next.

Sets of categories out of many have no such instruction: they are looked up, but all
sets of a column in one table, which says for each bin what remains of 32 leaves.

There is room for 256 leaves. Of a larger tree the first 255 splits are tested so,
and the few below them are walked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu.machine import add_pair, lowest_bit, stack_array
from mvsboost.backends.protocol import TreeArrays
from mvsboost.dtypes import BIN, TABLE
from mvsboost.jit import kernel

MASKED_SPLITS = 255
"""Splits that planes of 256 leaves have room for."""

_BLOCK = 4096  # rows that are worked on at a time, unless their planes are many
_ROOM = 32_768  # bytes of planes that stay in the first-level cache
_ALL = np.uint8(0xFF)
_planes, _words = stack_array(np.uint8, _ROOM), stack_array(np.uint32, _BLOCK)
_whole_numbers = stack_array(np.int64, _BLOCK)
_LOWER, _LOWER_OR_MISSING, _SET = 0, 1, 2
_TWO = np.uint64(2)


class Tests(NamedTuple):
    """The splits of a tree as tests on columns, once for each plane that they touch, or as tables.

    Attributes
    ----------
    feature, plane, kind : int64 arrays
        Column and plane of each test, and how it is made.
    threshold, missing : uint8 arrays
        Rows with a bin up to the threshold pass, and, for one kind, those with a missing value.
    bits : uint32 array
        Rows with one of these bins pass, where a column has at most 32.
    remaining : uint8 array
        Leaves of the plane that a row which fails may still be in.
    looked_up : int64 array
        Columns of more bins whose categories are tested.
    tables : uint32 array of shape (n, words, 256)
        Leaves that a row may still be in after all tests of each of these n columns, by 32
        leaves and by its bin.
    exits : int64 array
        Node that each bit stands for.
    """

    feature: NDArray[np.int64]
    plane: NDArray[np.int64]
    kind: NDArray[np.int64]
    threshold: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    bits: NDArray[np.uint32]
    remaining: NDArray[np.uint8]
    looked_up: NDArray[np.int64]
    tables: NDArray[np.uint32]
    exits: NDArray[np.int64]


def number_dtype(n: int) -> Any:
    """Type of the numbers under n: the narrowest, since all rows have one."""
    return np.min_scalar_type(max(n - 1, 0)).type


class LeafFinder:
    """Finds the leaves of rows in one tree, as numbers.

    Attributes
    ----------
    node : int64 array
        Node that each number stands for.
    dtype : type
        Of the numbers.
    """

    def __init__(self, tree: TreeArrays) -> None:
        table = tree.goes_left()
        self.tests = make_tests(tree, table)
        self._tree = tree.feature, tree.left, tree.right, table
        is_deep = tree.n_nodes > 2 * MASKED_SPLITS + 1
        self.node = np.arange(tree.n_nodes) if is_deep else self.tests.exits
        self.dtype = number_dtype(len(self.node))

    def find(self, columns: NDArray[np.uint8], start: int, stop: int, out: NDArray[Any]) -> None:
        """Number of the leaf of the rows start..stop of columns (n_features, n_rows)."""
        find_leaves(columns, start, stop, self.tests, *self._tree, out)


def make_tests(tree: TreeArrays, table: NDArray[np.uint8]) -> Tests:
    """The first splits of a tree, whose bins that go left are marked in `table`."""
    exits, lefts = _number_leaves(tree.left, tree.right)
    split = np.array(list(lefts), np.int64)
    many = split[(tree.threshold[split] < 0) & (tree.missing_bin[split] >= 32)].tolist()
    looked_up, tables = _look_up_tables(tree.feature, table, many, lefts, len(exits))
    by_feature = sorted(lefts.keys() - set(many), key=tree.feature.tolist().__getitem__)
    touched = [
        (tested, plane, ((1 << stop) - (1 << start)) >> 8 * plane & 0xFF)
        for tested in by_feature  # a column stays in the cache for all of its tests
        for start, stop in [lefts[tested]]
        for plane in range(start // 8, (stop + 7) // 8)
    ]
    node, plane, out = np.array(touched, np.int64).reshape(-1, 3).T
    numeric = tree.threshold[node] >= 0
    missing_left = table[node, tree.missing_bin[node]] == 1
    kind = np.where(missing_left, _LOWER_OR_MISSING, _LOWER)
    kind[~numeric] = _SET
    return Tests(
        feature=tree.feature[node].astype(np.int64),
        plane=np.ascontiguousarray(plane),
        kind=kind,
        threshold=np.where(numeric, tree.threshold[node], 0).astype(BIN),
        missing=tree.missing_bin[node].astype(BIN),
        bits=np.packbits(table[node, :32], axis=1, bitorder="little").view("<u4")[:, 0],
        remaining=(0xFF - out).astype(np.uint8),
        looked_up=looked_up,
        tables=tables,
        exits=np.array(exits, np.int64),
    )


def _look_up_tables(
    feature: NDArray[np.int32],
    table: NDArray[np.uint8],
    nodes: list[int],
    lefts: dict[int, tuple[int, int]],
    n_leaves: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Columns of some nodes, and one table for all tests of each."""
    columns = sorted({int(feature[node]) for node in nodes})
    n_words = (n_leaves + 31) // 32
    tables = np.full((len(columns), n_words, TABLE), 0xFFFFFFFF, np.uint32)
    for node in nodes:
        start, stop = lefts[node]
        out = ((1 << stop) - (1 << start)).to_bytes(4 * n_words, "little")
        remaining = ~np.frombuffer(out, "<u4")
        tables[columns.index(feature[node]), :, table[node] == 0] &= remaining
    return np.array(columns, np.int64), tables


def _number_leaves(
    left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[list[int], dict[int, tuple[int, int]]]:
    """Nodes where tests end, from left to right; the range of those left of each tested node."""
    n = 2 * MASKED_SPLITS + 1
    lefts, rights = left[:n].tolist(), right[:n].tolist()
    tested = [node for node, child in enumerate(lefts) if 0 <= child < n]
    ends, first, ranges = [1] * len(lefts), [0] * len(lefts), {}
    for node in reversed(tested):  # children come after their parents
        ends[node] = ends[lefts[node]] + ends[rights[node]]
    exits = [0] * ends[0]
    for node in tested:
        ranges[node] = start, stop = first[node], first[node] + ends[lefts[node]]
        first[lefts[node]], first[rights[node]] = start, stop
        for child in (lefts[node], rights[node]):
            if ends[child] == 1:
                exits[first[child]] = child
    return exits, ranges


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
    leaf: Any,
) -> None:
    """Leaf of the rows start..stop; `columns` is (n_features, n_rows).

    Its number from the left; of a deep tree, its node.
    """
    planes, words = _planes(), _words()
    n_words = tests.tables.shape[1]  # of four planes each
    size = min(_BLOCK, _ROOM // (4 * n_words))
    deep = left.shape[0] > 2 * MASKED_SPLITS + 1
    for block in range(start, stop, size):
        n = min(size, stop - block)
        for i in range(4 * n_words * size):
            planes[i] = _ALL
        for j in range(tests.feature.shape[0]):
            column = columns[tests.feature[j], block : block + n]
            plane = planes[tests.plane[j] * size : tests.plane[j] * size + n]
            threshold, missing, remaining = tests.threshold[j], tests.missing[j], tests.remaining[j]
            if tests.kind[j] == _LOWER:
                for i in range(n):
                    plane[i] &= _ALL if column[i] <= threshold else remaining
            elif tests.kind[j] == _LOWER_OR_MISSING:
                for i in range(n):
                    low = (column[i] <= threshold) | (column[i] == missing)
                    plane[i] &= _ALL if low else remaining
            else:
                bits = tests.bits[j]
                for i in range(n):
                    among = (bits >> np.uint32(column[i])) & np.uint32(1)
                    plane[i] &= _ALL if among != 0 else remaining
        out = leaf[block : block + n]
        for word in range(n_words - 1, -1, -1):
            a = planes[4 * word * size :]
            b, c, d = a[size:], a[2 * size :], a[3 * size :]
            for i in range(n):
                words[i] = (
                    np.uint32(a[i])
                    | np.uint32(b[i]) << np.uint32(8)
                    | np.uint32(c[i]) << np.uint32(16)
                    | np.uint32(d[i]) << np.uint32(24)
                )
            for j in range(tests.looked_up.shape[0]):
                column = columns[tests.looked_up[j], block : block + n]
                remaining_by_bin = tests.tables[j, word]
                for i in range(n):
                    words[i] &= remaining_by_bin[column[i]]
            if word == n_words - 1:
                for i in range(n):
                    out[i] = np.uint32(32 * word) + lowest_bit(words[i])
            else:  # of leaves that remain the lowest counts
                for i in range(n):
                    number = np.uint32(32 * word) + lowest_bit(words[i])
                    out[i] = number if words[i] != 0 else out[i]
        if deep:
            for i in range(n):
                node = tests.exits[out[i]]
                while feature[node] >= 0:
                    side = goes_left[node, columns[feature[node], block + i]]
                    node = left[node] if side == 1 else right[node]
                out[i] = node


@kernel
def sum_leaves(leaf: Any, g: Any, h: Any, scales: Any, out: Any) -> None:
    """Fixed-point Σ g, Σ h and the number of rows of each leaf number.

    `out` has shape (2, n_numbers, 4) with the sums in the first three columns, of even and of
    odd rows: two rows of one leaf need not wait for each other.
    """
    whole_g, whole_h, flat = _whole_numbers(), _whole_numbers(), out.reshape(-1)
    other = np.uint64(4 * out.shape[1])
    for block in range(0, leaf.shape[0], _BLOCK):
        n = min(_BLOCK, leaf.shape[0] - block)
        part_g, part_h, nodes = g[block : block + n], h[block : block + n], leaf[block : block + n]
        for i in range(n):
            whole_g[i] = np.int64(np.rint(np.float64(part_g[i]) * scales[0]))
            whole_h[i] = np.int64(np.rint(np.float64(part_h[i]) * scales[1]))
        for i in range(n):
            place = (np.uint64(nodes[i]) << _TWO) + (other if i & 1 else np.uint64(0))
            add_pair(flat, place, whole_g[i], whole_h[i])
            flat[place + _TWO] += 1


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
