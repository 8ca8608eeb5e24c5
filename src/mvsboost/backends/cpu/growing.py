"""A whole tree in one compiled call of each thread: from a request to the kernel and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu.compilation import announce_compilation
from mvsboost.backends.messages import GrownNodes, TreeRequest, are_plain
from mvsboost.exact.dtypes import NODE, PACKED
from mvsboost.exact.fixedpoint import Packing
from mvsboost.kernels import tree
from mvsboost.kernels.apply import number_dtype
from mvsboost.kernels.histogram import feature_offsets
from mvsboost.kernels.small_nodes import MOST_ROWS
from mvsboost.kernels.sparse_rows import SPREAD, SparseTable, spread_out
from mvsboost.kernels.split import MIN_SAMPLED, N_LIMITS
from mvsboost.runtime.arena import Arena
from mvsboost.runtime.atomics import CACHE_LINE
from mvsboost.runtime.threads import ThreadPool

WORTH_LANES = 2048
"""Rows of the sample, for each thread, from which on it has several lanes."""

MOST_ROOM = 4 << 30
"""Bytes that a tree may be grown in; much of it is never touched, and is not memory before."""

_FEW_LEAVES = 32
"""Leaves that there is room for without asking what rows allow."""

_ANY_DEPTH = np.iinfo(np.int64).max


class Ways(NamedTuple):
    """Up to what size trees and nodes are grown in which way.

    Attributes
    ----------
    lanes : int
        Rows of the sample, for each thread, from which on it has several lanes.
    small_node : int or None
        Rows of nodes that are searched one by one; None for as many as a feature has bins.
    room : int
        Bytes that a tree may be grown in at once, and not verb by verb.
    full : bool
        Whether all trees are grown by the kernel for any tree, since some of the fit need it.
    """

    lanes: int = WORTH_LANES
    small_node: int | None = None
    room: int = MOST_ROOM
    full: bool = False


class Members:
    """Rows that take part in a tree: packed words and their sum, and the ranges of nodes."""

    def __init__(
        self,
        words: NDArray[np.int64],
        count_bits: int,
        total: NDArray[np.int64],
        order: NDArray[np.uint32],
        scratch: NDArray[np.uint32],
    ) -> None:
        self.words = words
        self.count_bits = count_bits
        self.total = total
        self.order = order
        self.scratch = scratch
        self.ranges = {0: (0, len(words))}

    def rows(self, packing: Packing, ranges: NDArray[np.int64]) -> tree.Rows:
        """The rows for a look; `ranges` is room."""
        units, bits = packing.units(), packing.count_bits
        return tree.Rows(self.words, self.total, self.order, self.scratch, ranges, units, bits)


class TreeGrower:
    """Grows whole trees, and keeps what a tree has in common with the next.

    Parameters
    ----------
    n_bins : int64 array
        Regular bins of each feature.
    sparse : SparseTable or None
        What the lists of a `tree.Source` mean, where it has lists.
    threads : ThreadPool
    arena : Arena
    ways : Ways

    Attributes
    ----------
    room : Room or None
        What trees are grown in, since the first of them.
    """

    def __init__(
        self,
        n_bins: NDArray[np.int64],
        sparse: SparseTable | None,
        threads: ThreadPool,
        arena: Arena,
        ways: Ways,
    ) -> None:
        self._ways = ways
        self._n_bins = n_bins
        self._sparse = sparse
        self._threads = threads
        self._arena = arena
        self.room: Room | None = None
        self._features: tree.Features | None = None

    def _look_at(self, request: TreeRequest) -> tree.Features:
        """The sample looks at all features of the request, often those of the tree before."""
        kept = self._features
        if kept is None or kept.index is not request.features:
            kept = _features(request, self._n_bins, self._sparse)
        elif kept.categorical is not request.categorical or kept.monotone is not request.monotone:
            kept = kept._replace(categorical=request.categorical, monotone=request.monotone)
        self._features = kept
        return kept

    def has_room(self, size: Size) -> bool:
        """Whether the largest tree there could be can be grown here; if not, verb by verb."""
        if self.room is not None and self.room.holds(size):
            return True
        leaves, look, n_threads = size.leaves, size.look, size.n_threads
        every, few, _ = self._entries(look)
        nodes = n_threads * tree.bytes_of_nodes(leaves, look, size.n_words)
        ranges = size.n_looks * size.n_lanes * (2 * leaves - 1) * 4
        histograms = 2 * (size.slots * every + (leaves + 1) * few)
        return nodes + 8 * (ranges + histograms) <= self._ways.room

    def size_of(self, request: TreeRequest, sample: Members, all_rows: Members | None) -> Size:
        """How large a tree can become, and what it is grown by."""
        deciding, n_features = all_rows or sample, len(request.features)
        n_sampled, n_looks = len(sample.words), 1 if all_rows is None else 2
        # a tree comes back to its rows, so fewer of them are worth a thread than in a single pass
        work = max(n_sampled * n_features // 2, 2 * len(deciding.words))
        n_threads = self._threads.worth(work)
        several = n_threads > 1 and n_sampled >= n_threads * self._ways.lanes
        leaves = _most_leaves(request, deciding)
        return Size(
            n_features,
            leaves,
            slots=min(
                leaves, _most_histograms(n_sampled, self._small_node(self._look_at(request)))
            ),
            n_looks=n_looks,
            look=min(request.second_look, n_features) * (n_looks - 1),
            n_threads=n_threads,
            n_lanes=n_threads * (tree.LANES if several else 1),
            n_words=request.groups.shape[1],
        )

    def grow(
        self,
        request: TreeRequest,
        size: Size,
        sample: Members,
        all_rows: Members | None,
        source: tree.Source,
    ) -> tuple[GrownNodes, NDArray[Any] | None]:
        """Grow a tree with up to as many threads as its rows are worth.

        A second look knows the leaf of every row in the end, which is returned as well.
        """
        kernel, arguments = self.kernel_and_arguments(request, size, sample, all_rows, source)
        announce_compilation(kernel)
        n: int = self._threads.whole(size.n_threads, kernel, *arguments)
        *_, looks, _, _, nodes = arguments
        leaf = None
        if all_rows is not None:
            shape, dtype = (len(all_rows.words),), number_dtype(2 * size.leaves - 1)
            leaf = self._arena.take("leaf", shape, dtype)
            rows, links = looks[1].rows, nodes.integers[0]
            self._threads.whole(size.n_threads, tree.mark_leaves, rows, links, n, leaf)
        return grown_nodes(nodes, n, all_rows is not None), leaf

    def kernel_and_arguments(
        self,
        request: TreeRequest,
        size: Size,
        sample: Members,
        all_rows: Members | None,
        source: tree.Source,
    ) -> tuple[Any, tuple[Any, ...]]:
        """What grows a tree, and its arguments after those of every kernel of all threads."""
        room, features = self._prepare(size), self._look_at(request)
        counter, taken = np.zeros(1, np.int64), np.zeros((2, size.n_threads, CACHE_LINE), np.int64)
        lanes = size.n_looks, size.n_lanes
        ranges = self._arena.take("ranges", (*lanes, 2 * size.leaves - 1, 4), np.int64)
        shape = tree.Shape(
            size.leaves,
            _ANY_DEPTH if request.max_depth is None else request.max_depth,
            request.max_leaves is not None,
            size.n_looks - 1,
            request.min_gain,
            self._small_node(features),
            request.groups,
        )
        decider = of_sample = sample.rows(request.sample, ranges[0])
        if all_rows is not None and request.all_rows is not None:
            decider = all_rows.rows(request.all_rows, ranges[1])
        kernel: Any = tree.grow
        looks: tuple[tree.Look, ...] = (tree.Look(of_sample, features, room.found[0]),)
        if self._ways.full or needs_full(request):
            kernel = tree.grow_full
            looks = *looks, tree.Look(decider, room.chosen, room.found[1])
        return kernel, (counter, taken, source, looks, shape, _limits(request), room.nodes)

    def _small_node(self, features: tree.Features) -> int:
        """Rows of nodes that are searched faster one by one than by their histograms.

        There are no more of them than a feature has bins, on the mean.
        """
        if self._ways.small_node is not None:
            return self._ways.small_node
        return min(MOST_ROWS, int(features.offsets[-1]) // len(features.index))

    def _entries(self, look: int) -> tuple[int, int, int]:
        """Entries of a histogram of all features, of the `look` largest, and of a thread's part."""
        sizes = np.sort(self._n_bins + 1)[::-1]
        every = int(sizes.sum())
        spread = self._sparse.places[-1] if self._sparse else every + SPREAD * len(sizes)
        return every, int(sizes[:look].sum()), int(spread)

    def _prepare(self, size: Size) -> Room:
        """Room for both looks, whichever of the features a tree may use."""
        if self.room is None or not self.room.holds(size):
            n, leaves, look, n_threads = size.n_features, size.leaves, size.look, size.n_threads
            (every, few, spread), take = self._entries(look), self._arena.take
            self.room = Room(
                size,
                _no_features(n_threads, look),
                tree.make_nodes(n_threads, leaves, look, size.n_words),
                (
                    _found(take, "sample", n, every, spread, size.slots, n_threads),
                    # the node under a second look needs one more
                    _found(take, "all", look, few, few + SPREAD * look, leaves + 1, n_threads),
                ),
            )
        return self.room


