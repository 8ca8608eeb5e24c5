"""A finished tree: a frozen struct of arrays, one entry a node, the root first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.errors import ModelFormatError
from mvsboost.exact.dtypes import BIN, TABLE

LEAF = -1
"""Value of `feature`, `left` and `right` at a leaf."""

_WORDS = TABLE // 32

NO_SETS = np.empty((0, _WORDS), np.uint32)
"""The category sets of a tree without categorical tests."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree over binned features.

    Attributes
    ----------
    feature : int32 array
        Binned feature tested at a node; -1 at a leaf.
    threshold : int32 array
        A numeric test sends bins up to the threshold left; -1 at categorical tests and leaves.
    missing_left : bool array
        Whether missing values go left.
    categories : int32 array
        Row of `category_sets` that a categorical test looks up; -1 for a numeric one.
    category_sets : uint32 array of shape (n_sets, 8)
        Bit b of a set is 1 where bin b goes left.
    missing_bin : int32 array
        Bin of missing values of the tested feature.
    left, right : int32 array
        Children; -1 at a leaf.
    value : float64 array
        What a leaf adds to the score, shrinkage included; 0 at inner nodes.
    gain : float64 array
        Gain of the split at inner nodes; 0 at leaves.
    cover : float64 array
        (Estimated) number of training rows in a node.
    hessian : float64 array
        Sum of hessians of a node.
    shrinkage : float
        Learning rate that `value` includes.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    categories: NDArray[np.int32]
    category_sets: NDArray[np.uint32]
    missing_bin: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    gain: NDArray[np.float64]
    cover: NDArray[np.float64]
    hessian: NDArray[np.float64]
    shrinkage: float = 1.0

    @property
    def n_nodes(self) -> int:
        """Inner nodes and leaves."""
        return len(self.feature)

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """True at leaves."""
        leaf: NDArray[np.bool_] = self.feature == LEAF
        return leaf

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(self.is_leaf.sum())

    def with_leaves(
        self,
        value: NDArray[np.float64],
        hessian: NDArray[np.float64],
        cover: NDArray[np.float64],
        shrinkage: float,
    ) -> Tree:
        """The same splits with these values and sums."""
        return Tree(
            self.feature,
            self.threshold,
            self.missing_left,
            self.categories,
            self.category_sets,
            self.missing_bin,
            self.left,
            self.right,
            value,
            self.gain,
            cover,
            hessian,
            shrinkage,
        )

    def goes_left(self) -> NDArray[np.uint8]:
        """Table (n_nodes, 256): 1 where a bin goes to the left child."""
        bins = np.arange(TABLE)
        table = bins[None, :] <= self.threshold[:, None]
        nodes = np.arange(self.n_nodes)
        table[nodes, self.missing_bin] = self.missing_left
        by_category = np.flatnonzero(self.categories >= 0)
        table[by_category] = unpack_sets(self.category_sets)[self.categories[by_category]]
        table[self.is_leaf] = False
        return table.astype(BIN)

    def leaf_numbers(self) -> NDArray[np.int32]:
        """For each node its rank among the leaves; -1 at inner nodes."""
        numbers = np.cumsum(self.is_leaf, dtype=np.int32) - 1
        return np.where(self.is_leaf, numbers, LEAF).astype(np.int32)

    def left_sets(self) -> NDArray[np.uint32]:
        """The table of `goes_left` as bit sets, (n_nodes, 8)."""
        return pack_set(self.goes_left().ravel()).reshape(-1, _WORDS)

    @classmethod
    def single_leaf(cls, value: float = 0.0) -> Tree:
        """A tree that is one leaf."""
        arrays: dict[str, Any] = {name: np.zeros(1, dtype) for name, dtype in _DTYPES.items()}
        for name in ("feature", "threshold", "categories", "left", "right"):
            arrays[name][:] = LEAF
        arrays["category_sets"] = NO_SETS
        arrays["value"][:] = value
        return cls(**arrays)

    def to_dict(self) -> dict[str, Any]:
        """Lists of plain numbers, ready for JSON; floats round-trip exactly."""
        arrays = {name: getattr(self, name).tolist() for name in _DTYPES}
        return {**arrays, "shrinkage": self.shrinkage}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tree:
        """Read back what `to_dict` wrote; a damaged tree is a `ModelFormatError`."""
        arrays: dict[str, Any] = {
            name: _array(data[name], dtype) for name, dtype in _DTYPES.items()
        }
        arrays["category_sets"] = arrays["category_sets"].reshape(-1, _WORDS)
        tree = cls(**arrays, shrinkage=float(data["shrinkage"]))
        tree._check()
        return tree

    def _check(self) -> None:
        """Kernels follow these numbers unchecked, so they must lead somewhere."""
        n = self.n_nodes
        shapes = {getattr(self, name).shape for name in _DTYPES if name != "category_sets"}
        if n == 0 or shapes != {(n,)}:
            raise ModelFormatError("a tree in the model file has arrays of unequal length")
        leaf, nodes = self.is_leaf, np.arange(n)
        left = self.left.astype(np.int64)
        ends = (self.left == LEAF) & (self.right == LEAF)
        onward = (left > nodes) & (self.right == left + 1) & (left + 1 < n)
        right = np.where(leaf, ends, onward & (self.feature >= 0))
        right &= (self.categories >= LEAF) & (self.categories < len(self.category_sets))
        right &= (self.missing_bin >= 0) & (self.missing_bin < TABLE)
        for numbers in (self.value, self.gain, self.cover, self.hessian):
            right &= np.isfinite(numbers)
        by_set = self.categories != LEAF
        right &= ~leaf | ~by_set
        right &= (leaf | by_set) == (self.threshold == LEAF)
        if not right.all() or not 0 < self.shrinkage < np.inf:
            raise ModelFormatError(
                f"a tree in the model file is damaged at node {int(np.argmin(right))}"
            )
        if not np.array_equal(np.sort(left[~leaf]), np.arange(1, n, 2)):
            raise ModelFormatError("a tree in the model file has nodes without one parent each")
        if not np.array_equal(np.sort(self.categories[by_set]), np.arange(len(self.category_sets))):
            raise ModelFormatError("a tree in the model file has sets without one node each")


