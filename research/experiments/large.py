"""Large data: the time at no loss of quality on whole sets, by all cores.

The paper has Higgs and RecSys here. ``--datasets higgs recsys`` takes them in place of the
sets that stand in for them, where their publishers' files are in the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mvsboost.report import Part, Table, Text
from mvsboost.runtime.threads import available_cores
from research.experiments.learning_time import (
    FAIR,
    METHODS_TIMED,
    contenders_of,
    race_cell,
    races_run,
    time_table,
)
from research.plan import NO_SAMPLING, Cell, Experiment, Plan
from research.sets import LARGE_SETS, SETS
from research.summaries import change_of, percent

__all__ = ["LARGE"]

_METHODS = {
    **METHODS_TIMED,
}
_QUICK = ("small synthetic",)
_PACES = (0.5, 0.2, 0.0)
_RATES = ((0.1,), (0.02, 0.05, 0.1, 0.2, 0.4, 0.8), (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8))

_ROUNDS = (1, 2, 3)
"""Rounds of a race, by effort; one takes minutes.

All contenders of a round are in memory together, on 11M rows some 9 GiB of it."""

PAPER_LARGE = (
    ("Higgs", "SGB", "no rate without loss"),
    ("Higgs", "GOSS", "-8.5% at rate 0.8"),
    ("Higgs", "MVS", "-17.7% at rate 0.8"),
    ("RecSys", "SGB", "-50.3% at rate 0.2"),
    ("RecSys", "GOSS", "-39.9% at rate 0.2"),
    ("RecSys", "MVS", "-61.5% at rate 0.1"),
)
"""Change of the learning time without loss of quality in the paper."""

_TEXT = (
    "Change of the time of boosting against no sampling, by all cores, at the "
    "smallest rate (in brackets, with the change of 1 − AUC on the test part) at which a fifth of "
    "the training part, held out, sees no loss of quality; where it sees one at every rate (marked "
    "with a circle), at the rate of the least. The last line "
    "has the fastest MVS of each set, of those without loss on the rows held out if there "
    "are any. Nothing is tuned: λ is 0.1, or by the leaves where their values are from all rows, "
    "GOSS takes as many rows of large gradients as of others, a second look has 4 features; one "
    f"seed. Fits take turns, after an iteration, when a fifth of a second is over; {{}}. {FAIR} "
    "Errors on the test part are those of the fits that are timed."
)


def _large(plan: Plan) -> Plan:
    """The plan with large sets, those asked for or those that are here, and what they allow."""
    effort = plan.size.effort
    if plan.names_sets:
        sets = [name for name in plan.sets if name in LARGE_SETS or name in ("higgs", "recsys")]
    else:
        sets = list(_QUICK if effort == 0 else (n for n in LARGE_SETS if n not in _QUICK))
    size = replace(
        plan.size,
        pace=_PACES[effort],
        folds=1,
        small_folds=1,
        rates=_RATES[effort],
        more_rates=(),
        lambdas=(0.1,),
        ratios=((1, 1),),
        looks=(4,),
    )
    return replace(plan, size=size, sets=sets)


def _race(large: Plan, name: str) -> Cell | None:
    threads = available_cores()
    contenders = contenders_of(large, name, _METHODS, threads=threads)
    if contenders is None:
        return None
    return race_cell(large, contenders, rounds=_ROUNDS)


def _cells(plan: Plan) -> Iterator[Cell]:
    large = _large(plan)
    for name in large.sets:
        yield from large.every_setting(name, _METHODS.values())
        race = _race(large, name)
        if race is not None:
            yield race


def _parts(plan: Plan) -> list[Part]:
    large = _large(plan)
    races = races_run(large, _race)
    if not races:
        return []

    def change(name: str, key: str) -> float:
        errors = races[name]["errors"]
        return change_of([errors[key]], [errors["none"]]).mean

    rounds = _ROUNDS[plan.size.effort]
    parts: list[Part] = [
        Text(_TEXT.format(f"{rounds} rounds" if rounds > 1 else "one round")),
        time_table(large, races, _METHODS, change, paper={}),
        Text("The paper, at the smallest rate without loss:"),
        Table(["set", "method", "time in the paper"], PAPER_LARGE, text_columns=3),
        Text("Change of 1 − AUC by rate on the rows held out:"),
    ]
    for name, race in races.items():
        error, seconds = race["errors"]["none"], race["seconds"]["none"]
        without = f"without sampling {seconds:.1f} s, 1 − AUC {error:.5f} on the test part"
        parts.append(Text(f"{SETS[name].title}; {without}."))
        parts.append(_by_rate(large, name))
    return parts


def _by_rate(plan: Plan, name: str) -> Table:
    rows = []
    for method in _METHODS.values():
        cells = []
        base = plan.errors(plan.on_folds(name, method, NO_SAMPLING))
        for rate in plan.size.rates:
            chosen = plan.chosen(name, method, rate)
            assert chosen is not None
            errors = plan.errors(plan.on_folds(name, method, chosen))
            assert errors is not None
            assert base is not None
            cells.append(percent(change_of(errors, base).mean))
        rows.append([method.title, *cells])
    return Table(["", *(f"{rate:g}" for rate in plan.size.rates)], rows)


LARGE = Experiment("Large data", _cells, _parts)
