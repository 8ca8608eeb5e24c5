"""What cells say together: changes of the error, with their spread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from research.plan import N_FOLDS, NO_SAMPLING, Method, Plan, Setting

__all__ = [
    "FIFTH_TESTED",
    "Change",
    "average",
    "change",
    "change_at",
    "change_of",
    "paired_change",
    "percent",
    "standard_error",
    "where_known",
    "with_spread",
]

FIFTH_TESTED = 1.0 / (N_FOLDS - 1)
"""Rows for testing to rows for training where each of 5 folds, or splits, tests a fifth."""


@dataclass(frozen=True)
class Change:
    """A method's error on a set against no sampling, in %.

    Attributes
    ----------
    mean, deviation : float
        Over the seeds, or over splits of the set; for folds the standard error of the mean.
    p_value : float
        Of a paired t-test over these; NaN for fewer than two, or without any spread.
    """

    mean: float
    deviation: float
    p_value: float


def change_of(errors: Sequence[float], baseline: Sequence[float], shared: float = 0.0) -> Change:
    """Change of the mean error, its spread, and whether seed by seed it is one.

    See `standard_error` for `shared`.

    Examples
    --------
    >>> change_of([0.11, 0.11], [0.1, 0.1]).mean.__round__(6)
    10.0
    """
    base = float(np.mean(baseline))
    percent = 100.0 * (np.asarray(errors) / base - 1.0)
    spread = float(percent.std(ddof=1)) if len(percent) > 1 else 0.0
    return Change(float(percent.mean()), spread, _p_value(errors, baseline, shared))


def paired_change(
    errors: Sequence[float], baseline: Sequence[float], shared: float = 0.0
) -> Change:
    """The mean of changes of which each has a baseline of its own, and their spread.

    Parameters
    ----------
    errors, baseline : sequence of float
    shared : float
        See `standard_error`.

    Examples
    --------
    >>> paired_change([0.11, 0.22], [0.1, 0.2]).mean.__round__(6)
    10.0
    """
    ratios = np.asarray(errors) / np.asarray(baseline)
    return change_of(ratios.tolist(), [1.0] * len(ratios), shared)


def _p_value(errors: Sequence[float], baseline: Sequence[float], shared: float) -> float:
    difference = np.asarray(errors) - np.asarray(baseline)
    if len(difference) < 2 or np.ptp(difference) < 1e-9 * np.max(baseline):  # nothing but rounding
        return math.nan
    from scipy.stats import t

    error = standard_error(difference, shared)
    return float(2.0 * t.sf(abs(difference.mean()) / error, len(difference) - 1))


def standard_error(values: ArrayLike, shared: float = 0.0) -> float:
    """That of the mean of two values or more.

    Parameters
    ----------
    values : array-like of float
    shared : float
        Rows for testing to rows for training, where values are of random splits of the same
        rows, or of folds: these are not independent, and the variance of their mean is larger by
        as much (Nadeau and Bengio, 2003).

    Examples
    --------
    >>> standard_error([-3.0, 1.0]).__round__(6)
    2.0
    """
    each = np.asarray(values)
    return float(each.std(ddof=1) * math.sqrt(1.0 / len(each) + shared))


def change(
    plan: Plan, name: str, method: Method, rate: float | None = None
) -> tuple[Change, Setting] | None:
    """The change on a set at the setting that folds chose, and that setting; None if unknown."""
    chosen = plan.chosen(name, method, rate)
    found = None if chosen is None else change_at(plan, name, method, chosen)
    return None if chosen is None or found is None else (found, chosen)


def change_at(plan: Plan, name: str, method: Method, setting: Setting) -> Change | None:
    """The change on the test part of a set at a setting; None while it is unknown."""
    baseline = plan.errors(plan.judged(name, method, NO_SAMPLING))
    errors = plan.errors(plan.judged(name, method, setting))
    return None if baseline is None or errors is None else change_of(errors, baseline)


def where_known(
    plan: Plan, methods: Iterable[Method], rates: Sequence[float | None] = (None,)
) -> Plan:
    """The same plan with the sets alone where all methods have all results.

    Means that stand in one table are over the same sets then, in a run that was interrupted too.
    """
    asked = [(method, rate) for method in methods for rate in rates]
    known = (
        name
        for name in plan.sets
        if all(change(plan, name, method, rate) is not None for method, rate in asked)
    )
    return replace(plan, sets=list(known))


def average(changes: Sequence[Change]) -> Change:
    """The mean over sets, and its deviation if theirs are independent; NaN of none.

    Examples
    --------
    >>> average([Change(1.0, 0.3, 0.5), Change(2.0, 0.4, 0.5)])
    Change(mean=1.5, deviation=0.25, p_value=nan)
    """
    if not changes:
        return Change(math.nan, math.nan, math.nan)
    mean = float(np.mean([change.mean for change in changes]))
    spread = math.hypot(*(change.deviation for change in changes)) / len(changes)
    return Change(mean, spread, math.nan)


def percent(value: float) -> str:
    """A change for a table; empty where there is none.

    Examples
    --------
    >>> percent(-0.737), percent(float("nan"))
    ('-0.74%', '')
    """
    return "" if math.isnan(value) else f"{_signed(value)}%"


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # no -0.00


def with_spread(change: Change) -> str:
    """A change with its standard deviation, and a star where it is unlikely to be chance.

    Empty where there is none.
    """
    if math.isnan(change.mean):
        return ""
    star = " *" if change.p_value < 0.05 else ""
    return f"{_signed(change.mean)} ± {change.deviation:.2f}%{star}"
