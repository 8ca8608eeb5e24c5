"""How a tree grows: a frontier of nodes, and a policy that says which to split next.

Best-first pops the node of largest gain; depth-wise pops a level. For every new
pair of children only the histogram of the smaller is built; the other is the
parent's less that one, exactly, since histograms are integers.

With a second look (docs/method.md) the sample's histograms only rank the features;
the best K go on, and all rows of the node decide among them.

Rows that are far away are asked ahead: for the children of all nodes of the frontier that
may still be split, at once. What is not needed is thrown away, and the tree is the same.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import GrownNodes, NodeSplit, RowSet, TreeRequest
from mvsboost.backends.protocol import Backend, GrowsWholeTrees
from mvsboost.exact.dtypes import BIN, NODE, TABLE
from mvsboost.exact.fixedpoint import HALF, Packing
from mvsboost.kernels.nodes import describe_nodes
from mvsboost.trees.splitting import NO_WORDS, FeatureTable, Limits, Split, SplitSearch
from mvsboost.trees.tree import LEAF, NO_SETS, Tree

__all__ = ["FeatureTable", "GrownTree", "TreeParams", "grow_tree", "grow_verb_by_verb"]

_AHEAD = 4
"""Nodes that are asked about before their turn: more are asked for nothing."""

LEAST_LEVELS = 4
"""Levels that the packed hessian of a leaf's mean row must keep for its value to rest on it.

Rounding then adds no more than a sixtieth to the variance that sampling brings."""


@dataclass(frozen=True)
class TreeParams:
    """What bounds a tree.

    Attributes
    ----------
    max_leaves : int or None
        Best-first growth up to this many leaves; None grows level by level.
    max_depth : int or None
    min_samples_leaf : float
        Rows a leaf must stand for: by weight under sampling, exact under a second look.
    min_child_weight : float
        Sum of hessians a leaf must have.
    min_sampled : int
        Sampled rows a leaf must actually have.
    l2, min_gain, l1 : float
    second_look : int
        Features the sample may propose for all rows to decide on; 0 lets the sample decide.
    """

    max_leaves: int | None = 31
    max_depth: int | None = None
    min_samples_leaf: float = 20
    min_child_weight: float = 1e-3
    min_sampled: int = 1
    l2: float = 1.0
    min_gain: float = 0.0
    second_look: int = 0
    l1: float = 0.0

    def in_units(self, weight: float) -> TreeParams:
        """The same where rows are weighed in units of `weight`: sums of hessians are, too."""
        names = ("min_child_weight", "l2", "l1", "min_gain")
        scaled = {name: min(getattr(self, name) / weight, _VERY_LARGE) for name in names}
        return replace(self, **scaled)


_VERY_LARGE = 1e300


@dataclass(frozen=True)
class GrownTree:
    """The structure of a tree and the sums of its nodes, before leaves have values."""

    structure: Tree
    nodes: GrownNodes
    sample_packing: Packing
    exact_packing: Packing | None
    decisive: NDArray[np.float64]
    """Gradient, hessian and weight of each node, (3, n), of the rows that decided."""

    @property
    def saw_all_rows(self) -> bool:
        """Whether the nodes hold sums of all rows, as they do under a second look."""
        return self.exact_packing is not None

    @property
    def sample_sums(self) -> NDArray[np.float64]:
        """Gradient, hessian and weight of each node, (3, n), of the sample's rows."""
        if not self.saw_all_rows:
            return self.decisive
        return np.array(self.sample_packing.unpack_all(self.nodes.sample))

    @property
    def is_coarse(self) -> bool:
        """Whether the sample's words keep too little of some leaf's hessians to give it a value."""
        words = self.nodes.sample[self.structure.is_leaf]
        counts = words[:, 0] & ((1 << self.sample_packing.count_bits) - 1)
        return bool((words[:, 1] >> HALF < LEAST_LEVELS * counts).any())


