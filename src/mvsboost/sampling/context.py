"""What a sampler is told before a draw, and what it says after one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, DrawSummary, RankKey, ScoreRule
from mvsboost.backends.messages import GradientRange

__all__ = ["GradientMoments", "LeafSummary", "Sample", "SampledRows", "SamplingContext"]


class SampledRows(Protocol):
    """The verbs of a `Backend` that samplers use; see there for their meaning."""

    n_rows: int
    n_outputs: int

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Bring back g and h."""

    def gradient_sums(self, scales: NDArray[np.float64]) -> NDArray[np.int64]:
        """Add up g, h, g² and h²."""

    def score_rows(self, rule: ScoreRule) -> float:
        """Score every row and return the largest."""

    def row_scores(self) -> NDArray[np.float32]:
        """Bring back the scores."""

    def threshold_sums(self, mu: float, scale: float) -> tuple[int, int, int]:
        """Add up the scores under µ, count the others, count the zeros."""

    def rank_counts(self, key: RankKey, known_bits: int, prefix: int) -> NDArray[np.int64]:
        """Count keys by their next bits."""

    def draw(self, rule: DrawRule) -> DrawSummary:
        """Draw the sample."""


@dataclass(frozen=True)
class LeafSummary:
    """The leaves of one finished tree.

    Attributes
    ----------
    value : float64 array of shape (n_leaves,)
        Leaf values before shrinkage.
    hessian : float64 array of shape (n_leaves,)
        Σ h of the rows that each value rests on.
    shrinkage : float
        The learning rate that the values were multiplied by.
    """

    value: NDArray[np.float64]
    hessian: NDArray[np.float64]
    shrinkage: float = 1.0


@dataclass(frozen=True)
class GradientMoments:
    """Sums over all rows, (n_outputs,) each; see `regularisation.gradient_moments`."""

    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]
    gradient_squared: NDArray[np.float64]
    hessian_squared: NDArray[np.float64]

    @property
    def balance(self) -> float:
        """mean(g²) / mean(h²): the λ under which both terms weigh the same."""
        squares = float(self.hessian_squared.sum())
        return float(self.gradient_squared.sum()) / squares if squares > 0.0 else 0.0

    @property
    def dispersion(self) -> NDArray[np.float64]:
        """Σg² / Σh of each output: how far a row's gradient strays, by its hessian."""
        held = self.hessian > 0.0
        return np.where(held, self.gradient_squared / np.where(held, self.hessian, 1.0), 0.0)


@dataclass(frozen=True)
class Sample:
    """One draw, as control knows it.

    Attributes
    ----------
    summary : DrawSummary
        Counts and maxima of the drawn rows.
    rate : float
        The share of rows that was asked for.
    mu : float
        Threshold µ, the mean one where each block has its own; NaN without a threshold,
        0 where every row with a positive score was taken.
    lam : float
        λ of the score; NaN where the score has none.
    passes : int
        Passes over the rows that finding µ took.
    """

    summary: DrawSummary
    rate: float
    mu: float = math.nan
    lam: float = math.nan
    passes: int = 0

    @property
    def effective_sample_size(self) -> float:
        """Kish's (Σw)² / Σw²: the number of equally weighted rows of the same precision."""
        squares = self.summary.sum_weight_squared
        return self.summary.sum_weight**2 / squares if squares > 0.0 else 0.0

    def as_record(self) -> dict[str, float]:
        """One row of the sampling history.

        Examples
        --------
        >>> from mvsboost.backends.draws import DrawSummary
        >>> record = Sample(DrawSummary(2, 1, 3.0, 1.0, 1.0, 4.0, 10.0), rate=0.5).as_record()
        >>> record["rows"], record["certain"], record["effective_sample_size"]
        (2, 1, 1.6)
        """
        return {
            "rate": self.rate,
            "mu": self.mu,
            "lam": self.lam,
            "rows": self.summary.n_rows,
            "certain": self.summary.n_certain,
            "max_weight": self.summary.max_weight,
            "effective_sample_size": self.effective_sample_size,
        }


@dataclass(frozen=True)
class SamplingContext:
    """What a sampler may know of an iteration besides the rows themselves.

    Attributes
    ----------
    seed, iteration : int
        They name the rows' random numbers.
    n_rows : int
        Rows of the whole training set.
    gradients : GradientRange
        Extremes of this iteration's gradients.
    leaves : sequence of LeafSummary
        Leaves of the last iteration's trees, one entry an output; empty at first.
    previous : Sample or None
        The last iteration's sample; its µ only shortens the search for the next.
    moments : GradientMoments or None
        Sums of this iteration's gradients, where they are known already.
    """

    seed: int
    iteration: int
    n_rows: int
    gradients: GradientRange
    leaves: Sequence[LeafSummary] = ()
    previous: Sample | None = None
    moments: GradientMoments | None = None
