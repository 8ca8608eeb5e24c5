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
    send,
)
from mvsboost.backends.cuda.programs import Copy, Numbers, Program, Queue, Step, step
from mvsboost.backends.cuda.rows import clear
from mvsboost.backends.messages import GrownNodes, TreeRequest
from mvsboost.exact.dtypes import BIN, NODE, PACKED, TABLE
from mvsboost.exact.fixedpoint import Packing
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

    sample: Members
    all_rows: Members | None
    n_features: int
    looks: int
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
        self._programs: list[Grown] = []

    def leaves(self, request: TreeRequest) -> int | None:
        """The most leaves that a tree can have, or None if it is not grown at once.

        A second look is not, where the tree grows best-first.
        """
        if request.all_rows is not None and request.max_leaves is not None:
            return None
        depth = MOST_LEAVES if request.max_depth is None else request.max_depth
        most = min(1 << min(depth, 40), request.max_leaves or MOST_LEAVES + 1)
        entries = int((self._n_bins[request.features] + 1).sum())
        if most > MOST_LEAVES or most * entries * 2 * np.dtype(PACKED).itemsize > MOST_BYTES:
            return None
        return most

    def grow(
        self,
        request: TreeRequest,
        leaves: int,
        sample: Members,
        all_rows: Members | None,
        sizes: Sizes,
    ) -> Grown:
        """Grow a tree."""
        n_features, best_first = len(request.features), request.max_leaves is not None
        looks = min(request.second_look, n_features) if all_rows is not None else 0
        shape = n_features, looks, leaves, request.max_depth, best_first
        kind = _Kind(sample, all_rows, *shape)
        grown = next((known for known in self._programs if known.is_for(kind)), None)
        if grown is None:
            grown = Grown(self._queue, kind, request, self._n_bins)
            self._programs = [*self._programs[-1:], grown]  # two kinds are enough
        grown.run(request, sizes)
        return grown


class Sizes(NamedTuple):
    """Rows of the sample, the weight of each where all have the same (in units, or −1), and all."""

    sample: int
    same_weight: int
    all_rows: int


class _Look(NamedTuple):
    """What some rows grow a tree in, and what goes there and comes back."""

    growth: tree.Growth
    numbers: Numbers
    integers: Copy
    state: Copy


