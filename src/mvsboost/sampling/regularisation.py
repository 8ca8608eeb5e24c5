r"""λ: how much a row's hessian counts beside its gradient.

The score of MVS is :math:`ĝ = \sqrt{g^2 + λ h^2}`. Theorem 1 of the paper makes λ the
squared value c² of a leaf, up to a constant. A rule says where c² is taken from.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mvsboost.backends.draws import Score, ScoreRule
from mvsboost.backends.messages import GradientRange
from mvsboost.errors import ParameterError
from mvsboost.exact.fixedpoint import sum_scale
from mvsboost.sampling.base import score_rows
from mvsboost.sampling.context import GradientMoments, SampledRows, SamplingContext

__all__ = [
    "LAMBDA_FLOOR",
    "LAMBDA_RULES",
    "check_lambda",
    "gradient_moments",
    "regularisation",
]

LAMBDA_FLOOR = 1e-4
"""Smallest adaptive λ, as a share of mean(g²) / mean(h²).

A row's weight is at most µ / (sqrt(λ) h), and µ is about rms(g) / rate. So with this
share no row of average hessian stands for more than 1 / sqrt(1e-4) = 100 times the
rows it would stand for under uniform sampling, however small its gradient is.
"""


def gradient_moments(
    backend: SampledRows, gradients: GradientRange, *, squares_only: bool = False
) -> GradientMoments:
    """Sums of g, h, g² and h² over all rows, exact up to the unit of their magnitude.

    Those of g and h are left out, and 0, where only squares are wanted: half of the time.
    """
    g, h = gradients.max_gradient, gradients.max_hessian
    scales = np.array([sum_scale(x, backend.n_rows) for x in (g, h, g * g, h * h)])
    wanted = scales * _SQUARES_ONLY if squares_only else scales
    sums = backend.gradient_sums(wanted) / scales
    return GradientMoments(*sums.T)


_SQUARES_ONLY = np.array([0.0, 0.0, 1.0, 1.0])


def check_lambda(lam: object) -> None:
    """Raise `ParameterError` unless `lam` is a rule's name or a number of at least 0."""
    if isinstance(lam, str):
        valid = lam in LAMBDA_RULES
    else:
        number = isinstance(lam, (int, float, np.integer, np.floating))
        valid = number and not isinstance(lam, bool) and 0.0 <= float(lam) < math.inf  # type: ignore[arg-type]
    if not valid:
        names = ", ".join(repr(name) for name in LAMBDA_RULES)
        raise ParameterError("lam", lam, f"a finite number >= 0 or one of {names}")


def regularisation(
    lam: float | str, score: Score, backend: SampledRows, context: SamplingContext
) -> float:
    """λ of this iteration: the number given, or what the named rule finds.

    Parameters
    ----------
    lam : float or {"root", "leaf", "catboost"}
        * ``"leaf"``: mean of the last iteration's squared leaf values, weighted by hessian, before
          shrinkage; at first mean(g²) / mean(h²). A quantile leaf counts as the square root of
          Σ gain / Σ h of its tree.
        * ``"root"``: squared value of the root, (Σg / Σh)²; with several outputs their mean,
          weighted by hessian.
        * ``"catboost"``: squared mean of the last iteration's absolute leaf values, after
          shrinkage; at first (mean ‖g‖)².
    score : Score
        The formula λ is for. Only in ``Score.MVS`` it multiplies h², which decides the unit
        of the floor.
    backend : SampledRows
        Holds the gradients. The rule ``"catboost"`` scores the rows anew.
    context : SamplingContext
        Holds their extremes and the last iteration's leaves.

    Returns
    -------
    float
        Under a rule never less than `LAMBDA_FLOOR` times mean(g²) / mean(h²), or times mean(g²)
        where the score does not multiply λ by h².

    Examples
    --------
    >>> from mvsboost.testing import GradientRows
    >>> rows = GradientRows([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> regularisation("root", Score.MVS, rows, rows.context())
    4.0
    """
    if not isinstance(lam, str):
        return float(lam)
    sums = context.moments or gradient_moments(
        backend, context.gradients, squares_only=lam != "root"
    )
    value = LAMBDA_RULES[lam](sums, backend, context)
    least = sums.balance if score is Score.MVS else sums.gradient_squared.sum() / context.n_rows
    return max(value, LAMBDA_FLOOR * float(least))


def _root(sums: GradientMoments, backend: SampledRows, context: SamplingContext) -> float:
    held = sums.hessian > 0.0
    total = float(sums.hessian[held].sum())
    return float((sums.gradient[held] ** 2 / sums.hessian[held]).sum()) / total if total else 0.0


def _leaf(sums: GradientMoments, backend: SampledRows, context: SamplingContext) -> float:
    leaves = list(context.leaves)
    total = sum(float(leaf.hessian.sum()) for leaf in leaves)
    if total <= 0.0:
        return sums.balance
    return sum(float((leaf.hessian * leaf.value**2).sum()) for leaf in leaves) / total


def _catboost(sums: GradientMoments, backend: SampledRows, context: SamplingContext) -> float:
    if context.leaves:
        values = [np.abs(leaf.value * leaf.shrinkage) for leaf in context.leaves]
        return float(np.concatenate(values).mean()) ** 2
    largest = score_rows(backend, context, ScoreRule(Score.MVS, 0.0))
    scale = sum_scale(largest, context.n_rows)
    total, _, _ = backend.threshold_sums(2.0 * largest, scale)
    return (total / scale / context.n_rows) ** 2


LAMBDA_RULES: dict[str, Callable[[GradientMoments, SampledRows, SamplingContext], float]] = {
    "root": _root,
    "leaf": _leaf,
    "catboost": _catboost,
}
"""Rules for λ by name."""
