"""Learning time at no loss of quality: the paper's table 4.

The smallest rate at which a method, tuned on folds, is not worse there than no sampling;
where there is none, the rate of its least error.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mvsboost.paper.plan import METHODS, NO_SAMPLING, Cell, Experiment, Plan, Setting
from mvsboost.paper.sets import SETS
from mvsboost.paper.summaries import change_of, percent
from mvsboost.report import Part, Table, Text

__all__ = ["LEARNING_TIME", "PAPER_TIME"]

PAPER_TIME = {"sgb": -20.7, "goss": -20.4, "mvs": -27.7}
"""Change of the learning time in the paper, in %, mean over its sets."""

_METHODS = ("sgb", "goss", "mvs", "all leaves", "second look", "tuned")
_ROUNDS = (1, 3, 5)
_TEXT = (
    "Change of the time of boosting against no sampling at the smallest rate (in brackets, with "
    "the change of 1 − AUC on the test part) at which folds of the training part see no loss of "
    "quality; where they see one at every rate (marked with a circle), at the rate of the least. "
    "Fits of one thread, one at a time, in turn."
)


def _frugal(plan: Plan, name: str, key: str) -> tuple[float, Setting, bool] | None:
    """The smallest rate without loss, its setting, and whether there is one; None if unknown."""
    method = METHODS[key]
    base = plan.mean_error(plan.on_folds(name, method, NO_SAMPLING))
    rates = sorted((*plan.size.rates, *plan.size.more_rates))
    found: list[tuple[float, Setting, float]] = []
    for rate in rates:
        best = plan.chosen(name, method, rate)
        error = None if best is None else plan.mean_error(plan.on_folds(name, method, best))
        if base is None or best is None or error is None:
            return None
        found.append((rate, best, error))
    assert base is not None
    without_loss = [(rate, chosen) for rate, chosen, error in found if error <= base]
    if without_loss:
        return *without_loss[0], True
    rate, chosen, _ = min(found, key=lambda one: one[2])
    return rate, chosen, False


def _race(plan: Plan, name: str) -> Cell | None:
    """The cell that times all methods on a set; None while their rates are not known."""
    contenders = {"none": plan.cell(name, NO_SAMPLING, 0)}
    for key in _METHODS:
        chosen = _frugal(plan, name, key)
        if chosen is None:
            return None
        contenders[key] = plan.cell(name, chosen[1], 0)
    rounds = _ROUNDS[plan.size.effort]
    return {"kind": "race", "alone": True, "contenders": contenders, "rounds": rounds}


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in plan.sets:
        yield from plan.judged(name, METHODS["mvs"], NO_SAMPLING)
        for key in _METHODS:
            method = METHODS[key]
            for setting in (NO_SAMPLING, *plan.settings(method)):
                yield from plan.on_folds(name, method, setting)
            chosen = _frugal(plan, name, key)
            if chosen is not None:
                yield from plan.judged(name, method, chosen[1])
        race = _race(plan, name)
        if race is not None:
            yield race


def _parts(plan: Plan) -> list[Part]:
    results = {}
    for name in plan.sets:
        race = _race(plan, name)
        result = None if race is None else plan.store.get(race)
        if result is not None:
            results[name] = result["seconds"]
    if not results:
        return []
    rows = []
    for key in _METHODS:
        changes, cells = [], []
        for name, seconds in results.items():
            changes.append(100.0 * (seconds[key] / seconds["none"] - 1.0))
            cells.append(f"{changes[-1]:+.1f}% ({_at(plan, name, key)})")
        rows.append([METHODS[key].title, *cells, f"{np.mean(changes):+.1f}%"])
        if key in PAPER_TIME:
            blanks = [""] * len(results)
            rows.append([f"{METHODS[key].title}, paper", *blanks, f"{PAPER_TIME[key]:+.1f}%"])
    header = ["", *(SETS[name].title for name in results), "mean"]
    return [Text(_TEXT), Table(header, rows)]


def _at(plan: Plan, name: str, key: str) -> str:
    """The rate, and what it does to the error."""
    chosen, method = _frugal(plan, name, key), METHODS[key]
    assert chosen is not None
    rate, setting, is_without_loss = chosen
    errors = plan.errors(plan.judged(name, method, setting))
    base = plan.errors(plan.judged(name, method, NO_SAMPLING))
    mark = "" if is_without_loss else "°"
    if errors is None or base is None:
        return f"{rate:g}{mark}"
    return f"{rate:g}{mark}, {percent(change_of(errors, base).mean)}"


LEARNING_TIME = Experiment("Learning time without loss of quality", _cells, _parts)
