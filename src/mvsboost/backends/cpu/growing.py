"""A whole tree in one compiled call: from a request to the kernel and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu import grow
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

    def arrays(self) -> grow.Members:
        """What kernels take."""
        return grow.Members(self.bins, self.words, self.order, self.scratch)


def grow_nodes(
    request: TreeRequest, sample: Members, everything: Members | None, n_bins: NDArray[np.int64]
) -> GrownNodes:
    """Grow a tree on one thread."""
    offsets = feature_offsets(n_bins, request.features)
    leaves = _most_leaves(request, len((everything or sample).words))
    nodes = grow.make_nodes(2 * leaves - 1)
    rows = everything or _no_rows(sample)
    look = min(request.second_look, len(request.features)) if everything else 0
    n = grow.grow(
        sample.arrays(),
        rows.arrays(),
        grow.Features(request.features, offsets, request.categorical, request.monotone),
        _scales(request.sample),
        _scales(request.everything or request.sample),
        grow.Shape(
            leaves,
            np.iinfo(np.int64).max if request.max_depth is None else request.max_depth,
            request.max_leaves is not None,
            look,
            request.min_gain,
        ),
        np.array(
            [
                request.l2,
                request.min_weight,
                request.min_hessian,
                request.min_count,
                -np.inf,
                np.inf,
            ]
        ),
        nodes,
        grow.make_found(len(request.features)),
        grow.make_found(look),
        np.empty((leaves, offsets[-1], 2), PACKED),
    )
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
        everything=None if everything is None else integers[:, grow.EXACT : grow.EXACT + 2],
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
