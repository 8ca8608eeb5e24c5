"""Draw rules: from a row's score and the row's own number to a weight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mvsboost.exact.numerics import log
from mvsboost.exact.random import row_bits, uniform

__all__ = [
    "AllRows",
    "BayesianBootstrap",
    "PositiveScores",
    "DrawRule",
    "DrawSummary",
    "GivenProbabilities",
    "Poisson",
    "PoissonBootstrap",
    "RankKey",
    "Score",
    "ScoreRule",
    "SmallestKeys",
    "TopAndRest",
    "score_key",
]


class Score(Enum):
    """Formula of a row's score, summed over outputs k where several."""

    MVS = "sqrt(sum g^2 + lam * sum h^2)"
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
        if self.score is Score.MVS:
            second = np.zeros(g.shape[1])
            for gk, hk in zip(g64, h64, strict=True):
                total = total + gk * gk
                second = second + hk * hk
            squares = (total + self.lam * second) * (self.scale * self.scale)
            return np.sqrt(squares.astype(np.float32)) * np.float32(1.0 / self.scale)
        for gk, hk in zip(g64, h64, strict=True):
            total = total + np.abs(gk if self.score is Score.ABS_GRADIENT else gk * hk)
        return total.astype(np.float32)


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
class PositiveScores:
    """Every row with a positive score, weight 1."""

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        assert scores is not None
        return (scores > 0).astype(np.float64)


@dataclass(frozen=True)
class Poisson:
    """Each row on its own with p = min(1, score / µ) and weight 1 / p."""

    key: np.uint64
    mu: float

    def weights(
        self, scores: NDArray[np.float32] | None, ids: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        assert scores is not None
        wide, u = scores.astype(np.float64), uniform(self.key, ids)
        inverse = self.mu / np.where(wide > 0, wide, 1.0)
        weights = np.where(u * self.mu < wide, inverse, 0.0)
        return np.where(wide >= self.mu, np.where(wide > 0, 1.0, 0.0), weights)


@dataclass(frozen=True)
class GivenProbabilities:
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
class SmallestKeys:
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