class Grown:
    """The last tree of a kind, and the program that grows the next.

    Attributes
    ----------
    tests, tables
        On the device: tests of the nodes (`nodes.test_of`), and which bins go left.
    """

    def __init__(
        self, queue: Queue, kind: _Kind, request: TreeRequest, n_bins: NDArray[np.int64]
    ) -> None:
        self._kind, self._n_bins = kind, n_bins
        n, n_groups = 2 * kind.leaves - 1, request.groups.shape[1]
        self._features = Copy.room((1, kind.n_features, tree.N_FEATURE), np.int64)
        self._parts = Copy.room(kind.n_features + 1, np.int64)
        self._of: NDArray[np.int64] | None = None
        self._n_parts = 0
        self._tables = Copy.room((n, TABLE), BIN)
        of_look = ((n, tree.N_INTEGERS), np.int64), (tree.N_STATE, np.int64)
        of_looks = of_look if kind.all_rows is None else of_look * 2
        found, (self._reals, *parts) = Copy.rooms(((n, tree.N_REALS), np.float64), *of_looks)
        self.tests, self.tables = room(n, np.int64), self._tables.device
        shared = {
            "reals": self._reals.device,
            "tables": self.tables,
            "tests": self.tests,
            "groups": room((n, n_groups), np.int64),
            "feature_groups": put(np.ascontiguousarray(request.groups, np.int64)),
        }
        # the children of the last level, or of the last split, are not searched
        slots = max(kind.leaves - 1 if kind.best_first else kind.leaves // 2, 1)
        entries = int(np.sort(n_bins + 1)[-kind.n_features :].sum())  # of any so many features
        features = self._features.device, self._parts.device
        self._sample = self._look(kind.sample, parts[:2], (slots, entries), features, shared)
        self._looks = [self._sample]
        if kind.all_rows is not None:
            at_once, step_size = max(kind.leaves // 2, 1), tree.PART_ENTRIES // TABLE
            starts = [*range(0, kind.looks, step_size), kind.looks]
            self._n_looked = len(starts) - 1
            proposed = room((at_once, kind.looks, tree.N_FEATURE), np.int64), put(np.array(starts))
            shape = at_once, kind.looks * TABLE
            self._looks.append(self._look(kind.all_rows, parts[2:], shape, proposed, shared))
        up = [look.numbers.both for look in self._looks[1:]]
        down = found, self._tables
        self._program = Program(queue, self._sample.numbers, self._steps(), up, down)

    def _look(
        self,
        members: Members,
        own: list[Copy],
        histograms: tuple[int, int],
        features: tuple[Any, Any],
        shared: dict[str, Any],
    ) -> _Look:
        kind, n = self._kind, 2 * self._kind.leaves - 1
        numbers = Numbers(tree.N_REAL_NUMBERS, tree.N_INTEGER_NUMBERS)
        integers, state = own
        at_once, n_features = min(2, n) if kind.best_first else kind.leaves, features[0].shape[1]
        growth = tree.Growth(
            *members[:3],
            histograms=room((*histograms, 2), PACKED),
            integers=integers.device,
            parents=room((kind.leaves, tree.N_LISTED), np.int64),
            counted=room((kind.leaves, tree.N_LISTED), np.int64),
            gains=room((at_once, n_features), np.float64),
            found=room((at_once, n_features, tree.N_FOUND), np.int64),
            searched=room(at_once, np.int64),
            features=features[0],
            parts=features[1],
            total=members.total,
            state=state.device,
            numbers_real=numbers.reals.device,
            numbers=numbers.integers.device,
            **shared,
        )
        return _Look(growth, numbers, integers, state)

    def _steps(self) -> list[Step]:
        kind, growths = self._kind, [look.growth for look in self._looks]
        sample, decides = growths[0], growths[-1]

        def whole(compiled: Any, *looks: tree.Growth) -> Step:
            return Step(compiled, MOST_BLOCKS, looks)

        def alone(compiled: Any, *looks: tree.Growth) -> Step:
            return Step(compiled, FEWEST_BLOCKS, looks)

        begin = [
            step(tree.begin, look.histograms.shape[0] * look.histograms.shape[1], look)
            for look in growths
        ]
        part = [whole(tree.part_rows, look) for look in growths]
        search = [whole(tree.add_up, sample), whole(tree.search, sample, decides)]
        if len(growths) > 1:
            size = decides.histograms.size
            empty = step(clear, size, decides.histograms.reshape(size))
            search += [empty, alone(tree.plan, decides), whole(tree.add_up, decides)]
            search += [whole(tree.search, decides, sample)]
        search += [alone(tree.decide, decides, sample)]
        again = kind.leaves - 2 if kind.best_first else (kind.depth or 0) - 1
        return begin + search + (part + search) * max(again, 0)

    def is_for(self, kind: _Kind) -> bool:
        same = kind.sample is self._kind.sample and kind.all_rows is self._kind.all_rows
        return same and kind[2:] == self._kind[2:]

    def _look_at(self, request: TreeRequest) -> None:
        """The features of a request, often those of the tree before."""
        if self._of is request.features:
            return
        self._of, table = request.features, self._features.host[0]
        offsets = feature_offsets(self._n_bins, self._of)
        table[:, tree.INDEX], table[:, tree.OFFSET] = self._of, offsets[:-1]
        table[:, tree.SIZE] = np.diff(offsets)
        table[:, tree.CATEGORICAL] = request.categorical
        table[:, tree.MONOTONE] = request.monotone
        parts = _parts(offsets)
        self._n_parts = len(parts) - 1
        self._parts.host[: len(parts)] = parts
        for copy in (self._features, self._parts):
            send(copy.host, copy.device)

    def run(self, request: TreeRequest, sizes: Sizes) -> None:
        """Grow the next tree."""
        self._program.settle()
        self._look_at(request)
        role = tree.DECIDES if request.all_rows is None else tree.PROPOSES
        rows = sizes.sample, sizes.same_weight, self._n_parts, role
        self._give(self._sample, request, request.sample, request.min_sampled, *rows)
        if request.all_rows is not None:
            weight = int(request.all_rows.weight_scale)
            rows = sizes.all_rows, weight, self._n_looked, tree.DECIDES_ON_PROPOSALS
            # all rows need no floor on how many of them were sampled
            self._give(self._looks[-1], request, request.all_rows, 1, *rows)
        self._program.run()

    def _give(
        self,
        look: _Look,
        request: TreeRequest,
        packing: Packing,
        min_sampled: int,
        n_rows: int,
        same_weight: int,
        n_parts: int,
        role: int,
    ) -> None:
        """Write the numbers that rows grow a tree with."""
        r, kind = request, self._kind
        limits = r.l2, r.min_samples_leaf, r.min_child_weight, min_sampled, -np.inf, np.inf
        look.numbers.reals.host[:] = (*limits, r.dispersion, r.l1, r.min_gain, *packing.units())
        depth = np.iinfo(np.int64).max if kind.depth is None else kind.depth
        bounds = packing.count_bits, kind.leaves, depth, kind.best_first
        more = chunk_bits(packing.count_bits), same_weight, n_parts, _BLOCKS_EACH * processors()
        look.numbers.integers.host[:] = (n_rows, *bounds, *more, role)

    def nodes(self) -> GrownNodes:
        """The nodes of the tree, without splits that were found and not made."""
        decides = self._looks[-1]
        n = int(decides.state.host[tree.N_NODES])
        integers, reals = decides.integers.host[:n], self._reals.host[:n]
        left = integers[:, tree.LEFT]
        is_leaf = left < 0
        integers[is_leaf, tree.FEATURE] = integers[is_leaf, tree.THRESHOLD] = -1
        reals[is_leaf, tree.GAIN] = 0.0
        return GrownNodes(
            feature=integers[:, tree.FEATURE].astype(NODE),
            threshold=integers[:, tree.THRESHOLD].astype(NODE),
            left=left.astype(NODE),
            right=np.where(is_leaf, -1, left + 1).astype(NODE),
            goes_left=self._tables.host[:n],
            gain=reals[:, tree.GAIN].copy(),
            lower=reals[:, tree.LOW].copy(),
            upper=reals[:, tree.HIGH].copy(),
            sample=_words(self._sample, n),
            all_rows=None if decides is self._sample else _words(decides, n),
        )


def _words(look: _Look, n: int) -> NDArray[np.int64]:
    """Packed words of the nodes of a tree."""
    return np.ascontiguousarray(look.integers.host[:n, tree.WORDS : tree.WORDS + 2])


def _parts(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """First features of the parts that blocks add up, and the number of features."""
    parts, start = [0], 0
    for f in range(1, len(offsets) - 1):
        if offsets[f + 1] - offsets[start] > tree.PART_ENTRIES:
            parts.append(f)
            start = f
    return np.array([*parts, len(offsets) - 1], np.int64)


def chunk_bits(count_bits: int, most: int = _MOST_CHUNK_BITS) -> int:
    """As many rows as the sums of a chunk have room for, as a power of two.

    A row's gradient has a sign and at most `bits` bits, see `Packing`; `add_up` says how it is cut.
    """
    bits = min(31, 63 - 2 * count_bits)
    return min(most, (61 - bits) // 3)
