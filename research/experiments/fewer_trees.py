"""Time to an error: of no sampling, or of LightGBM, with as few trees as it takes.

Learning times at no loss (`learning_time`) are of as many trees as the set's parameters have,
as in the paper. A sample whose trees are better than all rows' needs fewer of them; how many is
read off the errors on folds, and no sampling is granted the same. Fewer still are enough where
learning rates may be multiples of those of the other experiments, which both are granted as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.report import Part, Table, Text
from research.engines import trees_on_the_way
from research.experiments.learning_time import (
    FAIR,
    LEAVES_AND_LAMBDA,
    LIGHTGBM,
    race_cell,
    races_run,
)
from research.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan, Setting
from research.sets import SETS
from research.store import key_of
from research.summaries import change_of, percent

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
_OWN_STEP = (1,)
_LONGER = ", longer steps"
_LONGER_STEPS = ((1, 2), (1, 2, 3), (1, 2, 3))
"""Multiples of the plan's learning rate, by effort; there are as many times fewer trees."""

_SLICE = 0.05
"""Seconds for which fits take turns: some are over in less than a fifth."""

_TEXT = (
    "Change of the time of boosting to the error that a baseline has with all its trees. MVS has "
    "as few trees, out of {points} numbers of them, as have less error on {folds}, by a standard "
    "error of the mean change, and keep it with more; the fastest counts. In "
    "brackets its rate, the share "
    "of the trees, and the change of 1 − AUC on the test part; a circle where no MVS gets there, "
    "and the one of least error on folds is taken. Then the same against the baseline with as few "
    "trees as it needs itself by that rule. LightGBM is without sampling, on counters, and with a "
    "column more for every number that may be missing."
)
_TEXT_LONGER = (
    "The same, where MVS and the baseline may also have {steps} times the learning rate of the "
    "table above, with as many times fewer trees. MVS keeps the λ, or the features of a second "
    "look, that folds chose at the shorter step. The baseline with its own steps and all its trees "
    "has its own error and passes; with longer steps it has to be better than that by a standard "
    "error, as MVS has to. What it loses by them is told below, on folds and on the test part."
)
_TEXT_RACE = (
    "The fastest is that of a race of {finalists} which seemed so on folds, by the times that are "
    "shown, which flatters it a little. Fits of one thread, which take turns every twentieth of a "
    f"second. {FAIR}"
)


class Entry(NamedTuple):
    """A setting with a number of trees.

    Attributes
    ----------
    method : Method
    setting : Setting
    step : int
        Its learning rate, in multiples of the set's own.
    trees : int
    change : float
        Of the error on folds against the target, mean and relative.
    reaches : bool
        Whether it is not worse than that.
    estimate : float
        Seconds, by those of the folds.
    """

    method: Method
    setting: Setting
    step: int
    trees: int
    change: float
    reaches: bool
    estimate: float

    def cells(self, plan: Plan, name: str) -> list[Cell]:
        """The entry on the test part, for all seeds."""
        cells = plan.judged(name, self.method, self.setting)
        return [{**_with_step(cell, self.step), "trees": self.trees} for cell in cells]


def _with_step(cell: Cell, step: int) -> Cell:
    """The same with a learning rate of so many times its own, and as many times fewer trees."""
    rate, trees = cell["learning_rate"] * step, round(cell["trees"] / step)
    return {**cell, "learning_rate": rate, "trees": trees}


# --- on folds -----------------------------------------------------------------------------------


def _courses(plan: Plan, name: str, method: Method, setting: Setting, step: int) -> list[Cell]:
    points, cells = _POINTS[plan.size.effort], plan.thorough.on_folds(name, method, setting)
    return [{**_with_step(cell, step), "course": points} for cell in cells]


class _Course(NamedTuple):
    """Errors by fold and along the way at so many trees, and seconds by fold."""

    method: Method
    setting: Setting
    step: int
    trees: list[int]
    errors: NDArray[np.float64]
    seconds: list[float]


