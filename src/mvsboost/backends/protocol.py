"""The words that control and rows speak: the `Backend` protocol and its small messages.

Rows live behind a backend. The loop, the samplers and the grower see summaries
only: maxima, counts, integer sums, histograms of a few nodes. A summary of a
whole is the merge of the summaries of its parts (`max` for maxima, `+` for the
rest), which is all that a composite backend has to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mvsboost.dtypes import BIN, TABLE
from mvsboost.fixedpoint import Packing
from mvsboost.numerics import log
from mvsboost.random import row_bits, uniform

__all__ = [
    "AllRows",
    "Backend",
    "BayesianBootstrap",
    "BinnedRows",
    "DIGIT_BITS",
    "RANK_BITS",
    "Certain",
    "DrawRule",
    "DrawSummary",
    "Given",
    "GradientRange",
    "GrownNodes",
    "GrowsWholeTrees",
    "NodeSplit",
    "Poisson",
    "PoissonBootstrap",
    "RankKey",
    "RowMetric",
    "RowObjective",
    "RowSet",
    "Score",
    "ScoreRule",
    "Smallest",
    "TopAndRest",
    "TreeArrays",
    "TreeRequest",
    "feature_offsets",
    "residual_key",
    "residual_of_key",
    "read_only",
]


# --- what a backend is made from ---------------------------------------------------------------


@dataclass(frozen=True)
class BinnedRows:
    """The rows of one backend, binned.

    Attributes
    ----------
    bins : uint8 array of shape (n_rows, n_features), C order
    n_bins : int array of shape (n_features,)
        Regular bins of each feature; a missing value has bin ``n_bins[f]``.
    target : float64 array of shape (n_rows,)
    weight : float64 array of shape (n_rows,) or None
    offset : int
        Global id of the first row; random numbers belong to global ids.
    """

    bins: NDArray[np.uint8]
    n_bins: NDArray[np.int64]
    target: NDArray[np.float64]
    weight: NDArray[np.float64] | None = None
    offset: int = 0

    @property
    def n_rows(self) -> int:
        return int(self.bins.shape[0])

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


class TreeArrays(Protocol):
    """What a backend asks of a finished tree.

    Nodes are numbered from 0, the root; children come in pairs, in the order in which their
    parents were split. A categorical test has threshold -1; its row of `category_sets`, in
    `categories`, has a bit for every bin that goes left.
    """

    @property
    def feature(self) -> NDArray[np.int32]: ...
    @property
    def threshold(self) -> NDArray[np.int32]: ...
    @property
    def missing_left(self) -> NDArray[np.bool_]: ...
    @property
    def missing_bin(self) -> NDArray[np.int32]: ...
    @property
    def categories(self) -> NDArray[np.int32]: ...
    @property
    def category_sets(self) -> NDArray[np.uint32]: ...
    @property
    def left(self) -> NDArray[np.int32]: ...
    @property
    def right(self) -> NDArray[np.int32]: ...
    @property
    def value(self) -> NDArray[np.float64]: ...
    @property
    def n_nodes(self) -> int: ...
    def goes_left(self) -> NDArray[np.uint8]:
        """Table of shape (n_nodes, 256): 1 where a bin goes to the left child."""


# --- gradients ---------------------------------------------------------------------------------


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


# --- scores: what the threshold is found on ----------------------------------------------------


class Score(Enum):
    """Formula of a row's score, summed over outputs k where several."""

    MVS = "sqrt(sum g^2 + lam * sum h^2)"
    CATBOOST = "sqrt(sum g^2 + lam)"
    FORK = "sqrt((sum |g h|)^2 + lam)"
    ABS_GRADIENT = "sum |g|"
    ABS_PRODUCT = "sum |g h|"


