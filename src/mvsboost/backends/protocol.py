"""The words that control and rows speak: the `Backend` protocol and its small messages.

Rows live behind a backend. The loop, the samplers and the grower see summaries
only: maxima, counts, integer sums, histograms of a few nodes. A summary of a
whole is the merge of the summaries of its parts (`max` for maxima, `+` for the
rest), which is all that a composite backend has to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, DrawSummary, RankKey, ScoreRule
from mvsboost.backends.messages import (
    GradientRange,
    GrownNodes,
    NodeSplit,
    RowMetric,
    RowSet,
    TreeRequest,
)
from mvsboost.exact.fixedpoint import Packing
from mvsboost.kernels.apply import TreeArrays

__all__ = ["Backend", "GrowsWholeTrees"]


@runtime_checkable
class Backend(Protocol):
    """Rows, their scores and gradients, and the verbs control has for them.

    An iteration calls, in this order: `compute_gradients`; as the sampler needs,
    `gradient_sums`, `score_rows`, `threshold_sums`, `rank_counts`,
    `row_scores`; then `draw`; for each output `begin_tree`, then
    `histograms` and `partition` in turn; at last `leaf_sums` (and
    `residual_counts`, for objectives whose leaves are quantiles) and `apply_tree`.
    """

    n_rows: int
    n_outputs: int

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        """Set scores to the baseline, one number an output, and what each row has of its own."""

    def target_range(self) -> tuple[float, float]:
        """Largest ω and largest ω |y|."""

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        """Σ ω and Σ ω y for each output (softmax: y == k), fixed-point: (n_outputs, 2)."""

    def compute_gradients(self, order: int) -> GradientRange:
        """Compute g and h of every row at its current score; order 1 sets h to the row weight."""

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Bring back g and h, (n_outputs, n_rows) each; only user-made samplers ask for it."""

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        """Σ g, Σ h, Σ g², Σ h² for each output, fixed-point: (n_outputs, 4), in this order.

        A sum whose scale is 0 is not needed, and 0.
        """

    def score_rows(self, rule: ScoreRule) -> float:
        """Score every row, keep the scores, return the largest."""

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        """Fixed-point sum of scores under µ, number of rows at or over µ, number of zeros."""

    def row_scores(self) -> NDArray[np.float32]:
        """Bring back the scores, for samplers that look at all rows at once."""

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        """Rows whose key starts with `prefix` (known_bits long), counted by its next `RANK_BITS`.

        Where the key has fewer bits left, zeros follow them. The array holds until ranks are
        counted again.
        """

    def draw(self, rule: DrawRule) -> DrawSummary:
        """Draw the sample; it stands until the next draw."""

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        """Quantise the sample's rows, and all rows if given a packing; node 0 holds them."""

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Packed histograms, (len(nodes), bins of all `features` in their order, 2).

        Each feature takes ``n_bins[f] + 1`` entries, the last one for missing values.
        With several rows of `features` (shape (len(nodes), K)) each node has its own;
        shorter concatenations are padded with zeros.
        """

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        """Send the rows of each split node to its children."""

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Σ w g, Σ w h and Σ w of the rows in each leaf, fixed-point: (n_nodes, 3).

        Weights are those of the draw, and 1 for all rows, whose number is summed as it is.
        """

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        """Fixed-point weights of rows by the next digit of their residual's order key.

        A row counts where the first `known_bits` of its 32-bit key equal its leaf's `prefix`;
        the result is (n_nodes, 2 ** DIGIT_BITS). See `residual_key`.
        """

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        """Add the tree's values to the scores of all rows."""

    def metric_range(self, metric: RowMetric) -> float:
        """Largest absolute weighted row loss."""

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        """Fixed-point sum of weighted row losses."""

    def scores(self) -> NDArray[np.float64]:
        """Bring back the scores, (n_outputs, n_rows)."""


@runtime_checkable
class GrowsWholeTrees(Protocol):
    """A backend that may grow a tree in one call where that is quicker than verb by verb."""

    def grow_whole_tree(self, request: TreeRequest) -> GrownNodes | None:
        """The tree that histograms and partitions in turn would give; None to have it so."""
