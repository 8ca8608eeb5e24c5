"""How a tree grows: a frontier of nodes, and a policy that says which to split next.

Best-first pops the node of largest gain; depth-wise pops a level. For every new
pair of children only the histogram of the smaller is built; the other is the
parent's less that one, exactly, since histograms are integers.

With a second look (METHOD §6) the sample's histograms only rank the features;
the best K go on, and all rows of the node decide among them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.protocol import Backend, NodeSplit, RowSet
from mvsboost.dtypes import NODE
from mvsboost.fixedpoint import Packing
from mvsboost.trees.splitting import FeatureTable, Limits, Split, SplitSearch
from mvsboost.trees.tree import LEAF, Tree, pack_set

__all__ = ["FeatureTable", "GrownTree", "TreeParams", "grow_tree"]


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
    l2, min_gain : float
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


@dataclass
class Node:
    """A node while the tree grows. Words are packed sums; see `fixedpoint`."""

    id: int
    depth: int
    sample: NDArray[np.int64]
    everything: NDArray[np.int64] | None = None
    lower: float = -np.inf
    upper: float = np.inf
    histogram: NDArray[np.int64] | None = None
    split: Split | None = None
    sample_left: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class GrownTree:
    """The structure of a tree and the sums of its nodes, before leaves have values."""

    structure: Tree
    nodes: list[Node]
    sample_packing: Packing
    packing: Packing
    """Packing of the words that decided: all rows under a second look, else the sample."""

    @property
    def saw_all_rows(self) -> bool:
        """Whether the nodes hold sums of all rows, as they do under a second look."""
        return self.nodes[0].everything is not None


@dataclass
class _Grower:
    backend: Backend
    table: FeatureTable
    features: NDArray[np.int64]
    params: TreeParams
    sample_packing: Packing
    exact_packing: Packing | None
    nodes: list[Node] = field(default_factory=list)
    split_nodes: list[tuple[Node, int]] = field(default_factory=list)
    """Inner nodes, each with the number of its left child; the right one follows it."""
    n_leaves: int = 1

    @property
    def packing(self) -> Packing:
        return self.exact_packing or self.sample_packing

    def words(self, node: Node) -> NDArray[np.int64]:
        """The words that decide at a node."""
        return node.sample if node.everything is None else node.everything

    def limits(self, node: Node, second: bool) -> Limits:
        p = self.params
        # all rows need no floor on how many of them were sampled
        min_count = 1 if second else p.min_sampled
        return Limits(
            p.l2, p.min_samples_leaf, p.min_child_weight, min_count, node.lower, node.upper
        )

    # --- the loop -----------------------------------------------------------------------------

    def grow(self) -> None:
        root = self._root()
        self._find_splits([root])
        frontier = _Frontier(self.params)
        frontier.push([root])
        while batch := frontier.pop(self._leaves_left()):
            families = self._split(batch)
            if self._leaves_left() > 0:
                frontier.push(self._evaluate(families))

    def _leaves_left(self) -> int:
        limit = self.params.max_leaves
        return np.iinfo(np.int64).max if limit is None else limit - self.n_leaves

    def _root(self) -> Node:
        histogram = self.backend.histograms(RowSet.SAMPLE, [0], self.features)[0]
        root = Node(id=0, depth=0, sample=self._total(histogram), histogram=histogram)
        if self.exact_packing is not None:
            one = self.backend.histograms(RowSet.ALL, [0], self.features[:1])[0]
            root.everything = self._total(one)
        self.nodes.append(root)
        return root

    def _total(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """Words of a node: every feature's bins add up to them, the first one's do here."""
        first = int(self.table.n_bins[self.features[0]]) + 1
        total: NDArray[np.int64] = histogram[:first].sum(axis=0)
        return total

    # --- splitting ----------------------------------------------------------------------------

    def _split(self, batch: list[Node]) -> list[tuple[Node, Node, Node]]:
        """Split the nodes of a batch; each with its left and right child."""
        families: list[tuple[Node, Node, Node]] = []
        splits: list[NodeSplit] = []
        for node in batch:
            assert node.split is not None
            left, right = self._children(node, node.split)
            families.append((node, left, right))
            splits.append(
                NodeSplit(node.id, left.id, right.id, node.split.feature, node.split.goes_left)
            )
        self.backend.partition(RowSet.SAMPLE, splits)
        if self.exact_packing is not None:
            self.backend.partition(RowSet.ALL, splits)
        self.n_leaves += len(batch)
        return families

    def _children(self, node: Node, split: Split) -> tuple[Node, Node]:
        assert node.sample_left is not None
        first, depth = len(self.nodes), node.depth + 1
        left = Node(first, depth, node.sample_left, lower=node.lower, upper=node.upper)
        rest = node.sample - node.sample_left
        right = Node(first + 1, depth, rest, lower=node.lower, upper=node.upper)
        if node.everything is not None:
            left.everything, right.everything = split.left, node.everything - split.left
        sign = self.table.monotone[split.feature]
        if sign != 0:
            middle = (self._value(left) + self._value(right)) / 2
            low, high = (left, right) if sign > 0 else (right, left)
            low.upper = high.lower = middle
        self.nodes += [left, right]
        self.split_nodes.append((node, first))
        return left, right

    def _value(self, node: Node) -> float:
        sums = self.packing.unpack(self.words(node))
        value = -sums.gradient / max(sums.hessian + self.params.l2, 1e-300)
        return min(max(value, node.lower), node.upper)

    # --- evaluating ---------------------------------------------------------------------------

    def _evaluate(self, families: list[tuple[Node, Node, Node]]) -> list[Node]:
        """Find the best splits of the children worth splitting; returns those children."""
        alive = [f for f in families if self._splittable(f[1]) or self._splittable(f[2])]
        smaller = [min(left, right, key=self._sampled) for _, left, right in alive]
        if alive:
            ids = [node.id for node in smaller]
            histograms = self.backend.histograms(RowSet.SAMPLE, ids, self.features)
            for (parent, left, right), one, own in zip(alive, smaller, histograms, strict=True):
                assert parent.histogram is not None
                other = right if one is left else left
                one.histogram, other.histogram = own, parent.histogram - own
        for parent, _, _ in families:
            parent.histogram = None
        children = [child for _, *pair in alive for child in pair if self._splittable(child)]
        self._find_splits(children)
        return children

    def _sampled(self, node: Node) -> int:
        return self.sample_packing.unpack(node.sample).count

    def _splittable(self, node: Node) -> bool:
        depth = self.params.max_depth
        if depth is not None and node.depth >= depth:
            return False
        sums = self.packing.unpack(self.words(node))
        return sums.weight >= 2 * self.params.min_samples_leaf and self._sampled(node) >= 2

    def _find_splits(self, nodes: list[Node]) -> None:
        if self.exact_packing is None:
            for node in nodes:
                node.split = self._search(node).best(self.params.min_gain)
                node.sample_left = None if node.split is None else node.split.left
        else:
            self._second_look(nodes)

    def _search(self, node: Node) -> SplitSearch:
        assert node.histogram is not None
        return SplitSearch(
            self.table,
            self.features,
            node.histogram,
            node.sample,
            self.sample_packing,
            self.limits(node, second=False),
        )

    def _second_look(self, nodes: list[Node]) -> None:
        """The sample proposes, all rows decide."""
        assert self.exact_packing is not None
        looks = [(node, self._search(node)) for node in nodes]
        proposals = [(node, s, s.ranked(self.params.second_look)) for node, s in looks]
        proposals = [(node, s, features) for node, s, features in proposals if len(features)]
        if not proposals:
            return
        ids = [node.id for node, _, _ in proposals]
        chosen = np.stack([features for _, _, features in proposals])
        histograms = self.backend.histograms(RowSet.ALL, ids, chosen)
        for (node, proposal, features), histogram in zip(proposals, histograms, strict=True):
            assert node.everything is not None
            limits = self.limits(node, second=True)
            search = SplitSearch(
                self.table, features, histogram, node.everything, self.exact_packing, limits
            )
            node.split = search.best(self.params.min_gain)
            node.sample_left = None if node.split is None else proposal.words_left(node.split)


class _Frontier:
    """Nodes that can be split, and the policy that pops them."""

    def __init__(self, params: TreeParams) -> None:
        self._best_first = params.max_leaves is not None
        self._heap: list[tuple[float, int, Node]] = []

    def push(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.split is not None:
                heapq.heappush(self._heap, (-node.split.gain, node.id, node))

    def pop(self, leaves_left: int) -> list[Node]:
        """The next nodes to split, at most `leaves_left`."""
        if not self._heap or leaves_left <= 0:
            return []
        if self._best_first:
            return [heapq.heappop(self._heap)[2]]
        level = sorted((node for _, _, node in self._heap), key=lambda node: node.id)
        self._heap = []
        return level


def grow_tree(
    backend: Backend,
    table: FeatureTable,
    features: NDArray[np.int64],
    params: TreeParams,
    sample_packing: Packing,
    exact_packing: Packing | None = None,
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
    """
    grower = _Grower(backend, table, features, params, sample_packing, exact_packing)
    grower.grow()
    packing = grower.packing
    return GrownTree(_structure(grower), grower.nodes, sample_packing, packing)