def _course(
    plan: Plan, name: str, method: Method, setting: Setting | None, step: int
) -> _Course | None:
    """None while the setting or any fold is unknown."""
    if setting is None:
        return None
    cells = _courses(plan, name, method, setting, step)
    results = [result for result in map(plan.store.get, cells) if result is not None]
    if len(results) < len(cells):
        return None
    errors = np.array([result["errors"] for result in results])
    seconds = [result["seconds"] for result in results]
    return _Course(method, setting, step, trees_on_the_way(cells[0]), errors, seconds)


def _entry(course: _Course, target: NDArray[np.float64], *, all_trees: bool = False) -> Entry:
    """A setting with as few trees as reach the target for good; with all if none do, or if asked.

    `target` has an error for each fold.
    """
    changes = course.errors / target[:, None] - 1.0
    change, n = changes.mean(axis=0), len(changes)
    margin = changes.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else 0.0
    reached = change + margin <= 0.0
    point = len(reached) - 1
    while point > 0 and reached[point] and reached[point - 1] and not all_trees:
        point -= 1
    trees = course.trees
    return Entry(
        method=course.method,
        setting=course.setting,
        step=course.step,
        trees=trees[point],
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
    """Who is timed for a baseline.

    Attributes
    ----------
    whole : Entry
        The baseline with all its trees.
    longer : list of Entry
        The same with each of the longer steps.
    few : Entry
        It with as few trees as it needs, by any of these steps.
    finalists : list of Entry
        The MVS that may be fastest.
    """

    whole: Entry
    longer: list[Entry]
    few: Entry
    finalists: list[Entry]

    def entries(self) -> list[Entry]:
        """All of them; some may be the same."""
        return [self.whole, *self.longer, self.few, *self.finalists]


def _contest(plan: Plan, name: str, baseline: Method, steps: Sequence[int]) -> Contest | None:
    """The contest with some lengths of steps, 1 first; None while anything of it is unknown."""
    of_baseline = [_course(plan, name, baseline, NO_SAMPLING, step) for step in steps]
    of_mvs = [
        _course(plan, name, method, setting, step)
        for method, setting in _settings(plan, name)
        for step in steps
    ]
    known, ours = ([one for one in some if one is not None] for some in (of_baseline, of_mvs))
    if len(known) < len(of_baseline) or len(ours) < len(of_mvs):
        return None
    target = known[0].errors[:, -1]
    whole, *longer = (_entry(one, target, all_trees=True) for one in known)
    few, entries = ([_entry(one, target) for one in some] for some in (known, ours))
    fewest = min((one for one in few if one.reaches), key=lambda one: one.trees)
    reaching = sorted((one for one in entries if one.reaches), key=lambda one: one.estimate)
    least = min(entries, key=lambda one: one.change)
    return Contest(whole, longer, fewest, reaching[:_FINALISTS] or [least])


# --- the race, and what is shown ----------------------------------------------------------------


Contests = dict[str, tuple[Contest, Contest]]
"""By baseline, with its own steps and with longer ones."""


def _contests(plan: Plan, name: str) -> Contests | None:
    """Those of a set; None while anything is unknown."""
    longer, contests = _LONGER_STEPS[plan.size.effort], Contests()
    for title, baseline in _BASELINES.items():
        both = [_contest(plan, name, baseline, steps) for steps in (_OWN_STEP, longer)]
        if both[0] is None or both[1] is None:
            return None
        contests[title] = both[0], both[1]
    return contests


def _entries(contests: Contests) -> list[Entry]:
    return [one for both in contests.values() for contest in both for one in contest.entries()]


def _race(plan: Plan, name: str) -> Cell | None:
    contests = _contests(plan, name)
    return None if contests is None else _race_between(plan, name, _entries(contests))


def _race_between(plan: Plan, name: str, entries: Iterable[Entry]) -> Cell:
    """Everybody once, under the key of his cell."""
    cells = [one.cells(plan, name)[0] for one in entries]
    return race_cell(plan, {key_of(cell): cell for cell in cells}, seconds=_SLICE)


def _cells(plan: Plan) -> Iterator[Cell]:
    steps = _LONGER_STEPS[plan.size.effort]
    for name in plan.sets:
        yield from plan.every_setting(name, _METHODS.values())
        baselines = ((baseline, NO_SAMPLING) for baseline in _BASELINES.values())
        for method, setting in (*baselines, *_settings(plan, name)):
            for step in steps:
                if setting is not None:
                    yield from _courses(plan, name, method, setting, step)
        contests = _contests(plan, name)
        if contests is not None:
            for one in _entries(contests):
                yield from one.cells(plan, name)
            yield _race_between(plan, name, _entries(contests))


def _parts(plan: Plan) -> list[Part]:
    races = races_run(plan, _race)
    if not races:
        return []
    known = {name: _contests(plan, name) for name in races}
    contests = {name: found for name, found in known.items() if found is not None}
    tables = [
        _table(plan, races, contests, number, more) for number, more in enumerate(("", _LONGER))
    ]
    steps = " or ".join(map(str, _LONGER_STEPS[plan.size.effort][1:]))
    return [
        Text(_TEXT.format(points=_POINTS[plan.size.effort], folds=plan.thorough.tuning_folds)),
        tables[0],
        Text(_TEXT_LONGER.format(steps=steps)),
        tables[1],
        Text(_TEXT_RACE.format(finalists=_FINALISTS)),
    ]


def _table(
    plan: Plan, races: Mapping[str, Any], contests: Mapping[str, Contests], number: int, more: str
) -> Table:
    """Changes of the time in one of the two contests of every baseline."""
    rows: list[list[str]] = []
    for title in _BASELINES:
        by_set = [
            _outcome(plan, name, found[title][number], races[name]["seconds"])
            for name, found in contests.items()
        ]
        asked = f"MVS{more}, to the error of {title}"
        steps = _LONGER_STEPS[plan.size.effort][1:] if number else ()
        titles = [
            asked,
            f"{title} itself{more}, few trees",
            f"{asked}, against few trees",
            *(f"{title} itself, {step} times the learning rate" for step in steps),
        ]
        for kind, row in zip(titles, zip(*by_set, strict=True), strict=True):
            cells = (f"{change:+.1f}%{where}" for change, where in row)
            rows.append([kind, *cells, f"{np.mean([change for change, _ in row]):+.1f}%"])
    return Table(["", *(SETS[name].title for name in races), "mean"], rows)


def _outcome(
    plan: Plan, name: str, contest: Contest, seconds: Mapping[str, float]
) -> list[tuple[float, str]]:
    """Changes of the time on a set, and what stands beside them."""
    whole, few = contest.whole, contest.few
    base = plan.errors(whole.cells(plan, name))

    def time_of(entry: Entry) -> float:
        return seconds[key_of(entry.cells(plan, name)[0])]

    def against(entry: Entry, other: Entry) -> float:
        return 100.0 * (time_of(entry) / time_of(other) - 1.0)

    def on_test(entry: Entry) -> list[str]:
        errors = plan.errors(entry.cells(plan, name))
        if errors is None or base is None:
            return []
        return [percent(change_of(errors, base).mean)]

    def where(entry: Entry) -> str:
        told = [f"{100 * entry.trees / whole.trees:.0f}% of the trees", *on_test(entry)]
        if entry.step > 1:
            told.insert(0, f"{entry.step} times the learning rate")
        if "rate" in entry.setting["sampler"]:
            told.insert(0, f"{entry.setting['sampler']['rate']:g}" + "°" * (not entry.reaches))
        return f" ({', '.join(told)})"

    def lost(entry: Entry) -> str:
        return f" ({', '.join([f'{percent(100.0 * entry.change)} on folds', *on_test(entry)])})"

    fastest = min(contest.finalists, key=time_of)
    return [
        (against(fastest, whole), where(fastest)),
        (against(few, whole), where(few)),
        (against(fastest, few), ""),
        *((against(one, whole), lost(one)) for one in contest.longer),
    ]


FEWER_TREES = Experiment("Time to the same error, with fewer trees", _cells, _parts)
