"""From packed histograms to splits: the Python face of the split kernels."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import NO_GROUPS
from mvsboost.exact.dtypes import BIN, TABLE
from mvsboost.exact.fixedpoint import Packing, Sums
from mvsboost.kernels import split as kernels
from mvsboost.kernels.histogram import feature_offsets

NO_WORDS = np.zeros(0, np.int64)
"""Groups of a branch where all features may meet."""


@dataclass(frozen=True)
class FeatureTable:
    """What is known of the binned features.

    Attributes
    ----------
    n_bins : int64 array
        Regular bins of each feature.
    categorical : bool array
    monotone : int8 array
        +1 where the score must not fall with the feature, -1 where it must not rise.
    groups : int64 array of shape (n_features, words)
        The groups each feature is in, as bits; see `TreeRequest`.
    """

    n_bins: NDArray[np.int64]
    categorical: NDArray[np.bool_]
    monotone: NDArray[np.int8]
    groups: NDArray[np.int64] = field(default_factory=lambda: NO_GROUPS)

    @property
    def n_features(self) -> int:
        """Number of binned features."""
        return len(self.n_bins)

    @cached_property
    def every(self) -> NDArray[np.int64]:
        """All features in their order."""
        return np.arange(self.n_features, dtype=np.int64)

    def of(self, features: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
        """`categorical` and `monotone` of some features."""
        if features is self.every:
            return self.categorical, self.monotone
        return self.categorical[features], self.monotone[features]

    @cached_property
    def has_categories(self) -> bool:
        """Whether any feature is categorical."""
        return bool(self.categorical.any())


@dataclass(frozen=True)
class Limits:
    """What both leaves of a split must satisfy, the bounds of their values, and the noise.

    `dispersion` is Σg² / Σh: what chance lets a category of rows of weight 1 gain.
    """

    l2: float
    min_samples_leaf: float
    min_child_weight: float
    min_sampled: int
    lower: float = -np.inf
    upper: float = np.inf
    dispersion: float = 0.0
    l1: float = 0.0

    def array(self) -> NDArray[np.float64]:
        """The numbers in the order the kernels read them."""
        return np.array(astuple(self), np.float64)

    def smallest_gain(self, sums: Sums) -> float:
        """Gain that a split of a node with these sums must exceed not to be rounding noise."""
        score = sums.gradient * sums.gradient / max(sums.hessian + self.l2, 1e-300)
        return kernels.SMALLEST_GAIN * score

    def value(self, sums: Sums) -> float:
        """Newton value of a leaf with these sums, within its bounds."""
        denominator = sums.hessian + self.l2
        gradient = sums.gradient - min(max(sums.gradient, -self.l1), self.l1)
        value = -gradient / denominator if denominator > 0.0 else 0.0
        return min(max(value, self.lower), self.upper)


@dataclass(frozen=True)
class Split:
    """A chosen split; `left` holds the packed words of its left child."""

    gain: float
    feature: int
    threshold: int
    goes_left: NDArray[np.uint8]
    left: NDArray[np.int64]


class SplitSearch:
    """Best splits of one node, a feature at a time.

    Parameters
    ----------
    table : FeatureTable
    features : int64 array
        Features in the order of the histogram.
    histogram : int64 array of shape (bins, 2)
    total : int64 array of shape (2,)
        Packed words of the node.
    packing : Packing
    limits : Limits
    groups : int64 array of shape (words,)
        Those that all features of the branch are in.
    """

    def __init__(
        self,
        table: FeatureTable,
        features: NDArray[np.int64],
        histogram: NDArray[np.int64],
        total: NDArray[np.int64],
        packing: Packing,
        limits: Limits,
        groups: NDArray[np.int64] = NO_WORDS,
    ) -> None:
        n = len(features)
        self.table, self.features, self.histogram = table, features, histogram
        self.total, self.packing, self.limits = total, packing, limits
        self.offsets = feature_offsets(table.n_bins, features)
        self._units, self._limits = packing.units(), limits.array()
        self.gains = np.empty(n)
        self._thresholds = np.empty(n, np.int64)
        self._sides = np.empty(n, np.int64)
        kernels.best_splits(
            histogram,
            self.offsets,
            table.categorical[features],
            table.monotone[features],
            total,
            self._units,
            packing.count_bits,
            self._limits,
            self.gains,
            self._thresholds,
            self._sides,
        )
        if len(groups):
            self.gains[~(table.groups[features] & groups).any(axis=1)] = -np.inf

    @property
    def largest_gain(self) -> float:
        """Of all features; -inf if nothing can be split."""
        return float(self.gains.max(initial=-np.inf))

    def ranked(self, count: int) -> NDArray[np.int64]:
        """The `count` features of largest gain, largest first."""
        return self.features[self._places(count)]

    def _places(self, count: int) -> NDArray[np.intp]:
        return np.argsort(-self.gains, kind="stable")[:count]

    def best(self, min_gain: float) -> Split | None:
        """The best split if it gains more than `min_gain`, else None."""
        i = int(np.argmax(self.gains))
        noise = self.limits.smallest_gain(self.packing.unpack(self.total))
        if not self.gains[i] > max(min_gain, noise):
            return None
        feature, goes_left = int(self.features[i]), self._table_of(i)
        return Split(
            gain=float(self.gains[i]),
            feature=feature,
            threshold=-1 if self.table.categorical[feature] else int(self._thresholds[i]),
            goes_left=goes_left,
            left=self._words_left(i, goes_left),
        )

    def _table_of(self, i: int) -> NDArray[np.uint8]:
        feature = self.features[i]
        table = np.zeros(TABLE, BIN)
        if self.table.categorical[feature]:
            part = self.histogram[self.offsets[i] : self.offsets[i + 1]]
            bits, threshold, side = self.packing.count_bits, self._thresholds[i], self._sides[i]
            kernels.category_set(part, self.total, self._units, bits, threshold, side, table)
        else:
            table[: self._thresholds[i] + 1] = 1
            table[self.table.n_bins[feature]] = self._sides[i]
        return table

    def words_left(self, split: Split) -> NDArray[np.int64]:
        """Packed words that this histogram holds for the left side of a given split."""
        i = int(np.flatnonzero(self.features == split.feature)[0])
        return self._words_left(i, split.goes_left)

    def _words_left(self, i: int, goes_left: NDArray[np.uint8]) -> NDArray[np.int64]:
        part = self.histogram[self.offsets[i] : self.offsets[i + 1]]
        words: NDArray[np.int64] = part[goes_left[: len(part)] == 1].sum(axis=0)
        return words
