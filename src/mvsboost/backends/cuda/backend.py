"""The verbs of `Backend` on a GPU: rows stay there, and small summaries come back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cuda import nodes as over_nodes
from mvsboost.backends.cuda import rows as over_rows
from mvsboost.backends.cuda.device import bring, check_memory, filled, put, room, send
from mvsboost.backends.cuda.growing import Members, Sizes, TreeGrower
from mvsboost.backends.cuda.programs import Copy, Numbers, Program, Queue, Step, signed, step
from mvsboost.backends.cuda.tables import Bins
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
)
from mvsboost.errors import DataError
from mvsboost.exact.dtypes import GRADIENT, NODE, PACKED, ROW, SCORE, WEIGHT
from mvsboost.exact.fixedpoint import Packing, sum_scale
from mvsboost.kernels.apply import TreeArrays, are_tests_of, tests_of
from mvsboost.kernels.histogram import feature_offsets
from mvsboost.kernels.sampling import RANK_BITS

_SCORES = {
    Score.MVS: over_rows.MVS,
    Score.ABS_GRADIENT: over_rows.ABS_GRADIENT,
    Score.ABS_PRODUCT: over_rows.ABS_PRODUCT,
}


class _Sample(NamedTuple):
    """Rows that grow a tree (all where none are named), and the program that packs them."""

    rows: Any
    members: Members
    pack: Program


class CUDABackend:
    """Rows on one GPU.

    Parameters
    ----------
    rows : BinnedRows
    objective : RowObjective
        Built-in objectives have kernels of their own; others are called with all rows on the host.
    free : int or None
        Bytes of the device that are free; None: it is asked.
    """

    def __init__(self, rows: BinnedRows, objective: RowObjective, free: int | None = None) -> None:
        _check_size("features", rows.bins.shape[1], over_nodes.MOST_FEATURES)
        check_memory(bytes_needed(rows, objective.n_outputs), _described(rows, objective), free)
        self.rows = rows
        self.objective = objective
        self.n_rows = rows.n_rows
        self.n_outputs = objective.n_outputs
        self._queue = Queue()
        shape = (self.n_outputs, self.n_rows)
        self._bins = self._laid_out(rows.bins)
        self._y = put(rows.target)
        self._weight = put(np.empty(0) if rows.weight is None else rows.weight)
        self._score = room(shape, SCORE)
        self._g, self._h = room(shape, GRADIENT), room(shape, GRADIENT)
        self._row_scores = room(self.n_rows, GRADIENT)
        self._losses = room(self.n_rows, np.float64)
        self._leaf = room(self.n_rows, NODE)
        self._drawn, self._weights = room(self.n_rows, ROW), room(self.n_rows, WEIGHT)
        self._nobody, self._no_weights = put(np.empty(0, ROW)), put(np.empty(0, WEIGHT))
        self._n_drawn = 0
        self._everybody = False
        self._range = GradientRange(0.0, 0.0, 0.0, -1)
        self._grower = TreeGrower(self._queue, rows.n_bins)
        self._n_nodes = 1
        self._packing: dict[RowSet, Packing] = {}
        self._node: dict[RowSet, Any] = {}
        self._room_for = -1
        self._finding: tuple[Any, Program] | None = None
        self._summing: dict[bool, tuple[Program, NDArray[np.int64]]] = {}
        self._applying: tuple[Program, NDArray[np.float64]] | None = None
        self._leaves_of: tuple[NDArray[Any], ...] | None = None
        self._measured: RowMetric | None = None

    def _program(self, reals: int, integers: int, *kernels: tuple[Any, ...]) -> Program:
        """A program of kernels over all rows, with their arguments but for the numbers."""
        numbers = Numbers(reals, integers)
        steps = [
            step(kernel, self.n_rows, *arguments, *numbers.on_device)
            for kernel, *arguments in kernels
        ]
        return Program(self._queue, numbers, steps)

    def _run(self, *steps: Step) -> None:
        """Run steps that are not to be repeated."""
        Program(self._queue, Numbers(0, 0), steps).run()

    def _laid_out(self, bins: Any) -> Any:
        """Bins on the device, eight to a word."""
        if isinstance(bins, Bins):
            return bins.words
        n_words = -(-bins.shape[1] // over_rows.BINS_OF_WORD)
        words = room((self.n_rows, n_words), np.int64)
        self._run(step(over_rows.lay_out, self.n_rows, put(bins), words))
        return words

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        start = np.empty((0, 0)) if self.rows.start is None else self.rows.start
        given = put(baseline), put(start), self._score
        self._run(step(over_rows.set_baseline, self.n_rows, *given))
        self._measured = None

    @cached_property
    def _targets(self) -> Program:
        return self._program(4, 3, (over_rows.look_at_targets, self._y, self._weight))

    def target_range(self) -> tuple[float, float]:
        reals, _ = self._targets.run((0.0, 0.0, 0.0, 0.0), (0, 0, -1))
        _, _, heaviest, largest = reals.tolist()
        return heaviest, largest

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums = np.empty((self.n_outputs, 2), np.int64)
        for k in range(self.n_outputs):
            output = k if self.n_outputs > 1 else -1
            sums[k] = self._targets.run((*scales.tolist(), 0.0, 0.0), (0, 0, output))[1][:2]
        return sums

    # --- gradients ------------------------------------------------------------------------------

    @cached_property
    def _gradients(self) -> Program | None:
        """The program of gradients, where the objective has a kernel."""
        # of the class itself: a subclass may have gradients of its own
        names = vars(type(self.objective))
        compute = over_rows.GRADIENTS.get(names.get("kernel") or names.get("gradient_kernel", ""))
        if compute is None:
            return None
        given = self._y, self._score, put(self._given()), self._weight
        return self._program(3, 2, (compute, *given, self._g, self._h))

    def _given(self) -> NDArray[np.float64]:
        """The parameter of the objective, if it has one, for each output."""
        parameters: dict[str, Any] = getattr(self.objective, "parameters", dict)()
        given = next(iter(parameters.values()), 0.0)
        return np.array(np.broadcast_to(given, self.n_outputs), np.float64)

    @cached_property
    def _weigh(self) -> Program:
        return self._program(3, 2, (over_rows.weigh, self._weight, self._g, self._h))

    def compute_gradients(self, order: int) -> GradientRange:
        program = self._gradients
        if program is None:
            found = self.objective.gradients(self.rows.target, self.scores())
            with np.errstate(over="ignore"):  # what is no float32 is found below
                g, h = (np.asarray(part, GRADIENT) for part in found)
            send(g, self._g)
            send(h, self._h)
            program = self._weigh
        reals, integers = program.run((0.0, -np.inf, -np.inf), (order == 1, 0))
        largest_g, largest_h, less_h = reals.tolist()
        bad = self._bad_row() if integers[over_rows.BAD] else -1
        self._range = GradientRange(largest_g, max(largest_h, 0.0), -less_h, bad)
        return self._range

    def _bad_row(self) -> int:
        finite = np.ones(self.n_rows, np.bool_)
        for part in self.gradients():
            finite &= np.isfinite(part).all(axis=0)
        return self.rows.offset + int(np.argmin(finite))

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return bring(self._g), bring(self._h)

    @cached_property
    def _moments(self) -> Program:
        return self._program(4, 5, (over_rows.moment_sums, self._g, self._h))

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        sums = np.empty((self.n_outputs, 4), np.int64)
        for k in range(self.n_outputs):
            sums[k] = self._moments.run(scales.tolist(), (0, 0, 0, 0, k))[1][:4]
        return sums

    # --- sampling -------------------------------------------------------------------------------

    @cached_property
    def _scores(self) -> Program:
        return self._program(4, 1, (over_rows.score_rows, self._g, self._h, self._row_scores))

    def score_rows(self, rule: ScoreRule) -> float:
        numbers = rule.lam, rule.scale * rule.scale, 1.0 / rule.scale, 0.0
        reals, _ = self._scores.run(numbers, (_SCORES[rule.score],))
        return float(reals[over_rows.LARGEST_SCORE])

    def row_scores(self) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = bring(self._row_scores)
        return scores

    @cached_property
    def _threshold(self) -> Program:
        return self._program(2, 3, (over_rows.threshold_sums, self._row_scores))

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        small, large, zero = self._threshold.run((mu, scale), (0, 0, 0))[1].tolist()
        return small, large, zero

    @cached_property
    def _ranks(self) -> tuple[Program, NDArray[np.int64]]:
        counts, numbers = Copy.room(1 << RANK_BITS, np.int64), Numbers(0, 8)
        arrays = self._row_scores, counts.device
        steps = [
            step(over_rows.clear, len(counts.host), counts.device),
            step(over_rows.count_ranks, self.n_rows, *arrays, *numbers.on_device),
        ]
        return Program(self._queue, numbers, steps, down=[counts]), counts.host

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        program, counts = self._ranks
        cut_key, below = key.only_below or (np.uint64(0), np.uint64(0))
        given = signed(key.key), key.by_score, key.only_below is not None, signed(cut_key)
        more = signed(below), known_bits, signed(np.uint64(prefix))
        program.run((), (self.rows.offset, *given, *more))
        return counts

    @cached_property
    def _draw(self) -> Program:
        arrays = self._drawn, self._weights
        return self._program(
            5,
            10,
            (over_rows.draw, self._row_scores, *arrays),
            (over_rows.settle_draw, self._g, self._h, *arrays),
        )

    @cached_property
    def _settle(self) -> Program:
        arrays = self._drawn, self._weights
        return self._program(5, 10, (over_rows.settle_draw, self._g, self._h, *arrays))

    def draw(self, rule: DrawRule) -> DrawSummary:
        n = self.n_rows
        self._everybody = isinstance(rule, AllRows)
        if self._everybody:
            self._n_drawn, largest = n, (self._range.max_gradient, self._range.max_hessian)
            return DrawSummary(n, n, 1.0, *largest, float(n), float(n))
        reals, integers = self._draw_by(rule)
        drawn, heaviest = int(integers[over_rows.N_DRAWN]), float(reals[over_rows.LARGEST_WEIGHT])
        self._n_drawn = drawn
        scales = [sum_scale(x, drawn) for x in (heaviest, heaviest * heaviest)]
        return DrawSummary(
            n_rows=drawn,
            n_certain=int(integers[over_rows.N_CERTAIN]),
            max_weight=heaviest,
            max_gradient=float(reals[over_rows.LARGEST_WG]),
            max_hessian=float(reals[over_rows.LARGEST_WH]),
            sum_weight=float(integers[over_rows.SUM_WEIGHT] / scales[0]),
            sum_weight_squared=float(integers[over_rows.SUM_SQUARED] / scales[1]),
        )

    def _draw_by(self, rule: DrawRule) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Drawn rows and their weights into the room for them; the numbers of a draw."""
        given = _numbers_of(rule)
        if given is not None:
            (kind, mu, weight), bits = given
            return self._draw.run(
                (mu, weight, 0.0, 0.0, 0.0),
                (self.rows.offset, kind, *map(signed, bits), 0, 0, 0, 0),
            )
        weights = rule.weights(self.row_scores(), self.rows.ids)
        drawn = np.flatnonzero(weights > 0)
        n, heaviest = len(drawn), float(weights.max(initial=0.0))
        if n:
            send(drawn.astype(ROW), self._drawn[:n])
            send(weights[drawn], self._weights[:n])
        integers = (self.rows.offset, 0, 0, 0, 0, 0, n, 0, 0, 0)
        return self._settle.run((0.0, 0.0, heaviest, 0.0, 0.0), integers)

    # --- trees ----------------------------------------------------------------------------------

    @cached_property
    def _all_rows(self) -> _Sample:
        """All rows, as those that grow a tree."""
        return self._sample_of(self.n_rows, self._nobody, self._no_weights, self._bins)

    def _drawn_rows(self) -> _Sample:
        """Room for the rows that are drawn, and some more."""
        if self._room_for < self._n_drawn:
            self._room_for = min(self._n_drawn + self._n_drawn // 8, self.n_rows)
            bins = room((self._room_for, self._bins.shape[1]), np.int64)
            self._of_drawn = self._sample_of(self._room_for, self._drawn, self._weights, bins)
        return self._of_drawn

    def _sample_of(self, n: int, rows: Any, weights: Any, bins: Any) -> _Sample:
        words, numbers = room(n, PACKED), Numbers(3, 7)
        arrays = self._g, self._h, rows, weights, words, self._bins, bins, *numbers.on_device
        total = numbers.integers.device[over_rows.FIRST_WORD :]
        program = Program(self._queue, numbers, [step(over_rows.pack_rows, n, *arrays)])
        return _Sample(rows, Members(bins, words, room((2, n), ROW), total), program)

    def _members(self, rows: RowSet) -> _Sample:
        return self._all_rows if self._has_all(rows) else self._of_drawn

    def _has_all(self, rows: RowSet) -> bool:
        return self._everybody or rows is RowSet.ALL

    def _size(self, rows: RowSet) -> int:
        return self.n_rows if self._has_all(rows) else self._n_drawn

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, all_rows: Packing | None
    ) -> None:
        self._leaves_of, self._n_nodes = None, 1
        self._node.clear()
        self._packing = {RowSet.SAMPLE: sample}
        if all_rows is not None:
            self._packing[RowSet.ALL] = all_rows
        if not self._everybody:
            self._drawn_rows()
        for rows, packing in self._packing.items():
            numbers = self.rows.offset, signed(key), output, self._size(rows), packing.count_bits
            self._members(rows).pack.start(packing.scales().tolist(), (*numbers, 0, 0))

    def grow_whole_tree(self, request: TreeRequest) -> GrownNodes | None:
        """Grow the tree on the device, unless `TreeGrower` does not; see there."""
        leaves = self._grower.leaves(request)
        if leaves is None:
            return None
        same_weight = int(request.sample.weight_scale) if self._everybody else -1
        sizes = Sizes(self._size(RowSet.SAMPLE), same_weight, self.n_rows)
        sample = self._members(RowSet.SAMPLE).members
        all_rows = None if request.all_rows is None else self._all_rows.members
        grown = self._grower.grow(request, leaves, sample, all_rows, sizes)
        self._find_leaves(grown.tests, grown.tables)  # meanwhile the host reads the nodes
        nodes = grown.nodes()
        self._leaves_of = (nodes.feature,)
        return nodes

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        each = np.ascontiguousarray(np.broadcast_to(features, (len(nodes), features.shape[-1])))
        offsets = np.array([feature_offsets(self.rows.n_bins, row) for row in each])
        out = filled((len(nodes), int(offsets[:, -1].max(initial=0)), 2), PACKED)
        sample, bits = self._members(rows), self._packing[rows].count_bits
        members = self._bins, sample.rows, sample.members.words, put(np.array([bits]))
        numbers = self._node_of(rows), self._numbers(nodes), put(each), put(offsets)
        self._run(step(over_nodes.add_nodes, self._size(rows), *members, *numbers, out))
        found: NDArray[np.int64] = bring(out)
        return found

    def _node_of(self, rows: RowSet) -> Any:
        """The node of each member, where a tree grows verb by verb."""
        if rows not in self._node:
            self._node[rows] = filled(self._size(rows), NODE)
        return self._node[rows]

    def _numbers(self, nodes: Sequence[int]) -> Any:
        """For each node its place among these, or -1."""
        numbers = np.full(self._n_nodes, -1, np.int32)
        numbers[list(nodes)] = np.arange(len(nodes))
        return put(numbers)

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        sides = np.array([(s.feature, s.left, s.right) for s in splits], np.int32)
        numbers = self._numbers([split.node for split in splits])
        self._n_nodes = max(self._n_nodes, int(sides[:, 1:].max()) + 1)
        members = self._bins, self._members(rows).rows, self._node_of(rows)
        tables = put(np.array([split.goes_left for split in splits]))
        self._run(
            step(over_nodes.partition, self._size(rows), *members, numbers, put(sides), tables)
        )

    # --- after the tree -------------------------------------------------------------------------

    def _find_leaves(self, tests: Any, tables: Any) -> None:
        """Find the leaf of every row by tests on the device."""
        if self._finding is None or self._finding[0] is not tests:
            walk = over_nodes.Walk(self._bins, tests, tables, self._leaf)
            steps = [step(over_nodes.find_leaves, self.n_rows, walk)]
            self._finding = tests, Program(self._queue, Numbers(0, 0), steps)
        self._finding[1].start()

    def _leaves(self, tree: TreeArrays) -> None:
        """Find the leaf of every row, unless they are known."""
        if self._leaves_of is None or not are_tests_of(self._leaves_of, tree):
            _check_size("nodes of a tree", tree.n_nodes, over_nodes.MOST_NODES)
            tests = room(tree.n_nodes, np.int64)
            self._run(step(over_nodes.pack_tests, tree.n_nodes, put(_parts_of_tests(tree)), tests))
            self._find_leaves(tests, put(tree.goes_left()))
            self._leaves_of = tests_of(tree)

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        self._leaves(tree)
        n = tree.n_nodes
        program, sums = self._leaf_sums_of(self._has_all(rows), n)
        program.run(scales.tolist(), (output, self._size(rows), n))
        return sums[:n].copy()

    def _leaf_sums_of(self, everybody: bool, n: int) -> tuple[Program, NDArray[np.int64]]:
        """The program that sums over leaves of a tree of up to so many nodes."""
        known = self._summing.get(everybody)
        if known is None or len(known[1]) < n:
            sums, numbers = Copy.room((n, 3), np.int64), Numbers(3, 3)
            drawn = (self._nobody, self._no_weights) if everybody else (self._drawn, self._weights)
            arrays = self._leaf, *drawn, self._g, self._h, sums.device, *numbers.on_device
            leaf_sums = over_nodes.LeafSums(*arrays)
            steps = [
                step(over_rows.clear, 3 * n, sums.device.reshape(3 * n)),
                step(over_nodes.sum_leaves, self.n_rows, leaf_sums),
            ]
            known = Program(self._queue, numbers, steps, down=[sums]), sums.host
            self._summing[everybody] = known
        return known

    def residual_counts(
        self,
        tree: TreeArrays,
        output: int,
        prefix: NDArray[np.int64],
        known_bits: int,
        scale: float,
    ) -> NDArray[np.int64]:
        self._leaves(tree)
        out, numbers = filled((tree.n_nodes, 1 << DIGIT_BITS), np.int64), Numbers(1, 2)
        arrays = self._leaf, self._y, self._score, self._weight, put(prefix), out
        steps = [step(over_nodes.count_residuals, self.n_rows, *arrays, *numbers.on_device)]
        Program(self._queue, numbers, steps).run((scale,), (output, known_bits))
        counts: NDArray[np.int64] = bring(out)
        return counts

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        self._measured = None
        self._leaves(tree)
        if self._applying is None or len(self._applying[1]) < tree.n_nodes:
            values, numbers = Copy.room(tree.n_nodes, np.float64), Numbers(0, 1)
            arrays = self._leaf, values.device, self._score, *numbers.on_device
            steps = [step(over_nodes.add_values, self.n_rows, *arrays)]
            self._applying = Program(self._queue, numbers, steps, up=[values]), values.host
        program, value = self._applying
        program.settle()
        value[: tree.n_nodes] = tree.value
        program.start((), (output,))

    @cached_property
    def _loss_programs(self) -> dict[str, Program]:
        arrays = self._y, self._score, self._weight, self._losses
        return {
            name: self._program(1, 1, (compute, *arrays))
            for name, compute in over_rows.LOSSES.items()
        }

    @cached_property
    def _sum_of_losses(self) -> Program:
        return self._program(1, 1, (over_rows.fixed_point_sum, self._losses))

    def metric_range(self, metric: RowMetric) -> float:
        program, self._measured = self._loss_programs.get(metric.kernel), metric
        if program is None:
            losses = metric.rowwise(self.rows.target, self.scores())
            losses = losses if self.rows.weight is None else losses * self.rows.weight
            send(np.asarray(losses, np.float64), self._losses)
            return float(np.abs(losses).max(initial=0.0))
        (largest,), (odd,) = program.run((0.0,), (0,))
        return float(np.nan if odd else largest)

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        if self._measured is not metric:
            self.metric_range(metric)
        return int(self._sum_of_losses.run((scale,), (0,))[1][0])

    def scores(self) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = bring(self._score)
        return scores


