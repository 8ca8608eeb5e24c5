"""Time to an error: of no sampling, or of LightGBM, with as few trees as it takes.

Learning times at no loss (`learning_time`) are of as many trees as the set's parameters have,
as in the paper. A sample whose trees are better than all rows' needs fewer of them; how many is
read off the errors on folds, and no sampling is granted the same. Fewer still are enough where
learning rates may be a multiple of the set's own, which both are granted as well. MVS may have
narrowed trees, no sampling has whole ones; what narrowing does alone is in `learning_time`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from mvsboost.paper.store import key_of
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
_OWN_STEP = (1,)
_LONGER_STEPS = ((1, 2), (1, 2, 3), (1, 2, 3))
"""Multiples of the learning rate, by effort; there are as many times fewer trees."""

_TEXT = (
    "Change of the time of boosting to the error that a baseline has with all its trees. MVS has "
    "as few trees as have less error on {} of the training part, by a standard error of the "
    "mean change, and keep it with every further tree; the fastest counts. In brackets its rate, "
    "whether its trees are narrowed, the share of the trees, and the change of 1 − AUC on the test "
    "part; a circle where no MVS gets there, and the one of least error on folds is taken. Then "
    "the same against the baseline with as few trees as it needs itself by that rule. Below, both "
    "may have learning rates of {} times the set's own too, with as many times fewer trees. "
    "LightGBM is without sampling, on counters. The fastest is that of a race of {} which seemed "
    "so on folds; fits of one thread, which take turns every fifth of a second."
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
        Of the error on folds against the target, relative.
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

    trees: list[int]
    errors: NDArray[np.float64]
    seconds: list[float]


def _course(plan: Plan, name: str, method: Method, setting: Setting, step: int) -> _Course | None:
    """None while any fold is unknown."""
    cells = _courses(plan, name, method, setting, step)
    results = [result for result in map(plan.store.get, cells) if result is not None]
    if len(results) < len(cells):
        return None
    errors = np.array([result["errors"] for result in results])
    return _Course(trees_on_the_way(cells[0]), errors, [result["seconds"] for result in results])


def _entry(
    method: Method, setting: Setting, step: int, course: _Course, target: NDArray[np.float64]
) -> Entry:
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
        step=step,
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
    """A baseline with all its trees, with as few as it needs, and the MVS that may be fastest."""

    whole: Entry
    few: Entry
    finalists: list[Entry]


def _contest(plan: Plan, name: str, baseline: Method, steps: Sequence[int]) -> Contest | None:
    """The contest with some lengths of steps; None while anything of it is unknown."""
    own = _course(plan, name, baseline, NO_SAMPLING, 1)
    if own is None:
        return None
    target = own.errors[:, -1]

    def entries(method: Method, setting: Setting) -> list[Entry | None]:
        courses = ((step, _course(plan, name, method, setting, step)) for step in steps)
        return [
            None if course is None else _entry(method, setting, step, course, target)
            for step, course in courses
        ]

    chosen = list(_settings(plan, name))
    of_baseline = entries(baseline, NO_SAMPLING)
    of_mvs = [one for how, setting in chosen if setting for one in entries(how, setting)]
    known, ours = ([one for one in some if one is not None] for some in (of_baseline, of_mvs))
    if len(known) < len(steps) or len(ours) < len(steps) * len(chosen):
        return None
    reaching = sorted((one for one in ours if one.reaches), key=lambda one: one.estimate)
    least = min(ours, key=lambda one: one.change)
    few = min((one for one in known if one.reaches), key=lambda one: one.trees)
    return Contest(known[0]._replace(trees=own.trees[-1]), few, reaching[:_FINALISTS] or [least])


# --- the race, and what is shown ----------------------------------------------------------------


def _contests(plan: Plan, name: str) -> dict[str, tuple[Contest, Contest]] | None:
    """By baseline, with its own steps and with longer ones; None while anything is unknown."""
    longer, contests = _LONGER_STEPS[plan.size.effort], {}
    for title, baseline in _BASELINES.items():
        both = [_contest(plan, name, baseline, steps) for steps in (_OWN_STEP, longer)]
        if both[0] is None or both[1] is None:
            return None
        contests[title] = both[0], both[1]
    return contests


def _entries(contests: Mapping[str, tuple[Contest, Contest]]) -> Iterator[Entry]:
    for both in contests.values():
        for contest in both:
            yield from (contest.whole, contest.few, *contest.finalists)


def _race(plan: Plan, name: str) -> Cell | None:
    contests = _contests(plan, name)
    return None if contests is None else _race_between(plan, name, _entries(contests))


def _race_between(plan: Plan, name: str, entries: Iterable[Entry]) -> Cell:
    """Everybody once, under the key of his cell."""
    cells = [one.cells(plan, name)[0] for one in entries]
    return race_cell(plan, {key_of(cell): cell for cell in cells})


def _cells(plan: Plan) -> Iterator[Cell]:
    steps = _LONGER_STEPS[plan.size.effort]
    for name in plan.sets:
        yield from fold_cells(plan, name, _METHODS)
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
    contests = {name: _contests(plan, name) for name in races}
    rows: list[list[str]] = []
    for number, more in enumerate(("", ", longer steps")):
        for title in _BASELINES:
            by_set = [
                _outcome(plan, name, found[title][number], races[name]["seconds"])
                for name, found in contests.items()
                if found is not None
            ]
            asked = f"MVS{more}, to the error of {title}"
            titles = asked, f"{title} itself{more}, few trees", f"{asked}, against few trees"
            for kind, row in zip(titles, zip(*by_set, strict=True), strict=True):
                cells = (f"{change:+.1f}%{where}" for change, where in row)
                rows.append([kind, *cells, f"{np.mean([change for change, _ in row]):+.1f}%"])
    header = ["", *(SETS[name].title for name in races), "mean"]
    n_folds = len(plan.thorough.folds(plan.sets[0]))
    folds = f"{n_folds} folds" if n_folds > 1 else "a fold"
    steps = " and ".join(map(str, _LONGER_STEPS[plan.size.effort][1:]))
    return [Text(_TEXT.format(folds, steps, _FINALISTS)), Table(header, rows)]


def _outcome(
    plan: Plan, name: str, contest: Contest, seconds: Mapping[str, float]
) -> list[tuple[float, str]]:
    """Changes of the time on a set, and what stands beside them."""

    def time_of(entry: Entry) -> float:
        return seconds[key_of(entry.cells(plan, name)[0])]

    fastest = min(contest.finalists, key=time_of)
    time, whole, few = map(time_of, (fastest, contest.whole, contest.few))
    base = plan.errors(contest.whole.cells(plan, name))

    def where(entry: Entry) -> str:
        errors = plan.errors(entry.cells(plan, name))
        told = [f"{100 * entry.trees / contest.whole.trees:.0f}% of the trees"]
        if entry.step > 1:
            told.insert(0, f"{entry.step} times the learning rate")
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