def _structure(grower: _Grower) -> Tree:
    nodes, n = grower.nodes, len(grower.nodes)
    feature = np.full(n, LEAF, NODE)
    left, right = feature.copy(), feature.copy()
    threshold, categories, missing_bin = feature.copy(), feature.copy(), np.zeros(n, NODE)
    missing_left = np.zeros(n, bool)
    gain = np.zeros(n)
    sets: list[NDArray[np.uint32]] = []
    for parent, first_child in grower.split_nodes:
        split, i = parent.split, parent.id
        assert split is not None
        feature[i], gain[i] = split.feature, split.gain
        left[i], right[i] = first_child, first_child + 1
        missing_left[i], missing_bin[i] = split.missing_left, grower.table.n_bins[split.feature]
        threshold[i] = split.threshold
        if split.categorical:
            categories[i] = len(sets)
            sets.append(pack_set(split.goes_left))
    sums = [grower.packing.unpack(grower.words(node)) for node in nodes]
    return Tree(
        feature=feature,
        threshold=threshold,
        missing_left=missing_left,
        categories=categories,
        category_sets=np.array(sets, np.uint32).reshape(-1, 8),
        missing_bin=missing_bin,
        left=left,
        right=right,
        value=np.zeros(n),
        gain=gain,
        cover=np.array([s.weight for s in sums]),
        hessian=np.array([s.hessian for s in sums]),
    )
