"""A whole tree in one compiled call of each thread: from a request to the kernel and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu import grow
from mvsboost.backends.cpu.threads import Threads
from mvsboost.backends.protocol import GrownNodes, TreeRequest, feature_offsets
from mvsboost.dtypes import BIN, NODE, PACKED, ROW
from mvsboost.fixedpoint import Packing


class Members:
    """Rows that take part in a tree: their bins, packed words, and the ranges nodes own."""

    def __init__(self, bins: NDArray[np.uint8], words: NDArray[np.int64]) -> None:
        self.bins = bins
        self.words = words
        self.order = np.arange(len(words), dtype=ROW)
        self.scratch = np.empty(len(words), ROW)
        self.ranges = {0: (0, len(words))}

    def slice(self, bins: NDArray[np.uint8], thread: int, n_threads: int) -> grow.Members:
        """The rows of one thread, as the kernel takes them."""
        n = len(self.words)
        mine = slice(n * thread // n_threads, n * (thread + 1) // n_threads)
        return grow.Members(bins, self.words, self.order[mine], self.scratch[mine])


def grow_nodes(
    request: TreeRequest,
    sample: Members,
    everything: Members | None,
    columns: NDArray[np.uint8],
    n_bins: NDArray[np.int64],
    threads: Threads,
    leaf: NDArray[np.int32],
) -> GrownNodes:
    """Grow a tree with up to as many threads as its rows are worth.

    `columns` holds the bins of all rows by column, which a second look reads; it knows the
    leaf of every row in the end and writes it to `leaf`.
    """
    offsets = feature_offsets(n_bins, request.features)
    leaves = _most_leaves(request, len((everything or sample).words))
    rows = everything or _no_rows(sample)
    look = min(request.second_look, len(request.features)) if everything else 0
    n_threads = threads.worth(max(len(sample.words), len(rows.words)))
    shared = _make_shared(np.diff(offsets), leaves, look, n_threads)
    nodes = [grow.make_nodes(2 * leaves - 1) for _ in range(n_threads)]
    counter = np.zeros(1, np.int64)
    shape = grow.Shape(
        leaves,
        np.iinfo(np.int64).max if request.max_depth is None else request.max_depth,
        request.max_leaves is not None,
        look,
        request.min_gain,
    )

    def one(thread: int) -> int:
        mine = rows.slice(columns, thread, n_threads)
        n: int = grow.grow(
            grow.Team(thread, n_threads, counter),
            sample.slice(sample.bins, thread, n_threads),
            mine,
            grow.Features(request.features, offsets, request.categorical, request.monotone),
            _scales(request.sample),
            _scales(request.everything or request.sample),
            shape,
            _limits(request),
            nodes[thread],
            shared,
        )
        if everything is not None:
            grow.mark_leaves(mine.order, nodes[thread].integers, n, leaf)
        return n

    n = threads.together(one, n_threads)[0]
    return _as_result(nodes[0], n, everything is not None)


def _make_shared(sizes: NDArray[np.int64], leaves: int, look: int, n_threads: int) -> grow.Shared:
    """Room for histograms of features with so many entries each."""
    bins, few = int(sizes.sum()), int(np.sort(sizes)[::-1][:look].sum())
    return grow.Shared(
        pool=np.empty((leaves, bins, 2), PACKED),
        partial=np.empty((n_threads, bins, 2), PACKED),
        exact=np.empty((2, few, 2), PACKED),
        exact_partial=np.empty((n_threads, 2, few, 2), PACKED),
        totals=np.empty((n_threads, 4), PACKED),
        found=grow.make_found(len(sizes)),
        second=grow.make_found(look),
    )


def _limits(request: TreeRequest) -> NDArray[np.float64]:
    r = request
    return np.array([r.l2, r.min_weight, r.min_hessian, r.min_count, -np.inf, np.inf])


def _as_result(nodes: grow.Nodes, n: int, exact: bool) -> GrownNodes:
    integers, reals = nodes.integers[:n], nodes.reals[:n]
    inner = integers[:, grow.LEFT] >= 0

    def column(position: np.int64) -> NDArray[np.int32]:
        return np.where(inner, integers[:, position], -1).astype(NODE)

    return GrownNodes(
        feature=column(grow.FEATURE),
        threshold=column(grow.THRESHOLD),
        left=column(grow.LEFT),
        right=column(grow.RIGHT),
        goes_left=nodes.goes_left[:n],
        gain=np.where(inner, reals[:, grow.GAIN], 0.0),
        lower=reals[:, grow.LOW],
        upper=reals[:, grow.HIGH],
        sample=integers[:, grow.SAMPLE : grow.SAMPLE + 2],
        everything=integers[:, grow.EXACT : grow.EXACT + 2] if exact else None,
    )


def _most_leaves(request: TreeRequest, n_rows: int) -> int:
    """Leaves the tree can have: each holds one of the rows that decide."""
    by_depth = n_rows if request.max_depth is None else 2 ** min(request.max_depth, 40)
    by_choice = n_rows if request.max_leaves is None else request.max_leaves
    return max(1, min(n_rows, by_depth, by_choice))


def _scales(packing: Packing) -> grow.Scales:
    return grow.Scales(packing.units(), packing.count_bits)


def _no_rows(sample: Members) -> Members:
    return Members(np.empty((0, sample.bins.shape[1]), BIN), np.empty((0, 2), PACKED))
