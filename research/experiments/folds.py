"""What settings are worth on a fold that had no part in their choice.

The test part of a set is one split: it can favour whatever samples, or no sampling, by luck. Here
each of five folds of the training part judges what the other four choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.report import Part, Table, Text
from research.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan
from research.sets import SETS
from research.summaries import (
    FIFTH_TESTED,
    Change,
    average,
    paired_change,
    standard_error,
    with_spread,
)

__all__ = ["FOLDS"]

_TEXT = (
    "Change of 1 − AUC on each of {}, at the rate and setting that the other folds found best: the "
    "mean over folds and its standard error, as far as these tell it, which share rows. A star "
    "marks changes that a paired t-test over folds, which knows that, gives a probability under 5% "
    "to be chance. Test parts have no part in it. In the last line folds of a set have no part in "
    "the choice either: out of all settings of MVS it has the one of least error, relative to no "
    "sampling, on folds of the other sets."
)
_BY_OTHER_SETS = "MVS, what the other sets choose"
_BY_RATE = (
    "The same at each rate, mean over these sets; then without those that stand in for others:"
)


class _Errors(NamedTuple):
    """Errors on folds: of every setting of a method, by setting and fold, and of no sampling."""

    settings: NDArray[np.float64]
    base: NDArray[np.float64]

    def change(self, settings: NDArray[np.int64] | np.int64) -> Change:
        """That of one setting, or of one for each fold, with the standard error of its mean."""
        errors = self.settings[settings, np.arange(len(self.base))]
        found = paired_change(errors.tolist(), self.base.tolist(), FIFTH_TESTED)
        return replace(found, deviation=standard_error(100.0 * errors / self.base, FIFTH_TESTED))


def _errors(plan: Plan, name: str, method: Method, rate: float | None = None) -> _Errors | None:
    """None while any is unknown."""
    asked = (NO_SAMPLING, *plan.settings(method, rate))
    found = [plan.errors(plan.on_folds(name, method, one)) for one in asked]
    known = [errors for errors in found if errors is not None]
    if len(known) < len(asked):
        return None
    return _Errors(np.array(known[1:]), np.array(known[0]))


def _judged_by_others(plan: Plan, name: str, method: Method, rate: float | None) -> Change | None:
    """The change over folds, each at the setting of least error on the others; None if unknown."""
    errors = _errors(plan, name, method, rate)
    if errors is None:
        return None
    on_others = errors.settings.sum(axis=1, keepdims=True) - errors.settings
    return errors.change(on_others.argmin(axis=0))


def _chosen_by_other_sets(plan: Plan, names: Iterable[str]) -> list[Change]:
    """The change on each set at the setting of least error, relative, on folds of the others."""
    found = {name: _errors(plan, name, METHODS["tuned"]) for name in names}
    known = [errors for errors in found.values() if errors is not None]
    each = np.array([(errors.settings / errors.base).mean(axis=1) for errors in known])
    choices = (each.sum(axis=0) - each).argmin(axis=1)
    return [errors.change(choice) for errors, choice in zip(known, choices, strict=True)]


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

    def by_rate(of: Known) -> Table:
        rates = plan.size.rates
        rows = []
        for key, method in METHODS.items():
            means = (average([changes[key, rate] for changes in of.values()]) for rate in rates)
            rows.append([method.title, *map(with_spread, means)])
        return Table(["", *(f"{rate:g}" for rate in rates)], rows)

    def row(title: str, changes: list[Change]) -> list[str]:
        own = [one for name, one in zip(known, changes, strict=True) if name in published]
        return [title, *map(with_spread, (*changes, average(changes), average(own)))]

    rows = [
        row(method.title, [changes[key, None] for changes in known.values()])
        for key, method in METHODS.items()
    ]
    if len(known) > 1:
        rows.append(row(_BY_OTHER_SETS, _chosen_by_other_sets(plan, known)))
    return [
        Text(_TEXT.format(plan.tuning_folds)),
        Table(["", *(SETS[name].title for name in known), "mean", "no stand-ins"], rows),
        Text(_BY_RATE),
        by_rate(known),
        by_rate(published),
    ]


FOLDS = Experiment("Folds that had no part in the choice", _cells, _parts)