@dataclass(frozen=True)
class ScoreRule:
    """A score formula and its λ.

    Attributes
    ----------
    score : Score
    lam : float
    scale : float
        A power of two by which gradients and hessians are multiplied before ``Score.MVS`` takes a
        root of float32, and the root divided: their squares need twice the exponents.
    """

    score: Score
    lam: float = 0.0
    scale: float = 1.0

    def values(self, g: NDArray[np.float32], h: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of rows with gradients g, h of shape (n_outputs, n)."""
        if self.score is Score.ABS_GRADIENT and len(g) == 1:  # what follows, without its copies
            absolute: NDArray[np.float32] = np.abs(g[0])
            return absolute
        g64, h64 = g.astype(np.float64), h.astype(np.float64)
        total = np.zeros(g.shape[1])
        if self.score in (Score.MVS, Score.CATBOOST):
            second = np.zeros(g.shape[1])
            for gk, hk in zip(g64, h64, strict=True):
                total = total + gk * gk
                second = second + hk * hk
            if self.score is Score.MVS:
                squares = (total + self.lam * second) * (self.scale * self.scale)
                return np.sqrt(squares.astype(np.float32)) * np.float32(1.0 / self.scale)
            total = np.sqrt(total + self.lam)
        else:
            for gk, hk in zip(g64, h64, strict=True):
                total = total + (
                    np.abs(gk) if self.score is Score.ABS_GRADIENT else np.abs(gk * hk)
                )
            if self.score is Score.FORK:
                total = np.sqrt(total * total + self.lam)
        return total.astype(np.float32)


# --- draws: from a score and the row's own number to a weight ------------------------------------


RANK_BITS = 12
"""Bits of a rank key that are counted at a time: their counts stay in the first-level cache."""


@dataclass(frozen=True)
class RankKey:
    """A 64-bit integer for each row, by whose order rows are ranked; no two rows tie.

    With ``by_score`` the key is the score's bits (scores are non-negative, so their
    order as floats is the order of their bits) above 32 random bits; otherwise it is
    64 random bits. ``only_below`` leaves out rows whose score key under ``score_key``
    reaches that cut.
    """

    key: np.uint64
    by_score: bool = False
    only_below: tuple[np.uint64, np.uint64] | None = None

    def values(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """Keys of the rows with these scores and global ids, left-out rows missing."""
        if self.by_score:
            assert scores is not None
            return score_key(self.key, scores, ids)
        keys: NDArray[np.uint64] = row_bits(self.key, ids)
        if self.only_below is not None:
            assert scores is not None
            cut_key, cut = self.only_below
            keys = keys[score_key(cut_key, scores, ids) < cut]
        return keys


def score_key(
    key: np.uint64, scores: NDArray[np.float32], ids: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Score bits above, a 32-bit bijection of the row id below: ties are broken at random."""
    low = ids.astype(np.uint32) ^ np.uint32(int(key) & 0xFFFFFFFF)
    low = (low ^ (low >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    low = (low ^ (low >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    low = low ^ (low >> np.uint32(16))
    high = scores.view(np.uint32).astype(np.uint64) << np.uint64(32)
    return high | low.astype(np.uint64)


class DrawRule(Protocol):
    """How weights follow from scores and row numbers. Weight 0 means not drawn."""

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class AllRows:
    """Every row with weight 1."""

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        return np.ones(len(ids))


@dataclass(frozen=True)
class Certain:
    """Every row with a positive score, weight 1."""

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        assert scores is not None
        return (scores > 0).astype(np.float64)


@dataclass(frozen=True)
class Poisson:
    """Each row on its own with p = min(1, score / µ) and weight 1 / p.

    ``mu`` holds one threshold, or one for each block of ``block`` consecutive global ids.
    """

    key: np.uint64
    mu: NDArray[np.float64]
    block: int = 0

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        assert scores is not None
        mu = self.mu[0] if self.block == 0 else self.mu[(ids // np.uint64(self.block)).astype(int)]
        return _inverse_probability(scores.astype(np.float64), mu, uniform(self.key, ids))


def _inverse_probability(
    scores: NDArray[np.float64], mu: NDArray[np.float64] | float, u: NDArray[np.float64]
) -> NDArray[np.float64]:
    weights = np.where(u * mu < scores, mu / np.where(scores > 0, scores, 1.0), 0.0)
    return np.where(scores >= mu, np.where(scores > 0, 1.0, 0.0), weights)


@dataclass(frozen=True)
class Given:
    """Each row on its own with a probability that control computed, weight 1 / p.

    ``probabilities`` covers global ids from ``first`` on.
    """

    key: np.uint64
    probabilities: NDArray[np.float64]
    first: int = 0

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        p = self.probabilities[(ids - np.uint64(self.first)).astype(np.int64)]
        drawn = uniform(self.key, ids) < p
        return np.where(drawn, 1.0 / np.where(drawn, p, 1.0), 0.0)


@dataclass(frozen=True)
class Smallest:
    """Rows whose 64 random bits are at most ``cut``, all with one weight."""

    key: np.uint64
    cut: np.uint64
    weight: float

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        return np.where(row_bits(self.key, ids) <= self.cut, self.weight, 0.0)


@dataclass(frozen=True)
class TopAndRest:
    """The rows of largest score with weight 1, and some of the rest with one weight.

    Rows whose score key reaches ``top_cut`` are the largest; of the others those are taken
    whose random bits are at most ``rest_cut``, with weight ``rest_weight``.
    """

    top_key: np.uint64
    top_cut: np.uint64
    rest_key: np.uint64
    rest_cut: np.uint64
    rest_weight: float

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        assert scores is not None
        top = score_key(self.top_key, scores, ids) >= self.top_cut
        rest = row_bits(self.rest_key, ids) <= self.rest_cut
        return np.where(top, 1.0, np.where(rest, self.rest_weight, 0.0))


@dataclass(frozen=True)
class BayesianBootstrap:
    """Every row with weight −log u, of mean 1."""

    key: np.uint64

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        drawn: NDArray[np.float64] = -log(1.0 - uniform(self.key, ids))
        return drawn


@dataclass(frozen=True)
class PoissonBootstrap:
    """Integer weights from Poisson(mean) divided by the mean; rows of weight 0 are not drawn."""

    key: np.uint64
    cumulative: NDArray[np.float64]
    """Cumulative distribution of the counts 0, 1, 2, ..."""
    scale: float

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        counts = np.searchsorted(self.cumulative, uniform(self.key, ids), side="right")
        return np.asarray(counts * self.scale, np.float64)


@dataclass(frozen=True)
class DrawSummary:
    """What control learns of a draw.

    Attributes
    ----------
    n_rows : int
        Rows drawn (weight > 0).
    n_certain : int
        Rows drawn with weight 1.
    max_weight, max_gradient, max_hessian : float
        Largest w, w |g| and w h over drawn rows and outputs.
    sum_weight, sum_weight_squared : float
        For the effective sample size (Σw)² / Σw²; reported, never decided on.
    """

    n_rows: int
    n_certain: int
    max_weight: float
    max_gradient: float
    max_hessian: float
    sum_weight: float
    sum_weight_squared: float

    def merge(self, other: DrawSummary) -> DrawSummary:
        return DrawSummary(
            self.n_rows + other.n_rows,
            self.n_certain + other.n_certain,
            max(self.max_weight, other.max_weight),
            max(self.max_gradient, other.max_gradient),
            max(self.max_hessian, other.max_hessian),
            self.sum_weight + other.sum_weight,
            self.sum_weight_squared + other.sum_weight_squared,
        )


# --- trees ---------------------------------------------------------------------------------------


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


WHOLE_LEVELS = 4
"""Levels of a tree, from the root on, whose nodes look at all its features."""

LEAST_FEATURES = 8
"""Features that nodes look at even if narrowing would leave fewer; the second look's, if more."""


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
    everything : Packing or None
        Scales of all rows' words; given exactly where there is a second look.
    max_leaves : int or None
        Best-first growth up to this many leaves; None grows level by level.
    max_depth : int or None
    min_weight, min_hessian : float
        What both sides of a split must have, by the words that decide.
    min_count : int
        Sampled rows that both sides must have where the sample decides or proposes.
    l2, min_gain : float
    second_look : int
        Features the sample proposes for all rows to decide on.
    dispersion : float
        Σg² / Σh: what chance lets a category of rows of weight 1 gain.
    narrowing : float
        Share of its features that a node passes on to its children; see `features_by_depth`.
    """

    features: NDArray[np.int64]
    categorical: NDArray[np.bool_]
    monotone: NDArray[np.int8]
    sample: Packing
    everything: Packing | None
    max_leaves: int | None
    max_depth: int | None
    min_weight: float
    min_hessian: float
    min_count: int
    l2: float
    min_gain: float
    second_look: int
    dispersion: float
    narrowing: float

    @property
    def features_by_depth(self) -> NDArray[np.int64]:
        """How many features the nodes of each depth look at; below the last, as many as there."""
        looks = 0 if self.everything is None else self.second_look
        return _features_by_depth(len(self.features), self.narrowing, looks)


@lru_cache
def _features_by_depth(n: int, narrowing: float, second_look: int) -> NDArray[np.int64]:
    # not to be written to: all requests alike share it
    numbers, least = [n], min(n, max(LEAST_FEATURES, second_look))
    if narrowing < 1.0:
        numbers *= WHOLE_LEVELS
        while numbers[-1] > least:
            numbers.append(max(least, int(numbers[-1] * narrowing)))
    return np.array(numbers, np.int64)


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
    sample, everything : int64 array of shape (n_nodes, 2)
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
    everything: NDArray[np.int64] | None


DIGIT_BITS = 8
"""Bits of a residual's key that one call of `Backend.residual_counts` resolves."""


def residual_key(residual: NDArray[np.float64]) -> NDArray[np.uint32]:
    """32 bits whose order as integers is the order of the residuals as float32 numbers."""
    bits = residual.astype(np.float32).view(np.uint32)
    return bits ^ np.where(bits >> np.uint32(31), np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def residual_of_key(key: NDArray[np.uint32]) -> NDArray[np.float32]:
    """The inverse of `residual_key`."""
    bits = key ^ np.where(key >> np.uint32(31), np.uint32(0x80000000), np.uint32(0xFFFFFFFF))
    return bits.astype(np.uint32).view(np.float32)


def feature_offsets(n_bins: NDArray[np.int64], features: NDArray[np.int64]) -> NDArray[np.int64]:
    """First histogram entry of each feature in a concatenation, and at last their total."""
    offsets = np.zeros(len(features) + 1, np.int64)
    np.cumsum(n_bins[features] + 1, out=offsets[1:])
    return offsets


# --- the protocol --------------------------------------------------------------------------------


@runtime_checkable
class Backend(Protocol):
    """Rows, their scores and gradients, and the verbs control has for them.

    An iteration calls, in this order: `compute_gradients`; as the sampler needs,
    `gradient_sums`, `score_rows`, `threshold_sums`, `rank_counts`,
    `row_scores`; then `draw`; for each output `begin_tree`, then
    `histograms` and `partition` in turn; at last `leaf_sums` (and
    `residual_counts`, for objectives whose leaves are quantiles) and `apply_tree`.
    """

    n_rows: int
    n_outputs: int

    def set_baseline(self, baseline: NDArray[np.float64]) -> None:
        """Set the score of every row to the baseline, one number an output."""

    def target_range(self) -> tuple[float, float]:
        """Largest ω and largest ω |y|."""

    def target_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        """Σ ω and Σ ω y for each output (softmax: y == k), fixed-point: (n_outputs, 2)."""

    def compute_gradients(self, order: int) -> GradientRange:
        """Compute g and h of every row at its current score; order 1 sets h to the row weight."""

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Bring back g and h, (n_outputs, n_rows) each; only user-made samplers ask for it."""

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        """Σ g, Σ h, Σ g², Σ h² for each output, fixed-point: (n_outputs, 4), in this order.

        A sum whose scale is 0 is not needed, and 0.
        """

    def score_rows(self, rule: ScoreRule) -> float:
        """Score every row, keep the scores, return the largest."""

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        """Fixed-point sum of scores under µ, number of rows at or over µ, number of zeros."""

    def row_scores(self) -> NDArray[np.float32]:
        """Bring back the scores; only variants with a threshold for each block ask for it."""

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        """Rows whose key starts with `prefix` (known_bits long), counted by its next `RANK_BITS`.

        Where the key has fewer bits left, zeros follow them. The array holds until ranks are
        counted again.
        """

    def draw(self, rule: DrawRule) -> DrawSummary:
        """Draw the sample; it stands until the next draw."""

    def begin_tree(
        self, output: int, key: np.uint64, sample: Packing, everything: Packing | None
    ) -> None:
        """Quantise the sample's rows, and all rows if given a packing; node 0 holds them."""

    def histograms(
        self, rows: RowSet, nodes: Sequence[int], features: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Packed histograms, (len(nodes), bins of all `features` in their order, 2).

        Each feature takes ``n_bins[f] + 1`` entries, the last one for missing values.
        With several rows of `features` (shape (len(nodes), K)) each node has its own;
        shorter concatenations are padded with zeros.
        """

    def partition(self, rows: RowSet, splits: Sequence[NodeSplit]) -> None:
        """Send the rows of each split node to its children."""

    def leaf_sums(
        self, rows: RowSet, tree: TreeArrays, output: int, scales: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Σ w g, Σ w h and Σ w of the rows in each leaf, fixed-point: (n_nodes, 3).

        Weights are those of the draw, and 1 for all rows, whose number is summed as it is.
        """

    def residual_counts(
        self, tree: TreeArrays, prefix: NDArray[np.int64], known_bits: int, scale: float
    ) -> NDArray[np.int64]:
        """Fixed-point weights of rows by the next digit of their residual's order key.

        A row counts where the first `known_bits` of its 32-bit key equal its leaf's `prefix`;
        the result is (n_nodes, 2 ** DIGIT_BITS). See `residual_key`.
        """

    def apply_tree(self, tree: TreeArrays, output: int) -> None:
        """Add the tree's values to the scores of all rows."""

    def metric_range(self, metric: RowMetric) -> float:
        """Largest absolute weighted row loss."""

    def metric_sums(self, metric: RowMetric, scale: float) -> int:
        """Fixed-point sum of weighted row losses."""

    def scores(self) -> NDArray[np.float64]:
        """Bring back the scores, (n_outputs, n_rows)."""


@runtime_checkable
class GrowsWholeTrees(Protocol):
    """A backend that may grow a tree in one call where that is quicker than verb by verb."""

    def grow_whole_tree(self, request: TreeRequest) -> GrownNodes | None:
        """The tree that histograms and partitions in turn would give; None to have it so."""
