"""The oracle: every verb in the plainest NumPy, one line after another.

It is slow and holds nothing clever, so that a fast backend can be checked
against it, result by result, and so that a reader learns here what a verb means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, DrawSummary, RankKey, ScoreRule
from mvsboost.backends.messages import (
    DIGIT_BITS,
    BinnedRows,
    GradientRange,
    NodeSplit,
    RowMetric,
    RowObjective,
    RowSet,
    residual_key,
)
from mvsboost.exact.dtypes import GRADIENT, PACKED, SCORE
from mvsboost.exact.fixedpoint import Packing, sum_scale
from mvsboost.exact.random import uniform
from mvsboost.kernels.apply import TreeArrays
from mvsboost.kernels.histogram import feature_offsets
from mvsboost.kernels.sampling import RANK_BITS


class ReferenceBackend:
    """All verbs of `Backend` over one block of rows, in plain NumPy.

    Parameters
    ----------
    rows : BinnedRows
    objective : RowObjective
    """

    def __init__(self, rows: BinnedRows, objective: RowObjective) -> None:
        self.rows = rows
        self.objective = objective
        self.n_rows = rows.n_rows
        self.n_outputs = objective.n_outputs
        self._ids = rows.ids
        self._scores = np.zeros((self.n_outputs, self.n_rows), SCORE)
        self._g = np.zeros((self.n_outputs, self.n_rows), GRADIENT)
        self._h = np.zeros((self.n_outputs, self.n_rows), GRADIENT)
        self._row_scores: NDArray[np.float32] | None = None
        self._weights = np.ones(self.n_rows)
        self._members: dict[RowSet, NDArray[np.int64]] = {}
        self._words: dict[RowSet, NDArray[np.int64]] = {}
        self._node: dict[RowSet, NDArray[np.int32]] = {}

    @property
    def _row_weight(self) -> NDArray[np.float64]:
        return np.ones(self.n_rows) if self.rows.weight is None else self.rows.weight

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        self._scores[:] = baseline[:, None]
        if self.rows.start is not None:
            self._scores += self.rows.start

    def target_range(self) -> tuple[float, float]:
        weighted = np.abs(self._row_weight * self.rows.target)
        return float(self._row_weight.max(initial=0.0)), float(weighted.max(initial=0.0))

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums = np.zeros((self.n_outputs, 2), np.int64)
        for k in range(self.n_outputs):
            target = self.rows.target if self.n_outputs == 1 else self.rows.target == k
            sums[k, 0] = fixed(self._row_weight, scales[0]).sum()
            sums[k, 1] = fixed(self._row_weight * target, scales[1]).sum()
        return sums

    def compute_gradients(self, order: int) -> GradientRange:
        g, h = self.objective.gradients(self.rows.target, self._scores)
        h = np.ones_like(g) if order == 1 else h
        # rounded before and after the weight, as the stored arrays of a fast backend are
        with np.errstate(over="ignore"):  # what is not finite is found below
            self._g[:] = g.astype(GRADIENT) * self._row_weight
            self._h[:] = h.astype(GRADIENT) * self._row_weight
        bad = ~(np.isfinite(self._g) & np.isfinite(self._h)).all(axis=0)
        return GradientRange(
            max_gradient=float(np.abs(self._g).max(initial=0.0)),
            max_hessian=float(self._h.max(initial=0.0)),
            min_hessian=float(self._h.min(initial=np.inf)),
            bad_row=int(self._ids[np.argmax(bad)]) if bad.any() else -1,
        )

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._g, self._h

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums = np.empty((self.n_outputs, 4), np.int64)
        for k in range(self.n_outputs):
            g, h = self._g[k].astype(np.float64), self._h[k].astype(np.float64)
            for column, values in enumerate((g, h, g * g, h * h)):
                sums[k, column] = fixed(values, scales[column]).sum()
        return sums

    def score_rows(self, rule: ScoreRule) -> float:
        self._row_scores = rule.values(self._g, self._h)
        return float(self._row_scores.max(initial=0.0))

    def row_scores(self) -> NDArray[np.float32]:
        assert self._row_scores is not None
        return self._row_scores

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        scores = self.row_scores().astype(np.float64)
        small = scores < mu
        total = int(fixed(scores[small], scale).sum())
        return total, int((~small).sum()), int((scores == 0).sum())

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        keys = key.values(self._row_scores, self._ids)
        if known_bits:
            keys = keys[keys >> np.uint64(64 - known_bits) == np.uint64(prefix)]
        digit = (keys << np.uint64(known_bits)) >> np.uint64(64 - RANK_BITS)
        return np.bincount(digit.astype(np.int64), minlength=1 << RANK_BITS).astype(np.int64)

    def draw(self, rule: DrawRule) -> DrawSummary:
        self._weights = rule.weights(self._row_scores, self._ids)
        return summarise_draw(self._weights, self._g, self._h)

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        self._take(RowSet.SAMPLE, np.flatnonzero(self._weights > 0), output, key, sample)
        if all_rows is not None:
            self._take(RowSet.ALL, np.arange(self.n_rows), output, key, all_rows)

    def _take(
        self,
        name: RowSet,
        members: NDArray[np.int64],
        output: int,
        key: np.uint64,
        packing: Packing,
    ) -> None:
        weight = self._weights[members] if name is RowSet.SAMPLE else np.ones(len(members))
        self._members[name] = members
        self._words[name] = packing.pack(
            weight * self._g[output][members],
            weight * self._h[output][members],
            weight,
            uniform(key, self._ids[members]),
        )
        self._node[name] = np.zeros(len(members), np.int32)

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        each = np.broadcast_to(features, (len(nodes), features.shape[-1]))
        offsets = [feature_offsets(self.rows.n_bins, row) for row in each]
        result = np.zeros((len(nodes), max((o[-1] for o in offsets), default=0), 2), PACKED)
        for i, node in enumerate(nodes):
            inside = self._node[rows] == node
            bins = self.rows.bins[self._members[rows][inside]]
            for feature, offset in zip(each[i], offsets[i], strict=False):
                np.add.at(
                    result[i], offset + bins[:, feature].astype(int), self._words[rows][inside]
                )
        return result

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        for split in splits:
            inside = np.flatnonzero(self._node[rows] == split.node)
            bins = self.rows.bins[self._members[rows][inside], split.feature]
            goes_left = split.goes_left[bins].astype(bool)
            self._node[rows][inside] = np.where(goes_left, split.left, split.right)

    def _leaf(self, tree: TreeArrays) -> NDArray[np.int64]:
        node = np.zeros(self.n_rows, np.int64)
        table = tree.goes_left()
        while (inner := tree.feature[node] >= 0).any():
            at = node[inner]
            bins = self.rows.bins[np.flatnonzero(inner), tree.feature[at]]
            node[inner] = np.where(table[at, bins], tree.left[at], tree.right[at])
        return node

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        weight = np.ones(self.n_rows) if rows is RowSet.ALL else self._weights
        return weighted_leaf_sums(
            self._leaf(tree), self._g[output], self._h[output], weight, scales, tree.n_nodes
        )

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        leaf = self._leaf(tree)
        keys = residual_key(self.rows.target - self._scores[output]).astype(np.int64)
        inside = keys >> (32 - known_bits) == prefix[leaf]
        digit = (keys >> (32 - known_bits - DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1)
        counts = np.zeros((tree.n_nodes, 1 << DIGIT_BITS), np.int64)
        weight = fixed(self._row_weight, scale)
        np.add.at(counts, (leaf[inside], digit[inside]), weight[inside])
        return counts

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        self._scores[output] += tree.value[self._leaf(tree)]

    def metric_range(self, metric: RowMetric) -> float:
        losses = metric.rowwise(self.rows.target, self._scores) * self._row_weight
        return float(np.abs(losses).max(initial=0.0))

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        losses = metric.rowwise(self.rows.target, self._scores) * self._row_weight
        return int(fixed(losses, scale).sum())

    def scores(self) -> NDArray[np.float64]:
        return self._scores


def fixed(values: NDArray[np.float64], scale: float) -> NDArray[np.int64]:
    """Nearest integers of the scaled values."""
    return np.rint(values * scale).astype(np.int64)


def weighted_leaf_sums(
    leaf: NDArray[Any],
    g: NDArray[np.float32],
    h: NDArray[np.float32],
    weight: NDArray[np.float64],
    scales: NDArray[np.float64],
    n_leaves: int,
) -> NDArray[np.int64]:
    """Fixed-point Σ w g, Σ w h and Σ w of each leaf, (n_leaves, 3)."""
    sums = np.zeros((n_leaves, 3), np.int64)
    for column, values in enumerate((weight * g, weight * h, weight)):
        np.add.at(sums[:, column], leaf, fixed(values, scales[column]))
    return sums


def summarise_draw(
    weights: NDArray[np.float64], g: NDArray[np.float32], h: NDArray[np.float32]
) -> DrawSummary:
    """What control learns of drawn rows with these weights (0: not drawn)."""
    drawn = weights > 0
    w = weights[drawn]
    return DrawSummary(
        n_rows=len(w),
        n_certain=int((w == 1.0).sum()),
        max_weight=float(w.max(initial=0.0)),
        max_gradient=float(np.abs(w * g[:, drawn]).max(initial=0.0)),
        max_hessian=float((w * h[:, drawn]).max(initial=0.0)),
        sum_weight=_fixed_point_sum(w),
        sum_weight_squared=_fixed_point_sum(w * w),
    )


def _fixed_point_sum(values: NDArray[np.float64]) -> float:
    scale = sum_scale(float(values.max(initial=0.0)), len(values))
    return float(fixed(values, scale).sum() / scale)