class Size(NamedTuple):
    """What the room for a tree depends on.

    Attributes
    ----------
    n_features : int
        Features that the tree may use.
    leaves, slots : int
        The most leaves it can have, and histograms of the sample at one time.
    n_looks, look : int
        1, or 2 with a second look, and the features that this one sees.
    n_threads, n_lanes : int
    n_words : int
        Of the groups of features that may meet.
    """

    n_features: int
    leaves: int
    slots: int
    n_looks: int
    look: int
    n_threads: int
    n_lanes: int
    n_words: int


class Room(NamedTuple):
    """What trees are grown in, much of it for each thread."""

    size: Size
    chosen: tree.Features
    nodes: tree.Nodes
    found: tuple[tree.Found, tree.Found]

    def holds(self, size: Size) -> bool:
        """Whether a tree of this size can be grown here; the next sample may be a little larger."""
        return size.slots <= self.size.slots and size._replace(slots=self.size.slots) == self.size


def _found(
    take: Callable[..., NDArray[Any]],
    name: str,
    n: int,
    entries: int,
    spread: int,
    slots: int,
    n_threads: int,
) -> tree.Found:
    """Room for a look at n features with so many entries in all."""
    return tree.Found(
        histograms=take(f"histograms {name}", (slots, entries, 2), PACKED),
        partial=take(f"partial {name}", (n_threads, spread, 2), PACKED),
        gains=np.empty((2, n)),
        thresholds=np.empty((2, n), np.int64),
        sides=np.empty((2, n), np.int64),
    )


