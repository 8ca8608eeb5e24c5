"""What all samplers share: parameters, the optimum, and the promise of a row."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator

from mvsboost.backends.draws import (
    AllRows,
    DrawRule,
    DrawSummary,
    RankKey,
    Score,
    ScoreRule,
    SmallestKeys,
)
from mvsboost.backends.messages import GradientRange
from mvsboost.errors import ConvergenceStop, DataError, ParameterError
from mvsboost.exact.fixedpoint import power_of_two_below
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.sampling.context import Sample, SampledRows, SamplingContext
from mvsboost.sampling.rank import cut_smallest

__all__ = [
    "MAX_ATTEMPTS",
    "Sampler",
    "check_share",
    "draw_some",
    "random_rows",
    "rows_of",
    "score_rows",
]

MAX_ATTEMPTS = 64
"""Draws of independent rows before an empty sample is given up.

At least one row is expected of each draw, so the chance that all of them are empty is
below e**-64; only a user's own probabilities, or blocks of rows under a tiny rate, can bring it
about.
"""

_LARGEST_SCORE = float(np.finfo(np.float32).max)
_LARGEST_ROOT, _LARGEST_SCALE = 2.0**60, 2.0**126  # far from overflow, and from a tiny 1 / scale


class Sampler(BaseEstimator):  # type: ignore[misc]
    """Base of all samplers: configuration, and one method that draws.

    A sampler holds its parameters and nothing else, in the manner of scikit-learn:
    `get_params`, `set_params`, `clone` and ``sampler__rate`` in a grid search work. It sees
    summaries of the rows and tells the rows how to draw themselves; it never changes a
    gradient. Subclasses write `_draw`, and `validate` where they have parameters.
    """

    def validate(self) -> None:
        """Raise `ParameterError` for a parameter outside what is allowed."""

    @property
    def share(self) -> float:
        """Share of rows that a sample is expected to have; 1 where that is not known before."""
        return float(getattr(self, "rate", 1.0))

    def draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        """Draw this iteration's sample; it stands in the backend until the next draw.

        Raises
        ------
        ConvergenceStop
            All gradients are zero, so that no tree can improve the model.
        """
        if context.gradients.max_gradient == 0.0:
            raise ConvergenceStop(
                f"all gradients are zero at iteration {context.iteration}: "
                "the model is at its optimum, and training ends here"
            )
        return self._draw(backend, context)

    def _draw(self, backend: SampledRows, context: SamplingContext) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} does not define _draw")

    def _draw_all(self, backend: SampledRows) -> Sample:
        return Sample(backend.draw(AllRows()), rate=1.0)


def check_share(name: str, value: object, *, zero: bool = False) -> None:
    """Raise `ParameterError` unless `value` is in (0, 1], or in [0, 1] with `zero`."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if number and not isinstance(value, bool):
        share = float(value)  # type: ignore[arg-type]
        if 0.0 < share <= 1.0 or (zero and share == 0.0):
            return
    raise ParameterError(name, value, "in [0, 1]" if zero else "in (0, 1]")


def score_rows(backend: SampledRows, context: SamplingContext, rule: ScoreRule) -> float:
    """Score every row and return the largest score, once it is sure that all fit a float32."""
    largest = _largest_possible(rule, context.gradients, backend.n_outputs)
    if largest >= _LARGEST_SCORE:
        plain = ScoreRule(rule.score)
        if _largest_possible(plain, context.gradients, backend.n_outputs) < _LARGEST_SCORE:
            allowed = f"small enough that {rule.score.value} is a finite float32"
            raise ParameterError("lam", rule.lam, allowed)
        raise DataError(
            f"gradients up to {context.gradients.max_gradient:.3g} and hessians up to "
            f"{context.gradients.max_hessian:.3g} are too large to score by {rule.score.value}; "
            "scale the target or the row weights down"
        )
    if largest > 0.0:
        scale = min(power_of_two_below(_LARGEST_ROOT / largest), _LARGEST_SCALE)
        rule = ScoreRule(rule.score, rule.lam, scale)
    return backend.score_rows(rule)


def _largest_possible(rule: ScoreRule, gradients: GradientRange, n_outputs: int) -> float:
    g, h = gradients.max_gradient, gradients.max_hessian
    if rule.score is Score.MVS:
        return math.sqrt(n_outputs * (g * g + rule.lam * (h * h)))
    if rule.score is Score.ABS_GRADIENT:
        return n_outputs * g
    return n_outputs * g * h


def draw_some(
    backend: SampledRows, context: SamplingContext, rule: Callable[[np.uint64], DrawRule]
) -> DrawSummary | None:
    """Draw under the key of the first attempt that gives a row; None if none of them does."""
    for attempt in range(MAX_ATTEMPTS):
        key = stream_key(context.seed, context.iteration, Purpose.DRAW, attempt)
        summary = backend.draw(rule(key))
        if summary.n_rows > 0:
            return summary
    return None


def random_rows(backend: SampledRows, context: SamplingContext, k: int) -> DrawSummary:
    """Draw k rows uniformly without replacement, each with weight N / k."""
    key = stream_key(context.seed, context.iteration, Purpose.DRAW)
    cut = cut_smallest(backend, RankKey(key), k)
    return backend.draw(SmallestKeys(key, cut, context.n_rows / k))


def rows_of(rate: float, n_rows: int) -> int:
    """round(rate N), but at least one."""
    return max(1, round(rate * n_rows))
