"""A whole tree in one compiled call of each thread: from a request to the kernel and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu import grow
from mvsboost.backends.cpu.apply import number_dtype
from mvsboost.backends.cpu.arena import Arena
from mvsboost.backends.cpu.atomics import CACHE_LINE
from mvsboost.backends.cpu.few import MOST_ROWS
from mvsboost.backends.cpu.split import MIN_COUNT, N_LIMITS
from mvsboost.backends.cpu.threads import Threads
from mvsboost.backends.cpu.unusual import SPREAD, Unusual, spread_out
from mvsboost.backends.protocol import GrownNodes, TreeRequest, feature_offsets
from mvsboost.dtypes import NODE, PACKED
from mvsboost.fixedpoint import Packing

WORTH_LANES = 2048
"""Rows of the sample, for each thread, from which on it has several lanes."""

_ANY_DEPTH = np.iinfo(np.int64).max


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

    def rows(self, packing: Packing, ranges: NDArray[np.int64]) -> grow.Rows:
        """The rows for a look; `ranges` is room."""
        units, bits = packing.units(), packing.count_bits
        return grow.Rows(self.words, self.total, self.order, self.scratch, ranges, units, bits)


class TreeGrower:
    """Grows whole trees, and keeps what a tree has in common with the next.

    Parameters
    ----------
    n_bins : int64 array
        Regular bins of each feature.
    unusual : Unusual or None
        What the lists of a `grow.Source` mean, where it has lists.
    threads : Threads
    arena : Arena
    """

    def __init__(
        self, n_bins: NDArray[np.int64], unusual: Unusual | None, threads: Threads, arena: Arena
    ) -> None:
        self._n_bins = n_bins
        self._unusual = unusual
        self._threads = threads
        self._arena = arena
        self._room: _Room | None = None
        self._features: grow.Features | None = None

    def _look_at(self, request: TreeRequest) -> grow.Features:
        """The sample looks at all features of the request, often those of the tree before."""
        kept = self._features
        if kept is None or kept.index is not request.features:
            kept = _features(request, self._n_bins, self._unusual)
        elif kept.categorical is not request.categorical or kept.monotone is not request.monotone:
            kept = kept._replace(categorical=request.categorical, monotone=request.monotone)
        self._features = kept
        return kept

    def grow(
        self, request: TreeRequest, sample: Members, everything: Members | None, source: grow.Source
    ) -> tuple[GrownNodes, NDArray[Any] | None]:
        """Grow a tree with up to as many threads as its rows are worth.

        A second look knows the leaf of every row in the end, which is returned as well.
        """
        rows, n_features = everything or sample, len(request.features)
        leaves = _most_leaves(request, len(rows.words))
        last = 0 if everything is None else 1
        # a tree comes back to its rows, so fewer of them are worth a thread than in a single pass
        work = max(len(sample.words) * n_features // 2, 2 * len(rows.words))
        n_threads, look = self._threads.worth(work), min(request.second_look, n_features) * last
        several = n_threads > 1 and len(sample.words) >= n_threads * WORTH_LANES
        n_lanes = n_threads * (grow.LANES if several else 1)
        n_listed = request.features_by_depth
        room = self._prepare(n_features, leaves, look, n_threads, n_listed[-1] < n_features)
        features = self._look_at(request)
        counter, taken = np.zeros(1, np.int64), np.zeros((2, n_threads, CACHE_LINE), np.int64)
        ranges = self._arena.take("ranges", (last + 1, n_lanes, 2 * leaves - 1, 4), np.int64)
        shape = grow.Shape(
            leaves,
            _ANY_DEPTH if request.max_depth is None else request.max_depth,
            request.max_leaves is not None,
            last,
            request.min_gain,
            _few_rows(features),
            n_listed,
        )
        decider = of_sample = sample.rows(request.sample, ranges[0])
        if everything is not None and request.everything is not None:
            decider = everything.rows(request.everything, ranges[1])
        both = (
            grow.Look(of_sample, features, room.found[0]),
            grow.Look(decider, room.chosen, room.found[1]),
        )
        limits, whole = _limits(request), self._threads.whole
        n: int = whole(
            n_threads, grow.grow, counter, taken, source, both, shape, limits, room.nodes
        )
        leaf = None
        if everything is not None:
            leaf = self._arena.take("leaf", (len(rows.words),), number_dtype(2 * leaves - 1))
            whole(n_threads, grow.mark_leaves, decider, room.nodes.integers[0], n, leaf)
        return _as_result(room.nodes, n, everything is not None), leaf

    def _prepare(
        self, n_features: int, leaves: int, look: int, n_threads: int, narrowed: bool
    ) -> _Room:
        """Room for both looks, whichever of the features a tree may use."""
        key = n_features, leaves, look, n_threads, narrowed
        if self._room is None or self._room.key != key:
            sizes = np.sort(self._n_bins + 1)[::-1]
            every, few, take = int(sizes.sum()), int(sizes[:look].sum()), self._arena.take
            spread = self._unusual.places[-1] if self._unusual else every + SPREAD * len(sizes)
            self._room = _Room(
                key,
                _no_features(n_threads, look),
                grow.make_nodes(n_threads, leaves, look, n_features, narrowed),
                (
                    _found(take, "sample", n_features, every, int(spread), leaves, n_threads),
                    _found(take, "all", look, few, few + SPREAD * look, leaves + 1, n_threads),
                ),
            )
        return self._room


class _Room(NamedTuple):
    """What trees are grown in, much of it for each thread."""

    key: Any
    chosen: grow.Features
    nodes: grow.Nodes
    found: tuple[grow.Found, grow.Found]


def _found(
    take: Callable[..., NDArray[Any]],
    name: str,
    n: int,
    entries: int,
    spread: int,
    slots: int,
    n_threads: int,
) -> grow.Found:
    """Room for a look at n features with so many entries in all."""
    return grow.Found(
        histograms=take(f"histograms {name}", (slots, entries, 2), PACKED),
        partial=take(f"partial {name}", (n_threads, spread, 2), PACKED),
        gains=np.empty((2, n)),
        thresholds=np.empty((2, n), np.int64),
        sides=np.empty((2, n), np.int64),
    )


def _features(
    request: TreeRequest, n_bins: NDArray[np.int64], unusual: Unusual | None
) -> grow.Features:
    """The features of a request in the order in which they lie in a histogram of the sample."""
    index = request.features
    n, offsets = len(index), feature_offsets(n_bins, index)
    if unusual is None:
        places, usual = spread_out(offsets), np.full(n, -1)
    else:
        places, usual = np.empty(n + 1, np.int64), unusual.usual[index]
        places[:n], places[n] = unusual.places[index], unusual.places[-1]
    return grow.Features(
        position=np.arange(n),
        index=index,
        offsets=offsets,
        places=places,
        categorical=request.categorical,
        monotone=request.monotone,
        usual=usual,
    )


def _no_features(n_threads: int, n: int) -> grow.Features:
    """Room for the features that each thread's look will turn to; all rows are never listed."""
    return grow.Features(
        position=np.empty((n_threads, n), np.int64),
        index=np.empty((n_threads, n), np.int64),
        offsets=np.empty((n_threads, n + 1), np.int64),
        places=np.empty((n_threads, n + 1), np.int64),
        categorical=np.empty((n_threads, n), np.bool_),
        monotone=np.empty((n_threads, n), np.int8),
        usual=np.full((n_threads, n), -1),
    )


