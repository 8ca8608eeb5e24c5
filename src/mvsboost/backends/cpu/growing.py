"""A whole tree in one compiled call of each thread: from a request to the kernel and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cpu import grow
from mvsboost.backends.cpu.apply import number_dtype
from mvsboost.backends.cpu.arena import Arena
from mvsboost.backends.cpu.threads import Threads
from mvsboost.backends.cpu.unusual import NO_LISTS, SPREAD, RowLists, Unusual, spread_out
from mvsboost.backends.protocol import GrownNodes, TreeRequest, feature_offsets
from mvsboost.dtypes import BIN, NODE, PACKED, ROW
from mvsboost.fixedpoint import Packing

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


class Source(NamedTuple):
    """Where a look finds the bins of its rows; see `grow.Look`."""

    columns: NDArray[np.uint8]
    ids: NDArray[np.uint32] = np.empty(0, ROW)
    bins: NDArray[np.uint8] = np.empty((0, 0), BIN)
    by_row: bool = False
    lists: RowLists = NO_LISTS
    whole_bins: NDArray[np.uint8] = np.empty((0, 0), BIN)
    whole_lists: RowLists = NO_LISTS
    drawn: NDArray[np.uint32] = np.empty(0, ROW)


class TreeGrower:
    """Grows whole trees, and keeps what a tree has in common with the next.

    Parameters
    ----------
    n_bins : int64 array
        Regular bins of each feature.
    unusual : Unusual or None
        What the lists of a `Source` mean, where it has lists.
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
        self._kept: tuple[Any, _Features, tuple[_Room, _Room]] | None = None

    def grow(
        self, request: TreeRequest, sample: Members, everything: Members | None, source: Source
    ) -> tuple[GrownNodes, NDArray[Any] | None]:
        """Grow a tree with up to as many threads as its rows are worth.

        `source` has the bins of the sample. A second look knows the leaf of every row in the
        end, which is returned as well.
        """
        rows, n_features = everything or sample, len(request.features)
        leaves = _most_leaves(request, len(rows.words))
        last = 0 if everything is None else 1
        # a tree comes back to its rows, so fewer of them are worth a thread than in a single pass
        work = max(len(sample.words) * n_features // 2, 2 * len(rows.words))
        n_threads, look = self._threads.worth(work), min(request.second_look, n_features) * last
        features, rooms = self._prepare(request, leaves, look, n_threads)
        root = np.concatenate([sample.total, rows.total if last else np.zeros(2, PACKED)])
        nodes = [grow.make_nodes(leaves, look, root) for _ in range(n_threads)]
        counter, limits = np.zeros(1, np.int64), _limits(request)
        leaf = None
        if last:
            leaf = self._arena.take("leaf", (len(rows.words),), number_dtype(2 * leaves - 1))
        shape = grow.Shape(
            leaves,
            _ANY_DEPTH if request.max_depth is None else request.max_depth,
            request.max_leaves is not None,
            last,
            request.min_gain,
        )

        def one(thread: int) -> int:
            team = grow.Team(thread, n_threads, counter)
            first = second = rooms[0].look(sample, source, request.sample, team, features)
            if everything is not None and request.everything is not None:
                chosen, all_rows = _no_features(look), Source(source.columns)
                second = rooms[1].look(everything, all_rows, request.everything, team, chosen)
            looks = first, second
            n: int = grow.grow(team, looks, shape, limits.copy(), nodes[thread])
            if leaf is not None:
                grow.mark_leaves(looks[1], nodes[thread].integers, n, leaf)
            return n

        n = self._threads.together(one, n_threads)[0]
        return _as_result(nodes[0], n, everything is not None), leaf

    def _prepare(
        self, request: TreeRequest, leaves: int, look: int, n_threads: int
    ) -> tuple[_Features, tuple[_Room, _Room]]:
        """The features of the sample, and room for both looks."""
        arrays = request.features, request.categorical, request.monotone
        key = *(array.tobytes() for array in arrays), leaves, look, n_threads
        if self._kept is None or self._kept[0] != key:
            features = _features(request, self._n_bins, self._unusual)
            sizes, arena = self._n_bins[request.features] + 1, self._arena
            largest = np.sort(sizes)[::-1][:look]
            rooms = (
                _Room(arena, "sample", sizes, int(features.places[-1]), leaves, n_threads),
                _Room(
                    arena, "all", largest, int(largest.sum()) + SPREAD * look, leaves + 1, n_threads
                ),
            )
            self._kept = key, features, rooms
        return self._kept[1:]


class _Room:
    """What all threads write to during a look at features with so many entries each."""

    def __init__(
        self,
        arena: Arena,
        name: str,
        sizes: NDArray[np.int64],
        spread: int,
        slots: int,
        n_threads: int,
    ) -> None:
        n, bins = len(sizes), int(sizes.sum())
        self.histograms = arena.take(f"histograms {name}", (slots, bins, 2), PACKED)
        self.partial = arena.take(f"partial {name}", (n_threads, spread, 2), PACKED)
        self.gains = np.empty((2, n))
        self.thresholds, self.sides = np.empty((2, n), np.int64), np.empty((2, n), np.int64)

    def look(
        self,
        members: Members,
        source: Source,
        packing: Packing,
        team: grow.Team,
        features: _Features,
    ) -> grow.Look:
        """The look of one thread at its slice of the rows."""
        n_rows = len(members.words)
        mine = slice(
            n_rows * team.thread // team.n_threads, n_rows * (team.thread + 1) // team.n_threads
        )
        return grow.Look(
            **source._asdict(),
            words=members.words,
            order=members.order[mine],
            scratch=members.scratch[mine],
            units=packing.units(),
            bits=packing.count_bits,
            **vars(features),
            histograms=self.histograms,
            partial=self.partial,
            gains=self.gains,
            thresholds=self.thresholds,
            sides=self.sides,
        )


@dataclass(frozen=True)
class _Features:
    """The features of a look; see `grow.Look`."""

    position: NDArray[np.int64]
    index: NDArray[np.int64]
    offsets: NDArray[np.int64]
    places: NDArray[np.int64]
    categorical: NDArray[np.bool_]
    monotone: NDArray[np.int8]
    usual: NDArray[np.int64]


def _features(
    request: TreeRequest, n_bins: NDArray[np.int64], unusual: Unusual | None
) -> _Features:
    """The sample looks at all features."""
    index = request.features
    offsets = feature_offsets(n_bins, index)
    return _Features(
        position=np.arange(len(index)),
        index=index.astype(np.int64),
        offsets=offsets,
        places=unusual.places[np.append(index, -1)] if unusual else spread_out(offsets),
        categorical=np.asarray(request.categorical, np.bool_),
        monotone=np.asarray(request.monotone, np.int8),
        usual=unusual.usual[index] if unusual else np.full(len(index), -1),
    )


def _no_features(n: int) -> _Features:
    """Room for the features that a look will turn to; all rows are never listed."""
    return _Features(
        position=np.empty(n, np.int64),
        index=np.empty(n, np.int64),
        offsets=np.empty(n + 1, np.int64),
        places=np.empty(n + 1, np.int64),
        categorical=np.empty(n, np.bool_),
        monotone=np.empty(n, np.int8),
        usual=np.full(n, -1),
    )


def _limits(request: TreeRequest) -> NDArray[np.float64]:
    """Limits of each look; all rows need no floor on how many of them were sampled."""
    r = request
    return np.array(
        [
            [r.l2, r.min_weight, r.min_hessian, min_count, -np.inf, np.inf, r.dispersion]
            for min_count in (r.min_count, 1)
        ]
    )


def _as_result(nodes: grow.Nodes, n: int, exact: bool) -> GrownNodes:
    integers, reals = nodes.integers[:n], nodes.reals[:n]
    inner = integers[:, grow.LEFT] >= 0
    links = np.where(inner, integers.T[: grow.RIGHT + 1], -1).astype(NODE)
    return GrownNodes(
        feature=links[grow.FEATURE],
        threshold=links[grow.THRESHOLD],
        left=links[grow.LEFT],
        right=links[grow.RIGHT],
        goes_left=nodes.goes_left[:n],
        gain=np.where(inner, reals[:, grow.GAIN], 0.0),
        lower=reals[:, grow.LOW],
        upper=reals[:, grow.HIGH],
        sample=integers[:, grow.WORDS : grow.WORDS + 2],
        everything=integers[:, grow.WORDS + 2 : grow.WORDS + 4] if exact else None,
    )


def _most_leaves(request: TreeRequest, n_rows: int) -> int:
    """Leaves the tree can have: each holds one of the rows that decide."""
    by_depth = n_rows if request.max_depth is None else 2 ** min(request.max_depth, 40)
    by_choice = n_rows if request.max_leaves is None else request.max_leaves
    return max(1, min(n_rows, by_depth, by_choice))
