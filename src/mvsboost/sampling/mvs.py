"""Minimal Variance Sampling, importance sampling, and how other systems read the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.draws import (
    DrawSummary,
    Poisson,
    PositiveScores,
    RankKey,
    Score,
    ScoreRule,
    TopAndRest,
)
from mvsboost.errors import ConvergenceStop, ParameterError
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.sampling.base import Sampler, check_share, draw_some, score_rows
from mvsboost.sampling.context import Sample, SampledRows, SamplingContext
from mvsboost.sampling.rank import cut_largest
from mvsboost.sampling.regularisation import check_lambda, regularisation
from mvsboost.sampling.threshold import Threshold, threshold_by_newton, threshold_by_sorting

__all__ = ["MVS", "ImportanceSampling"]

_SCORES = {"mvs": Score.MVS, "catboost": Score.CATBOOST, "fork": Score.FORK}
_CATBOOST_BLOCK = 8192
_XGBOOST_LAMBDA = 0.1
_FORK_LAMBDA = 1e-6


class MVS(Sampler):
    r"""Minimal Variance Sampling (Ibragimov and Gusev, 2019).

    Draws each row independently, with probability and weight

    .. math:: p_i = \min(1, ĝ_i / µ), \quad w_i = 1 / p_i, \quad
              ĝ_i = \sqrt{\textstyle\sum_k g_{ik}^2 + λ \sum_k h_{ik}^2},

    where µ is chosen so that rate · N rows are expected. No other independent draw of as many
    rows has a smaller Σ (g² + λ h²) / p, which bounds the variance of split scores.

    Parameters
    ----------
    rate : float, default=0.3
        Expected share of rows, in (0, 1]. 1 takes all rows. At least one row is expected, except
        with `block` or `parts`.
    lam : float or {"leaf", "root", "catboost"}, default="leaf"
        λ: a number >= 0, or a rule that sets it in each iteration.
    score : {"mvs", "catboost", "fork"}, default="mvs"
        Formula of ĝ: the one above, sqrt(Σg² + λ), or sqrt((Σ|gh|)² + λ).
    block : int, default=0
        Find one µ for every `block` consecutive rows; 0 finds one for all rows.
    parts : int, default=0
        Divide the rows into this many blocks instead; 0 does not.

    Notes
    -----
    If at most rate · N rows have ĝ > 0, these are all taken with weight 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mvsboost.testing import GradientRows
    >>> rows = GradientRows(np.linspace(-1, 1, 1000), np.ones(1000))
    >>> sample = MVS(rate=0.2, lam=0.1).draw(rows, rows.context())
    >>> 150 < sample.summary.n_rows < 250
    True
    """

    def __init__(
        self,
        rate: float = 0.3,
        lam: float | str = "leaf",
        *,
        score: str = "mvs",
        block: int = 0,
        parts: int = 0,
    ) -> None:
        self.rate = rate
        self.lam = lam
        self.score = score
        self.block = block
        self.parts = parts

    @classmethod
    def variant(cls, name: str, rate: float = 0.3, *, parts: int = 4) -> MVS:
        """MVS as another system implements it, for comparison.

        Parameters
        ----------
        name : {"paper", "catboost", "xgboost", "fork"}
            ``"paper"``: λ by the rule ``"root"``. ``"catboost"``: λ without the hessian, by its
            own rule, and one µ for each 8192 rows. ``"xgboost"``: λ = 0.1. ``"fork"``, the
            author's LightGBM: |gh| in place of g, λ = 1e-6, and one µ for each thread's rows.
        rate : float, default=0.3
            Expected share of rows.
        parts : int, default=4
            Threads of the fork.

        Examples
        --------
        >>> MVS.variant("xgboost", 0.5)
        MVS(lam=0.1, rate=0.5)
        """
        if name == "paper":
            return MVS(rate, "root")
        if name == "catboost":
            return MVS(rate, "catboost", score="catboost", block=_CATBOOST_BLOCK)
        if name == "xgboost":
            return MVS(rate, _XGBOOST_LAMBDA)
        if name == "fork":
            return MVS(rate, _FORK_LAMBDA, score="fork", parts=parts)
        raise ParameterError("variant", name, "one of 'paper', 'catboost', 'xgboost', 'fork'")

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("rate", self.rate)
        check_lambda(self.lam)
        if self.score not in _SCORES:
            raise ParameterError("score", self.score, f"one of {', '.join(map(repr, _SCORES))}")
        for name in ("block", "parts"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                raise ParameterError(name, value, "an integer >= 0")
        if self.block and self.parts:
            raise ParameterError("parts", self.parts, f"0 where block is given ({self.block})")

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        if self.rate >= 1.0:
            return self._draw_all(backend)
        score = _SCORES[self.score]
        lam = regularisation(self.lam, score, backend, context)
        block = -(-context.n_rows // self.parts) if self.parts else self.block
        return _draw_by_score(backend, context, ScoreRule(score, lam), self.share, block)


class ImportanceSampling(Sampler):
    """MVS with λ = 0: probabilities in proportion to ‖g‖, for comparison.

    Rows with a gradient near zero get very large weights when they are drawn; λ prevents that.

    Parameters
    ----------
    rate : float, default=0.3
        Expected share of rows, in (0, 1].
    """

    def __init__(self, rate: float = 0.3) -> None:
        self.rate = rate

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("rate", self.rate)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        if self.rate >= 1.0:
            return self._draw_all(backend)
        return _draw_by_score(backend, context, ScoreRule(Score.MVS, 0.0), self.share, 0)


def _draw_by_score(
    backend: SampledRows, context: SamplingContext, rule: ScoreRule, rate: float, block: int
) -> Sample:
    largest = score_rows(backend, context, rule)
    if largest == 0.0:
        raise ConvergenceStop(
            f"every row's score {rule.score.value} is zero at iteration {context.iteration}: "
            "no row can change the model, and training ends here"
        )
    if block:
        mu = _block_thresholds(backend.row_scores(), rate, block)
        summary = _draw_over(backend, context, mu, block)
        return Sample(summary, rate, float(mu.mean()), rule.lam, passes=1)
    found = _global_threshold(backend, context, rate, largest)
    if found.mu == 0.0:
        summary = backend.draw(PositiveScores())
    else:
        summary = _draw_over(backend, context, np.array([found.mu]), 0)
    return Sample(summary, rate, found.mu, rule.lam, found.passes)


def _global_threshold(
    backend: SampledRows, context: SamplingContext, rate: float, largest: float
) -> Threshold:
    previous = context.previous
    start = previous.mu if previous is not None and previous.mu > 0.0 else None
    return threshold_by_newton(
        backend.threshold_sums,
        max(1.0, rate * context.n_rows),
        n_rows=context.n_rows,
        largest=largest,
        start=start,
    )


def _block_thresholds(scores: NDArray[np.float32], rate: float, block: int) -> NDArray[np.float64]:
    pieces = [scores[start : start + block] for start in range(0, len(scores), block)]
    return np.array([threshold_by_sorting(piece, rate * len(piece)) for piece in pieces])


def _draw_over(
    backend: SampledRows, context: SamplingContext, mu: NDArray[np.float64], block: int
) -> DrawSummary:
    summary = draw_some(backend, context, lambda key: Poisson(key, mu, block))
    if summary is not None:
        return summary
    key = stream_key(context.seed, context.iteration, Purpose.DRAW)
    cut = cut_largest(backend, RankKey(key, by_score=True), 1)
    nobody = np.uint64(0)
    return backend.draw(TopAndRest(key, cut, key, nobody, rest_weight=0.0))
