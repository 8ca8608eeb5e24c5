"""Time to an error: of no sampling, or of LightGBM, with as few trees as it takes.

Learning times at no loss (`learning_time`) are of as many trees as the set's parameters have,
as in the paper. A sample whose trees are better than all rows' needs fewer of them; how many is
read off the errors on folds, and no sampling is granted the same. MVS may have narrowed trees,
no sampling has whole ones; what narrowing does alone is in `learning_time`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.paper.engines import trees_on_the_way
from mvsboost.paper.experiments.learning_time import (
    LEAVES_AND_LAMBDA,
    LIGHTGBM,
    NARROWED,
    fold_cells,
    race_cell,
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
    "narrowed": NARROWED,
    "second look": METHODS["second look"],
}
_BASELINES = {"no sampling": METHODS["mvs"], "LightGBM": LIGHTGBM}
"""Whose errors are to be reached, by a title."""

_POINTS = (4, 20, 20)
_FINALISTS = 3

_TEXT = (
    "Change of the time of boosting to the error that a baseline has with all its trees. MVS has "
    "as few trees as have less error on {} of the training part, by a standard error of the "
    "mean change, and keep it with every further tree; the fastest counts. In brackets its rate, "
    "whether its trees are narrowed, the share of the trees, and the change of 1 − AUC on the test "
    "part; a circle where no MVS gets there, and the one of least error on folds is taken. Then "
    "the same against the baseline with as few trees as it needs itself by that rule. LightGBM is "
    "without sampling, on counters. The fastest is that of a race of {} which seemed so on folds; "
    "fits of one thread, which take turns every fifth of a second."
)


class Entry(NamedTuple):
    """A setting with a number of trees.

    Attributes
    ----------
    method : Method
    setting : Setting
    trees, all_trees : int
        How many, and how many there could be.
    change : float
        Of the error on folds against the target, relative.
    reaches : bool
        Whether it is not worse than that.
    estimate : float
        Seconds, by those of the folds.
    """

    method: Method
    setting: Setting
    trees: int
    all_trees: int
    change: float
    reaches: bool
    estimate: float

    def cells(self, plan: Plan, name: str) -> list[Cell]:
        """The entry on the test part, for all seeds."""
        cells = plan.judged(name, self.method, self.setting)
        return [{**cell, "trees": self.trees} for cell in cells]


# --- on folds -----------------------------------------------------------------------------------


def _courses(plan: Plan, name: str, method: Method, setting: Setting) -> list[Cell]:
    points, cells = _POINTS[plan.size.effort], plan.thorough.on_folds(name, method, setting)
    return [{**cell, "course": points} for cell in cells]


class _Course(NamedTuple):
    """Errors by fold and along the way at so many trees, and seconds by fold."""

    trees: list[int]
    errors: NDArray[np.float64]
    seconds: list[float]


def _course(plan: Plan, name: str, method: Method, setting: Setting) -> _Course | None:
    """None while any fold is unknown."""
    cells = _courses(plan, name, method, setting)
    results = [result for result in map(plan.store.get, cells) if result is not None]
    if len(results) < len(cells):
        return None
    errors = np.array([result["errors"] for result in results])
    return _Course(trees_on_the_way(cells[0]), errors, [result["seconds"] for result in results])


def _entry(method: Method, setting: Setting, course: _Course, target: NDArray[np.float64]) -> Entry:
    """The setting with as few trees as reach the target for good, or with all.

    `target` has an error for each fold.
    """
    changes = course.errors / target[:, None] - 1.0
    change, n = changes.mean(axis=0), len(changes)
    margin = changes.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else 0.0
    reached = change + margin <= 0.0
    point = len(reached) - 1
    while point > 0 and reached[point] and reached[point - 1]:
        point -= 1
    trees = course.trees
    return Entry(
        method=method,
        setting=setting,
        trees=trees[point],
        all_trees=trees[-1],
        change=float(change[point]),
        reaches=bool(reached[point]),
        estimate=float(np.median(course.seconds)) * trees[point] / trees[-1],
    )


def _settings(plan: Plan, name: str) -> Iterator[tuple[Method, Setting | None]]:
    """What folds chose for each method at each rate; None while it is unknown."""
    for method in _METHODS.values():
        for rate in plan.size.tuned_rates:
            yield method, plan.chosen(name, method, rate)


class Contest(NamedTuple):
    """A baseline with as few trees as it needs, and those MVS that may reach it fastest."""

    few: Entry
    finalists: list[Entry]

    @property
    def whole(self) -> Entry:
        """The baseline with all its trees."""
        return self.few._replace(trees=self.few.all_trees)


def _contest(plan: Plan, name: str, baseline: Method) -> Contest | None:
    """None while anything of it is unknown."""
    whole = _course(plan, name, baseline, NO_SAMPLING)
    if whole is None:
        return None
    target, entries = whole.errors[:, -1], []
    for method, setting in _settings(plan, name):
        course = None if setting is None else _course(plan, name, method, setting)
        if setting is None or course is None:
            return None
        entries.append(_entry(method, setting, course, target))
    reaching = sorted((one for one in entries if one.reaches), key=lambda one: one.estimate)
    least = min(entries, key=lambda one: one.change)
    few = _entry(baseline, NO_SAMPLING, whole, target)
    return Contest(few, reaching[:_FINALISTS] or [least])


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
    return None if entries is None else _race_between(plan, name, entries)


def _race_between(plan: Plan, name: str, entries: dict[str, Entry]) -> Cell:
    cells = {key: one.cells(plan, name)[0] for key, one in entries.items()}
    return race_cell(plan, cells)


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in plan.sets:
        for baseline in _BASELINES.values():
            yield from _courses(plan, name, baseline, NO_SAMPLING)
        yield from fold_cells(plan, name, _METHODS)
        for method, setting in _settings(plan, name):
            if setting is not None:
                yield from _courses(plan, name, method, setting)
        entries = _contenders(plan, name)
        if entries is not None:
            for one in entries.values():
                yield from one.cells(plan, name)
            yield _race_between(plan, name, entries)


def _parts(plan: Plan) -> list[Part]:
    races = races_run(plan, _race)
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
    n_folds = len(plan.thorough.folds(plan.sets[0]))
    folds = f"{n_folds} folds" if n_folds > 1 else "a fold"
    return [Text(_TEXT.format(folds, _FINALISTS)), Table(header, rows)]


def _outcome(
    plan: Plan, name: str, title: str, seconds: dict[str, float]
) -> list[tuple[float, str]]:
    """Changes of the time on a set, and what stands beside them."""
    contest = _contest(plan, name, _BASELINES[title])
    assert contest is not None
    times = [seconds[f"{title}, reached {k}"] for k in range(len(contest.finalists))]
    fastest, time = contest.finalists[int(np.argmin(times))], min(times)
    whole, few = seconds[title], seconds[f"{title}, few trees"]
    if contest.few == contest.whole:  # the same fits twice
        whole = few = (whole + few) / 2
    base = plan.errors(contest.whole.cells(plan, name))

    def where(entry: Entry) -> str:
        errors = plan.errors(entry.cells(plan, name))
        told = [f"{100 * entry.trees / entry.all_trees:.0f}% of the trees"]
        if "narrowing" in entry.setting:
            told.insert(0, "narrowed")
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
