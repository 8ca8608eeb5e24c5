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

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mvsboost.exact.dtypes import TABLE
from mvsboost.runtime.intrinsics import add_pair, lowest_bit, stack_array, wide_vectors
from mvsboost.runtime.jit import inlined, kernel
from mvsboost.runtime.pool import CALLER, begin, end, share, sum_parts, worth

MASKED_SPLITS = 255
"""Splits that planes of 256 leaves have room for."""

_BLOCK = 4096  # rows that are worked on at a time, unless their planes are many
_ROOM = 32_768  # bytes of planes that stay in the first-level cache
_ALL = np.uint8(0xFF)
_ALL_WORD = np.uint32(0xFFFFFFFF)
_MASKED_NODES = 2 * MASKED_SPLITS + 1
_planes, _words = stack_array(np.uint8, _ROOM), stack_array(np.uint32, _BLOCK)
_nodes = stack_array(np.int64, _MASKED_NODES)
_SHORT = 512  # rows whose numbers stay in the first-level cache, with room to spare
_whole_numbers = stack_array(np.int64, _SHORT)
_LOWER, _LOWER_OR_MISSING, _SET = 0, 1, 2

# columns of `Tests.rows`
COLUMN, PLANE, KIND, THRESHOLD, MISSING, BITS, REMAINING = range(7)
N_COLUMNS = 7
_TWO = np.uint64(2)


class TreeArrays(Protocol):
    """What a backend asks of a finished tree.

    Nodes are numbered from 0, the root; children come in pairs, in the order in which their
    parents were split. A categorical test has threshold -1; its row of `category_sets`, in
    `categories`, has a bit for every bin that goes left.
    """

    @property
    def feature(self) -> NDArray[np.int32]: ...
    @property
    def threshold(self) -> NDArray[np.int32]: ...
    @property
    def missing_left(self) -> NDArray[np.bool_]: ...
    @property
    def missing_bin(self) -> NDArray[np.int32]: ...
    @property
    def categories(self) -> NDArray[np.int32]: ...
    @property
    def category_sets(self) -> NDArray[np.uint32]: ...
    @property
    def left(self) -> NDArray[np.int32]: ...
    @property
    def right(self) -> NDArray[np.int32]: ...
    @property
    def value(self) -> NDArray[np.float64]: ...
    @property
    def n_nodes(self) -> int: ...
    def goes_left(self) -> NDArray[np.uint8]:
        """Table of shape (n_nodes, 256): 1 where a bin goes to the left child."""


def tests_of(tree: TreeArrays) -> tuple[NDArray[Any], ...]:
    """What decides which leaf a row is in; values of leaves come later."""
    return (
        tree.feature,
        tree.threshold,
        tree.missing_left,
        tree.left,
        tree.categories,
        tree.category_sets,
    )


def are_tests_of(tests: tuple[NDArray[Any], ...], tree: TreeArrays) -> bool:
    """Whether these are the tests of a tree, or of the same one come another way.

    The first of them may stand for all, if it is the tree's very array.
    """
    if tests[0] is tree.feature:
        return True
    others = tests_of(tree)
    return len(tests) == len(others) and all(map(np.array_equal, tests, others))