def grow_tree(
    backend: Backend,
    table: FeatureTable,
    features: NDArray[np.int64],
    params: TreeParams,
    sample_packing: Packing,
    exact_packing: Packing | None = None,
    dispersion: float = 0.0,
) -> GrownTree:
    """Grow one tree on the sample that the backend holds (`begin_tree` was called).

    Parameters
    ----------
    backend : Backend
    table : FeatureTable
    features : int64 array
        Features this tree may use.
    params : TreeParams
    sample_packing : Packing
        Scales of the sample's words.
    exact_packing : Packing, optional
        Scales of all rows' words; given exactly where there is a second look.
    dispersion : float
        Σg² / Σh, which categorical splits are measured by; see `TreeRequest`.
    """
    categorical, monotone = table.of(features)
    request = TreeRequest(
        features=features,
        categorical=categorical,
        monotone=monotone,
        sample=sample_packing,
        all_rows=exact_packing,
        max_leaves=params.max_leaves,
        max_depth=params.max_depth,
        min_samples_leaf=params.min_samples_leaf,
        min_child_weight=params.min_child_weight,
        min_sampled=params.min_sampled,
        l2=params.l2,
        min_gain=params.min_gain,
        second_look=params.second_look,
        dispersion=dispersion,
        l1=params.l1,
        groups=table.groups,
    )
    # isinstance would ask this of the protocol too, for a hundred times as long
    whole = hasattr(backend, "grow_whole_tree")
    nodes = cast(GrowsWholeTrees, backend).grow_whole_tree(request) if whole else None
    if nodes is None:
        nodes = grow_verb_by_verb(backend, table, request)
    return _with_structure(nodes, table, sample_packing, exact_packing)


def grow_verb_by_verb(backend: Backend, table: FeatureTable, request: TreeRequest) -> GrownNodes:
    """The nodes of a tree, by histograms and partitions in turn."""
    return _Grower(backend, table, request, getattr(backend, "is_far", False)).grow()


