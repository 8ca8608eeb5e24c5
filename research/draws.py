"""Other ways to draw and to decide, for the ablation: not part of the library's face.

Systematic draws take every row with the same probability as MVS does, but exactly as
many rows: the probabilities of the rows, laid end to end, are cut at whole numbers from
a random start on. In a random order of rows that is a fixed-size draw; in the order of
the gradients neighbours are alike and stand for each other.

A larger sample that decides in place of all rows is made by the objective: rows outside
of it get gradients of 0, those inside are weighted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, Score, ScoreRule
from mvsboost.errors import ConvergenceStop
from mvsboost.exact.random import Purpose, stream_key, uniform
from mvsboost.objectives import Logistic
from mvsboost.sampling import (
    MVS,
    Sample,
    SampledRows,
    SamplingContext,
    inclusion_probabilities,
    regularisation,
    threshold_by_sorting,
)
from mvsboost.sampling.base import score_rows

__all__ = ["SampledLogistic", "SystematicMVS", "mvs_probabilities", "mvs_weights"]


def mvs_probabilities(
    g: NDArray[np.float64], h: NDArray[np.float64], rate: float, lam: float
) -> NDArray[np.float64]:
    """min(1, ĝ / µ) of every row, by sorting.

    Examples
    --------
    >>> mvs_probabilities(np.array([1.0, 1.0, 2.0]), np.zeros(3), 2 / 3, 0.0).tolist()
    [0.5, 0.5, 1.0]
    """
    score = np.sqrt(g * g + lam * h * h)
    return inclusion_probabilities(score, _threshold(score, rate))


def _threshold(scores: NDArray[np.float64], rate: float) -> float:
    return threshold_by_sorting(scores, max(1.0, rate * len(scores)))


def mvs_weights(
    g: NDArray[np.float64], h: NDArray[np.float64], rate: float, lam: float, key: np.uint64
) -> NDArray[np.float64]:
    """Weight of every row in a draw, 0 for those that are not in it."""
    p = mvs_probabilities(g, h, rate, lam)
    drawn = uniform(key, np.arange(len(p), dtype=np.uint64)) < p
    return np.where(drawn, 1.0 / np.maximum(p, 1e-300), 0.0)


@dataclass(frozen=True)
class _Chosen:
    """Rows with the weights that they were given."""

    given: NDArray[np.float64]

    def weights(self, scores: Any, ids: NDArray[np.uint64]) -> NDArray[np.float64]:
        return self.given[ids.astype(np.int64)]


class SystematicMVS(MVS):
    """MVS with a systematic draw in place of a Poisson one.

    Parameters
    ----------
    rate : float
    lam : float or str
    ordered : bool
        By the gradient; otherwise rows are in a random order.
    """

    def __init__(self, rate: float = 0.3, lam: float | str = "leaf", *, ordered: bool = False):
        super().__init__(rate, lam)
        self.ordered = ordered

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        lam = regularisation(self.lam, backend, context)
        if score_rows(backend, context, ScoreRule(Score.MVS, lam)) == 0.0:
            raise ConvergenceStop(f"every score is zero at iteration {context.iteration}")
        scores = backend.row_scores().astype(np.float64)
        mu = _threshold(scores, self.rate)
        p = inclusion_probabilities(scores, mu)
        key = stream_key(context.seed, context.iteration, Purpose.DRAW)
        numbers = uniform(key, np.arange(len(p) + 1, dtype=np.uint64))
        by = backend.gradients()[0][0] if self.ordered else numbers[:-1]
        order = np.argsort(by, kind="stable")
        ends = np.floor(np.cumsum(p[order]) + numbers[-1])
        drawn = np.zeros(len(p), bool)
        drawn[order] = np.diff(ends, prepend=np.floor(numbers[-1])) > 0
        weights = np.where(drawn, 1.0 / np.where(p > 0.0, p, 1.0), 0.0)
        rule = cast(DrawRule, _Chosen(weights))
        return Sample(backend.draw(rule), self.rate, mu, lam, passes=1)


class SampledLogistic(Logistic):
    """The logistic loss as a sample of the rows sees it: all others have no gradient.

    What is all rows to the library is then a sample, drawn anew in every iteration.

    Parameters
    ----------
    rate, lam : float
        Of the sample.
    seed : int
    """

    def __init__(self, rate: float, lam: float, seed: int) -> None:
        self.rate, self.lam, self.seed, self._iteration = rate, lam, seed, 0

    def gradients(
        self, target: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weighted derivatives of the drawn rows; expects all rows at once."""
        g, h = super().gradients(target, scores)
        key = stream_key(self.seed, self._iteration, Purpose.BOOTSTRAP)
        self._iteration += 1
        weights = mvs_weights(g[0], h[0], self.rate, self.lam, key)
        return g * weights, h * weights
