"""What raising the learning rates changes: sizes under full do so, to grow fewer trees.

Settings that folds chose at the raised rates are judged on the test part at both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mvsboost.report import Part, Table, Text
from research.experiments.hosts import HOST_METHODS, of_hosts
from research.experiments.quality import paper_quality
from research.experiments.rates import PAPER_BY_RATE, tables_of_means
from research.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan, Setting
from research.sets import SETS
from research.summaries import Change, average, change_at, percent, with_spread

__all__ = ["CONTENDERS", "PACE", "Contender", "at_published_rates"]


class Contender(NamedTuple):
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


def _host(key: str, title: str, paper: str) -> Contender:
    return Contender(replace(HOST_METHODS[key], title=title), _as_hosts, paper)


CONTENDERS: dict[str, Contender] = {
    "sgb": Contender(METHODS["sgb"], _as_ours, "sgb"),
    "mvs": Contender(METHODS["mvs"], _as_ours, "mvs"),
    "all leaves": Contender(METHODS["all leaves"], _as_ours),
    "tuned": Contender(METHODS["tuned"], _as_ours),
    "counters": _host("ours", "MVS on counters", "mvs"),
    "lightgbm sgb": _host("sgb", "SGB in LightGBM", "sgb"),
    "lightgbm mvs": _host("mvs drawn", "MVS in LightGBM", "mvs"),
}
_RATES = (0.02, 0.1, 0.25, None)
"""None is the best."""

_TEXT = (
    "Change of 1 − AUC on the test part against no sampling, mean over {}, with low learning "
    "rates raised as everywhere here, and with the published ones and as many more trees. "
    "Settings are those that folds chose at the raised ones. LightGBM sees counters. The paper's "
    "at its best rate is over those of its sets that are here, at the others over its own seven."
)


def at_published_rates(plan: Plan) -> Plan:
    """The same without raising learning rates."""
    return replace(plan, size=replace(plan.size, pace=0.0))


def _chosen(plan: Plan, name: str, one: Contender) -> dict[float | None, Setting | None]:
    return {rate: one.tuning(plan, rate).chosen(name, one.method, rate) for rate in _RATES}


def _cells(plan: Plan) -> Iterator[Cell]:
    if plan.size.pace == 0.0:
        return
    for name in plan.sets:
        for one in CONTENDERS.values():
            for rate in _RATES:
                yield from one.tuning(plan, rate).tuned(name, one.method, rate)
            for setting in (NO_SAMPLING, *_chosen(plan, name, one).values()):
                if setting is not None:
                    yield from plan.judged(name, one.method, setting)
                    yield from at_published_rates(plan).judged(name, one.method, setting)


def _changes(plan: Plan, name: str, one: Contender) -> dict[str, list[Change]]:
    """Changes by rate as far as they are known, at raised and at published learning rates."""
    found: dict[str, list[Change]] = {}
    settings = _chosen(plan, name, one).values()
    for what, judge in (("raised", plan), ("published", at_published_rates(plan))):
        changes = [
            None if setting is None else change_at(judge, name, one.method, setting)
            for setting in settings
        ]
        found[what] = [change for change in changes if change is not None]
    return found


def _parts(plan: Plan) -> list[Part]:
    if plan.size.pace == 0.0:
        return []
    plan = replace(plan, sets=[name for name in plan.sets if _is_known(plan, name)])
    if not plan.sets:
        return []
    header = ["", *("best" if rate is None else f"{rate:g}" for rate in _RATES)]
    names = ", ".join(SETS[name].title for name in plan.sets)
    means = tables_of_means(plan, _TEXT.format(names), header, _means)
    of_sets = [
        [f"{SETS[name].title}: {one.method.title}, {what}", *map(with_spread, by_rate)]
        for name in plan.sets
        for one in CONTENDERS.values()
        if one.paper == "mvs"
        for what, by_rate in _changes(plan, name, one).items()
    ]
    return [*means, Text("The paper's method set by set:"), Table(header, of_sets)]


def _is_known(plan: Plan, name: str) -> bool:
    """Whether all contenders have all their results on a set, so that means are of the same."""
    return all(
        len(changes) == len(_RATES)
        for one in CONTENDERS.values()
        for changes in _changes(plan, name, one).values()
    )


def _means(plan: Plan) -> list[list[str]]:
    """Two rows for each contender, and the paper's under those that it has."""
    rows = []
    for one in CONTENDERS.values():
        by_set = [_changes(plan, name, one) for name in plan.sets]
        for what in ("raised", "published"):
            by_rate = zip(*(changes[what] for changes in by_set), strict=True)
            cells = (with_spread(average(of)) for of in by_rate)
            rows.append([f"{one.method.title}, {what}", *cells])
        if one.paper:
            theirs = (_paper(one.paper, rate, plan.sets) for rate in _RATES)
            rows.append([f"{one.method.title}, paper", *map(percent, theirs)])
    return rows


def _paper(key: str, rate: float | None, names: Sequence[str]) -> float:
    """The paper's mean: of its seven sets at a rate, of these at the best."""
    return paper_quality(key, names) if rate is None else PAPER_BY_RATE[key][rate]


PACE = Experiment("Learning rates: raised and published", _cells, _parts)
