"""Time to an error: of no sampling, or of LightGBM, with as few trees as it takes.

Learning times at no loss (`learning_time`) are of as many trees as the set's parameters have,
as in the paper. A sample whose trees are better than all rows' needs fewer of them; how many is
read off the errors on folds, and no sampling is granted the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mvsboost.paper.engines import trees_on_the_way
from mvsboost.paper.experiments.learning_time import (
    LEAVES_AND_LAMBDA,
    LIGHTGBM,
    ROUNDS,
    fold_cells,
    races_run,
)
from mvsboost.paper.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan, Setting
from mvsboost.paper.sets import SETS
from mvsboost.paper.summaries import change_of, percent
from mvsboost.report import Part, Table, Text

__all__ = ["FEWER_TREES"]

_METHODS = {
    "mvs": METHODS["mvs"],
    "leaves and lambda": LEAVES_AND_LAMBDA,
    "second look": METHODS["second look"],
}
_BASELINES = {"no sampling": METHODS["mvs"], "LightGBM": LIGHTGBM}
"""Whose errors are to be reached, by a title."""

_POINTS = (4, 20, 20)
_FINALISTS = 3

_TEXT = (
    "Change of the time of boosting to the error that a baseline has on folds of the training "
    "part with all its trees: the fastest MVS, with as few trees as reach it and stay there. In "
    "brackets the rate, the share of the trees, and the change of 1 − AUC on the test part "
    "against the baseline's; a circle where no MVS reaches the error on folds, and the one of the "
    "least is taken. Then the same against the baseline with as few trees as reach its own error. "
    "LightGBM is without sampling, on counters. The fastest is that of a race of {} which seemed "
    "so on folds; fits of one thread, one at a time, in turn."
)


class Entry(NamedTuple):
    """A setting with a number of trees.

    Attributes
    ----------
    method : Method
    setting : Setting
    trees : int
    share : float
        Of all its trees.
    error : float
        On folds.
    reaches : bool
        Whether that is the error asked for, or less.
    estimate : float
        Seconds, by those of the folds.
    """

    method: Method
    setting: Setting
    trees: int
    share: float
    error: float
    reaches: bool
    estimate: float

    def cells(self, plan: Plan, name: str) -> list[Cell]:
        """The entry on the test part, for all seeds."""
        cells = plan.judged(name, self.method, self.setting)
        return [{**cell, "trees": self.trees} for cell in cells]


# --- on folds -----------------------------------------------------------------------------------


def _courses(plan: Plan, name: str, method: Method, setting: Setting) -> list[Cell]:
    points = _POINTS[plan.size.effort]
    return [{**cell, "course": points} for cell in plan.on_folds(name, method, setting)]


def _entry(
    plan: Plan, name: str, method: Method, setting: Setting, target: float | None = None
) -> Entry | None:
    """The setting with as few trees as reach an error for good, or with all.

    None while it is unknown. Without a target it has all its trees.
    """
    cells = _courses(plan, name, method, setting)
    results = [result for result in map(plan.store.get, cells) if result is not None]
    if len(results) < len(cells):
        return None
    errors = np.mean([result["errors"] for result in results], axis=0)
    seconds = float(np.median([result["seconds"] for result in results]))
    point = len(errors) - 1
    reaches = target is None or bool(errors[point] <= target)
    while target is not None and reaches and point > 0 and errors[point - 1] <= target:
        point -= 1
    trees = trees_on_the_way(cells[0])
    share = trees[point] / trees[-1]
    return Entry(
        method, setting, trees[point], share, float(errors[point]), reaches, seconds * share
    )


def _settings(plan: Plan, name: str) -> Iterator[tuple[Method, Setting | None]]:
    """What folds chose for each method at each rate; None while it is unknown."""
    for method in _METHODS.values():
        for rate in (*plan.size.rates, *plan.size.more_rates):
            yield method, plan.chosen(name, method, rate)


class Contest(NamedTuple):
    """Who is to reach a baseline's error on a set: it with all its trees, with few, and MVS."""

    whole: Entry
    few: Entry
    finalists: list[Entry]