def _array(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Numbers of a file as an array; NumPy 1.26 would take others for integers that do not fit."""
    raw = np.array(values)
    kinds = "b" if dtype is np.bool_ else "iu" if issubclass(dtype, np.integer) else "iuf"
    if raw.size and raw.dtype.kind not in kinds:
        raise TypeError(f"what should be {dtype.__name__} is {raw.dtype}")
    if dtype is np.bool_ or not issubclass(dtype, np.integer):
        return raw.astype(dtype)
    narrow = raw.astype(dtype)
    if not np.array_equal(raw, narrow):
        raise OverflowError(f"an integer in the model file does not fit {dtype.__name__}")
    return narrow


_DTYPES: dict[str, type[np.generic]] = {
    "feature": np.int32,
    "threshold": np.int32,
    "missing_left": np.bool_,
    "categories": np.int32,
    "category_sets": np.uint32,
    "missing_bin": np.int32,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
    "gain": np.float64,
    "cover": np.float64,
    "hessian": np.float64,
}


def pack_set(table: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """256 flags as eight 32-bit words, bin 0 in the lowest bit of the first.

    Examples
    --------
    >>> table = np.zeros(256, np.uint8); table[[0, 33]] = 1
    >>> pack_set(table)[:2].tolist()
    [1, 2]
    """
    return np.packbits(table, bitorder="little").view("<u4").astype(np.uint32)


def unpack_sets(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The inverse of `pack_set` for many sets, (n, 8) words to (n, 256) flags."""
    octets = words.astype("<u4").view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")