def _features(
    request: TreeRequest, n_bins: NDArray[np.int64], sparse: SparseTable | None
) -> tree.Features:
    """The features of a request in the order in which they lie in a histogram of the sample."""
    index = request.features
    n, offsets = len(index), feature_offsets(n_bins, index)
    if sparse is None:
        places, usual = spread_out(offsets), np.full(n, -1, np.int64)
    else:
        places, usual = np.empty(n + 1, np.int64), sparse.usual[index]
        places[:n], places[n] = sparse.places[index], sparse.places[-1]
    return tree.Features(
        position=np.arange(n, dtype=np.int64),
        index=index,
        offsets=offsets,
        places=places,
        categorical=request.categorical,
        monotone=request.monotone,
        usual=usual,
    )


def _no_features(n_threads: int, n: int) -> tree.Features:
    """Room for the features that each thread's look will turn to; all rows are never listed."""
    return tree.Features(
        position=np.empty((n_threads, n), np.int64),
        index=np.empty((n_threads, n), np.int64),
        offsets=np.empty((n_threads, n + 1), np.int64),
        places=np.empty((n_threads, n + 1), np.int64),
        categorical=np.empty((n_threads, n), np.bool_),
        monotone=np.empty((n_threads, n), np.int8),
        usual=np.full((n_threads, n), -1, np.int64),
    )


def needs_full(request: TreeRequest) -> bool:
    """Whether a tree needs `tree.grow_full`: anything that `tree.grow` leaves out."""
    return request.all_rows is not None or not are_plain(request)


def _limits(request: TreeRequest) -> NDArray[np.float64]:
    """Limits of each look; all rows need no floor on how many of them were sampled."""
    r, limits = request, np.empty((2, N_LIMITS))
    limits[0] = (
        r.l2,
        r.min_samples_leaf,
        r.min_child_weight,
        r.min_sampled,
        -np.inf,
        np.inf,
        r.dispersion,
        r.l1,
    )
    limits[1] = limits[0]
    limits[1, MIN_SAMPLED] = 1
    return limits


def grown_nodes(nodes: tree.Nodes, n: int, exact: bool) -> GrownNodes:
    """Copies, since the next tree is grown in the same room; but for the tables of sides."""
    links, reals = np.empty((4, n), NODE), np.empty((tree.N_REALS, n))
    sample, all_rows = np.empty((n, 2), PACKED), np.empty((n if exact else 0, 2), PACKED)
    tree.copy_nodes(nodes, links, reals, sample, all_rows)
    feature, threshold, left, right = links
    gain, lower, upper = reals
    return GrownNodes(
        feature,
        threshold,
        left,
        right,
        goes_left=nodes.goes_left[0, :n],
        gain=gain,
        lower=lower,
        upper=upper,
        sample=sample,
        all_rows=all_rows if exact else None,
    )


def _most_leaves(request: TreeRequest, deciding: Members) -> int:
    """Leaves the tree can have: each needs enough of the rows that decide.

    What rows allow is rounded up, so that the next draw has the same room.
    """
    asked = 1 << (40 if request.max_depth is None else min(request.max_depth, 40))
    if request.max_leaves is not None:
        asked = min(asked, request.max_leaves)
    if asked <= _FEW_LEAVES:
        return max(1, min(asked, len(deciding.words)))
    by_rows = float(len(deciding.words))
    if request.all_rows is None:
        by_rows /= max(1, request.min_sampled)
    if request.min_samples_leaf > 0.0:
        packing = request.all_rows or request.sample
        by_rows = min(by_rows, packing.unpack(deciding.total).weight / request.min_samples_leaf)
    return min(asked, _power_of_two_from(int(by_rows)))


def _most_histograms(n_sampled: int, few: int) -> int:
    """Nodes that have a histogram at one time: each but the root has over half of `few` rows."""
    return _power_of_two_from(n_sampled // (few // 2 + 1))


def _power_of_two_from(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()