def _contest(plan: Plan, name: str, baseline: Method) -> Contest | None:
    """None while anything of it is unknown."""
    whole = _entry(plan, name, baseline, NO_SAMPLING)
    if whole is None:
        return None
    few = _entry(plan, name, baseline, NO_SAMPLING, whole.error)
    entries = []
    for method, setting in _settings(plan, name):
        entry = None if setting is None else _entry(plan, name, method, setting, whole.error)
        if entry is None:
            return None
        entries.append(entry)
    reaching = sorted((one for one in entries if one.reaches), key=lambda one: one.estimate)
    assert few is not None
    least = min(entries, key=lambda one: one.error)
    return Contest(whole, few, reaching[:_FINALISTS] or [least])


# --- the race, and what is shown ----------------------------------------------------------------


def _contenders(plan: Plan, name: str) -> dict[str, Entry] | None:
    """Everybody of the race on a set; None while anyone is unknown."""
    entries: dict[str, Entry] = {}
    for title, baseline in _BASELINES.items():
        contest = _contest(plan, name, baseline)
        if contest is None:
            return None
        entries[title], entries[f"{title}, few trees"] = contest.whole, contest.few
        entries |= {f"{title}, reached {k}": one for k, one in enumerate(contest.finalists)}
    return entries


def _race(plan: Plan, name: str) -> Cell | None:
    entries = _contenders(plan, name)
    if entries is None:
        return None
    contenders = {key: one.cells(plan, name)[0] for key, one in entries.items()}
    rounds = ROUNDS[plan.size.effort]
    return {"kind": "race", "alone": True, "contenders": contenders, "rounds": rounds}


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in plan.sets:
        for baseline in _BASELINES.values():
            yield from _courses(plan, name, baseline, NO_SAMPLING)
        yield from fold_cells(plan, name, _METHODS)
        for method, setting in _settings(plan, name):
            if setting is not None:
                yield from _courses(plan, name, method, setting)
        for one in (_contenders(plan, name) or {}).values():
            yield from one.cells(plan, name)
        race = _race(plan, name)
        if race is not None:
            yield race


def _parts(plan: Plan) -> list[Part]:
    races = races_run({name: _race(plan, name) for name in plan.sets}, plan)
    if not races:
        return []
    rows: list[list[str]] = []
    for title in _BASELINES:
        by_set = [_outcome(plan, name, title, race["seconds"]) for name, race in races.items()]
        asked = f"MVS, to the error of {title}"
        titles = asked, f"{title} itself, few trees", f"{asked}, against few trees"
        for kind, row in zip(titles, zip(*by_set, strict=True), strict=True):
            cells = (f"{change:+.1f}%{where}" for change, where in row)
            rows.append([kind, *cells, f"{np.mean([change for change, _ in row]):+.1f}%"])
    header = ["", *(SETS[name].title for name in races), "mean"]
    return [Text(_TEXT.format(_FINALISTS)), Table(header, rows)]


def _outcome(
    plan: Plan, name: str, title: str, seconds: dict[str, float]
) -> list[tuple[float, str]]:
    """Changes of the time on a set, and what stands beside them."""
    contest = _contest(plan, name, _BASELINES[title])
    assert contest is not None
    times = [seconds[f"{title}, reached {k}"] for k in range(len(contest.finalists))]
    fastest, time = contest.finalists[int(np.argmin(times))], min(times)
    whole, few = seconds[title], seconds[f"{title}, few trees"]
    base = plan.errors(contest.whole.cells(plan, name))

    def where(entry: Entry) -> str:
        errors = plan.errors(entry.cells(plan, name))
        told = [f"{100 * entry.share:.0f}% of the trees"]
        if "rate" in entry.setting["sampler"]:
            told.insert(0, f"{entry.setting['sampler']['rate']:g}" + "°" * (not entry.reaches))
        if errors is not None and base is not None:
            told.append(percent(change_of(errors, base).mean))
        return f" ({', '.join(told)})"

    return [
        (100.0 * (time / whole - 1.0), where(fastest)),
        (100.0 * (few / whole - 1.0), where(contest.few)),
        (100.0 * (time / few - 1.0), ""),
    ]


FEWER_TREES = Experiment("Time to the same error, with fewer trees", _cells, _parts)
