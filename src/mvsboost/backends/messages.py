"""The small messages that control and rows exchange: rows, splits, requests and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mvsboost.exact.dtypes import BIN, TABLE
from mvsboost.exact.fixedpoint import Packing

__all__ = [
    "BinnedRows",
    "Bins",
    "DIGIT_BITS",
    "DeviceBins",
    "DeviceTable",
    "ForestArrays",
    "GradientRange",
    "GrownNodes",
    "NodeSplit",
    "Pages",
    "RowMetric",
    "RowObjective",
    "RowSet",
    "TreeRequest",
    "are_plain",
    "bins_on_host",
    "read_only",
    "residual_key",
    "residual_of_key",
]


class Pages(Protocol):
    """What is in memory of arrays that lie in files; see `runtime.mapped`."""

    @property
    def memory_limit(self) -> int | None:
        """Bytes that a process may have resident; None where the system alone decides."""

    def let_go(self) -> None:
        """Let go of what was looked at, if memory is bounded."""


class ForestArrays(Protocol):
    """What prediction asks of the trees of a forest.

    `roots` and `outputs` have an entry a tree, the others one a node: children, by their numbers
    in the whole; the bins that go left, as bits of eight words; the value. A leaf has feature -1.
    """

    @property
    def roots(self) -> NDArray[np.int32]: ...
    @property
    def outputs(self) -> NDArray[np.int32]: ...
    @property
    def feature(self) -> NDArray[np.int32]: ...
    @property
    def left(self) -> NDArray[np.int32]: ...
    @property
    def right(self) -> NDArray[np.int32]: ...
    @property
    def sets(self) -> NDArray[np.uint32]: ...
    @property
    def value(self) -> NDArray[np.float64]: ...


class DeviceBins(Protocol):
    """Bins of rows that are on a device, as its backend keeps them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    def on_host(self, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """A copy of the bins of rows start to stop."""

    def scores(self, baseline: NDArray[np.float64], forest: ForestArrays) -> NDArray[np.float64]:
        """Scores of the rows, (n_outputs, n_rows), on the host: trees are added in their order."""


class DeviceTable(Protocol):
    """A table of numbers on a device, some of which its backend brings to the host."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of all columns."""

    @property
    def has_values(self) -> NDArray[np.bool_]:
        """Columns that have a value in any row."""

    def values(self, column: int | None = None) -> NDArray[Any]:
        """All values on the host, or those of one column: (n_rows, n_columns or 1)."""

    def sample(self, rows: NDArray[np.int64] | None) -> NDArray[Any]:
        """Values of some rows, or of all, on the host; the last ones are kept."""

    def take(self, rows: NDArray[Any]) -> DeviceTable:
        """A table of the chosen rows (mask or indices); the last one is kept."""

    def bins(
        self,
        columns: Sequence[int],
        edges: Sequence[NDArray[np.float64]],
        others: NDArray[np.uint8],
    ) -> DeviceBins:
        """Bins of all rows, where `data.binning` finds the same for rows on the host.

        Parameters
        ----------
        columns : sequence of int
            Of each feature the column that it is cut from; −1 − c where its bins are known, and
            are column c of `others`.
        edges : sequence of float64 arrays
            Of each feature; what is given for bins that are known is not looked at.
        others : uint8 array of shape (n_rows, known features)
        """


Bins: TypeAlias = Any
"""A uint8 array of shape (n_rows, n_features) in C order, or `DeviceBins`."""


def bins_on_host(bins: Bins, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
    """The bins of rows start to stop; a copy, if they are on a device."""
    found: NDArray[np.uint8] = (
        bins[start:stop] if isinstance(bins, np.ndarray) else bins.on_host(start, stop)
    )
    return found


@dataclass(frozen=True)
class BinnedRows:
    """The rows of one backend, binned.

    Attributes
    ----------
    bins : uint8 array of shape (n_rows, n_features), C order, or DeviceBins
    n_bins : int array of shape (n_features,)
        Regular bins of each feature; a missing value has bin ``n_bins[f]``.
    target : float64 array of shape (n_rows,)
    weight : float64 array of shape (n_rows,) or None
    offset : int
        Global id of the first row; random numbers belong to global ids.
    start : float64 array of shape (n_outputs, n_rows) or None
        Scores that the rows have of their own, before the model's.
    columns : uint8 array of shape (n_features, n_rows), C order, or None
        The bins by column, where they are known.
    pages : Pages or None
        Of rows that lie in files.
    """

    bins: Bins
    n_bins: NDArray[np.int64]
    target: NDArray[np.float64]
    weight: NDArray[np.float64] | None = None
    offset: int = 0
    start: NDArray[np.float64] | None = None
    columns: NDArray[np.uint8] | None = None
    pages: Pages | None = None

    @property
    def n_rows(self) -> int:
        return int(self.bins.shape[0])

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight is not None

    @property
    def ids(self) -> NDArray[np.uint64]:
        """Global row ids."""
        return np.arange(self.offset, self.offset + self.n_rows, dtype=np.uint64)

    def slice(self, start: int, stop: int) -> BinnedRows:
        """Rows start..stop as a view, with their global ids."""
        return BinnedRows(
            self.bins[start:stop],
            self.n_bins,
            self.target[start:stop],
            None if self.weight is None else self.weight[start:stop],
            self.offset + start,
            None if self.start is None else self.start[:, start:stop],
        )


Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A view of a backend's numbers that a user's code can look at but not write to."""
    view = array.view()
    view.flags.writeable = False
    return view


class RowObjective(Protocol):
    """What a backend asks of an objective."""

    name: str
    n_outputs: int

    def gradients(
        self, target: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradients g and h of shape (n_outputs, n) for targets (n,) and scores (n_outputs, n)."""


class RowMetric(Protocol):
    """A metric that is a weighted mean over rows."""

    @property
    def kernel(self) -> str:
        """Name of the row loss, for backends that have it compiled; may be empty."""

    @property
    def at_once(self) -> bool:
        """Whether `rowwise` wants all rows of a backend in one call; else slices will do."""

    def rowwise(
        self, target: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The loss of each row (n,) for targets (n,) and raw scores (n_outputs, n)."""


@dataclass(frozen=True)
class GradientRange:
    """Extremes of the gradients of all rows, and the first row that has no finite ones."""

    max_gradient: float
    max_hessian: float
    min_hessian: float
    bad_row: int
    """Global id of the first row whose g or h is not finite, or -1."""

    def merge(self, other: GradientRange) -> GradientRange:
        bad = [row for row in (self.bad_row, other.bad_row) if row >= 0]
        return GradientRange(
            max(self.max_gradient, other.max_gradient),
            max(self.max_hessian, other.max_hessian),
            min(self.min_hessian, other.min_hessian),
            min(bad, default=-1),
        )


class RowSet(Enum):
    """Which rows a histogram or a partition is about."""

    SAMPLE = "sample"
    ALL = "all"


@dataclass(frozen=True)
class NodeSplit:
    """Rows of `node` whose bin of `feature` has 1 in the table go to `left`, others to `right`."""

    node: int
    left: int
    right: int
    feature: int
    goes_left: NDArray[np.uint8]

    def __post_init__(self) -> None:
        assert self.goes_left.shape == (TABLE,)
        assert self.goes_left.dtype == BIN


NO_GROUPS = np.zeros((0, 0), np.int64)
"""What features are in where all may meet in a branch."""


class Features(Protocol):
    """What is known of some features; see `TreeRequest`."""

    @property
    def categorical(self) -> NDArray[np.bool_]: ...
    @property
    def monotone(self) -> NDArray[np.int8]: ...
    @property
    def groups(self) -> NDArray[np.int64]: ...


def are_plain(features: Features) -> bool:
    """Whether all are numeric, and trees may do with them what they like."""
    constrained = features.groups.shape[1] > 0 or features.monotone.any()
    return not (constrained or features.categorical.any())


class TreeRequest(NamedTuple):
    """Everything that determines how a tree grows on the rows of `Backend.begin_tree`.

    Attributes
    ----------
    features : int64 array
        Features the tree may use; `categorical` and `monotone` speak of these.
    categorical : bool array
    monotone : int8 array
        +1 where the score must not fall with the feature, -1 where it must not rise.
    sample : Packing
        Scales of the sample's words.
    all_rows : Packing or None
        Scales of all rows' words; given exactly where there is a second look.
    max_leaves : int or None
        Best-first growth up to this many leaves; None grows level by level.
    max_depth : int or None
    min_samples_leaf, min_child_weight : float
        What both sides of a split must have, by the words that decide.
    min_sampled : int
        Sampled rows that both sides must have where the sample decides or proposes.
    l2, l1, min_gain : float
    second_look : int
        Features the sample proposes for all rows to decide on.
    dispersion : float
        Σg² / Σh: what chance lets a category of rows of weight 1 gain.
    groups : int64 array of shape (all features, words)
        The groups each feature is in, as bits: those of a branch have one in common. No words
        where all may meet.
    """

    features: NDArray[np.int64]
    categorical: NDArray[np.bool_]
    monotone: NDArray[np.int8]
    sample: Packing
    all_rows: Packing | None
    max_leaves: int | None
    max_depth: int | None
    min_samples_leaf: float
    min_child_weight: float
    min_sampled: int
    l2: float
    min_gain: float
    second_look: int
    dispersion: float
    l1: float = 0.0
    groups: NDArray[np.int64] = NO_GROUPS


class GrownNodes(NamedTuple):
    """The nodes of a grown tree, the root first, children in pairs after their parent.

    Attributes
    ----------
    feature, threshold, left, right : int32 array
        -1 at leaves; `threshold` is -1 for categorical tests as well.
    goes_left : uint8 array of shape (n_nodes, 256)
        Good until the backend grows its next tree.
    gain, lower, upper : float64 array
        Gain of the split, and the bounds monotone constraints put on the value.
    sample, all_rows : int64 array of shape (n_nodes, 2)
        Packed words of the sample's rows and of all rows; the latter only with a second look.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    goes_left: NDArray[np.uint8]
    gain: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    sample: NDArray[np.int64]
    all_rows: NDArray[np.int64] | None


DIGIT_BITS = 8
"""Bits of a residual's key that one call of `Backend.residual_counts` resolves."""


def residual_key(residual: NDArray[np.float64]) -> NDArray[np.uint32]:
    """32 bits whose order as integers is the order of the residuals as float32 numbers."""
    with np.errstate(over="ignore"):  # what is too large is refused where it becomes a leaf
        bits = residual.astype(np.float32).view(np.uint32)
    return bits ^ np.where(bits >> np.uint32(31), np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def residual_of_key(key: NDArray[np.uint32]) -> NDArray[np.float32]:
    """The inverse of `residual_key`."""
    bits = key ^ np.where(key >> np.uint32(31), np.uint32(0x80000000), np.uint32(0xFFFFFFFF))
    return bits.astype(np.uint32).view(np.float32)
