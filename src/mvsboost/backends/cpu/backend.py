"""The verbs of `Backend` as Numba kernels over all rows, on the threads of a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.backends.cpu.growing import Members, TreeGrower, Ways
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
    GrownNodes,
    NodeSplit,
    RowMetric,
    RowObjective,
    RowSet,
    TreeRequest,
    residual_key,
)
from mvsboost.backends.reference import weighted_leaf_sums
from mvsboost.backends.targets import target_range, target_sums
from mvsboost.exact.dtypes import GRADIENT, PACKED, ROW, SCORE, WEIGHT
from mvsboost.exact.fixedpoint import Packing, sum_scale
from mvsboost.exact.numerics import float32_of_bits, float64_of_bits
from mvsboost.kernels import apply, gradients, histogram, losses, partition, sampling
from mvsboost.kernels.apply import TreeArrays
from mvsboost.kernels.histogram import feature_offsets
from mvsboost.kernels.sampling import RANK_BITS
from mvsboost.kernels.sparse_rows import SparseRows, SparseTable, make_sparse, room_for_sparse_rows
from mvsboost.kernels.tree import Source
from mvsboost.runtime.arena import Arena
from mvsboost.runtime.pool import CALLER
from mvsboost.runtime.threads import ThreadPool, as_pool

_FEW = 0.2  # share of the rows up to which a sample's own bins stay nearer than columns
_AT_ONCE = 1 << 20  # rows that temporary arrays are made for, and whose pages are held
_TRANSPOSED = 8192  # rows whose bins stay in the cache while they are written by column


class _Leaves(NamedTuple):
    """Leaf of every row in the tree with these tests, and the node of each number."""

    tests: tuple[NDArray[Any], ...]
    number: NDArray[Any]
    node: NDArray[np.int64]

    def are_of(self, tree: TreeArrays) -> bool:
        """Whether they are of this tree, or of the same one come another way."""
        return apply.are_tests_of(self.tests, tree)


class CPUBackend:
    """Rows on one machine, worked on by compiled kernels.

    Parameters
    ----------
    rows : BinnedRows
    objective : RowObjective
        Built-in objectives have kernels of their own; others are called on all rows at once.
    n_threads : int or ThreadPool
        Their number, taken as it is; or threads to share with other backends of the same fit.
    ways : Ways
        From what size on trees are grown in which way; they are the same in all.
    """

    def __init__(
        self,
        rows: BinnedRows,
        objective: RowObjective,
        n_threads: int | ThreadPool = 1,
        ways: Ways | None = None,
    ) -> None:
        self._ways = ways or Ways()
        self.rows = rows
        self.objective = objective
        self.n_rows = rows.n_rows
        self.n_outputs = objective.n_outputs
        self._threads = as_pool(n_threads)
        self._arena = Arena()
        shape = (self.n_outputs, self.n_rows)
        self._scores = np.zeros(shape, SCORE)
        self._g = np.empty(shape, GRADIENT)
        self._h = np.empty(shape, GRADIENT)
        self._row_scores = np.empty(self.n_rows, GRADIENT)
        self._drawn = np.empty(0, ROW)
        self._weights = np.empty(0, WEIGHT)
        self._certain = -1
        self._compacted: NDArray[np.uint8] | None = None
        self._lists: SparseRows | None = None
        self._range = GradientRange(0.0, 0.0, 0.0, -1)
        self._members: dict[RowSet, Members] = {}
        self._leaves: _Leaves | None = None
        self._measured: RowMetric | None = None

    def _sum(self, function: Callable[[int, int], Any], n_rows: int | None = None) -> Any:
        return reduce(
            np.add, self._threads.run(function, self.n_rows if n_rows is None else n_rows)
        )

    def _pool(self, n_rows: int | None = None) -> NDArray[np.int64]:
        """The pool for a kernel over so many rows, or over all."""
        return self._threads.pool(self.n_rows if n_rows is None else n_rows)

    def _blocks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int]]:
        """Ranges of rows, so that what is made for one of them is small."""
        stop = self.n_rows if stop is None else stop
        for first in range(start, stop, _AT_ONCE):
            yield first, min(first + _AT_ONCE, stop)

    def _let_go(self) -> None:
        """Of rows that lie in files: what was looked at need not stay in memory."""
        if self.rows.pages is not None:
            self.rows.pages.let_go()

    def _weight(self, start: int, stop: int) -> NDArray[np.float64]:
        weight = self.rows.weight
        return np.ones(stop - start) if weight is None else weight[start:stop]

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        self._scores[:] = baseline[:, None]
        if self.rows.start is not None:
            self._scores += self.rows.start
        self._measured = None

    def target_range(self) -> tuple[float, float]:
        return target_range(self.rows)

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums = target_sums(self.rows, self.n_outputs, scales)
        self._let_go()
        return sums

    # --- gradients ------------------------------------------------------------------------------

    def compute_gradients(self, order: int) -> GradientRange:
        y, score, g, h = self.rows.target, self._scores, self._g, self._h
        # of the class itself: a subclass may have gradients of its own
        compiled = gradients.KERNELS.get(vars(type(self.objective)).get("kernel", ""))
        if compiled is None:
            # a user's own: it may look at other rows too, or hold an array beside the target
            found = self.objective.gradients(y, score)
            with np.errstate(over="ignore"):  # what is no float32 is found below
                g[:], h[:] = found
        else:
            compiled(CALLER, self._pool(), y, score, g, h, self._room)
        if self.rows.weight is not None:
            gradients.weigh(CALLER, self._pool(), g, h, self.rows.weight, order == 1)
        elif order == 1:
            h[:] = 1.0
        self._let_go()
        max_g, max_h, min_h, bad = gradients.range_of(self._pool(), g, h)
        bad_row = self.rows.offset + bad if bad >= 0 else -1
        self._range = GradientRange(max_g, max_h, min_h, bad_row)
        return self._range

    @cached_property
    def _room(self) -> NDArray[np.float64]:
        """The parameter of the objective, if it has one, for each output and thread; and room."""
        alpha = float(getattr(self.objective, "alpha", 0.0))
        return np.full((self._threads.n_threads, self.n_outputs), alpha)

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._g, self._h

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        out = np.empty((self._threads.n_threads, self.n_outputs, 4), np.int64)
        gradients.moment_sums(CALLER, self._pool(), self._g, self._h, scales, out)
        sums: NDArray[np.int64] = out[0]
        return sums

    # --- sampling -------------------------------------------------------------------------------

    def score_rows(self, rule: ScoreRule) -> float:
        g, h, out = self._g, self._h, self._row_scores
        if rule.score is Score.MVS:
            bits = out.view(np.int32)
            return float32_of_bits(
                sampling.mvs_scores(CALLER, self._pool(), g, h, rule.lam, rule.scale, out, bits)
            )

        def one(start: int, stop: int) -> float:
            out[start:stop] = rule.values(g[:, start:stop], h[:, start:stop])
            return float(out[start:stop].max(initial=0.0))

        return max(self._threads.run(one, self.n_rows))

    def row_scores(self) -> NDArray[np.float32]:
        return self._row_scores

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        small, large, zero = sampling.threshold_sums(
            CALLER, self._pool(), self._row_scores, mu, scale
        )
        return int(small), int(large), int(zero)

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        cut_key, cut = key.only_below or (key.key, np.uint64(0))
        room = self._arena.take("ranks", (self._threads.n_threads, 1 << RANK_BITS), np.int64)
        sampling.count_ranks(
            CALLER,
            self._pool(),
            self._row_scores,
            self.rows.offset,
            key.key,
            key.by_score,
            key.only_below is not None,
            cut_key,
            cut,
            known_bits,
            np.uint64(prefix),
            room,
        )
        counts: NDArray[np.int64] = room[0]
        return counts

    def _ids(self, start: int, stop: int) -> NDArray[np.uint64]:
        return np.arange(self.rows.offset + start, self.rows.offset + stop, dtype=np.uint64)

    def draw(self, rule: DrawRule) -> DrawSummary:
        summary = self._draw_all() if isinstance(rule, AllRows) else self._draw(rule)
        self._compacted, self._lists, self._certain = None, None, summary.n_certain
        return summary

    def _draw(self, rule: DrawRule) -> DrawSummary:
        n, take = self.n_rows, self._arena.take
        scores, offset, pool = self._row_scores, self.rows.offset, self._pool()
        counts = np.empty(self._threads.n_threads, np.int64)
        rows, weights = take("slices of rows", (n,), ROW), take("slices of weights", (n,), WEIGHT)
        to = rows, weights, counts
        if isinstance(rule, Poisson):
            mu, key = rule.mu, rule.key
            drawn, largest = sampling.draw_poisson(CALLER, pool, scores, mu, key, offset, *to)
            max_weight = float64_of_bits(largest)
        elif isinstance(rule, (SmallestKeys, TopAndRest)):
            ranked = _ranked(rule)
            drawn, largest = sampling.draw_ranked(CALLER, pool, scores, offset, *ranked, *to)
            max_weight = float64_of_bits(largest)
        else:
            drawn, max_weight = self._draw_by_weights(rule, rows, weights)
            to = rows, weights, np.array([drawn], np.int64)
        drawn = int(drawn)
        self._drawn, self._weights = take("drawn", (drawn,), ROW), take("weights", (drawn,), WEIGHT)
        scales = np.array([sum_scale(x, drawn) for x in (max_weight, max_weight * max_weight)])
        (certain, weight, squared), (largest_g, largest_h, _) = sampling.settle_draw(
            CALLER, pool, self._g, self._h, *to, scales, self._drawn, self._weights
        )
        return DrawSummary(
            n_rows=drawn,
            n_certain=int(certain),
            max_weight=max_weight,
            max_gradient=float64_of_bits(largest_g),
            max_hessian=float64_of_bits(largest_h),
            sum_weight=float(weight / scales[0]),
            sum_weight_squared=float(squared / scales[1]),
        )

    def _draw_by_weights(
        self, rule: DrawRule, rows: NDArray[np.uint32], weights: NDArray[np.float64]
    ) -> tuple[int, float]:
        """Drawn rows and their weights into the room for them; their number, the largest weight."""
        scores = self._row_scores

        def one(a: int, b: int) -> NDArray[np.float64]:
            return rule.weights(scores[a:b], self._ids(a, b))

        of_all = np.concatenate(self._threads.run(one, self.n_rows))
        drawn = np.flatnonzero(of_all > 0)
        rows[: len(drawn)], weights[: len(drawn)] = drawn, of_all[drawn]
        return len(drawn), float(of_all.max(initial=0.0))

    def _draw_all(self) -> DrawSummary:
        """What a draw of every row with weight 1 would find, without looking at the rows."""
        n = self.n_rows
        if self._certain != n:
            self._drawn, self._weights = np.arange(n, dtype=ROW), np.ones(n, WEIGHT)
        return DrawSummary(
            n, n, 1.0, self._range.max_gradient, self._range.max_hessian, float(n), float(n)
        )

    # --- trees ----------------------------------------------------------------------------------

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        self._leaves = None
        # weights of 1 are whole numbers of units, unless other backends' are very large
        whole = self._everybody and sample.weight_scale >= 1.0
        drawn = None if whole else self._drawn
        self._members[RowSet.SAMPLE] = self._pack("sample", output, key, sample, drawn)
        if all_rows is not None:
            self._members[RowSet.ALL] = self._pack("all", output, key, all_rows, None)

    @property
    def _everybody(self) -> bool:
        """Whether all rows were drawn, with weight 1."""
        return self._certain == self.n_rows

    def _bins(self, rows: RowSet) -> NDArray[np.uint8]:
        """Bins of the members of a tree side by side; those of drawn rows gathered once a draw."""
        bins: NDArray[np.uint8] = self.rows.bins
        drawn = self._drawn
        if rows is RowSet.ALL or len(drawn) == self.n_rows:
            return bins
        if self._compacted is None:
            out = self._compacted = self._room_for_bins()
            for first, last in self._runs_of_drawn():
                some, to = drawn[first:last], out[first:last]

                def gather(a: int, b: int, some: Any = some, to: Any = to) -> None:
                    sampling.gather_rows(bins, some[a:b], to[a:b])

                self._threads.run(gather, len(some))
                self._let_go()
        return self._compacted

    def _runs_of_drawn(self) -> Iterator[tuple[int, int]]:
        """Drawn rows whose bins are looked at together: all, unless they lie in files."""
        drawn = self._drawn
        if self.rows.pages is None:
            yield 0, len(drawn)
            return
        ends = np.searchsorted(drawn, [stop for _, stop in self._blocks()])
        yield from zip([0, *ends[:-1]], ends, strict=True)

    def _room_for_bins(self) -> NDArray[np.uint8]:
        bins = self.rows.bins
        return self._arena.take("sample bins", (len(self._drawn), bins.shape[1]), bins.dtype)

    @cached_property
    def _sparse(self) -> SparseTable | None:
        """All rows as lists of what is sparse in them, if that is short; not of rows in files."""
        if self.rows.pages is not None:
            return None
        return make_sparse(self.rows.bins, self.rows.n_bins, self._threads)

    @cached_property
    def grower(self) -> TreeGrower:
        return TreeGrower(self.rows.n_bins, self._sparse, self._threads, self._arena, self._ways)

    def _source(self) -> Source:
        """Bins of the drawn rows, for growing a tree: as lists where these are short.

        The first tree of a draw gathers them while it adds up its root.
        """
        sparse, drawn, columns = self._sparse, self._drawn, self._columns
        ids = drawn[:0] if self._everybody else drawn
        all_rows = len(drawn) == self.n_rows
        if sparse is not None:
            if all_rows or self._lists is not None:
                return Source(columns, ids, self.rows.bins, lists=self._lists or sparse.lists)
            self._lists = room_for_sparse_rows(len(drawn), sparse.longest, self._arena)
            return Source(
                columns,
                ids,
                self.rows.bins,
                lists=self._lists,
                whole_sparse=sparse.lists,
                drawn=drawn,
            )
        by_row = self.rows.pages is not None or len(drawn) < _FEW * self.n_rows
        if by_row:
            ids = drawn[:0]
        if all_rows or self._compacted is not None or self.rows.pages is not None:
            return Source(columns, ids, self._bins(RowSet.SAMPLE), by_row)
        self._compacted = self._room_for_bins()
        return Source(columns, ids, self._compacted, by_row, whole_bins=self.rows.bins, drawn=drawn)

    def _pack(
        self,
        name: str,
        output: int,
        key: np.uint64,
        packing: Packing,
        rows: NDArray[np.uint32] | None,
    ) -> Members:
        """Drawn rows with their weights, or all rows with weight 1, packed for a tree."""
        n_rows = self.n_rows if rows is None else len(rows)
        words = self._arena.take(f"words {name}", (n_rows,), PACKED)
        order = self._arena.take(f"order {name}", (n_rows,), ROW)
        scratch = self._arena.take(f"scratch {name}", (n_rows,), ROW)
        scales = packing.scales()
        g, h, bits = self._g[output], self._h[output], packing.count_bits

        pool, offset = self._pool(n_rows), self.rows.offset
        to: Any = scales, bits, words, order
        if rows is None:
            total = sampling.pack_all(CALLER, pool, g, h, key, offset, *to)
        else:
            weights = self._weights
            total = sampling.pack_rows(CALLER, pool, g, h, rows, weights, key, offset, *to)
        return Members(words, bits, np.array(total, PACKED), order, scratch)

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        each = np.broadcast_to(features, (len(nodes), features.shape[-1]))
        offsets = [feature_offsets(self.rows.n_bins, row) for row in each]
        result = np.zeros((len(nodes), max((o[-1] for o in offsets), default=0), 2), PACKED)
        for i, node in enumerate(nodes):
            self._add_node(rows, node, np.ascontiguousarray(each[i]), offsets[i], result[i])
        return result

    def _add_node(
        self,
        rows: RowSet,
        node: int,
        features: NDArray[np.int64],
        offsets: NDArray[np.int64],
        out: NDArray[np.int64],
    ) -> None:
        members, bins = self._members[rows], self._bins(rows)
        words, bits = members.words, members.count_bits
        start, stop = members.ranges[node]
        order, nobody = members.order[start:stop], np.empty(0, ROW)

        def one(a: int, b: int) -> NDArray[np.int64]:
            part = out if a == 0 else np.zeros_like(out)
            histogram.add_rows(bins, bins, nobody, words, bits, order[a:b], features, offsets, part)
            return part

        for part in self._threads.run(one, len(order))[1:]:
            out += part

    def grow_whole_tree(self, request: TreeRequest) -> GrownNodes | None:
        """Grow the tree in compiled code, unless it may become too large for that.

        Plain Python has no threads that could meet.
        """
        if self._threads.n_threads > 1 and not jit_enabled():
            return None
        sample = self._members[RowSet.SAMPLE]
        all_rows = self._members[RowSet.ALL] if request.all_rows is not None else None
        size = self.grower.size_of(request, sample, all_rows)
        if not self.grower.has_room(size):
            return None
        nodes, leaf = self.grower.grow(request, size, sample, all_rows, self._source())
        if leaf is not None:
            numbers = np.arange(len(nodes.feature), dtype=np.int64)
            # the tree will hold this very array of features, and is known by it
            self._leaves = _Leaves((nodes.feature,), leaf, numbers)
        self._let_go()
        return nodes

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        members, bins = self._members[rows], self._bins(rows)
        for split in splits:
            start, stop = members.ranges.pop(split.node)
            middle = start + self._partition_range(members, bins, start, stop, split)
            members.ranges[split.left] = (start, middle)
            members.ranges[split.right] = (middle, stop)

    def _partition_range(
        self, members: Members, bins: NDArray[np.uint8], start: int, stop: int, split: NodeSplit
    ) -> int:
        order, scratch = members.order[start:stop], members.scratch[start:stop]
        lefts = self._threads.run(
            lambda a, b: partition.split_slice(
                bins, split.feature, split.goes_left, order[a:b], scratch[a:b]
            ),
            len(order),
        )
        slices, stop = list(zip(self._threads.slices(len(order)), lefts, strict=True)), 0
        for (a, _), n in slices:
            if a != stop:
                order[stop : stop + n] = order[a : a + n]
            stop += n
        n_left = int(stop)
        for (a, b), n in slices:
            order[stop : stop + b - a - n] = scratch[a : b - n]
            stop += b - a - n
        return n_left

    # --- after the tree -------------------------------------------------------------------------

    @cached_property
    def _columns(self) -> NDArray[np.uint8]:
        """Bins by column: what is done to all rows reads few columns, one after another."""
        if self.rows.columns is not None:
            return self.rows.columns
        bins = self.rows.bins
        columns = np.empty(bins.shape[::-1], bins.dtype)

        def one(start: int, stop: int) -> None:
            for a in range(start, stop, _TRANSPOSED):
                b = min(a + _TRANSPOSED, stop)
                columns[:, a:b] = bins[a:b].T

        self._threads.run(one, len(bins))
        return columns

    def _leaves_of(self, tree: TreeArrays) -> _Leaves:
        if self._leaves is None or not self._leaves.are_of(tree):
            finder, columns = apply.LeafFinder(tree), self._columns
            number = self._arena.take("leaf", (self.n_rows,), finder.dtype)
            if self.rows.pages is None:
                finder.find(self._pool(), columns, number)
            else:
                for a, b in self._blocks():
                    finder.find(self._pool(b - a), columns, number[a:b], a)
                    self._let_go()
            self._leaves = _Leaves(apply.tests_of(tree), number, finder.node)
        return self._leaves

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        leaves, g, h = self._leaves_of(tree), self._g[output], self._h[output]
        if rows is RowSet.SAMPLE:  # seldom: where packed words are too coarse
            drawn, weight = self._drawn, self._weights
            leaf = leaves.node[leaves.number[drawn]]
            return weighted_leaf_sums(leaf, g[drawn], h[drawn], weight, scales, tree.n_nodes)
        sums, shape = np.zeros((tree.n_nodes, 3), np.int64), (2, len(leaves.node), 4)
        room = self._arena.take("leaf sums", (self._threads.n_threads, *shape), np.int64)
        apply.sum_leaves(CALLER, self._pool(), leaves.number, g, h, scales, leaves.node, room, sums)
        return sums

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        leaves = self._leaves_of(tree)
        of_leaf = prefix[leaves.node]

        def one(a: int, b: int) -> NDArray[np.int64]:
            out = np.zeros((len(of_leaf), 1 << DIGIT_BITS), np.int64)
            for first, last in self._blocks(a, b):
                target, score = self.rows.target[first:last], self._scores[output, first:last]
                keys = residual_key(target - score)
                weight = np.rint(self._weight(first, last) * scale).astype(np.int64)
                number = leaves.number[first:last]
                apply.count_residuals(number, keys, of_leaf, known_bits, DIGIT_BITS, weight, out)
            return out

        counts = np.zeros((tree.n_nodes, 1 << DIGIT_BITS), np.int64)
        counts[leaves.node] = self._sum(one)
        return counts

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        self._measured = None
        leaves, score = self._leaves_of(tree), self._scores[output]
        value = tree.value[leaves.node]
        apply.add_values(CALLER, self._pool(), leaves.number, value, score)

    def _losses(self, metric: RowMetric) -> NDArray[np.float64]:
        """The weighted loss of each row; a sum is asked for after a range, so they are kept."""
        rows = self._arena.take("losses", (self.n_rows,), np.float64)
        if self._measured is metric:
            return rows
        compiled = losses.KERNELS.get(metric.kernel)
        target, scores, weight = self.rows.target, self._scores, self.rows.weight

        def ask(a: int, b: int) -> None:
            rows[a:b] = metric.rowwise(target[a:b], scores[:, a:b])

        if compiled is not None:
            compiled(CALLER, self._pool(), target, scores, rows)
        elif metric.at_once:
            ask(0, self.n_rows)
        else:
            self._threads.run(ask, self.n_rows)
        if weight is not None:
            rows *= weight
        self._measured = metric
        return rows

    def metric_range(self, metric: RowMetric) -> float:
        bits = self._losses(metric).view(np.int64)
        return float64_of_bits(losses.largest_bits(CALLER, self._pool(), bits))

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        rows = self._losses(metric)
        return int(losses.fixed_point_sum(CALLER, self._pool(), rows, scale))

    def scores(self) -> NDArray[np.float64]:
        return self._scores


def _ranked(rule: SmallestKeys | TopAndRest) -> tuple[bool, Any, Any, Any, Any, float]:
    """Arguments of `draw_ranked`: whether there is a top, its key and cut, then the rest's."""
    if isinstance(rule, SmallestKeys):
        return False, rule.key, np.uint64(0), rule.key, rule.cut, rule.weight
    return True, rule.top_key, rule.top_cut, rule.rest_key, rule.rest_cut, rule.rest_weight
