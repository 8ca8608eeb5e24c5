"""Minimal Variance Sampling, and importance sampling."""

from __future__ import annotations

import numpy as np

from mvsboost.backends.draws import (
    DrawSummary,
    Poisson,
    PositiveScores,
    RankKey,
    Score,
    ScoreRule,
    TopAndRest,
)
from mvsboost.errors import ConvergenceStop
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.sampling.base import Sampler, check_share, draw_some, score_rows
from mvsboost.sampling.context import Sample, SampledRows, SamplingContext
from mvsboost.sampling.rank import cut_largest
from mvsboost.sampling.regularisation import check_lambda, regularisation
from mvsboost.sampling.threshold import Threshold, threshold_by_newton

__all__ = ["MVS", "ImportanceSampling"]


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
        Expected share of rows, in (0, 1]. 1 takes all rows. At least one row is expected.
    lam : float or {"leaf", "root"}, default="leaf"
        λ: a number >= 0, or a rule that sets it in each iteration.

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

    def __init__(self, rate: float = 0.3, lam: float | str = "leaf") -> None:
        self.rate = rate
        self.lam = lam

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("rate", self.rate)
        check_lambda(self.lam)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        if self.rate >= 1.0:
            return self._draw_all(backend)
        lam = regularisation(self.lam, backend, context)
        return _draw_by_score(backend, context, lam, self.share)


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
        return _draw_by_score(backend, context, 0.0, self.share)


def _draw_by_score(
    backend: SampledRows, context: SamplingContext, lam: float, rate: float
) -> Sample:
    largest = score_rows(backend, context, ScoreRule(Score.MVS, lam))
    if largest == 0.0:
        raise ConvergenceStop(
            f"every row's score {Score.MVS.value} is zero at iteration {context.iteration}: "
            "no row can change the model, and training ends here"
        )
    found = _global_threshold(backend, context, rate, largest)
    if found.mu == 0.0:
        summary = backend.draw(PositiveScores())
    else:
        summary = _draw_over(backend, context, found.mu)
    return Sample(summary, rate, found.mu, lam, found.passes)


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


def _draw_over(backend: SampledRows, context: SamplingContext, mu: float) -> DrawSummary:
    summary = draw_some(backend, context, lambda key: Poisson(key, mu))
    if summary is not None:
        return summary
    key = stream_key(context.seed, context.iteration, Purpose.DRAW)
    cut = cut_largest(backend, RankKey(key, by_score=True), 1)
    nobody = np.uint64(0)
    return backend.draw(TopAndRest(key, cut, key, nobody, rest_weight=0.0))
