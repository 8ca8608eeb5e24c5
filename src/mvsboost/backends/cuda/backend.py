"""The verbs of `Backend` on a GPU: rows stay there, and small summaries come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cuda import nodes as over_nodes
from mvsboost.backends.cuda import rows as over_rows
from mvsboost.backends.cuda.device import launch, put, room, zeros
from mvsboost.backends.draws import (
    AllRows,
    DrawRule,
    DrawSummary,
    Poisson,
    RankKey,
    Score,
    ScoreRule,
    SmallestKeys,
    TopAndRest,
)
from mvsboost.backends.messages import (
    DIGIT_BITS,
    BinnedRows,
    GradientRange,
    NodeSplit,
    RowMetric,
    RowObjective,
    RowSet,
)
from mvsboost.backends.targets import target_range, target_sums
from mvsboost.exact.dtypes import GRADIENT, PACKED, ROW, SCORE, WEIGHT
from mvsboost.exact.fixedpoint import Packing, sum_scale
from mvsboost.kernels.apply import TreeArrays, are_tests_of, tests_of
from mvsboost.kernels.histogram import feature_offsets
from mvsboost.kernels.sampling import RANK_BITS

_SCORES = {
    Score.MVS: over_rows.MVS,
    Score.ABS_GRADIENT: over_rows.ABS_GRADIENT,
    Score.ABS_PRODUCT: over_rows.ABS_PRODUCT,
}


class _Members(NamedTuple):
    """Rows that take part in a tree; all of them where `rows` is empty."""

    rows: Any
    words: Any
    node: Any
    bits: int


class CUDABackend:
    """Rows on one GPU.

    Parameters
    ----------
    rows : BinnedRows
    objective : RowObjective
        Built-in objectives have kernels of their own; others are called with all rows on the host.
    """

    def __init__(self, rows: BinnedRows, objective: RowObjective) -> None:
        self.rows = rows
        self.objective = objective
        self.n_rows = rows.n_rows
        self.n_outputs = objective.n_outputs
        shape = (self.n_outputs, self.n_rows)
        self._bins = put(rows.bins)
        self._columns = put(rows.bins.T if rows.columns is None else rows.columns)
        self._y = put(rows.target)
        self._weight = put(np.empty(0) if rows.weight is None else rows.weight)
        self._score = zeros(shape, SCORE)
        self._g, self._h = room(shape, GRADIENT), room(shape, GRADIENT)
        self._row_scores = room(self.n_rows, GRADIENT)
        self._losses = room(self.n_rows, np.float64)
        self._leaf = room(self.n_rows, np.int32)
        self._drawn_room = room(self.n_rows, ROW)
        self._weights_room = room(self.n_rows, WEIGHT)
        self._nobody, self._no_weights = put(np.empty(0, ROW)), put(np.empty(0, WEIGHT))
        self._drawn, self._weights = self._nobody, self._no_weights
        self._everybody = False
        self._range = GradientRange(0.0, 0.0, 0.0, -1)
        self._members: dict[RowSet, _Members] = {}
        self._n_nodes = 1
        self._leaves_of: tuple[NDArray[Any], ...] | None = None
        self._measured: RowMetric | None = None

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        start = np.empty((0, 0)) if self.rows.start is None else self.rows.start
        launch(over_rows.set_baseline, self.n_rows, put(baseline), put(start), self._score)
        self._measured = None

    def target_range(self) -> tuple[float, float]:
        return target_range(self.rows)

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        return target_sums(self.rows, self.n_outputs, scales)

    # --- gradients ------------------------------------------------------------------------------

    def compute_gradients(self, order: int) -> GradientRange:
        # of the class itself: a subclass may have gradients of its own
        name = vars(type(self.objective)).get("kernel", "")
        compiled = over_rows.GRADIENTS.get(name)
        if compiled is None:
            found = self.objective.gradients(self.rows.target, self.scores())
            with np.errstate(over="ignore"):  # what is no float32 is found below
                g, h = (np.asarray(part, GRADIENT) for part in found)
            self._g.copy_to_device(np.ascontiguousarray(g))
            self._h.copy_to_device(np.ascontiguousarray(h))
        else:
            alpha = float(getattr(self.objective, "alpha", 0.0))
            launch(compiled, self.n_rows, self._y, self._score, alpha, self._g, self._h)
        start = put(np.array([0.0, -np.inf, -np.inf, 0.0]))
        launch(over_rows.weigh, self.n_rows, self._weight, order == 1, self._g, self._h, start)
        largest_g, largest_h, less_h, bad = start.copy_to_host().tolist()
        self._range = GradientRange(largest_g, max(largest_h, 0.0), -less_h, self._bad_row(bad))
        return self._range

    def _bad_row(self, bad: float) -> int:
        if not bad:
            return -1
        finite = np.ones(self.n_rows, np.bool_)
        for part in self.gradients():
            finite &= np.isfinite(part).all(axis=0)
        return self.rows.offset + int(np.argmin(finite))

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._g.copy_to_host(), self._h.copy_to_host()

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        out = zeros((self.n_outputs, 4), np.int64)
        launch(over_rows.moment_sums, self.n_rows, self._g, self._h, put(scales), out)
        sums: NDArray[np.int64] = out.copy_to_host()
        return sums

    # --- sampling -------------------------------------------------------------------------------

    def score_rows(self, rule: ScoreRule) -> float:
        found, up, down = zeros(1, np.float64), rule.scale * rule.scale, 1.0 / rule.scale
        launch(
            over_rows.score_rows,
            self.n_rows,
            _SCORES[rule.score],
            self._g,
            self._h,
            rule.lam,
            up,
            down,
            self._row_scores,
            found,
        )
        return float(found.copy_to_host()[0])

    def row_scores(self) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self._row_scores.copy_to_host()
        return scores

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        out = zeros(3, np.int64)
        launch(over_rows.threshold_sums, self.n_rows, self._row_scores, mu, scale, out)
        small, large, zero = out.copy_to_host().tolist()
        return small, large, zero

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        cut_key, cut = key.only_below or (key.key, np.uint64(0))
        out = zeros(1 << RANK_BITS, np.int64)
        launch(
            over_rows.count_ranks,
            self.n_rows,
            self._row_scores,
            self.rows.offset,
            key.key,
            key.by_score,
            key.only_below is not None,
            cut_key,
            cut,
            known_bits,
            np.uint64(prefix),
            out,
        )
        counts: NDArray[np.int64] = out.copy_to_host()
        return counts

    def draw(self, rule: DrawRule) -> DrawSummary:
        n = self.n_rows
        self._everybody = isinstance(rule, AllRows)
        if self._everybody:
            self._drawn, self._weights = self._nobody, self._no_weights
            largest = self._range.max_gradient, self._range.max_hessian
            return DrawSummary(n, n, 1.0, *largest, float(n), float(n))
        found = zeros(3, np.float64)
        drawn = self._draw(rule, found)
        self._drawn, self._weights = self._drawn_room[:drawn], self._weights_room[:drawn]
        heaviest = float(found.copy_to_host()[over_rows.LARGEST_WEIGHT])
        scales = np.array([sum_scale(x, drawn) for x in (heaviest, heaviest * heaviest)])
        sums, arrays = zeros(3, np.int64), (self._g, self._h, self._drawn, self._weights)
        launch(over_rows.settle_draw, drawn, *arrays, put(scales), sums, found)
        (certain, weight, squared), largest = sums.copy_to_host(), found.copy_to_host()
        return DrawSummary(
            n_rows=drawn,
            n_certain=int(certain),
            max_weight=heaviest,
            max_gradient=float(largest[over_rows.LARGEST_G]),
            max_hessian=float(largest[over_rows.LARGEST_H]),
            sum_weight=float(weight / scales[0]),
            sum_weight_squared=float(squared / scales[1]),
        )

    def _draw(self, rule: DrawRule, found: Any) -> int:
        """Drawn rows and their weights into the room for them; their number."""
        arguments = _arguments(rule)
        if arguments is None:
            ids = self.rows.ids
            weights = rule.weights(self.row_scores(), ids)
            drawn = np.flatnonzero(weights > 0)
            if len(drawn):
                self._drawn_room[: len(drawn)].copy_to_device(drawn.astype(ROW))
                self._weights_room[: len(drawn)].copy_to_device(weights[drawn])
            found.copy_to_device(np.array([weights.max(initial=0.0), 0.0, 0.0]))
            return len(drawn)
        kind, *numbers = arguments
        n_drawn = zeros(1, np.int64)
        launch(
            over_rows.draw,
            self.n_rows,
            kind,
            self._row_scores,
            self.rows.offset,
            *numbers,
            self._drawn_room,
            self._weights_room,
            n_drawn,
            found,
        )
        return int(n_drawn.copy_to_host()[0])

    # --- trees ----------------------------------------------------------------------------------

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        self._leaves_of, self._n_nodes = None, 1
        self._members[RowSet.SAMPLE] = self._pack(
            output, key, sample, self._drawn, self._weights, all_of_them=self._everybody
        )
        if all_rows is not None:
            nobody = self._nobody, self._no_weights
            self._members[RowSet.ALL] = self._pack(output, key, all_rows, *nobody, all_of_them=True)

    def _pack(
        self,
        output: int,
        key: np.uint64,
        packing: Packing,
        rows: Any,
        weights: Any,
        *,
        all_of_them: bool,
    ) -> _Members:
        n = self.n_rows if all_of_them else len(rows)
        words = room(n, PACKED)
        launch(
            over_rows.pack_rows,
            n,
            self._g[output],
            self._h[output],
            rows,
            weights,
            key,
            self.rows.offset,
            put(packing.scales()),
            words,
        )
        return _Members(rows, words, zeros(n, np.int32), packing.count_bits)

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        each = np.broadcast_to(features, (len(nodes), features.shape[-1]))
        offsets = np.array([feature_offsets(self.rows.n_bins, row) for row in each])
        members = self._members[rows]
        slot_of_node = self._numbers(nodes)
        out = zeros((len(nodes), int(offsets[:, -1].max(initial=0)), 2), PACKED)
        launch(
            over_nodes.add_nodes,
            len(members.words),
            self._bins,
            members.rows,
            members.words,
            members.bits,
            members.node,
            slot_of_node,
            put(each),
            put(offsets),
            out,
        )
        found: NDArray[np.int64] = out.copy_to_host()
        return found

    def _numbers(self, nodes: Sequence[int]) -> Any:
        """For each node its place among these, or -1."""
        numbers = np.full(self._n_nodes, -1, np.int32)
        numbers[list(nodes)] = np.arange(len(nodes))
        return put(numbers)

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        members = self._members[rows]
        sides = np.array([(s.feature, s.left, s.right) for s in splits], np.int32)
        self._n_nodes = max(self._n_nodes, int(sides[:, 1:].max()) + 1)
        launch(
            over_nodes.partition,
            len(members.words),
            self._bins,
            members.rows,
            members.node,
            self._numbers([split.node for split in splits]),
            put(sides),
            put(np.array([split.goes_left for split in splits])),
        )

    # --- after the tree -------------------------------------------------------------------------

    def _leaves(self, tree: TreeArrays) -> Any:
        """The leaf of every row."""
        if self._leaves_of is None or not are_tests_of(self._leaves_of, tree):
            nodes, sets = _on_device(tree)
            launch(over_nodes.find_leaves, self.n_rows, self._columns, nodes, sets, self._leaf)
            self._leaves_of = tests_of(tree)
        return self._leaf

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        leaf, out = self._leaves(tree), zeros((tree.n_nodes, 3), np.int64)
        drawn, weights = self._nobody, self._no_weights
        n = self.n_rows
        if rows is RowSet.SAMPLE and not self._everybody:
            drawn, weights, n = self._drawn, self._weights, len(self._drawn)
        if n > 0:
            g, h = self._g[output], self._h[output]
            launch(over_nodes.sum_leaves, n, leaf, drawn, weights, g, h, put(scales), out)
        sums: NDArray[np.int64] = out.copy_to_host()
        return sums

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        out = zeros((tree.n_nodes, 1 << DIGIT_BITS), np.int64)
        launch(
            over_nodes.count_residuals,
            self.n_rows,
            self._leaves(tree),
            self._y,
            self._score[output],
            self._weight,
            put(prefix),
            known_bits,
            scale,
            out,
        )
        counts: NDArray[np.int64] = out.copy_to_host()
        return counts

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        self._measured = None
        leaf, value = self._leaves(tree), put(tree.value)
        launch(over_nodes.add_values, self.n_rows, leaf, value, self._score[output])

    def metric_range(self, metric: RowMetric) -> float:
        compiled, self._measured = over_rows.LOSSES.get(metric.kernel), metric
        if compiled is None:
            losses = metric.rowwise(self.rows.target, self.scores())
            losses = losses if self.rows.weight is None else losses * self.rows.weight
            self._losses.copy_to_device(np.ascontiguousarray(losses, np.float64))
            return float(np.abs(losses).max(initial=0.0))
        found, rows = zeros(2, np.float64), (self._y, self._score, self._weight)
        launch(compiled, self.n_rows, *rows, self._losses, found)
        largest, odd = found.copy_to_host().tolist()
        return float(np.nan if odd else largest)

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        if self._measured is not metric:
            self.metric_range(metric)
        out = zeros(1, np.int64)
        launch(over_rows.fixed_point_sum, self.n_rows, self._losses, scale, out)
        return int(out.copy_to_host()[0])

    def scores(self) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = self._score.copy_to_host()
        return scores


def _on_device(tree: TreeArrays) -> tuple[Any, Any]:
    """The tests of a tree, a row a node, and its category sets."""
    nodes = np.empty((tree.n_nodes, over_nodes.N_COLUMNS), np.int32)
    nodes[:, over_nodes.FEATURE] = tree.feature
    nodes[:, over_nodes.THRESHOLD] = tree.threshold
    nodes[:, over_nodes.MISSING_BIN] = tree.missing_bin
    nodes[:, over_nodes.MISSING_LEFT] = tree.missing_left
    nodes[:, over_nodes.CATEGORIES] = tree.categories
    nodes[:, over_nodes.LEFT] = tree.left
    return put(nodes), put(tree.category_sets)


def _arguments(rule: DrawRule) -> tuple[Any, ...] | None:
    """The kind of a rule that has a kernel, and what that is called with; None of another."""
    none = np.uint64(0)
    if isinstance(rule, Poisson):
        return over_rows.POISSON, rule.mu, none, none, rule.key, none, 0.0
    if isinstance(rule, SmallestKeys):
        numbers = rule.key, rule.cut, rule.weight
        return over_rows.SMALLEST_KEYS, 0.0, none, none, *numbers
    if isinstance(rule, TopAndRest):
        top, rest = (rule.top_key, rule.top_cut), (rule.rest_key, rule.rest_cut)
        return over_rows.TOP_AND_REST, 0.0, *top, *rest, rule.rest_weight
    return None