class Splits(NamedTuple):
    """The splits of a tree, for kernels; see `trees.tree.Tree`."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    missing_bin: NDArray[np.int32]
    categories: NDArray[np.int32]
    category_sets: NDArray[np.uint32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]


class Tests(NamedTuple):
    """The first splits of a tree as tests on columns, or as tables.

    Attributes
    ----------
    rows : int64 array of shape (n_tests, 7)
        A test for each plane that a split touches, by column: its column of the data, its plane,
        how it is made, the threshold up to which bins pass, the missing bin, the bins that pass
        as bits where there are at most 32, and the leaves of the plane that remain where a row
        fails. See `COLUMN` and its neighbours.
    looked_up : int64 array
        Columns of the data with more bins whose categories are tested.
    tables : uint32 array of shape (n, words, 256)
        Leaves that a row may still be in after all tests of each of these n columns, by 32
        leaves and by its bin.
    touched : bool array of shape (n, words)
        Whether a table leaves out any leaf at all.
    exits : int64 array
        Node that each bit stands for.
    counts : int64 array of shape (2,)
        How many of `rows` and of `looked_up` there are; the rest is room.
    """

    rows: NDArray[np.int64]
    looked_up: NDArray[np.int64]
    tables: NDArray[np.uint32]
    touched: NDArray[np.bool_]
    exits: NDArray[np.int64]
    counts: NDArray[np.int64]


def number_dtype(n: int) -> Any:
    """Type of the numbers under n: the narrowest, since all rows have one."""
    return np.uint8 if n <= 256 else np.uint16 if n <= 65_536 else np.uint32


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
        self._splits = Splits(
            tree.feature,
            tree.threshold,
            tree.missing_left,
            tree.missing_bin,
            tree.categories,
            tree.category_sets,
            tree.left,
            tree.right,
        )
        self.tests = make_tests(self._splits)
        is_deep = tree.n_nodes > _MASKED_NODES
        self.node = np.arange(tree.n_nodes, dtype=np.int64) if is_deep else self.tests.exits
        self.dtype = number_dtype(len(self.node))

    def find(
        self,
        pool: NDArray[np.int64],
        columns: NDArray[np.uint8],
        out: NDArray[Any],
        first: int = 0,
    ) -> None:
        """Number of the leaf of as many rows as `out` has, from a row on, of all the columns."""
        find_leaves(CALLER, pool, columns, first, self.tests, self._splits, out)


def make_tests(splits: Splits) -> Tests:
    """Tests of the first splits of a tree."""
    n_leaves = (min(len(splits.feature), _MASKED_NODES) + 1) // 2
    n_planes, n_words = (n_leaves + 7) // 8, (n_leaves + 31) // 32
    n_sets = len(splits.category_sets)
    tests = Tests(
        rows=np.empty(((n_leaves - 1) * n_planes, N_COLUMNS), np.int64),
        looked_up=np.empty(n_sets, np.int64),
        tables=np.empty((n_sets, n_words, TABLE), np.uint32),
        touched=np.empty((n_sets, n_words), np.bool_),
        exits=np.empty(n_leaves, np.int64),
        counts=np.empty(2, np.int64),
    )
    list_tests(splits, tests)
    return tests


@inlined
def _passes(splits: Any, node: Any, bin_: Any) -> Any:
    """Whether a bin goes to the left child."""
    which = splits.categories[node]
    if which >= 0:
        word = splits.category_sets[which, bin_ >> 5]
        return (word >> np.uint32(bin_ & 31)) & np.uint32(1) != 0
    if bin_ == splits.missing_bin[node]:
        return splits.missing_left[node]
    return bin_ <= splits.threshold[node]


@kernel
def list_tests(splits: Any, tests: Any) -> None:
    """Write the tests of the first splits.

    Those of one column stand side by side, so that it stays in the cache. A node has `ends`
    leaves from the number `first` on, and the first of them are its left child's.
    """
    left, right, feature = splits.left, splits.right, splits.feature
    ends, first, by_feature = _nodes(), _nodes(), _nodes()
    n_nodes = min(left.shape[0], _MASKED_NODES)
    for step in range(n_nodes):  # children come after their parents
        node = n_nodes - 1 - step
        inner = 0 <= left[node] < n_nodes
        ends[node] = ends[left[node]] + ends[right[node]] if inner else 1
    n, first[0] = 0, 0
    for node in range(n_nodes):
        if ends[node] == 1:
            tests.exits[first[node]] = node
            continue
        first[left[node]] = first[node]
        first[right[node]] = first[node] + ends[left[node]]
        place = n  # an insertion keeps those of one column in their order
        while place > 0 and feature[by_feature[place - 1]] > feature[node]:
            by_feature[place] = by_feature[place - 1]
            place -= 1
        by_feature[place] = node
        n += 1
    n_tests, n_tables = 0, 0
    for i in range(n):
        node = by_feature[i]
        start, stop = first[node], first[node] + ends[left[node]]
        categorical = splits.categories[node] >= 0
        if categorical and splits.missing_bin[node] >= 32:
            if n_tables == 0 or tests.looked_up[n_tables - 1] != feature[node]:
                tests.looked_up[n_tables] = feature[node]
                for word in range(tests.tables.shape[1]):
                    tests.touched[n_tables, word] = False
                    for b in range(TABLE):
                        tests.tables[n_tables, word, b] = _ALL_WORD
                n_tables += 1
            for word in range(start >> 5, (stop + 31) >> 5):
                low, high = max(start - 32 * word, 0), min(stop - 32 * word, 32)
                remaining = _ALL_WORD ^ np.uint32((1 << high) - (1 << low))
                table, tests.touched[n_tables - 1, word] = tests.tables[n_tables - 1, word], True
                among = splits.category_sets[splits.categories[node]]
                for b in range(TABLE):
                    passes = (among[b >> 5] >> np.uint32(b & 31)) & np.uint32(1)
                    table[b] &= _ALL_WORD if passes != 0 else remaining
            continue
        kind = _LOWER_OR_MISSING if splits.missing_left[node] else _LOWER
        for plane in range(start >> 3, (stop + 7) >> 3):
            low, high = max(start - 8 * plane, 0), min(stop - 8 * plane, 8)
            test = tests.rows[n_tests]
            test[COLUMN], test[PLANE], test[KIND] = feature[node], plane, kind
            test[THRESHOLD], test[MISSING] = splits.threshold[node], splits.missing_bin[node]
            test[BITS], test[REMAINING] = 0, 0xFF ^ ((1 << high) - (1 << low))
            if categorical:
                test[KIND], test[THRESHOLD] = _SET, 0
                test[BITS] = splits.category_sets[splits.categories[node], 0]
            n_tests += 1
    tests.counts[0], tests.counts[1] = n_tests, n_tables


@inlined
def _apply_test(test: Any, column: Any, plane: Any) -> None:
    """Clear the leaves to the left of a test for rows that fail it."""
    threshold, missing = np.uint8(test[THRESHOLD]), np.uint8(test[MISSING])
    remaining = np.uint8(test[REMAINING])
    if test[KIND] == _LOWER:
        for i in range(plane.shape[0]):
            plane[i] &= _ALL if column[i] <= threshold else remaining
    elif test[KIND] == _LOWER_OR_MISSING:
        for i in range(plane.shape[0]):
            low = (column[i] <= threshold) | (column[i] == missing)
            plane[i] &= _ALL if low else remaining
    else:
        bits = np.uint32(test[BITS])
        for i in range(plane.shape[0]):
            among = (bits >> np.uint32(column[i])) & np.uint32(1)
            plane[i] &= _ALL if among != 0 else remaining


@inlined
def _walk(splits: Any, columns: Any, row: Any, node: Any) -> Any:
    """The leaf below a node that a row is in."""
    while splits.feature[node] >= 0:
        side = _passes(splits, node, np.int64(columns[splits.feature[node], row]))
        node = np.int64(splits.left[node] if side else splits.right[node])
    return node


@kernel
def find_leaves(
    part: Any, pool: Any, columns: Any, first: Any, tests: Any, splits: Any, leaf: Any
) -> None:
    """Leaf of every row from the first on; `columns` is (n_features, all rows).

    Its number from the left; of a deep tree, its node.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, leaf.shape[0]))
    start, stop = share(pool, mine, leaf.shape[0])
    planes, words = _planes(), _words()
    n_words = tests.tables.shape[1]  # of four planes each
    size = min(_BLOCK, _ROOM // (4 * n_words))
    deep = splits.left.shape[0] > _MASKED_NODES
    for block in range(start, stop, size):
        n = min(size, stop - block)
        for i in range(4 * n_words * size):
            planes[i] = _ALL
        for j in range(tests.counts[0]):
            test = tests.rows[j]
            column = columns[test[COLUMN], first + block : first + block + n]
            plane = planes[test[PLANE] * size : test[PLANE] * size + n]
            _apply_test(test, column, plane)
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
            for j in range(tests.counts[1]):
                if not tests.touched[j, word]:
                    continue
                column = columns[tests.looked_up[j], first + block : first + block + n]
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
                out[i] = _walk(splits, columns, first + block + i, tests.exits[out[i]])
    end(part, pool)


@kernel
def sum_leaves(
    part: Any,
    pool: Any,
    leaf: Any,
    g: Any,
    h: Any,
    scales: Any,
    nodes: Any,
    room: Any,
    out: Any,
) -> None:
    """Fixed-point Σ g, Σ h and the number of rows of each leaf, into the rows of `out` (n, 3).

    `nodes` says which row that is for each number of a leaf. `room` has shape (parts, 2,
    n_numbers, 4), with the sums in the first three columns, of even and of odd rows: two rows of
    one leaf need not wait for each other.
    """
    wide_vectors()
    mine = begin(part, pool, worth(pool, leaf.shape[0]))
    start, stop = share(pool, mine, leaf.shape[0])
    whole_g, whole_h, flat = _whole_numbers(), _whole_numbers(), room[mine].reshape(-1)
    other = np.uint64(4 * room.shape[2])
    for i in range(2 * other):
        flat[i] = 0
    for block in range(start, stop, _SHORT):
        n = min(_SHORT, stop - block)
        part_g, part_h, numbers = g[block : block + n], h[block : block + n], leaf[block:]
        for i in range(n):
            whole_g[i] = np.int64(np.rint(np.float64(part_g[i]) * scales[0]))
            whole_h[i] = np.int64(np.rint(np.float64(part_h[i]) * scales[1]))
        for i in range(n):
            place = (np.uint64(numbers[i]) << _TWO) + (other if i & 1 else np.uint64(0))
            add_pair(flat, place, whole_g[i], whole_h[i])
            flat[place + _TWO] += 1
    end(part, pool)
    if part < 0:
        sum_parts(pool, room.reshape(-1), 2 * np.int64(other))
        for number in range(nodes.shape[0]):
            for column in range(out.shape[1]):
                even, odd = room[0, 0, number, column], room[0, 1, number, column]
                out[nodes[number], column] = even + odd


@kernel
def add_values(part: Any, pool: Any, leaf: Any, value: Any, score: Any) -> None:
    """Add each row's leaf value to its score."""
    wide_vectors()
    mine = begin(part, pool, worth(pool, leaf.shape[0]))
    start, stop = share(pool, mine, leaf.shape[0])
    own, scores = leaf[start:stop], score[start:stop]
    for i in range(own.shape[0]):
        scores[i] += value[np.uint64(own[i])]
    end(part, pool)


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
