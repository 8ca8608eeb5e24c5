"""Learning time at no loss of quality: the paper's table 4.

The smallest rate at which a method, tuned on folds, is not worse there than no sampling;
where there is none, the rate of its least error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mvsboost.paper.plan import METHODS, NO_SAMPLING, Cell, Experiment, Plan, Setting
from mvsboost.paper.sets import SETS
from mvsboost.paper.summaries import change_at, percent
from mvsboost.report import Part, Table, Text

__all__ = [
    "LEARNING_TIME",
    "METHODS_TIMED",
    "PAPER_TIME",
    "fold_cells",
    "race_of",
    "races_run",
    "time_table",
]

PAPER_TIME = {"sgb": -20.7, "goss": -20.4, "mvs": -27.7}
"""Change of the learning time in the paper, in %, mean over its sets."""

METHODS_TIMED = ("sgb", "goss", "mvs", "all leaves", "second look")
"""Methods whose time is measured."""

_OURS = ("mvs", "all leaves", "second look")
_ROUNDS = (1, 3, 5)
_TEXT = (
    "Change of the time of boosting against no sampling at the smallest rate (in brackets, with "
    "the change of 1 − AUC on the test part) at which folds of the training part see no loss of "
    "quality; where they see one at every rate (marked with a circle), at the rate of the least. "
    "The last line has the fastest MVS of each set, of those without loss on folds if there are "
    "any. Fits of one thread, one at a time, in turn."
)


class Frugal(NamedTuple):
    """The smallest rate without loss on folds, or of least loss, and the setting there."""

    rate: float
    setting: Setting
    without_loss: bool


def smallest_rate(plan: Plan, name: str, key: str) -> Frugal | None:
    """The rate at which a method takes least time without loss; None while it is unknown."""
    method = METHODS[key]
    base = plan.mean_error(plan.on_folds(name, method, NO_SAMPLING))
    rates = sorted((*plan.size.rates, *plan.size.more_rates))
    found: list[tuple[float, Frugal]] = []
    for rate in rates:
        best = plan.chosen(name, method, rate)
        error = None if best is None else plan.mean_error(plan.on_folds(name, method, best))
        if base is None or best is None or error is None:
            return None
        found.append((error, Frugal(rate, best, error <= base)))
    for _, one in found:
        if one.without_loss:
            return one
    return min(found, key=lambda one: one[0])[1]


def race_of(plan: Plan, name: str, keys: Sequence[str], **more: Any) -> Cell | None:
    """The cell that times methods on a set; None while their rates are not known.

    `more` is what the fits have besides, the number of threads for instance.
    """
    contenders = {"none": {**plan.cell(name, NO_SAMPLING, 0), **more}}
    for key in keys:
        chosen = smallest_rate(plan, name, key)
        if chosen is None:
            return None
        contenders[key] = {**plan.cell(name, chosen.setting, 0), **more}
    rounds = _ROUNDS[plan.size.effort]
    return {"kind": "race", "alone": True, "contenders": contenders, "rounds": rounds}


def races_run(plan: Plan, keys: Sequence[str], **more: Any) -> dict[str, dict[str, Any]]:
    """Results of the races of a plan's sets, as far as they are known."""
    races = {name: race_of(plan, name, keys, **more) for name in plan.sets}
    results = {name: plan.store.get(race) for name, race in races.items() if race is not None}
    return {name: result for name, result in results.items() if result is not None}


def fold_cells(plan: Plan, name: str, keys: Sequence[str]) -> Iterator[Cell]:
    """What the smallest rates are found by."""
    for key in keys:
        method = METHODS[key]
        for setting in (NO_SAMPLING, *plan.settings(method)):
            yield from plan.on_folds(name, method, setting)


def time_table(
    plan: Plan,
    races: Mapping[str, Mapping[str, Any]],
    keys: Sequence[str],
    change: Callable[[str, str], float | None],
    paper: Mapping[str, float],
) -> Table:
    """Changes of the time by method and set.

    Parameters
    ----------
    plan : Plan
    races : mapping from set to the result of its race
    keys : sequence of str
        Methods.
    change : callable
        From a set and a method to the change of the error on the test part, if it is known.
    paper : mapping from method to float
        The paper's means.
    """

    def row(title: str, keys: Mapping[str, str]) -> list[str]:
        changes, cells = [], []
        for name, key in keys.items():
            seconds, chosen = races[name]["seconds"], smallest_rate(plan, name, key)
            assert chosen is not None
            changes.append(100.0 * (seconds[key] / seconds["none"] - 1.0))
            at = f"{chosen.rate:g}" + ("" if chosen.without_loss else "°")
            error = change(name, key)
            where = at if error is None else f"{at}, {percent(error)}"
            cells.append(f"{changes[-1]:+.1f}% ({where})")
        return [title, *cells, f"{np.mean(changes):+.1f}%"]

    rows = []
    for key in keys:
        rows.append(row(METHODS[key].title, dict.fromkeys(races, key)))
        if key in paper:
            blanks = [""] * len(races)
            rows.append([f"{METHODS[key].title}, paper", *blanks, f"{paper[key]:+.1f}%"])
    fastest = {name: _fastest(plan, name, race["seconds"]) for name, race in races.items()}
    rows.append(row("MVS, the fastest of these", fastest))
    return Table(["", *(SETS[name].title for name in races), "mean"], rows)


def _fastest(plan: Plan, name: str, seconds: Mapping[str, float]) -> str:
    """The MVS of least time, of those without loss on folds if there are any."""

    def rank(key: str) -> tuple[bool, float]:
        chosen = smallest_rate(plan, name, key)
        assert chosen is not None
        return not chosen.without_loss, seconds[key]

    return min(_OURS, key=rank)


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in plan.sets:
        yield from plan.judged(name, METHODS["mvs"], NO_SAMPLING)
        yield from fold_cells(plan, name, METHODS_TIMED)
        for key in METHODS_TIMED:
            chosen = smallest_rate(plan, name, key)
            if chosen is not None:
                yield from plan.judged(name, METHODS[key], chosen.setting)
        race = race_of(plan, name, METHODS_TIMED)
        if race is not None:
            yield race


def _parts(plan: Plan) -> list[Part]:
    races = races_run(plan, METHODS_TIMED)
    if not races:
        return []

    def change(name: str, key: str) -> float | None:
        chosen = smallest_rate(plan, name, key)
        assert chosen is not None
        found = change_at(plan, name, METHODS[key], chosen.setting)
        return None if found is None else found.mean

    return [Text(_TEXT), time_table(plan, races, METHODS_TIMED, change, PAPER_TIME)]


LEARNING_TIME = Experiment("Learning time without loss of quality", _cells, _parts)
