"""What settings are worth on a fold that had no part in their choice.

The test part of a set is one split: it can favour whatever samples, or no sampling, by luck. Here
each of five folds of the training part judges what the other four choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mvsboost.paper.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan
from mvsboost.paper.sets import SETS
from mvsboost.paper.summaries import (
    FIFTH_TESTED,
    Change,
    average,
    paired_change,
    standard_error,
    with_spread,
)
from mvsboost.report import Part, Table, Text

__all__ = ["FOLDS"]

_TEXT = (
    "Change of 1 − AUC on each of {}, at the rate and setting that the other folds found best: the "
    "mean over folds and its standard error, as far as these tell it, which share rows. A star "
    "marks changes that a paired t-test over folds, which knows that, gives a probability under 5% "
    "to be chance. Test parts have no part in it."
)
_BY_RATE = (
    "The same at each rate, mean over these sets; then without those that stand in for others:"
)


def _judged_by_others(plan: Plan, name: str, method: Method, rate: float | None) -> Change | None:
    """The change over folds, each at the setting of least error on the others; None if unknown."""
    base = plan.errors(plan.on_folds(name, method, NO_SAMPLING))
    of_settings = [
        plan.errors(plan.on_folds(name, method, one)) for one in plan.settings(method, rate)
    ]
    known = [errors for errors in of_settings if errors is not None]
    if base is None or len(known) < len(of_settings):
        return None
    errors = np.array(known)  # by setting and fold
    on_others = errors.sum(axis=1, keepdims=True) - errors
    judged = np.take_along_axis(errors, on_others.argmin(axis=0, keepdims=True), axis=0)[0]
    found = paired_change(judged.tolist(), base, FIFTH_TESTED)
    error = standard_error(100.0 * judged / np.array(base), FIFTH_TESTED)
    return replace(found, deviation=error)


def _sets(plan: Plan) -> list[str]:
    """Those with a fold to judge and another to choose by: none in a quick run."""
    return [name for name in plan.sets if len(plan.folds(name)) > 1]


def _cells(plan: Plan) -> Iterator[Cell]:
    plan = plan.on_every_fold
    for name in _sets(plan):
        yield from plan.every_setting(name, METHODS.values())


Known = dict[str, dict[tuple[str, float | None], Change]]
"""By set: the change by method and rate, None for the best."""


def _known(plan: Plan) -> Known:
    """Sets all of whose results are known: means are over the same sets then."""
    asked = [(key, rate) for key in METHODS for rate in (None, *plan.size.rates)]
    known = Known()
    for name in _sets(plan):
        found = {(key, at): _judged_by_others(plan, name, METHODS[key], at) for key, at in asked}
        changes = {at: change for at, change in found.items() if change is not None}
        if len(changes) == len(asked):
            known[name] = changes
    return known


def _parts(plan: Plan) -> list[Part]:
    plan = plan.on_every_fold
    known = _known(plan)
    if not known:
        return []
    published = {name: of for name, of in known.items() if not SETS[name].stands_in}

    def mean(of: Known, key: str, rate: float | None = None) -> str:
        return with_spread(average([changes[key, rate] for changes in of.values()]))

    def by_rate(of: Known) -> Table:
        rates = plan.size.rates
        rows = [[one.title, *(mean(of, key, at) for at in rates)] for key, one in METHODS.items()]
        return Table(["", *(f"{rate:g}" for rate in rates)], rows)

    rows = [
        [
            method.title,
            *(with_spread(changes[key, None]) for changes in known.values()),
            mean(known, key),
            mean(published, key),
        ]
        for key, method in METHODS.items()
    ]
    return [
        Text(_TEXT.format(plan.tuning_folds)),
        Table(["", *(SETS[name].title for name in known), "mean", "no stand-ins"], rows),
        Text(_BY_RATE),
        by_rate(known),
        by_rate(published),
    ]


FOLDS = Experiment("Folds that had no part in the choice", _cells, _parts)
