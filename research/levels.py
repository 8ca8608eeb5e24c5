"""Boosting in NumPy, level by level, with a sample for each tree or a fresh one for each level.

The library draws once a tree. This small program is there to see whether it should draw
more often; it is slow, sees numbers only, and takes leaf values from all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.data import Dataset
from mvsboost.exact.dtypes import TABLE
from mvsboost.exact.numerics import sigmoid
from mvsboost.exact.random import Purpose, stream_key
from research.draws import mvs_weights
from research.engines import Which, binned, seen

__all__ = ["boost_by_levels"]

Floats = NDArray[np.float64]


def boost_by_levels(cell: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Error on the judged rows after the iteration of least loss there.

    Parameters
    ----------
    cell : mapping
        ``set``, ``fold``, ``folds``, ``rate`` (1 for all rows), ``lam``, ``fresh`` (whether
        every level draws), ``depth``, ``trees``, ``learning_rate``, ``l2``, ``seed``.
    folder : Path, optional
    """
    from sklearn.metrics import log_loss, roc_auc_score

    _, X_judge, learn, judge = seen({**cell, "view": "counters"}, folder)
    data = binned("counters", Which.of(cell), folder)
    y_judge = judge.target.astype(np.float64)
    judged = Dataset.from_data(
        X_judge, y_judge, mapper=data.mapper, schema=data.schema, n_classes=2
    )
    parts, y = (data.rows.bins, judged.rows.bins), learn.target
    start = float(np.log(y.mean() / (1.0 - y.mean())))
    scores = [np.full(len(bins), start) for bins in parts]
    best: dict[str, Any] = {"log_loss": np.inf}
    for tree in range(cell["trees"]):
        p = sigmoid(scores[0])
        nodes, values = _grow(cell, tree, parts, p - y, p * (1.0 - p))
        for score, node in zip(scores, nodes, strict=True):
            score += cell["learning_rate"] * values[node]
        probability = sigmoid(scores[1])
        loss = float(log_loss(judge.target, probability))
        if loss < best["log_loss"]:
            error = 1.0 - float(roc_auc_score(judge.target, probability))
            best = {"error": error, "log_loss": loss, "trees": tree + 1}
    return best


def _grow(
    cell: Mapping[str, Any],
    tree: int,
    parts: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    g: Floats,
    h: Floats,
) -> tuple[list[NDArray[np.int64]], Floats]:
    """Leaf of every row of both parts, and the leaves' values from all rows."""
    nodes = [np.zeros(len(bins), np.int64) for bins in parts]
    weights = np.ones(len(g))
    for level in range(cell["depth"]):
        if cell["rate"] < 1.0 and (level == 0 or cell["fresh"]):
            key = stream_key(cell["seed"], tree, Purpose.DRAW, level)
            weights = mvs_weights(g, h, cell["rate"], cell["lam"], key)
        rows = np.flatnonzero(weights)
        feature, threshold = _best_splits(
            parts[0][rows], nodes[0][rows], 2**level, weights[rows], g[rows], h[rows], cell["l2"]
        )
        for bins, node in zip(parts, nodes, strict=True):
            value = bins[np.arange(len(bins)), feature[node]]
            node[:] = 2 * node + (value > threshold[node])
    n_leaves = 2 ** cell["depth"]
    gradient = np.bincount(nodes[0], g, n_leaves)
    hessian = np.bincount(nodes[0], h, n_leaves)
    return nodes, -gradient / (hessian + cell["l2"])


def _best_splits(
    bins: NDArray[np.uint8],
    node: NDArray[np.int64],
    n_nodes: int,
    weights: Floats,
    g: Floats,
    h: Floats,
    l2: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Feature and threshold of each node's best split; a node without one keeps all rows left."""
    gain = np.full(n_nodes, -np.inf)
    feature, threshold = np.zeros(n_nodes, np.int64), np.full(n_nodes, TABLE)
    for f, column in enumerate(bins.T):
        place = node * TABLE + column
        left_g, left_h = (
            np.cumsum(np.bincount(place, weights * v, n_nodes * TABLE).reshape(n_nodes, -1), axis=1)
            for v in (g, h)
        )
        right_g, right_h = left_g[:, -1:] - left_g, left_h[:, -1:] - left_h
        score = left_g**2 / (left_h + l2) + right_g**2 / (right_h + l2)
        score[np.minimum(left_h, right_h) < 1e-3] = -np.inf
        at = np.argmax(score, axis=1)
        found = score[np.arange(n_nodes), at]
        better = found > gain
        gain[better], feature[better], threshold[better] = found[better], f, at[better]
    return feature, threshold
