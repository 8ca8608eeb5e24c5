r"""λ: how much a row's hessian counts beside its gradient.

The score of MVS is :math:`ĝ = \sqrt{g^2 + λ h^2}`. Theorem 1 of the paper makes λ the
squared value c² of a leaf, up to a constant. A rule says where c² is taken from.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mvsboost.backends.messages import GradientRange
from mvsboost.errors import ParameterError
from mvsboost.exact.fixedpoint import sum_scale
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


def regularisation(lam: float | str, backend: SampledRows, context: SamplingContext) -> float:
    """λ of this iteration: the number given, or what the named rule finds.

    Parameters
    ----------
    lam : float or {"root", "leaf"}
        * ``"leaf"``: mean of the last iteration's squared leaf values, weighted by hessian, before
          shrinkage; at first mean(g²) / mean(h²). A quantile leaf counts as the square root of
          Σ gain / Σ h of its tree.
        * ``"root"``: squared value of the root, (Σg / Σh)²; with several outputs their mean,
          weighted by hessian.
    backend : SampledRows
        Holds the gradients.
    context : SamplingContext
        Holds their extremes and the last iteration's leaves.

    Returns
    -------
    float
        Under a rule never less than `LAMBDA_FLOOR` times mean(g²) / mean(h²).

    Examples
    --------
    >>> from mvsboost.testing import GradientRows
    >>> rows = GradientRows([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    >>> regularisation("root", rows, rows.context())
    4.0
    """
    if not isinstance(lam, str):
        return float(lam)
    sums = context.moments or gradient_moments(
        backend, context.gradients, squares_only=lam != "root"
    )
    return max(LAMBDA_RULES[lam](sums, context), LAMBDA_FLOOR * float(sums.balance))


def _root(sums: GradientMoments, context: SamplingContext) -> float:
    held = sums.hessian > 0.0
    total = float(sums.hessian[held].sum())
    return float((sums.gradient[held] ** 2 / sums.hessian[held]).sum()) / total if total else 0.0


def _leaf(sums: GradientMoments, context: SamplingContext) -> float:
    leaves = list(context.leaves)
    total = sum(float(leaf.hessian.sum()) for leaf in leaves)
    if total <= 0.0:
        return sums.balance
    return sum(float((leaf.hessian * leaf.value**2).sum()) for leaf in leaves) / total


LAMBDA_RULES: dict[str, Callable[[GradientMoments, SamplingContext], float]] = {
    "root": _root,
    "leaf": _leaf,
}
"""Rules for λ by name."""