def _with_structure(
    nodes: GrownNodes, table: FeatureTable, sample: Packing, exact: Packing | None
) -> GrownTree:
    """Give the nodes the form of a tree, its values still 0."""
    feature, goes_left, n = nodes.feature, nodes.goes_left, len(nodes.feature)
    words, packing = nodes.sample, sample
    if exact is not None and nodes.all_rows is not None:
        words, packing = nodes.all_rows, exact
    missing_left, numbers = np.empty(n, np.bool_), np.empty((2, n), NODE)
    _, hessian, weight = sums = np.empty((3, n))
    sets = np.empty((n, TABLE // 32), np.uint32) if table.has_categories else NO_SETS
    n_sets = describe_nodes(
        feature,
        goes_left,
        words,
        table.n_bins,
        table.categorical,
        packing.units(),
        packing.count_bits,
        missing_left,
        numbers,
        sums,
        sets,
    )
    missing_bin, categories = numbers
    tree = Tree(
        feature=feature,
        threshold=nodes.threshold,
        missing_left=missing_left,
        categories=categories,
        category_sets=sets[:n_sets].copy() if n_sets else NO_SETS,
        missing_bin=missing_bin,
        left=nodes.left,
        right=nodes.right,
        value=np.zeros(n),
        gain=nodes.gain,
        cover=weight,
        hessian=hessian,
    )
    return GrownTree(tree, nodes, sample, exact, sums)


# --- growing verb by verb -----------------------------------------------------------------------


@dataclass
class _Node:
    """A node while the tree grows. Words are packed sums; see `fixedpoint`.

    `search` is the sample's; `proposed` says that all rows have yet to decide on it. Rows are
    known to the backend by `place`, which is another number than `id` where they are asked ahead.
    """

    place: int
    depth: int
    sample: NDArray[np.int64]
    all_rows: NDArray[np.int64] | None = None
    lower: float = -np.inf
    upper: float = np.inf
    groups: NDArray[np.int64] = field(default_factory=lambda: NO_WORDS)
    search: SplitSearch | None = None
    proposed: bool = False
    split: Split | None = None
    sample_left: NDArray[np.int64] | None = None
    first_child: int = LEAF
    id: int = 0
    seen: _Look | None = None
    children: tuple[_Node, _Node] | None = None

    @property
    def decision(self) -> _Look:
        """The split and the sample's words on its left, accepted or not yet."""
        if not self.proposed:
            return self.split, self.sample_left
        assert self.seen is not None
        return self.seen


_Look = tuple[Split | None, NDArray[np.int64] | None]
"""What all rows decided: the split, and the sample's words on its left."""


@dataclass
class _Grower:
    backend: Backend
    table: FeatureTable
    request: TreeRequest
    ahead: bool
    nodes: list[_Node] = field(default_factory=list)
    n_places: int = 1

    def words(self, node: _Node) -> NDArray[np.int64]:
        """The words that decide at a node."""
        return node.sample if node.all_rows is None else node.all_rows

    def limits(self, node: _Node, min_sampled: int) -> Limits:
        r = self.request
        bounds = node.lower, node.upper
        return Limits(
            r.l2, r.min_samples_leaf, r.min_child_weight, min_sampled, *bounds, r.dispersion, r.l1
        )

    def grow(self) -> GrownNodes:
        root = self._root()
        self.nodes.append(root)
        frontier = _Frontier(best_first=self.request.max_leaves is not None)
        frontier.push([root])
        while (left := self._splits_left()) > 0 and (batch := frontier.pop()):
            proposed = [node for node in batch if node.proposed]
            if proposed:
                if not all(node.seen for node in proposed):
                    self._second_look([*proposed, *self._ahead(frontier, left, looks=True)])
                self._accept(proposed)
                frontier.push(batch)
                continue
            if not all(node.children for node in batch):
                others = self._ahead(frontier, left - len(batch), looks=False)
                last = left == len(batch)  # whose children will not be split
                self._split([node for node in (*batch, *others) if not node.children], last)
            frontier.push([child for node in batch for child in self._adopt(node)])
        return self._result()

    def _ahead(self, frontier: _Frontier, n_splits: float, *, looks: bool) -> list[_Node]:
        """Nodes whose turn will probably come soon: to be looked at by all rows, or to be split.

        They are found by growing on in thought, with what is known, until nothing is.
        """
        found: list[_Node] = []
        thought = frontier.copy()
        while self.ahead and n_splits > 0 and len(found) < _AHEAD and (batch := thought.pop()):
            for node in batch:
                if node.proposed and node.seen is None:
                    found += [node] if looks else []
                elif node.children is not None:
                    thought.push(list(node.children))
                elif not looks and node.decision[0] is not None:
                    found.append(node)
            n_splits -= len(batch)
        return found

    def _splits_left(self) -> float:
        limit = self.request.max_leaves
        n_leaves = (len(self.nodes) + 1) // 2
        return np.inf if limit is None else limit - n_leaves

    def _adopt(self, node: _Node) -> tuple[_Node, _Node]:
        """The children of a node whose turn has come are numbered, and part of the tree."""
        assert node.children is not None
        node.first_child = len(self.nodes)
        for child in node.children:
            child.id = len(self.nodes)
            self.nodes.append(child)
        children, node.children, node.search = node.children, None, None
        return children

    def _root(self) -> _Node:
        features = self.request.features
        histogram = self.backend.histograms(RowSet.SAMPLE, [0], features)[0]
        root = _Node(place=0, depth=0, sample=self._total(histogram))
        root.groups = np.full(self.table.groups.shape[1], -1)
        if self.request.all_rows is not None:
            one = self.backend.histograms(RowSet.ALL, [0], features[:1])[0]
            root.all_rows = self._total(one)
        self._find_split(root, histogram)
        return root

    def _total(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """Words of a node: every feature's bins add up to them, the first one's do here."""
        first = int(self.table.n_bins[self.request.features[0]]) + 1
        total: NDArray[np.int64] = histogram[:first].sum(axis=0)
        return total

    # --- splitting ----------------------------------------------------------------------------

    def _split(self, parents: list[_Node], last: bool) -> None:
        """Make the children of nodes, and evaluate them unless they are the last."""
        splits: list[NodeSplit] = []
        for node in parents:
            split, sample_left = node.decision
            assert split is not None
            assert sample_left is not None
            left, right = node.children = self._children(node, split, sample_left)
            splits.append(
                NodeSplit(node.place, left.place, right.place, split.feature, split.goes_left)
            )
        self.backend.partition(RowSet.SAMPLE, splits)
        if self.request.all_rows is not None:
            self.backend.partition(RowSet.ALL, splits)
        if not last:
            self._evaluate(parents)

    def _children(
        self, node: _Node, split: Split, sample_left: NDArray[np.int64]
    ) -> tuple[_Node, _Node]:
        place, depth = self.n_places, node.depth + 1
        self.n_places += 2
        left = _Node(place, depth, sample_left, None, node.lower, node.upper)
        rest = node.sample - sample_left
        right = _Node(place + 1, depth, rest, None, node.lower, node.upper)
        if node.all_rows is not None:
            left.all_rows, right.all_rows = split.left, node.all_rows - split.left
        if len(node.groups):
            left.groups = right.groups = node.groups & self.table.groups[split.feature]
        sign = self.table.monotone[split.feature]
        if sign != 0:
            middle = (self._value(left) + self._value(right)) / 2
            low, high = (left, right) if sign > 0 else (right, left)
            low.upper = high.lower = middle
        return left, right

    def _value(self, node: _Node) -> float:
        packing = self.request.all_rows or self.request.sample
        return self.limits(node, 1).value(packing.unpack(self.words(node)))

    # --- evaluating ---------------------------------------------------------------------------

    def _evaluate(self, parents: list[_Node]) -> None:
        """Find the best splits of those children that are worth splitting."""
        alive = [
            (node, node.children)
            for node in parents
            if node.children and any(map(self._splittable, node.children))
        ]
        if not alive:
            return
        smaller = [min(pair, key=self._sampled) for _, pair in alive]
        places, features = [node.place for node in smaller], self.request.features
        histograms = self.backend.histograms(RowSet.SAMPLE, places, features)
        for (parent, pair), one, own in zip(alive, smaller, histograms, strict=True):
            assert parent.search is not None
            rest = parent.search.histogram - own
            for child in filter(self._splittable, pair):
                self._find_split(child, own if child is one else rest)

    def _sampled(self, node: _Node) -> int:
        return self.request.sample.unpack(node.sample).count

    def _splittable(self, node: _Node) -> bool:
        depth = self.request.max_depth
        if depth is not None and node.depth >= depth:
            return False
        packing = self.request.all_rows or self.request.sample
        weight = packing.unpack(self.words(node)).weight
        return weight >= 2 * self.request.min_samples_leaf and self._sampled(node) >= 2

    def _find_split(self, node: _Node, histogram: NDArray[np.int64]) -> None:
        """The sample decides; or it proposes, and all rows decide when the node's turn comes."""
        limits, packing = self.limits(node, self.request.min_sampled), self.request.sample
        features = self.request.features
        search = SplitSearch(
            self.table, features, histogram, node.sample, packing, limits, node.groups
        )
        node.search = search
        if self.request.all_rows is None:
            node.split = search.best(self.request.min_gain)
            node.sample_left = None if node.split is None else node.split.left
        else:
            node.proposed = search.largest_gain > -np.inf

    def _accept(self, nodes: list[_Node]) -> None:
        """What all rows have decided counts, now that the turn of the nodes has come."""
        for node in nodes:
            node.proposed, (node.split, node.sample_left) = False, node.decision

    def _second_look(self, nodes: list[_Node]) -> None:
        """All rows decide among the features that the sample proposed."""
        packing, looks = self.request.all_rows, self.request.second_look
        assert packing is not None
        nodes = [node for node in nodes if node.seen is None]
        proposals = [node.search for node in nodes if node.search is not None]
        chosen = np.stack([proposal.ranked(looks) for proposal in proposals])
        places = [node.place for node in nodes]
        histograms = self.backend.histograms(RowSet.ALL, places, chosen)
        for node, proposal, features, histogram in zip(
            nodes, proposals, chosen, histograms, strict=True
        ):
            assert node.all_rows is not None
            # all rows need no floor on how many of them were sampled
            limits = self.limits(node, min_sampled=1)
            search = SplitSearch(
                self.table, features, histogram, node.all_rows, packing, limits, node.groups
            )
            split = search.best(self.request.min_gain)
            node.seen = split, None if split is None else proposal.words_left(split)

    def _result(self) -> GrownNodes:
        n = len(self.nodes)
        result = GrownNodes(
            feature=np.full(n, LEAF, NODE),
            threshold=np.full(n, LEAF, NODE),
            left=np.full(n, LEAF, NODE),
            right=np.full(n, LEAF, NODE),
            goes_left=np.zeros((n, TABLE), BIN),
            gain=np.zeros(n),
            lower=np.array([node.lower for node in self.nodes]),
            upper=np.array([node.upper for node in self.nodes]),
            sample=np.array([node.sample for node in self.nodes]),
            all_rows=(
                None
                if self.request.all_rows is None
                else np.array([node.all_rows for node in self.nodes])
            ),
        )
        for node in self.nodes:
            if node.split is not None and node.first_child != LEAF:
                i, split = node.id, node.split
                result.feature[i], result.threshold[i] = split.feature, split.threshold
                result.left[i], result.right[i] = node.first_child, node.first_child + 1
                result.goes_left[i], result.gain[i] = split.goes_left, split.gain
        return result


class _Frontier:
    """Nodes that are or may yet be split, and the policy that pops them.

    A node that all rows have not looked at counts with what the sample thinks it would gain.
    """

    def __init__(self, *, best_first: bool) -> None:
        self._best_first = best_first
        self._heap: list[tuple[float, int, int, _Node]] = []

    def push(self, nodes: list[_Node]) -> None:
        for node in nodes:
            if node.proposed and node.search is not None:
                heapq.heappush(self._heap, (-node.search.largest_gain, node.id, node.place, node))
            elif node.split is not None:
                heapq.heappush(self._heap, (-node.split.gain, node.id, node.place, node))

    def pop(self) -> list[_Node]:
        """The node of largest gain, or all nodes of the level in their order."""
        if not self._heap:
            return []
        if self._best_first:
            return [heapq.heappop(self._heap)[-1]]
        level = sorted((node for *_, node in self._heap), key=lambda node: node.id)
        self._heap = []
        return level

    def copy(self) -> _Frontier:
        """The same nodes, to be popped apart."""
        other = _Frontier(best_first=self._best_first)
        other._heap = self._heap.copy()
        return other
