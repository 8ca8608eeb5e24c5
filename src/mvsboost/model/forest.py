"""Many trees in one set of arrays, ready for the prediction kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.exact.dtypes import NODE
from mvsboost.kernels import apply, predict
from mvsboost.runtime.pool import CALLER, make_pool
from mvsboost.runtime.threads import ThreadPool, as_pool
from mvsboost.trees import Tree
from mvsboost.trees.tree import LEAF

MASKED_ROWS = 4096
"""Rows from which on it pays to turn every tree into tests on columns."""

BLOCK_ROWS = 32_768
"""Rows whose bins stay in the second-level cache while all trees pass over them."""


@dataclass(frozen=True)
class Forest:
    """Trees one after another; `roots[t]` is where tree t begins, `outputs[t]` its output."""

    trees: tuple[Tree, ...]
    roots: NDArray[np.int32]
    outputs: NDArray[np.int32]
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    sets: NDArray[np.uint32]
    value: NDArray[np.float64]
    leaf_number: NDArray[np.int32]

    @classmethod
    def from_iterations(cls, iterations: Sequence[Sequence[Tree]]) -> Forest:
        """Lay out the trees of some boosting iterations."""
        trees = [tree for group in iterations for tree in group]
        sizes = np.array([tree.n_nodes for tree in trees], np.int64)
        roots = np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(NODE)
        outputs = [k for group in iterations for k in range(len(group))]

        def children(name: str) -> NDArray[np.int32]:
            parts = [
                np.where(getattr(tree, name) == LEAF, LEAF, getattr(tree, name) + root)
                for tree, root in zip(trees, roots, strict=True)
            ]
            return _join(parts, NODE)

        return cls(
            trees=tuple(trees),
            roots=roots,
            outputs=np.array(outputs, NODE),
            feature=_join([tree.feature for tree in trees], NODE),
            left=children("left"),
            right=children("right"),
            sets=_join([tree.left_sets() for tree in trees], np.uint32).reshape(-1, 8),
            value=_join([tree.value for tree in trees], np.float64),
            leaf_number=_join([tree.leaf_numbers() for tree in trees], NODE),
        )

    def add_to(
        self, scores: NDArray[np.float64], bins: NDArray[np.uint8], n_threads: int | ThreadPool
    ) -> None:
        """Add every tree to scores of shape (n_outputs, n_rows)."""
        if len(bins) < MASKED_ROWS:
            self._walk(scores, bins, n_threads)
        else:
            self._test(scores, bins, n_threads)

    def _test(
        self, scores: NDArray[np.float64], bins: NDArray[np.uint8], n_threads: int | ThreadPool
    ) -> None:
        """Find leaves by masks, a block of rows at a time; see `kernels.apply`."""
        finders = [apply.LeafFinder(tree) for tree in self.trees]
        values = [tree.value[f.node] for f, tree in zip(finders, self.trees, strict=True)]

        def block(pool: NDArray[np.int64], start: int, stop: int) -> None:
            columns, n = np.ascontiguousarray(bins[start:stop].T), stop - start
            for finder, value, output in zip(finders, values, self.outputs, strict=True):
                number = np.empty(n, finder.dtype)
                finder.find(pool, columns, number)
                apply.add_values(CALLER, pool, number, value, scores[output, start:stop])

        def one(a: int, b: int) -> None:
            alone = make_pool(1)
            for start in range(a, b, BLOCK_ROWS):
                block(alone, start, min(start + BLOCK_ROWS, b))

        as_pool(n_threads).run(one, len(bins))

    def _walk(
        self, scores: NDArray[np.float64], bins: NDArray[np.uint8], n_threads: int | ThreadPool
    ) -> None:
        def one(a: int, b: int) -> None:
            predict.add_forest(
                bins[a:b],
                self.roots,
                self.outputs,
                self.feature,
                self.left,
                self.right,
                self.sets,
                self.value,
                a,
                scores,
            )

        as_pool(n_threads).run(one, len(bins))

    def leaves(self, bins: NDArray[np.uint8], n_threads: int | ThreadPool) -> NDArray[np.int32]:
        """Number of the leaf of every row in every tree, (n_rows, n_trees)."""
        nodes = np.empty((len(bins), len(self.roots)), NODE)

        def one(a: int, b: int) -> None:
            predict.find_nodes(
                bins[a:b], self.roots, self.feature, self.left, self.right, self.sets, nodes[a:b]
            )

        as_pool(n_threads).run(one, len(bins))
        return self.leaf_number[nodes]


def _join(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)
