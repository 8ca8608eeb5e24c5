"""What raising the learning rates changes: sizes under full do so, to grow fewer trees.

Settings that folds chose at the raised rates are judged on the test part at both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from mvsboost.paper.experiments.hosts import HOST_METHODS, of_hosts
from mvsboost.paper.experiments.quality import PAPER_QUALITY
from mvsboost.paper.experiments.rates import PAPER_BY_RATE, WITHOUT_STAND_INS
from mvsboost.paper.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan, Setting
from mvsboost.paper.sets import SETS
from mvsboost.paper.summaries import Change, average, change_at, percent, with_spread
from mvsboost.report import Part, Table, Text

__all__ = ["PACE"]


class _Contender(NamedTuple):
    """Whose errors are compared.

    Attributes
    ----------
    method : Method
    tuning : callable
        From the plan and a rate to the plan that settings are tuned by.
    paper : str
        The paper's method, if it is one.
    """

    method: Method
    tuning: Callable[[Plan, float | None], Plan]
    paper: str = ""


def _as_ours(plan: Plan, rate: float | None) -> Plan:
    return plan.thorough if rate is None else plan


def _as_hosts(plan: Plan, rate: float | None) -> Plan:
    return of_hosts(plan)


_CONTENDERS = (
    _Contender(METHODS["sgb"], _as_ours, "sgb"),
    _Contender(METHODS["mvs"], _as_ours, "mvs"),
    _Contender(METHODS["all leaves"], _as_ours),
    _Contender(METHODS["tuned"], _as_ours),
    _Contender(replace(HOST_METHODS["ours"], title="MVS on counters"), _as_hosts, "mvs"),
    _Contender(replace(HOST_METHODS["sgb"], title="SGB in LightGBM"), _as_hosts, "sgb"),
    _Contender(replace(HOST_METHODS["mvs drawn"], title="MVS in LightGBM"), _as_hosts, "mvs"),
)
_RATES = (0.02, 0.1, 0.25, None)
"""None is the best."""

_TEXT = (
    "Change of 1 − AUC on the test part against no sampling, mean over the sets, with low learning "
    "rates raised as everywhere here, and with the published ones and as many more trees. "
    "Settings are those that folds chose at the raised ones. LightGBM sees "
    "counters."
)


def _published(plan: Plan) -> Plan:
    return replace(plan, size=replace(plan.size, pace=0.0))


def _chosen(plan: Plan, name: str, one: _Contender) -> dict[float | None, Setting | None]:
    return {rate: one.tuning(plan, rate).chosen(name, one.method, rate) for rate in _RATES}


def _cells(plan: Plan) -> Iterator[Cell]:
    if plan.size.pace == 0.0:
        return
    for name in plan.sets:
        for one in _CONTENDERS:
            for rate in _RATES:
                yield from one.tuning(plan, rate).tuned(name, one.method, rate)
            for setting in (NO_SAMPLING, *_chosen(plan, name, one).values()):
                if setting is not None:
                    yield from plan.judged(name, one.method, setting)
                    yield from _published(plan).judged(name, one.method, setting)


def _changes(plan: Plan, name: str, one: _Contender) -> dict[str, list[Change]] | None:
    """Changes by rate, at raised and at published learning rates; None while one is missing."""
    found: dict[str, list[Change]] = {"raised": [], "published": []}
    for setting in _chosen(plan, name, one).values():
        for what, judge in (("raised", plan), ("published", _published(plan))):
            change = None if setting is None else change_at(judge, name, one.method, setting)
            if change is None:
                return None
            found[what].append(change)
    return found


def _parts(plan: Plan) -> list[Part]:
    if plan.size.pace == 0.0:
        return []
    means = _means(plan)
    if not means:
        return []
    header = ["", *("best" if rate is None else f"{rate:g}" for rate in _RATES)]
    parts: list[Part] = [Text(_TEXT), Table(header, means)]
    if len(plan.published.sets) < len(plan.sets):
        parts += [Text(WITHOUT_STAND_INS), Table(header, _means(plan.published))]
    of_sets = [
        [f"{SETS[name].title}: {one.method.title}, {what}", *map(with_spread, by_rate)]
        for name in plan.sets
        for one in _CONTENDERS
        if one.paper == "mvs"
        for what, by_rate in (_changes(plan, name, one) or {}).items()
    ]
    return [*parts, Text("The paper's method set by set:"), Table(header, of_sets)]


def _means(plan: Plan) -> list[list[str]]:
    """Two rows for each method that has results, and the paper's under those that it has."""
    rows = []
    for one in _CONTENDERS:
        known = {name: _changes(plan, name, one) for name in plan.sets}
        by_set = {name: changes for name, changes in known.items() if changes is not None}
        if not by_set:
            continue
        title = one.method.title
        for what in ("raised", "published"):
            by_rate = zip(*(changes[what] for changes in by_set.values()), strict=True)
            rows.append([f"{title}, {what}", *(with_spread(average(of)) for of in by_rate)])
        if one.paper:
            theirs = (_paper(one.paper, rate, list(by_set)) for rate in _RATES)
            rows.append([f"{title}, paper", *map(percent, theirs)])
    return rows


def _paper(key: str, rate: float | None, names: list[str]) -> float:
    """The paper's mean: of its seven sets at a rate, of these at the best."""
    if rate is not None:
        return PAPER_BY_RATE[key][rate]
    theirs = [PAPER_QUALITY[key][name] for name in names if name in PAPER_QUALITY[key]]
    return sum(theirs) / len(theirs) if theirs else math.nan


PACE = Experiment("Learning rates: raised and published", _cells, _parts)
