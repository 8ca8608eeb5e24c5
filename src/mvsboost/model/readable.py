"""Trees in the words of the table they were trained on: thresholds and categories, not bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.data import BinMapper, Schema
from mvsboost.data.binning import BinFeature
from mvsboost.trees import Tree

__all__ = ["ColumnSplit", "column_splits", "node_records"]


@dataclass(frozen=True, eq=False)
class ColumnSplit:
    """The test of a node.

    Attributes
    ----------
    column : int
        Position of the column.
    threshold : float or None
        Values less than this go left; infinite where all numbers do. None for categories.
    categories : bool array or None
        Which of the column's categories go left. None for numbers.
    missing_left, unseen_left : bool
        Whether missing values go left, and categories that training did not have.
    """

    column: int
    threshold: float | None
    categories: NDArray[np.bool_] | None
    missing_left: bool
    unseen_left: bool

    def told(self, schema: Schema, most: int = 4) -> str:
        """As text, with at most so many categories.

        Examples
        --------
        >>> from mvsboost.data import ingest
        >>> schema = Schema.from_columns(ingest({"city": ["Oslo", "Bergen", "Bodø"]}))
        >>> ColumnSplit(0, None, np.array([True, False, True]), True, True).told(schema)
        'city is Bergen, Oslo or missing'
        """
        feature = schema.features[self.column]
        if self.threshold is not None:
            if math.isinf(self.threshold):
                return f"{feature.name} is not missing"
            missing = " or missing" if self.missing_left else ""
            return f"{feature.name} < {self.threshold:.6g}{missing}"
        names = self.left_names(schema)
        shown = [*map(str, names[:most]), *([f"{len(names) - most} more"] * (len(names) > most))]
        shown += ["missing"] * self.missing_left
        *front, last = shown
        return f"{feature.name} is {', '.join(front)}{' or ' if front else ''}{last}"

    def left_names(self, schema: Schema) -> list[Any]:
        """Categories that go left."""
        names = schema.features[self.column].categories or ()
        left = np.zeros(0, np.bool_) if self.categories is None else self.categories
        return [name for name, goes_left in zip(names, left, strict=True) if goes_left]


def column_splits(tree: Tree, mapper: BinMapper) -> list[ColumnSplit | None]:
    """The test of each node in turn; None at leaves."""
    goes_left = tree.goes_left()
    return [
        None if f < 0 else _split(mapper.features[f], int(threshold), goes_left[node] == 1)
        for node, (f, threshold) in enumerate(zip(tree.feature, tree.threshold, strict=True))
    ]


def _split(feature: BinFeature, threshold: int, left: NDArray[np.bool_]) -> ColumnSplit:
    if feature.edges is not None and feature.values is None:
        edges, missing_left = feature.edges, bool(left[feature.n_bins])
        value = float(edges[threshold]) if threshold < len(edges) else math.inf
        return ColumnSplit(feature.source, value, None, missing_left, missing_left)
    # a column of many categories is numbers to the tree, and categories to its reader
    unseen, missing, *known = left[feature.table].tolist()
    return ColumnSplit(feature.source, None, np.array(known, np.bool_), missing, unseen)


def node_records(
    iterations: Sequence[Sequence[Tree]], mapper: BinMapper, schema: Schema
) -> dict[str, list[Any]]:
    """All nodes of all trees, by column of a table; see `Model.to_dataframe`."""
    names = [
        "iteration",
        "output",
        "node",
        "depth",
        "parent",
        "left",
        "right",
        "column",
        "threshold",
        "categories",
        "missing_left",
        "gain",
        "value",
        "cover",
        "hessian",
    ]
    found: dict[str, list[Any]] = {name: [] for name in names}
    for iteration, trees in enumerate(iterations):
        for output, tree in enumerate(trees):
            parent, depth = np.full(tree.n_nodes, -1), np.zeros(tree.n_nodes, np.int64)
            splits = column_splits(tree, mapper)
            for node, split in enumerate(splits):
                children = int(tree.left[node]), int(tree.right[node])
                if split is not None:
                    parent[list(children)], depth[list(children)] = node, depth[node] + 1
                row = (
                    iteration,
                    output,
                    node,
                    int(depth[node]),
                    _or_none(int(parent[node])),
                    *map(_or_none, children),
                    *_told_split(split, schema),
                    float(tree.gain[node]) if split is not None else None,
                    float(tree.value[node]) if split is None else None,
                    float(tree.cover[node]),
                    float(tree.hessian[node]),
                )
                for name, value in zip(names, row, strict=True):
                    found[name].append(value)
    return found


def _told_split(split: ColumnSplit | None, schema: Schema) -> tuple[Any, Any, Any, Any]:
    """Column, threshold, categories that go left, and whether missing values do."""
    if split is None:
        return None, None, None, None
    name = schema.features[split.column].name
    categories = None if split.categories is None else split.left_names(schema)
    return name, split.threshold, categories, split.missing_left


def _or_none(node: int) -> int | None:
    return node if node >= 0 else None
