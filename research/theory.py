"""Theorem 1 on real gradients: what a sample does to the scores of splits.

The score of a split is S = Σ over its two sides of G²/H. Under a sample it becomes Ŝ, and
Theorem 1 approximates E(Ŝ − S)² from the probabilities of the rows alone. Here it is set
beside the mean over many draws, for all splits of the form "bin at most b" of a node; and
it is counted how often the split of largest Ŝ is that of largest S.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.boosting import TrainConfig, train
from mvsboost.data import Dataset
from mvsboost.exact.dtypes import TABLE
from mvsboost.objectives import Logistic
from mvsboost.sampling import GOSS, MVS, SGB, ImportanceSampling, NoSampling, Sampler
from mvsboost.sampling.gradient_rows import GradientRows
from mvsboost.trees import TreeParams
from research.draws import mvs_probabilities
from research.engines import Which, binned

__all__ = ["SAMPLERS", "judge_samplers", "predicted_deviation", "split_scores"]

Floats = NDArray[np.float64]

LAMBDA = 0.1
SMALLEST_SIDE = 20
SAMPLERS = ("SGB", "GOSS", "importance sampling", "MVS")


def _sampler(name: str, rate: float) -> Sampler:
    return {
        "SGB": SGB(rate),
        "GOSS": GOSS(rate / 2, rate / 2),
        "importance sampling": ImportanceSampling(rate),
        "MVS": MVS(rate, LAMBDA),
    }[name]


def _probabilities(name: str, g: Floats, h: Floats, rate: float) -> Floats:
    if name == "SGB":
        return np.full(len(g), rate)
    if name == "GOSS":
        p = np.full(len(g), (rate / 2) / (1.0 - rate / 2))
        p[np.argsort(-np.abs(g), kind="stable")[: round(rate / 2 * len(g))]] = 1.0
        return p
    return mvs_probabilities(g, h, rate, LAMBDA if name == "MVS" else 0.0)


def _left_sums(bins: NDArray[np.uint8], values: Floats) -> Floats:
    """Σ of values over the rows with a bin of at most b, for every feature and b."""
    sums = [np.bincount(column, values, TABLE) for column in bins.T]
    return np.cumsum(np.array(sums, np.float64), axis=1)  # of no rows they are integers


def split_scores(bins: NDArray[np.uint8], g: Floats, h: Floats) -> Floats:
    """S of every split, (n_features, 256); a side without hessian counts 0.

    Examples
    --------
    >>> bins = np.array([[0], [1]], np.uint8)
    >>> split_scores(bins, np.array([1.0, -1.0]), np.ones(2))[0, :2].tolist()
    [2.0, 0.0]
    """
    left_g, left_h = _left_sums(bins, g), _left_sums(bins, h)
    score = np.zeros_like(left_g)
    for x, y in ((left_g, left_h), (g.sum() - left_g, h.sum() - left_h)):
        score += np.where(y > 1e-9 * h.sum(), x * x / np.where(y > 0.0, y, 1.0), 0.0)
    return score


def predicted_deviation(bins: NDArray[np.uint8], g: Floats, h: Floats, p: Floats) -> Floats:
    """Theorem 1: Σ over sides of c² (4 Var x − 4 c Cov(x, y) + c² Var y), for every split."""
    odds = np.where(p > 0.0, (1.0 - p) / np.where(p > 0.0, p, 1.0), 0.0)
    sums = [_left_sums(bins, v) for v in (g, h, g * g * odds, g * h * odds, h * h * odds)]
    totals = [s[:, -1:] for s in sums]
    deviation = np.zeros_like(sums[0])
    for side in (sums, [total - s for s, total in zip(sums, totals, strict=True)]):
        x, y, var_x, cov, var_y = side
        c = np.where(y > 0.0, x / np.where(y > 0.0, y, 1.0), 0.0)
        deviation += c * c * (4.0 * var_x - 4.0 * c * cov + c * c * var_y)
    return deviation


@dataclass(frozen=True)
class _Node:
    """Rows of a node, and which splits leave enough of them on both sides."""

    rows: NDArray[np.int64]
    allowed: NDArray[np.bool_]


def _node(bins: NDArray[np.uint8], rows: NDArray[np.int64]) -> _Node:
    left = _left_sums(bins[rows], np.ones(len(rows)))
    return _Node(rows, np.minimum(left, len(rows) - left) >= SMALLEST_SIDE)


def _nodes(bins: NDArray[np.uint8], g: Floats, h: Floats, depth: int) -> list[_Node]:
    """The nodes of a tree of this depth that all rows have grown, as far as they can be split."""
    level = [_node(bins, np.arange(len(g)))]
    for _ in range(depth):
        below = []
        for node in level:
            if not node.allowed.any():
                continue
            feature, threshold = _best(
                split_scores(bins[node.rows], g[node.rows], h[node.rows]), node
            )
            left = bins[node.rows, feature] <= threshold
            below += [_node(bins, node.rows[left]), _node(bins, node.rows[~left])]
        level = below
    return [node for node in level if node.allowed.any()]


def _best(scores: Floats, node: _Node) -> tuple[int, int]:
    where = np.where(node.allowed, scores, -np.inf)
    feature, threshold = np.unravel_index(int(np.argmax(where)), where.shape)
    return int(feature), int(threshold)


def _gradients(cell: Mapping[str, Any], data: Dataset) -> tuple[Floats, Floats]:
    """Derivatives after some iterations without sampling."""
    tree, objective = cell["tree"], Logistic()
    params = TreeParams(
        max_leaves=int(tree["num_leaves"]),
        min_samples_leaf=tree["min_data_in_leaf"],
        l2=tree["lambda_l2"],
    )
    config = TrainConfig(
        objective,
        NoSampling(),
        n_estimators=cell["iteration"],
        learning_rate=cell["learning_rate"],
        tree=params,
        seed=cell["seed"],
    )
    model = train(data, config).model
    g, h = objective.gradients(data.rows.target, model.raw_scores(data.rows.bins))
    return g[0].astype(np.float32).astype(np.float64), h[0].astype(np.float32).astype(np.float64)


def judge_samplers(cell: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Deviations and hits of every sampler on one set, after one number of iterations.

    Parameters
    ----------
    cell : mapping
        ``set``, ``iteration``, ``depth`` of the nodes, ``rate``, ``draws``, and how the model
        before is trained: ``tree``, ``learning_rate``, ``seed``.
    folder : Path, optional

    Returns
    -------
    dict
        By sampler: ``measured``, root of the mean of (Ŝ − S)² over draws, splits and nodes,
        as a share of the best splits' gain; ``predicted``, the same by Theorem 1; ``hits``,
        how often the best split's feature is found; ``exact``, its threshold as well.
    """
    data = binned("native", Which(cell["set"]), folder)
    g, h = _gradients(cell, data)
    bins, rate = data.rows.bins, cell["rate"]
    nodes = _nodes(bins, g, h, cell["depth"])
    full = [split_scores(bins[n.rows], g[n.rows], h[n.rows]) for n in nodes]
    best = [_best(scores, node) for scores, node in zip(full, nodes, strict=True)]
    gains = [
        scores[which] - g[n.rows].sum() ** 2 / h[n.rows].sum()
        for scores, which, n in zip(full, best, nodes, strict=True)
    ]
    results = {}
    for name in SAMPLERS:
        p = _probabilities(name, g, h, rate)
        predicted = [
            np.mean(predicted_deviation(bins[n.rows], g[n.rows], h[n.rows], p[n.rows])[n.allowed])
            for n in nodes
        ]
        squares, found, exact = np.zeros(len(nodes)), 0, 0
        rows, sampler = GradientRows(g, h), _sampler(name, rate)
        for draw in range(cell["draws"]):
            sampler.draw(rows, rows.context(seed=cell["seed"], iteration=draw))
            weights = rows.weights
            for i, node in enumerate(nodes):
                inside = node.rows[weights[node.rows] > 0.0]
                w = weights[inside]
                scores = split_scores(bins[inside], w * g[inside], w * h[inside])
                squares[i] += np.mean((scores - full[i])[node.allowed] ** 2)
                one = _best(scores, node)
                found += one[0] == best[i][0]
                exact += one == best[i]
        looks = cell["draws"] * len(nodes)
        scale = np.mean(np.square(gains))
        results[name] = {
            "measured": float(np.sqrt(np.mean(squares / cell["draws"]) / scale)),
            "predicted": float(np.sqrt(np.mean(predicted) / scale)),
            "hits": found / looks,
            "exact": exact / looks,
        }
    return results
