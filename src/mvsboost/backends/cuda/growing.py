"""A whole tree in one launch: from a request to the kernel and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cuda import tree
from mvsboost.backends.cuda.device import launch_whole, put, room, zeros
from mvsboost.backends.messages import GrownNodes, TreeRequest
from mvsboost.exact.dtypes import BIN, NODE, PACKED, ROW, TABLE
from mvsboost.kernels.histogram import feature_offsets

MOST_LEAVES = 4096
"""Leaves up to which a tree is grown at once; a histogram is kept for each."""


class _Room(NamedTuple):
    """What trees are grown in."""

    histograms: Any
    integers: Any
    reals: Any
    tables: Any
    groups: Any
    pairs: Any
    gains: Any
    found: Any
    state: Any


class _Features(NamedTuple):
    """What the kernel knows of the features of a request."""

    of: NDArray[np.int64]
    features: Any
    parts: Any
    groups: Any


class TreeGrower:
    """Grows whole trees, and keeps what a tree has in common with the next.

    Parameters
    ----------
    n_bins : int64 array
        Regular bins of each feature.
    """

    def __init__(self, n_bins: NDArray[np.int64]) -> None:
        self._n_bins = n_bins
        self._room: _Room | None = None
        self._order: Any = None
        self._features: _Features | None = None

    def leaves(self, request: TreeRequest) -> int | None:
        """The most leaves that a tree can have, or None if it is not grown at once."""
        most = 1 << min(MOST_LEAVES if request.max_depth is None else request.max_depth, 40)
        most = min(most, request.max_leaves or most)
        return most if request.all_rows is None and most <= MOST_LEAVES else None

    def grow(
        self, request: TreeRequest, leaves: int, bins: Any, words: Any, total: Any
    ) -> GrownNodes:
        """Grow a tree on rows with these bins, packed words and sum of words."""
        features, n_rows = self._look_at(request), len(words)
        own = self._prepare(leaves, features)
        if self._order is None or self._order.shape[1] < n_rows:
            self._order = room((2, n_rows + n_rows // 8), ROW)
        depth = np.iinfo(np.int64).max if request.max_depth is None else request.max_depth
        best_first = request.max_leaves is not None
        numbers = np.array([request.sample.count_bits, leaves, depth, best_first], np.int64)
        given = (put(_limits(request)), put(request.sample.units()), put(numbers))
        rows = (bins, words, self._order)
        growth = tree.Growth(
            *rows, *own[:-1], *features[1:], *given, total, own.state, zeros(1, np.int64)
        )
        launch_whole(tree.grow, growth)
        return _grown(own)

    def _look_at(self, request: TreeRequest) -> _Features:
        """The features of a request, often those of the tree before."""
        kept = self._features
        if kept is None or kept.of is not request.features:
            index = request.features
            offsets = feature_offsets(self._n_bins, index)
            table = np.empty((len(index), 5), np.int64)
            table[:, tree.INDEX], table[:, tree.OFFSET] = index, offsets[:-1]
            table[:, tree.SIZE] = np.diff(offsets)
            table[:, tree.CATEGORICAL] = request.categorical
            table[:, tree.MONOTONE] = request.monotone
            groups = np.ascontiguousarray(request.groups, np.int64)
            kept = _Features(index, put(table), put(_parts(offsets)), put(groups))
            self._features = kept
        return kept

    def _prepare(self, leaves: int, features: _Features) -> _Room:
        n, n_features = 2 * leaves - 1, len(self._n_bins)
        if self._room is None or len(self._room.histograms) != leaves:
            entries = int((self._n_bins + 1).sum())
            self._room = _Room(
                histograms=room((leaves, entries, 2), PACKED),
                integers=room((n, tree.N_INTEGERS), np.int64),
                reals=room((n, tree.N_REALS), np.float64),
                tables=room((n, TABLE), BIN),
                groups=room((n, features.groups.shape[1]), np.int64),
                pairs=room((leaves + 1, 2), np.int64),
                gains=room((n, n_features), np.float64),
                found=room((n, n_features, 4), np.int64),
                state=room(tree.N_STATE, np.int64),
            )
        return self._room


def _parts(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """First features of the parts that blocks add up, and the number of features."""
    parts, start = [0], 0
    for f in range(1, len(offsets) - 1):
        if offsets[f + 1] - offsets[start] > tree.PART_ENTRIES:
            parts.append(f)
            start = f
    return np.array([*parts, len(offsets) - 1], np.int64)


def _limits(request: TreeRequest) -> NDArray[np.float64]:
    """Limits of a split, and behind them the gain that it must have."""
    r = request
    bounds = -np.inf, np.inf
    limits = (r.l2, r.min_samples_leaf, r.min_child_weight, r.min_sampled, *bounds)
    return np.array([*limits, r.dispersion, r.l1, r.min_gain])


def _grown(own: _Room) -> GrownNodes:
    """The nodes of a tree, without splits that were found and not made."""
    n = int(own.state.copy_to_host()[tree.N_NODES])
    integers, reals = own.integers[:n].copy_to_host(), own.reals[:n].copy_to_host()
    tables = own.tables[:n].copy_to_host()
    left = integers[:, tree.LEFT]
    is_leaf = left < 0
    integers[is_leaf, tree.FEATURE] = integers[is_leaf, tree.THRESHOLD] = -1
    tables[is_leaf], reals[is_leaf, tree.GAIN] = 0, 0.0
    return GrownNodes(
        feature=integers[:, tree.FEATURE].astype(NODE),
        threshold=integers[:, tree.THRESHOLD].astype(NODE),
        left=left.astype(NODE),
        right=np.where(is_leaf, -1, left + 1).astype(NODE),
        goes_left=tables,
        gain=reals[:, tree.GAIN].copy(),
        lower=reals[:, tree.LOW].copy(),
        upper=reals[:, tree.HIGH].copy(),
        sample=np.ascontiguousarray(integers[:, tree.WORDS : tree.WORDS + 2]),
        all_rows=None,
    )