def _check_size(what: str, n: int, most: int) -> None:
    if n > most:
        raise DataError(f"device 'cuda' has room for {most:,} {what}, got {n:,}: use device='cpu'")


def bytes_needed(rows: BinnedRows, n_outputs: int) -> int:
    """Bytes on the device for rows, were all of them to grow a tree, but for what is there.

    Not counted are histograms, and the bins of the rows that are drawn, whose number is not known.
    """
    n_features = int(rows.bins.shape[1])
    words = -(-n_features // over_rows.BINS_OF_WORD)
    # target, row score, loss, leaf, a draw
    of_rows = _size_of(np.float64, GRADIENT, np.float64, NODE, ROW, WEIGHT)
    of_rows += n_outputs * _size_of(SCORE, GRADIENT, GRADIENT)
    of_rows += _size_of(np.float64) if rows.is_weighted else 0
    # bins as they come are there before all else, initial scores before trees
    start = 0 if rows.start is None else n_outputs * _size_of(SCORE)
    most = of_rows + max(start, _size_of(PACKED, ROW, ROW))
    if isinstance(rows.bins, Bins):
        return rows.n_rows * most
    return rows.n_rows * (words * _size_of(np.int64) + max(n_features, most))


def _size_of(*dtypes: Any) -> int:
    return sum(np.dtype(dtype).itemsize for dtype in dtypes)


def _described(rows: BinnedRows, objective: RowObjective) -> str:
    n, n_features = rows.bins.shape
    return f"{n:,} rows of {n_features:,} features (outputs: {objective.n_outputs})"


def _parts_of_tests(tree: TreeArrays) -> NDArray[np.int64]:
    """What `nodes.test_of` makes the tests of a tree from."""
    parts = np.empty((tree.n_nodes, 6), np.int64)
    parts[:, 0], parts[:, 1], parts[:, 2] = tree.left, tree.feature, tree.threshold
    parts[:, 3], parts[:, 4] = tree.missing_bin, tree.missing_left
    parts[:, 5] = tree.categories >= 0
    return parts


def _numbers_of(rule: DrawRule) -> tuple[tuple[Any, ...], tuple[np.uint64, ...]] | None:
    """Of a rule that has a kernel: kind, µ and weight, and keys and cuts; None of another."""
    none = np.uint64(0)
    if isinstance(rule, Poisson):
        return (over_rows.POISSON, rule.mu, 0.0), (none, none, rule.key, none)
    if isinstance(rule, SmallestKeys):
        return (over_rows.SMALLEST_KEYS, 0.0, rule.weight), (none, none, rule.key, rule.cut)
    if isinstance(rule, TopAndRest):
        bits = rule.top_key, rule.top_cut, rule.rest_key, rule.rest_cut
        return (over_rows.TOP_AND_REST, 0.0, rule.rest_weight), bits
    return None
