"""MVS as other systems implement it.

They differ in the score ĝ, in λ, and in how many thresholds µ there are:

- CatBoost: sqrt(Σg² + λ), λ without the hessian by a rule of its own, one µ for each 8192 rows;
- XGBoost: as in the paper, with λ = 0.1;
- the author's fork of LightGBM: sqrt((Σ|gh|)² + λ), λ = 1e-6, one µ for each thread's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import DrawRule, DrawSummary, Score, ScoreRule
from mvsboost.errors import ConvergenceStop, ParameterError
from mvsboost.exact.fixedpoint import sum_scale
from mvsboost.exact.random import uniform
from mvsboost.sampling import MVS, Sample, SampledRows, Sampler, SamplingContext
from mvsboost.sampling.base import draw_some, score_rows
from mvsboost.sampling.regularisation import LAMBDA_FLOOR, gradient_moments
from mvsboost.sampling.threshold import threshold_by_sorting

__all__ = ["CatBoostLambda", "CatBoostMVS", "ForkMVS", "as_in"]


def as_in(system: str, rate: float) -> Sampler:
    """The sampler of a system.

    Examples
    --------
    >>> as_in("xgboost", 0.5)
    MVS(lam=0.1, rate=0.5)
    """
    if system == "paper":
        return MVS(rate, "root")
    if system == "catboost":
        return CatBoostMVS(rate)
    if system == "xgboost":
        return MVS(rate, 0.1)
    if system == "fork":
        return ForkMVS(rate)
    raise ParameterError("variant", system, "one of 'paper', 'catboost', 'xgboost', 'fork'")


class CatBoostLambda(MVS):
    """The MVS of this library with the λ of CatBoost's.

    Parameters
    ----------
    rate : float
    """

    def __init__(self, rate: float = 0.3) -> None:
        super().__init__(rate)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        moments = gradient_moments(backend, context.gradients, squares_only=True)
        lam = max(_squared_leaf(backend, context), LAMBDA_FLOOR * float(moments.balance))
        return MVS(self.share, lam).draw(backend, context)


class CatBoostMVS(Sampler):
    """CatBoost's MVS.

    Parameters
    ----------
    rate : float
    block : int
        Rows that have a threshold of their own.
    """

    def __init__(self, rate: float = 0.3, block: int = 8192) -> None:
        self.rate, self.block = rate, block

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        moments = gradient_moments(backend, context.gradients, squares_only=True)
        least = LAMBDA_FLOOR * float(moments.gradient_squared.sum() / context.n_rows)
        lam = max(_squared_leaf(backend, context), least)
        squares = np.zeros(context.n_rows)
        for g in backend.gradients()[0].astype(np.float64):
            squares = squares + g * g
        scores = np.sqrt(squares + lam).astype(np.float32)
        return _draw_by_blocks(backend, context, scores, self.share, lam, self.block)


class ForkMVS(Sampler):
    """The MVS of the author's fork of LightGBM.

    Parameters
    ----------
    rate : float
    parts : int
        Threads, each of which finds a threshold for its rows.
    """

    def __init__(self, rate: float = 0.3, parts: int = 4) -> None:
        self.rate, self.parts = rate, parts

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        lam, products = 1e-6, np.zeros(context.n_rows)
        for g, h in zip(*backend.gradients(), strict=True):
            products = products + np.abs(g.astype(np.float64) * h)
        scores = np.sqrt(products * products + lam).astype(np.float32)
        block = -(-context.n_rows // self.parts)
        return _draw_by_blocks(backend, context, scores, self.share, lam, block)


def _squared_leaf(backend: SampledRows, context: SamplingContext) -> float:
    """Squared mean of the last iteration's shrunk leaf values; at first (mean ‖g‖)²."""
    if context.leaves:
        values = [np.abs(leaf.value * leaf.shrinkage) for leaf in context.leaves]
        return float(np.concatenate(values).mean()) ** 2
    largest = score_rows(backend, context, ScoreRule(Score.MVS, 0.0))
    scale = sum_scale(largest, context.n_rows)
    total, _, _ = backend.threshold_sums(2.0 * largest, scale)
    return (total / scale / context.n_rows) ** 2


@dataclass(frozen=True)
class _PoissonByBlocks:
    """Each row on its own with p = min(1, score / µ of its block)."""

    key: np.uint64
    scores: NDArray[np.float32]
    mu: NDArray[np.float64]
    block: int

    def weights(self, _: Any, ids: NDArray[np.uint64]) -> NDArray[np.float64]:
        rows = ids.astype(np.int64)
        scores, mu = self.scores[rows].astype(np.float64), self.mu[rows // self.block]
        inverse = mu / np.where(scores > 0, scores, 1.0)
        drawn = np.where(uniform(self.key, ids) * mu < scores, inverse, 0.0)
        return np.where(scores >= mu, np.where(scores > 0, 1.0, 0.0), drawn)


def _draw_by_blocks(
    backend: SampledRows,
    context: SamplingContext,
    scores: NDArray[np.float32],
    rate: float,
    lam: float,
    block: int,
) -> Sample:
    """Draw with a threshold for each block; in research, rows are never divided further."""
    if not np.isfinite(scores).all():
        raise ParameterError("lam", lam, "small enough that scores are finite float32")
    pieces = [scores[start : start + block] for start in range(0, len(scores), block)]
    mu = np.array([threshold_by_sorting(piece, rate * len(piece)) for piece in pieces])

    def rule(key: np.uint64) -> DrawRule:
        return cast(DrawRule, _PoissonByBlocks(key, scores, mu, block))

    summary: DrawSummary | None = draw_some(backend, context, rule)
    if summary is None:
        raise ConvergenceStop(f"no row is drawn in iteration {context.iteration}")
    return Sample(summary, rate, float(mu.mean()), lam, passes=1)
