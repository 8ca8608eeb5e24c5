"""What the cells say: changes of the error, with their spread, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mvsboost.paper.plan import (
    METHODS,
    PAPER_RATES,
    Cell,
    Method,
    Plan,
    baselines,
    judged,
    preparation_cell,
)
from mvsboost.paper.sets import PAPER_SETS

__all__ = [
    "PAPER_BY_RATE",
    "PAPER_QUALITY",
    "Change",
    "average",
    "changes_by_rate",
    "preparation",
    "quality_changes",
]

PAPER_BY_RATE: dict[str, dict[float, float]] = {
    name: dict(zip(PAPER_RATES, values, strict=True))
    for name, values in {
        "sgb": (19.92, 11.35, 6.83, 4.99, 3.84, 3.03, 2.17, 1.57, 1.10, 0.42),
        "goss": (22.37, 12.75, 8.00, 5.32, 3.39, 2.25, 1.41, 0.75, 0.23, -0.16),
        "mvs": (13.93, 7.76, 3.69, 1.91, 0.74, 0.14, -0.21, -0.43, -0.41, -0.45),
        "adaptive": (13.72, 7.47, 3.71, 1.70, 0.55, -0.03, -0.07, -0.28, -0.32, -0.51),
    }.items()
}
"""Change of 1 − AUC in %, mean over the paper's seven sets, by method and rate."""

PAPER_QUALITY: dict[str, dict[str, float]] = {
    "sgb": {"internet": -1.13, "adult": 0.81, "amazon": -1.14, "kick": -0.14, "click": -0.14},
    "goss": {"internet": -0.64, "adult": -0.11, "amazon": -1.23, "kick": -0.10, "click": -0.09},
    "mvs": {"internet": -3.03, "adult": -0.24, "amazon": -1.78, "kick": -0.19, "click": -0.04},
    "adaptive": {"internet": -2.79, "adult": -0.13, "amazon": -1.57, "kick": -0.19, "click": -0.03},
}
"""Change of 1 − AUC in % at the best rate, by method and set."""


@dataclass(frozen=True)
class Change:
    """A method's error on a set against no sampling, in %.

    Attributes
    ----------
    mean, deviation : float
        Over the seeds.
    p_value : float
        Of a paired t-test over the seeds; NaN for fewer than two, or without any spread.
    """

    mean: float
    deviation: float
    p_value: float


def change_of(errors: Sequence[float], baseline: Sequence[float]) -> Change:
    """Change of the mean error, its spread, and whether seed by seed it is one.

    Examples
    --------
    >>> change_of([0.11, 0.11], [0.1, 0.1]).mean.__round__(6)
    10.0
    """
    base = float(np.mean(baseline))
    percent = 100.0 * (np.asarray(errors) / base - 1.0)
    spread = float(percent.std(ddof=1)) if len(percent) > 1 else 0.0
    return Change(float(percent.mean()), spread, _p_value(errors, baseline))


def _p_value(errors: Sequence[float], baseline: Sequence[float]) -> float:
    difference = np.asarray(errors) - np.asarray(baseline)
    if len(difference) < 2 or np.ptp(difference) == 0.0:
        return float("nan")
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(difference, 0.0).pvalue)


def _change(
    plan: Plan, name: str, method: Method, rate: float | None = None
) -> tuple[Change, Cell] | None:
    """The change on a set at the setting that folds chose, and that setting."""
    sampler, baseline = plan.chosen(name, method, rate), plan.errors(baselines(plan, name))
    if sampler is None or baseline is None:
        return None
    errors = plan.errors(judged(plan, name, method, sampler))
    return None if errors is None else (change_of(errors, baseline), sampler)


def changes_by_rate(plan: Plan, method: str) -> dict[float, dict[str, Change]]:
    """A method's changes by rate and set, as far as they are known."""
    return {
        rate: {
            name: found[0]
            for name in plan.sets
            if (found := _change(plan, name, METHODS[method], rate)) is not None
        }
        for rate in plan.size.rates
    }


def quality_changes(plan: Plan, method: str) -> dict[str, tuple[Change, Cell]]:
    """A method's change on each set at the setting that folds chose, and that setting."""
    return {
        name: found
        for name in plan.sets
        if (found := _change(plan, name, METHODS[method])) is not None
    }


def average(changes: Sequence[Change]) -> float:
    """The mean over sets; NaN without any."""
    return float(np.mean([change.mean for change in changes])) if changes else float("nan")


def preparation(plan: Plan) -> dict[str, tuple[float, float | None]]:
    """LightGBM's 1 − AUC without sampling on each set of the paper, and the paper's."""
    found = {}
    for name in plan.sets:
        info = PAPER_SETS[name]
        result = None if info.stands_in else plan.store.get(preparation_cell(plan, name))
        if result is not None:
            found[name] = result["error"], info.paper_error
    return found
