"""Whole trees on the device: from a request to a recorded program, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cuda import tree
from mvsboost.backends.cuda.device import (
    FEWEST_BLOCKS,
    MOST_BLOCKS,
    SIMULATED,
    processors,
    put,
    room,
)
from mvsboost.backends.cuda.programs import Copy, Numbers, Program, Queue, Step, step
from mvsboost.backends.messages import GrownNodes, TreeRequest
from mvsboost.exact.dtypes import BIN, NODE, PACKED, TABLE
from mvsboost.kernels.histogram import feature_offsets

MOST_LEAVES = 4096
"""Leaves up to which a tree is grown at once."""

MOST_BYTES = 1 << 31
"""What histograms may take up to grow a tree at once."""

_BLOCKS_EACH = 2
"""Blocks that a processor has room for when rows are added up."""

_MOST_CHUNK_BITS = 4 if SIMULATED else 15


class Members(NamedTuple):
    """Rows that grow a tree: bins, packed words, and room for two orders of them.

    `total` are the packed words of all.
    """

    bins: Any
    words: Any
    order: Any
    total: Any


class _Kind(NamedTuple):
    """What a program is made for; trees of one kind follow each other with other numbers."""

    members: Members
    n_features: int
    leaves: int
    depth: int | None
    best_first: bool


class TreeGrower:
    """Grows whole trees, and keeps what a tree has in common with the next.

    Parameters
    ----------
    queue : Queue
    n_bins : int64 array
        Regular bins of each feature.
    """

    def __init__(self, queue: Queue, n_bins: NDArray[np.int64]) -> None:
        self._queue, self._n_bins = queue, n_bins
        self._programs: list[_Grown] = []

    def leaves(self, request: TreeRequest) -> int | None:
        """The most leaves that a tree can have, or None if it is not grown at once."""
        if request.all_rows is not None:
            return None
        depth = MOST_LEAVES if request.max_depth is None else request.max_depth
        most = min(1 << min(depth, 40), request.max_leaves or MOST_LEAVES + 1)
        entries = int((self._n_bins[request.features] + 1).sum())
        if most > MOST_LEAVES or most * entries * 2 * np.dtype(PACKED).itemsize > MOST_BYTES:
            return None
        return most

    def grow(
        self, request: TreeRequest, leaves: int, members: Members, n_rows: int, same_weight: int
    ) -> tuple[GrownNodes, Any, Any]:
        """Grow a tree; its nodes, and on the device its tests and the bins that go left.

        `same_weight` is that of every row, in units, or −1.
        """
        best_first = request.max_leaves is not None
        kind = _Kind(members, len(request.features), leaves, request.max_depth, best_first)
        grown = next((known for known in self._programs if known.is_for(kind)), None)
        if grown is None:
            grown = _Grown(self._queue, kind, request, self._n_bins)
            self._programs = [*self._programs[-1:], grown]  # two kinds are enough
        return grown.run(request, n_rows, same_weight), grown.growth.tests, grown.growth.tables


class _Grown:
    """The program for trees of a kind, and what they are grown in."""

    def __init__(
        self, queue: Queue, kind: _Kind, request: TreeRequest, n_bins: NDArray[np.int64]
    ) -> None:
        self._kind, self._n_bins = kind, n_bins
        n, n_features = 2 * kind.leaves - 1, kind.n_features
        entries = int(
            np.sort(n_bins + 1)[-n_features:].sum()
        )  # of the largest that may be asked for
        self._features = Copy.room((n_features, tree.N_FEATURE), np.int64)
        self._parts = Copy.room(n_features + 1, np.int64)
        self._of: NDArray[np.int64] | None = None
        self._n_parts = 0
        numbers = Numbers(tree.N_REAL_NUMBERS, tree.N_INTEGER_NUMBERS)
        of_nodes = ((n, tree.N_INTEGERS), np.int64), ((n, tree.N_REALS), np.float64)
        found, (self._integers, self._reals, self._state) = Copy.rooms(
            *of_nodes, (tree.N_STATE, np.int64)
        )
        self._tables = Copy.room((n, TABLE), BIN)
        # the children of the last level, or of the last split, are not searched
        slots = max(kind.leaves - 1 if kind.best_first else kind.leaves // 2, 1)
        at_once = min(2, n) if kind.best_first else kind.leaves
        self.growth = tree.Growth(
            *kind.members[:3],
            histograms=room((slots, entries, 2), PACKED),
            integers=self._integers.device,
            reals=self._reals.device,
            tables=self._tables.device,
            tests=room(n, np.int64),
            groups=room((n, request.groups.shape[1]), np.int64),
            pairs=room((kind.leaves, tree.N_PAIR), np.int64),
            gains=room((at_once, n_features), np.float64),
            found=room((at_once, n_features, tree.N_FOUND), np.int64),
            searched=room(at_once, np.int64),
            features=self._features.device,
            parts=self._parts.device,
            feature_groups=put(np.ascontiguousarray(request.groups, np.int64)),
            total=kind.members.total,
            state=self._state.device,
            numbers_real=numbers.reals.device,
            numbers=numbers.integers.device,
        )
        self._program = Program(queue, numbers, self._steps(), down=(found, self._tables))

    def _steps(self) -> list[Step]:
        kind, own = self._kind, (self.growth,)
        entries = self.growth.histograms.shape[0] * self.growth.histograms.shape[1]
        part, add_up, search = (
            Step(kernel, MOST_BLOCKS, own) for kernel in (tree.part_rows, tree.add_up, tree.search)
        )
        decide = Step(tree.decide, FEWEST_BLOCKS, own)
        again = kind.leaves - 2 if kind.best_first else (kind.depth or 0) - 1
        root = [step(tree.begin, entries, *own), add_up, search, decide]
        return root + [part, add_up, search, decide] * max(again, 0)

    def is_for(self, kind: _Kind) -> bool:
        same = all(a is b for a, b in zip(kind.members, self._kind.members, strict=True))
        return same and kind[1:] == self._kind[1:]

    def _look_at(self, request: TreeRequest) -> None:
        """The features of a request, often those of the tree before."""
        if self._of is request.features:
            return
        self._of, table = request.features, self._features.host
        offsets = feature_offsets(self._n_bins, self._of)
        table[:, tree.INDEX], table[:, tree.OFFSET] = self._of, offsets[:-1]
        table[:, tree.SIZE] = np.diff(offsets)
        table[:, tree.CATEGORICAL] = request.categorical
        table[:, tree.MONOTONE] = request.monotone
        parts = _parts(offsets)
        self._n_parts = len(parts) - 1
        self._parts.host[: len(parts)] = parts
        for copy in (self._features, self._parts):
            copy.device.copy_to_device(copy.host)

    def run(self, request: TreeRequest, n_rows: int, same_weight: int) -> GrownNodes:
        self._look_at(request)
        kind, unlimited = self._kind, np.iinfo(np.int64).max
        depth = unlimited if kind.depth is None else kind.depth
        bits = request.sample.count_bits
        at_work = _BLOCKS_EACH * processors()
        numbers = (n_rows, bits, kind.leaves, depth, kind.best_first, _chunk_bits(bits))
        self._program.run(_reals(request), (*numbers, same_weight, self._n_parts, at_work))
        return self._nodes()

    def _nodes(self) -> GrownNodes:
        """The nodes of the tree, without splits that were found and not made."""
        n = int(self._state.host[tree.N_NODES])
        integers, reals = self._integers.host[:n], self._reals.host[:n]
        left = integers[:, tree.LEFT]
        is_leaf = left < 0
        integers[is_leaf, tree.FEATURE] = integers[is_leaf, tree.THRESHOLD] = -1
        self._tables.host[:n][is_leaf], reals[is_leaf, tree.GAIN] = 0, 0.0
        return GrownNodes(
            feature=integers[:, tree.FEATURE].astype(NODE),
            threshold=integers[:, tree.THRESHOLD].astype(NODE),
            left=left.astype(NODE),
            right=np.where(is_leaf, -1, left + 1).astype(NODE),
            goes_left=self._tables.host[:n],
            gain=reals[:, tree.GAIN].copy(),
            lower=reals[:, tree.LOW].copy(),
            upper=reals[:, tree.HIGH].copy(),
            sample=np.ascontiguousarray(integers[:, tree.WORDS : tree.WORDS + 2]),
            all_rows=None,
        )


def _parts(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """First features of the parts that blocks add up, and the number of features."""
    parts, start = [0], 0
    for f in range(1, len(offsets) - 1):
        if offsets[f + 1] - offsets[start] > tree.PART_ENTRIES:
            parts.append(f)
            start = f
    return np.array([*parts, len(offsets) - 1], np.int64)


def _chunk_bits(count_bits: int) -> int:
    """As many rows as the sums of a chunk have room for, as a power of two.

    A row's gradient has a sign and at most `bits` bits, see `Packing`; `add_up` says how it is cut.
    """
    bits = min(31, 63 - 2 * count_bits)
    return min(_MOST_CHUNK_BITS, (61 - bits) // 3)


def _reals(request: TreeRequest) -> tuple[float, ...]:
    """Limits of a split, the gain that it must have, and units."""
    r = request
    limits = (r.l2, r.min_samples_leaf, r.min_child_weight, r.min_sampled, -np.inf, np.inf)
    return (*limits, r.dispersion, r.l1, r.min_gain, *request.sample.units())
