"""What each column adds to each prediction: exact SHAP values of the trees.

They are those of the game in which columns that are left out follow the training rows down the
tree, by the share of rows in each child (``tree_path_dependent`` in the shap package,
``pred_contrib`` in LightGBM). A column that became several binned features is one player.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import DataError
from mvsboost.kernels.contributions import (
    KEPT_COLUMNS,
    MOST_COLUMNS,
    N_PATTERNS,
    add_contributions,
    add_interactions,
)
from mvsboost.runtime.threads import ThreadPool, as_pool
from mvsboost.trees import Tree

__all__ = ["Paths", "contributions_of"]

BLOCK_ROWS = 8192
"""Rows whose contributions stay in the second-level cache while all trees add to them."""


class Paths(NamedTuple):
    """A tree by its inner nodes, and by the paths to its leaves.

    Attributes
    ----------
    feature, first, middle, end, place : int64 array of shape (n_inner,)
        Binned feature of a test; the leaves below it from left to right, those of its right child
        from `middle` on; and the place of its column among those of the paths through it.
    sets : uint32 array of shape (n_inner, 8)
        Bins that go left, as bits.
    value : float64 array of shape (n_leaves,)
    length : int64 array of shape (n_leaves,)
        Columns on the path.
    column : int64 array of shape (n_leaves, n)
    share : float64 array of shape (n_leaves, n)
        Of the training rows that pass all tests of a column where they meet them.
    """

    feature: NDArray[np.int64]
    first: NDArray[np.int64]
    middle: NDArray[np.int64]
    end: NDArray[np.int64]
    place: NDArray[np.int64]
    sets: NDArray[np.uint32]
    value: NDArray[np.float64]
    length: NDArray[np.int64]
    column: NDArray[np.int64]
    share: NDArray[np.float64]

    @classmethod
    def of(cls, tree: Tree, source: NDArray[np.int64]) -> Paths:
        """Those of a tree, where `source` is the column of each binned feature."""
        n, left, right = tree.n_nodes, tree.left, tree.right
        n_leaves, first = np.ones(n, np.int64), np.zeros(n, np.int64)
        inner = np.flatnonzero(~tree.is_leaf)
        for node in inner[::-1]:  # children come after their parent
            n_leaves[node] = n_leaves[left[node]] + n_leaves[right[node]]
        # by node, the columns of its path in the order of their first tests, with their shares
        paths: list[dict[int, float]] = [{}] * n
        place = np.empty(len(inner), np.int64)
        for i, node in enumerate(inner):
            children, column = (left[node], right[node]), int(source[tree.feature[node]])
            rows = tree.cover[list(children)]
            for child, own in zip(children, rows.tolist(), strict=True):
                share = _share(own, float(rows.sum()))
                paths[child] = {**paths[node], column: paths[node].get(column, 1.0) * share}
            place[i] = list(paths[left[node]]).index(column)
            first[left[node]] = first[node]
            first[right[node]] = first[node] + n_leaves[left[node]]
        leaves = np.flatnonzero(tree.is_leaf)
        leaves = leaves[first[leaves].argsort()]
        lengths = np.array([len(paths[leaf]) for leaf in leaves], np.int64)
        if lengths.max() > MOST_COLUMNS:
            raise DataError(
                f"a path of the model tests {lengths.max()} columns, and contributions are found "
                f"for at most {MOST_COLUMNS}: train with a lower max_depth"
            )
        columns = np.zeros((len(leaves), max(int(lengths.max()), 1)), np.int64)
        shares = np.ones(columns.shape)
        for row, leaf in enumerate(leaves):
            path = paths[leaf]
            columns[row, : len(path)], shares[row, : len(path)] = list(path), list(path.values())
        return cls(
            tree.feature[inner].astype(np.int64),
            first[inner],
            first[right[inner]],
            first[inner] + n_leaves[inner],
            place,
            tree.left_sets()[inner],
            tree.value[leaves],
            lengths,
            columns,
            shares,
        )

    @property
    def mean(self) -> float:
        """The tree's mean over its training rows."""
        return float((self.value * self.share.prod(axis=1)).sum())


def _share(own: float, both: float) -> float:
    """Share of a child among the rows of both; a half where there are none."""
    return own / both if both > 0.0 else 0.5


@cache
def _gauss_rules() -> NDArray[np.float64]:
    """Points and weights on [0, 1] of the rules of 0, 1, 2, ... points, (n, 2, n)."""
    most = (MOST_COLUMNS + 1) // 2
    rules = np.zeros((most + 1, 2, most))
    for n in range(1, most + 1):
        points, weights = np.polynomial.legendre.leggauss(n)
        rules[n, 0, :n], rules[n, 1, :n] = (points + 1.0) / 2.0, weights / 2.0
    return rules


def contributions_of(
    iterations: Sequence[Sequence[Tree]],
    baseline: NDArray[np.float64],
    source: NDArray[np.int64],
    n_columns: int,
    bins: NDArray[np.uint8],
    *,
    interactions: bool = False,
    n_threads: int | ThreadPool = 1,
) -> NDArray[np.float64]:
    """SHAP values, or interaction values, of binned rows, by output.

    Parameters
    ----------
    iterations : sequence of sequence of Tree
    baseline : float64 array of shape (n_outputs,)
    source : int64 array
        Column of each binned feature.
    n_columns : int
    bins : uint8 array of shape (n_rows, n_features)
    interactions : bool
    n_threads : int or ThreadPool

    Returns
    -------
    float64 array of shape (n_outputs, n_rows, n_columns + 1)
        The last column is the mean prediction, the same for all rows; each row adds up to its raw
        score. Interactions have shape (n_outputs, n_rows, n_columns + 1, n_columns + 1), with the
        mean in the last corner; their rows add up to the SHAP values.
    """
    n_outputs, n = len(baseline), n_columns + 1
    trees = [(k, Paths.of(tree, source)) for group in iterations for k, tree in enumerate(group)]
    mean = baseline.copy()
    for k, paths in trees:
        mean[k] += paths.mean
    out = np.zeros((n_outputs, len(bins), *((n, n) if interactions else (n,))))
    out[(..., -1, -1) if interactions else (..., -1)] = mean[:, None]

    def one(start: int, stop: int) -> None:
        room = _Room(max((len(paths.value) for _, paths in trees), default=1))
        for a in range(start, stop, BLOCK_ROWS):
            b = min(a + BLOCK_ROWS, stop)
            for k, paths in trees:
                room.add(bins[a:b], paths, out[k, a:b], interactions)

    as_pool(n_threads).run(one, len(bins))
    return out


class _Room:
    """What a thread needs to add trees of up to so many leaves."""

    def __init__(self, n_leaves: int) -> None:
        self._failed = np.empty(n_leaves, np.uint64)
        self._factor, self._own = np.empty((2, MOST_COLUMNS))
        self._found = np.empty((n_leaves, N_PATTERNS), np.bool_)
        self._kept = np.empty((n_leaves, N_PATTERNS, KEPT_COLUMNS))

    def add(
        self,
        bins: NDArray[np.uint8],
        paths: Paths,
        out: NDArray[np.float64],
        interactions: bool,
    ) -> None:
        rules, failed, factor, own = _gauss_rules(), self._failed, self._factor, self._own
        if interactions:
            add_interactions(bins, paths, rules, failed, factor, own, out)
        else:
            add_contributions(bins, paths, rules, failed, factor, self._found, self._kept, own, out)
