"""Minimal Variance Sampling for XGBoost."""

from __future__ import annotations

from mvsboost.interop.sampled import SampledObjective

__all__ = ["MVSObjective"]


class MVSObjective(SampledObjective):
    """An objective for ``xgboost.train(..., obj=...)`` that draws rows, by MVS or another sampler.

    Parameters are those of `SampledObjective`. XGBoost saves no time by it: it visits all rows.

    Examples
    --------
    >>> import numpy as np
    >>> objective = MVSObjective("binary:logistic", "none")
    >>> g, h = objective(np.array([1.0, 0.0]), np.zeros(2))
    >>> g.tolist(), h.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    """
