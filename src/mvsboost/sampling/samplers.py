"""The samplers that do not solve for a threshold, and how any sampler is made from a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends import draws
from mvsboost.backends.draws import RankKey, Score, ScoreRule, SmallestKeys, TopAndRest
from mvsboost.errors import ParameterError
from mvsboost.exact.numerics import exp
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.sampling.base import Sampler, check_share, draw_some, random_rows, rows_of, score_rows
from mvsboost.sampling.context import Sample, SampledRows, SamplingContext
from mvsboost.sampling.custom import CustomSampler, WrappedSampler
from mvsboost.sampling.mvs import MVS, ImportanceSampling
from mvsboost.sampling.rank import cut_largest, cut_smallest

__all__ = [
    "GOSS",
    "SAMPLERS",
    "SGB",
    "BayesianBootstrap",
    "Bernoulli",
    "NoSampling",
    "PoissonBootstrap",
    "make_sampler",
]

_NO_ROW_REACHES = np.uint64(0xFFFFFFFFFFFFFFFF)  # its upper half would be the bits of a NaN
_FIXED_LAMBDA = 0.1


class NoSampling(Sampler):
    """All rows with weight 1.

    Examples
    --------
    >>> from mvsboost.testing import GradientRows
    >>> rows = GradientRows([1.0, -1.0], [1.0, 1.0])
    >>> NoSampling().draw(rows, rows.context()).summary.n_rows
    2
    """

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        return self._draw_all(backend)


class SGB(Sampler):
    """Stochastic gradient boosting (Friedman, 2002): round(rate · N) rows, drawn uniformly.

    Rows are drawn without replacement, at least one. Each weighs N over the number drawn.

    Parameters
    ----------
    rate : float, default=0.3
        Share of rows, in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from mvsboost.testing import GradientRows
    >>> rows = GradientRows(np.ones(1000), np.ones(1000))
    >>> SGB(rate=0.25).draw(rows, rows.context()).summary.n_rows
    250
    """

    def __init__(self, rate: float = 0.3) -> None:
        self.rate = rate

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("rate", self.rate)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        k = rows_of(self.share, context.n_rows)
        if k >= context.n_rows:
            return self._draw_all(backend)
        return Sample(random_rows(backend, context, k), self.share)


class Bernoulli(Sampler):
    """Each row independently with probability `rate` and weight 1 / rate.

    After 64 empty draws one row is drawn uniformly, with weight N.

    Parameters
    ----------
    rate : float, default=0.3
        Expected share of rows, in (0, 1]; at least 1 / N is used.
    """

    def __init__(self, rate: float = 0.3) -> None:
        self.rate = rate

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("rate", self.rate)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        rate = max(self.share, 1.0 / context.n_rows)
        if rate >= 1.0:
            return self._draw_all(backend)
        cut = np.uint64(int(rate * 2.0**64) - 1)
        summary = draw_some(backend, context, lambda key: SmallestKeys(key, cut, 1.0 / rate))
        return Sample(summary or random_rows(backend, context, 1), self.share)


class GOSS(Sampler):
    r"""Gradient-based one-side sampling (Ke et al., 2017).

    Takes the round(a N) rows with the largest \|g\|, with weight 1, and draws round(b N) of the
    others uniformly, at least one. These weigh the number of others over the number drawn,
    about (1 − a) / b. Equal gradients are ranked at random.

    Parameters
    ----------
    top_rate : float, default=0.2
        a, in [0, 1).
    other_rate : float, default=0.1
        b, in (0, 1], with a + b at most 1.
    rank_by : {"gradient", "product"}, default="gradient"
        Rank rows by Σ\|g\| as in the paper, or by Σ\|g h\| as in LightGBM.
    warmup : int, default=0
        First iterations, which use all rows; LightGBM has 1 / learning_rate.

    Examples
    --------
    >>> import numpy as np
    >>> from mvsboost.testing import GradientRows
    >>> rows = GradientRows(np.ones(1000), np.ones(1000))
    >>> GOSS(top_rate=0.2, other_rate=0.1).draw(rows, rows.context()).summary.n_rows
    300
    """

    def __init__(
        self,
        top_rate: float = 0.2,
        other_rate: float = 0.1,
        *,
        rank_by: str = "gradient",
        warmup: int = 0,
    ) -> None:
        self.top_rate = top_rate
        self.other_rate = other_rate
        self.rank_by = rank_by
        self.warmup = warmup

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("top_rate", self.top_rate, zero=True)
        check_share("other_rate", self.other_rate)
        if self.top_rate + self.other_rate > 1.0 + 1e-12:
            allowed = f"at most 1 - top_rate (top_rate={self.top_rate!r})"
            raise ParameterError("other_rate", self.other_rate, allowed)
        if self.rank_by not in _RANKED_BY:
            names = " or ".join(map(repr, _RANKED_BY))
            raise ParameterError("rank_by", self.rank_by, names)
        whole = isinstance(self.warmup, (int, np.integer)) and not isinstance(self.warmup, bool)
        if not whole or self.warmup < 0:
            raise ParameterError("warmup", self.warmup, "an integer >= 0")

    @property
    def share(self) -> float:
        """Share of rows that a sample is expected to have."""
        return float(self.top_rate) + float(self.other_rate)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        n = context.n_rows
        n_top = min(round(self.top_rate * n), n - 1)
        n_rest = rows_of(self.other_rate, n)
        if context.iteration < self.warmup or n_top + n_rest >= n:
            return self._draw_all(backend)
        top_key = stream_key(context.seed, context.iteration, Purpose.DRAW)
        rest_key = stream_key(context.seed, context.iteration, Purpose.REST)
        score_rows(backend, context, ScoreRule(_RANKED_BY[self.rank_by]))
        top_cut = _NO_ROW_REACHES
        if n_top:
            top_cut = cut_largest(backend, RankKey(top_key, by_score=True), n_top)
        rest = RankKey(rest_key, only_below=(top_key, top_cut))
        rest_cut = cut_smallest(backend, rest, n_rest)
        rule = TopAndRest(top_key, top_cut, rest_key, rest_cut, (n - n_top) / n_rest)
        return Sample(backend.draw(rule), self.top_rate + self.other_rate)


_RANKED_BY = {"gradient": Score.ABS_GRADIENT, "product": Score.ABS_PRODUCT}


class BayesianBootstrap(Sampler):
    """All rows, with independent exponential weights of mean 1."""

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        key = stream_key(context.seed, context.iteration, Purpose.BOOTSTRAP)
        return Sample(backend.draw(draws.BayesianBootstrap(key)), rate=1.0)


class PoissonBootstrap(Sampler):
    """Rows with independent counts from Poisson(rate); each weighs count / rate.

    On average 1 − exp(−rate) of the rows are drawn, 63% at rate 1. After 64 empty draws one row
    is drawn uniformly, with weight N.

    Parameters
    ----------
    rate : float, default=1.0
        Mean count of a row, in (0, 1]; at least 1 / N is used.
    """

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""
        check_share("rate", self.rate)

    @property
    def share(self) -> float:
        """Share of rows whose count is not expected to be 0."""
        return 1.0 - float(exp(np.float64(-self.rate)))

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        rate = max(float(self.rate), 1.0 / context.n_rows)
        cumulative = _poisson_distribution(rate)

        def rule(key: np.uint64) -> draws.PoissonBootstrap:
            return draws.PoissonBootstrap(key, cumulative, 1.0 / rate)

        summary = draw_some(backend, context, rule)
        return Sample(summary or random_rows(backend, context, 1), float(self.rate))


def _poisson_distribution(mean: float) -> NDArray[np.float64]:
    """Cumulative probabilities of 0, 1, 2, ... until what is left is under the last bit of 1."""
    term = float(exp(np.float64(-mean)))
    total, cumulative = term, [term]
    while term > 2.0**-54:
        term *= mean / len(cumulative)
        total += term
        cumulative.append(total)
    return np.minimum(cumulative, 1.0)


SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "none": NoSampling,
    "mvs": MVS,
    "mvs-fixed": lambda: MVS(lam=_FIXED_LAMBDA),
    "importance": ImportanceSampling,
    "goss": GOSS,
    "sgb": SGB,
    "bernoulli": Bernoulli,
    "bayesian": BayesianBootstrap,
    "poisson": PoissonBootstrap,
}
"""Samplers by name, each with its default parameters; "mvs-fixed" has λ = 0.1."""


def make_sampler(spec: object) -> Sampler:
    """The sampler that a user means, with its parameters checked.

    Parameters
    ----------
    spec : None, str, Sampler or CustomSampler
        None and ``"none"`` take all rows. Other names are the keys of `SAMPLERS`. An object
        of the user's own with a method `probabilities` is wrapped (`CustomSampler`).

    Returns
    -------
    Sampler

    Examples
    --------
    >>> make_sampler("sgb")
    SGB()
    >>> make_sampler("mvz")
    Traceback (most recent call last):
        ...
    mvsboost.errors.ParameterError: sampler must be one of 'none', 'mvs', 'mvs-fixed', \
'importance', 'goss', 'sgb', 'bernoulli', 'bayesian', 'poisson', a Sampler, or an object with \
a method probabilities(gradients, hessians, iteration), got 'mvz'
    """
    if spec is None:
        return NoSampling()
    if isinstance(spec, str) and spec.lower() in SAMPLERS:
        return SAMPLERS[spec.lower()]()
    if isinstance(spec, Sampler):
        spec.validate()
        return spec
    if isinstance(spec, CustomSampler) and not inspect.isclass(spec):
        return WrappedSampler(spec)
    names = ", ".join(map(repr, SAMPLERS))
    method = "a method probabilities(gradients, hessians, iteration)"
    raise ParameterError("sampler", spec, f"one of {names}, a Sampler, or an object with {method}")