def _few_rows(features: grow.Features) -> int:
    """Rows of nodes that are searched faster one by one than by their histograms.

    There are no more of them than a feature has bins, on the mean.
    """
    return min(MOST_ROWS, int(features.offsets[-1]) // len(features.index))


def _limits(request: TreeRequest) -> NDArray[np.float64]:
    """Limits of each look; all rows need no floor on how many of them were sampled."""
    r, limits = request, np.empty((2, N_LIMITS))
    limits[0] = r.l2, r.min_weight, r.min_hessian, r.min_count, -np.inf, np.inf, r.dispersion
    limits[1] = limits[0]
    limits[1, MIN_COUNT] = 1
    return limits


def _as_result(nodes: grow.Nodes, n: int, exact: bool) -> GrownNodes:
    """Copies, since the next tree is grown in the same room; but for the tables of sides."""
    links, reals = np.empty((4, n), NODE), np.empty((grow.N_REALS, n))
    sample, everything = np.empty((n, 2), PACKED), np.empty((n if exact else 0, 2), PACKED)
    grow.copy_nodes(nodes, links, reals, sample, everything)
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
        everything=everything if exact else None,
    )


def _most_leaves(request: TreeRequest, n_rows: int) -> int:
    """Leaves the tree can have: each holds one of the rows that decide."""
    by_depth = n_rows if request.max_depth is None else 2 ** min(request.max_depth, 40)
    by_choice = n_rows if request.max_leaves is None else request.max_leaves
    return max(1, min(n_rows, by_depth, by_choice))
