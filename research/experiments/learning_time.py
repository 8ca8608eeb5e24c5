"""Learning time at no loss of quality: the paper's table 4.

The smallest rate at which a method, tuned on folds, is not worse there than no sampling;
where there is none, the rate of its least error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mvsboost.report import Part, Table, Text
from research.plan import (
    METHODS,
    NO_SAMPLING,
    Cell,
    Experiment,
    Method,
    Plan,
    Setting,
    Size,
    setting,
)
from research.sets import SETS
from research.summaries import change_at, change_of, percent

__all__ = [
    "FAIR",
    "LEARNING_TIME",
    "LEAVES_AND_LAMBDA",
    "LIGHTGBM",
    "METHODS_TIMED",
    "PAPER_TIME",
    "contenders_of",
    "race_cell",
    "races_run",
    "time_table",
]

PAPER_TIME = {"sgb": -20.7, "goss": -20.4, "mvs": -27.7}
"""Change of the learning time in the paper, in %, mean over its sets."""

_OTHERS = ("sgb", "goss")

METHODS_TIMED = {key: METHODS[key] for key in (*_OTHERS, "mvs", "all leaves", "second look")}
"""Methods whose time is measured."""


def _leaves_and_lambda(rate: float, size: Size) -> list[Setting]:
    lambdas = ("leaf", *size.lambdas)
    return [setting({"name": "mvs", "rate": rate, "lam": lam}, "all") for lam in lambdas]


LEAVES_AND_LAMBDA = Method("MVS, leaves from all rows, λ tuned", _leaves_and_lambda)
LIGHTGBM = Method("LightGBM", lambda rate, size: [], "lightgbm", "counters")
"""LightGBM as the paper has it, without sampling."""

_ROUNDS = (1, 3, 5)
"""Rounds of a race, by effort."""

_SLICE = 0.2
"""Seconds for which fits take turns: a shared machine is slow for some at a time."""

_METHODS = {
    **METHODS_TIMED,
    "leaves and lambda": LEAVES_AND_LAMBDA,
}
FAIR = (
    "No sampling is timed with leaf values from the sums of its own trees; elsewhere it has a pass "
    "of their own, which rounds less."
)
"""Said wherever fits are timed."""

_TEXT = (
    "Change of the time of boosting against no sampling at the smallest rate (in brackets, with "
    "the change of 1 − AUC on the test part) at which there is no loss of quality on {folds}; "
    "where there is one at every rate (marked with a circle), at the rate of the least. "
    "Then the fastest MVS of each set, of those without loss on folds if there are any; and the "
    "same against LightGBM without sampling, on counters, and with a column more for every number "
    "that may be missing, in time and in 1 − AUC. "
    f"Fits of one thread, which take turns every fifth of a second. {FAIR}"
)

_STAGES = (
    "Where the time of no sampling and of the fastest MVS goes, in milliseconds of an iteration: "
    "growing the tree, other passes over rows (gradients, the draw, sums of leaves), both with the "
    "Python that calls them, and Python between; medians of the same fits. Below, what the change "
    "of the time would be if MVS grew its trees in no time; if it did all else in no time; and if "
    "no sampling did all else in no time too, which leaves trees alone."
)


class Frugal(NamedTuple):
    """The smallest rate without loss on folds, or of least loss, and the setting there."""

    rate: float
    setting: Setting
    without_loss: bool


def smallest_rate(plan: Plan, name: str, method: Method) -> Frugal | None:
    """The rate at which a method takes least time without loss; None while it is unknown."""
    base = plan.mean_error(plan.on_folds(name, method, NO_SAMPLING))
    rates = sorted(plan.size.tuned_rates)
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


def race_cell(
    plan: Plan,
    contenders: Mapping[str, Cell],
    *,
    rounds: tuple[int, int, int] = _ROUNDS,
    seconds: float = _SLICE,
) -> Cell:
    """The cell that times fits, in so many rounds by effort, which take turns for some seconds."""
    turns = {"rounds": rounds[plan.size.effort], "slice": seconds}
    timed = {key: _as_timed(cell) for key, cell in contenders.items()}
    return {"kind": "race", "alone": True, "contenders": timed, **turns}


def _as_timed(cell: Cell) -> Cell:
    """A fit as it is timed: no sampling without the pass over all rows that rounds less.

    The sums of its own trees are of all rows already.
    """
    everything = cell["engine"] == "mvsboost" and cell["sampler"] == NO_SAMPLING["sampler"]
    return {**cell, "leaf_values": "sample"} if everything else cell


def contenders_of(
    plan: Plan, name: str, methods: Mapping[str, Method], **more: Any
) -> dict[str, Cell] | None:
    """No sampling and methods at their rates on a set; None while these are not known.

    `more` is what the fits have besides, the number of threads for instance.
    """
    contenders = {"none": {**plan.cell(name, NO_SAMPLING, 0), **more}}
    for key, method in methods.items():
        chosen = smallest_rate(plan, name, method)
        if chosen is None:
            return None
        contenders[key] = {**plan.cell(name, chosen.setting, 0), **more}
    return contenders


def races_run(plan: Plan, race_on: Callable[[Plan, str], Cell | None]) -> dict[str, dict[str, Any]]:
    """Results of the races on each set, as far as they are known."""
    races = {name: race_on(plan, name) for name in plan.sets}
    results = {name: plan.store.get(race) for name, race in races.items() if race is not None}
    return {name: result for name, result in results.items() if result is not None}


Races = Mapping[str, Mapping[str, Any]]
"""Results of races by set."""

Changes = Callable[[str, str], float | None]
"""From a set and a method to the change of the error on the test part, if it is known."""


def time_table(
    plan: Plan,
    races: Races,
    methods: Mapping[str, Method],
    change: Changes,
    paper: Mapping[str, float],
) -> Table:
    """Changes of the time by method and set.

    Parameters
    ----------
    plan : Plan
    races : mapping from set to the result of its race
    methods : mapping of str to Method
    change : callable
    paper : mapping from method to float
        The paper's means.
    """
    rows = []
    for key, method in methods.items():
        keys = dict.fromkeys(races, key)
        rows.append(_row(plan, races, methods, method.title, keys, "none", change))
        if key in paper:
            blanks = [""] * len(races)
            rows.append([f"{method.title}, paper", *blanks, f"{paper[key]:+.1f}%"])
    fastest = _fastest(plan, races, methods)
    rows.append(_row(plan, races, methods, "MVS, the fastest of these", fastest, "none", change))
    return Table(["", *(SETS[name].title for name in races), "mean"], rows)


def _row(
    plan: Plan,
    races: Races,
    methods: Mapping[str, Method],
    title: str,
    keys: Mapping[str, str],
    base: str,
    change: Changes,
) -> list[str]:
    """Changes against the contender `base`, of a method for each set."""
    notes = []
    for name, key in keys.items():
        chosen, error = smallest_rate(plan, name, methods[key]), change(name, key)
        assert chosen is not None
        at = f"{chosen.rate:g}" + ("" if chosen.without_loss else "°")
        notes.append(at if error is None else f"{at}, {percent(error)}")
    return _line(races, title, keys, base, notes)


def _line(
    races: Races, title: str, keys: Mapping[str, str], base: str, notes: Sequence[str]
) -> list[str]:
    """Changes of the time of one contender of each set against another, each with a note."""
    seconds = [(races[name]["seconds"], key) for name, key in keys.items()]
    changes = [100.0 * (of[key] / of[base] - 1.0) for of, key in seconds]
    cells = [f"{one:+.1f}% ({note})" for one, note in zip(changes, notes, strict=True)]
    return [title, *cells, f"{np.mean(changes):+.1f}%"]


def _fastest(plan: Plan, races: Races, methods: Mapping[str, Method]) -> dict[str, str]:
    """The MVS of least time on each set, of those without loss on folds if there are any."""

    def rank(name: str, key: str) -> tuple[bool, float]:
        chosen = smallest_rate(plan, name, methods[key])
        assert chosen is not None
        return not chosen.without_loss, races[name]["seconds"][key]

    ours = [key for key in methods if key not in _OTHERS]
    return {name: min(ours, key=lambda key: rank(name, key)) for name in races}


# --- this experiment ----------------------------------------------------------------------------


def _race(plan: Plan, name: str) -> Cell | None:
    """Of a plan with every fold."""
    contenders = contenders_of(plan, name, _METHODS, stages=True)
    if contenders is None:
        return None
    engine, view = LIGHTGBM.engine, LIGHTGBM.view
    contenders[engine] = plan.cell(name, NO_SAMPLING, 0, engine=engine, view=view)
    return race_cell(plan, contenders)


def _cells(plan: Plan) -> Iterator[Cell]:
    plan = plan.on_every_fold
    for name in plan.sets:
        yield from plan.judged(name, METHODS["mvs"], NO_SAMPLING)
        yield from plan.judged(name, LIGHTGBM, NO_SAMPLING)
        yield from plan.every_setting(name, _METHODS.values())
        for method in _METHODS.values():
            chosen = smallest_rate(plan, name, method)
            if chosen is not None:
                yield from plan.judged(name, method, chosen.setting)
        race = _race(plan, name)
        if race is not None:
            yield race


def _parts(plan: Plan) -> list[Part]:
    plan = plan.on_every_fold
    races = races_run(plan, _race)
    if not races:
        return []

    def chosen_setting(name: str, key: str) -> Setting:
        chosen = smallest_rate(plan, name, _METHODS[key])
        assert chosen is not None
        return chosen.setting

    def change(name: str, key: str) -> float | None:
        method = _METHODS.get(key, METHODS["mvs"])  # they see the same data
        found = change_at(plan, name, method, chosen_setting(name, key))
        return None if found is None else found.mean

    def change_to_lightgbm(name: str, key: str) -> float | None:
        theirs = plan.errors(plan.judged(name, LIGHTGBM, NO_SAMPLING))
        ours = plan.errors(plan.judged(name, _METHODS[key], chosen_setting(name, key)))
        return None if theirs is None or ours is None else change_of(ours, theirs).mean

    table = time_table(plan, races, _METHODS, change, PAPER_TIME)
    fastest, title = _fastest(plan, races, _METHODS), "The same against LightGBM"
    against = LIGHTGBM.engine, change_to_lightgbm
    last = _row(plan, races, _METHODS, title, fastest, *against)
    whole = replace(table, rows=[*table.rows, last])
    return [
        Text(_TEXT.format(folds=plan.tuning_folds)),
        whole,
        Text(_STAGES),
        _stages_table(plan, races, fastest),
    ]


class _Stages(NamedTuple):
    """Where an iteration goes, in milliseconds."""

    trees: float
    passes: float
    between: float


def _stages(plan: Plan, races: Races, name: str, key: str) -> _Stages:
    """Where an iteration of a contender goes."""
    race, each = races[name], 1000.0 / plan.cell(name, NO_SAMPLING, 0)["trees"]
    verbs = {verb: each * seconds for verb, seconds in race["stages"][key].items()}
    trees, whole = verbs.pop("grow_whole_tree"), each * race["seconds"][key]
    passes = sum(verbs.values())
    return _Stages(trees, passes, whole - trees - passes)


def _stages_table(plan: Plan, races: Races, fastest: Mapping[str, str]) -> Table:
    """Where the time of no sampling and of the fastest goes, and what that bounds."""
    without = [_stages(plan, races, name, "none") for name in races]
    ours = [_stages(plan, races, name, key) for name, key in fastest.items()]
    rows: list[list[str]] = []
    for title, columns in (("No sampling", without), ("MVS, the fastest", ours)):
        for part, values in zip(_Stages._fields, zip(*columns, strict=True), strict=True):
            rows.append([f"{title}: {part}", *(f"{value:.2f}" for value in values), ""])
    (trees, whole), (our_trees, our_whole) = (
        (np.array([one.trees for one in stages]), np.array([sum(one) for one in stages]))
        for stages in (without, ours)
    )
    for what, left, of in (
        ("Change, were trees free", our_whole - our_trees, whole),
        ("Change, were all but trees free", our_trees, whole),
        ("Change of trees alone", our_trees, trees),
    ):
        changes = 100.0 * (left / of - 1.0)
        cells = (f"{change:+.1f}%" for change in (*changes, changes.mean()))
        rows.append([what, *cells])
    return Table(["", *(SETS[name].title for name in races), "mean"], rows)


LEARNING_TIME = Experiment("Learning time without loss of quality", _cells, _parts)
