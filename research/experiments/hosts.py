"""Hosts: the paper's methods in LightGBM, as there, and other libraries' MVS beside ours.

All see categories as counters here. Other libraries' fits take longer, so a standard run
has fewer rates and seeds of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mvsboost.report import Part, Table, Text
from research.experiments.quality import cells_at_best, quality_table
from research.experiments.rates import cells_by_rate, changes_by_rate, rate_tables
from research.hosts import DRAWN, OWN
from research.plan import (
    METHODS,
    Cell,
    Experiment,
    Method,
    Plan,
    Setting,
    Size,
    adaptive,
    goss,
    mvs,
    setting,
    sgb,
)
from research.sets import SETS
from research.summaries import where_known, with_spread

__all__ = ["HOSTS", "HOST_METHODS", "of_hosts"]


def _own(rate: float, size: Size) -> list[Setting]:
    return [setting({"name": "mvs", "rate": rate, "lam": OWN})]


def _counting_drawn(rate: float, size: Size) -> list[Setting]:
    return [{**one, "sampler": {**one["sampler"], "support": DRAWN}} for one in mvs(rate, size)]


def _on_counters(key: str) -> Method:
    return replace(METHODS[key], title=f"mvsboost, {METHODS[key].title}", view="counters")


HOST_METHODS: dict[str, Method] = {
    "sgb": Method("LightGBM, its bagging", sgb, "lightgbm", "counters"),
    "goss": Method("LightGBM, its GOSS", goss, "lightgbm", "counters"),
    "mvs": Method("LightGBM, MVS", mvs, "lightgbm", "counters"),
    "mvs drawn": Method("LightGBM, MVS, drawn rows count", _counting_drawn, "lightgbm", "counters"),
    "adaptive": Method("LightGBM, MVS adaptive", adaptive, "lightgbm", "counters"),
    "catboost": Method("CatBoost, its MVS", _own, "catboost", "counters"),
    "xgboost": Method("XGBoost, gradient_based", _own, "xgboost", "counters"),
    "ours": _on_counters("mvs"),
    "our second look": _on_counters("second look"),
}
_TEXT = (
    "The same with other libraries' trees, and with ours, all on counters in place of categories. "
    "MVS in LightGBM is an objective that weighs the gradients of drawn rows and sets the others "
    "to 0. LightGBM counts these others among the rows that a leaf needs; where drawn rows count, "
    "that number is divided by the rate. Each against its own host without sampling; {seeds} "
    "seeds, {rates} rates and {lambdas} λ to choose from, by {folds}. XGBoost knows no least "
    "number of rows of a leaf, CatBoost no least hessian and no l1. First at the best rate:"
)


_OWN_CATEGORIES = replace(METHODS["mvs"], title="mvsboost, MVS, its own categories")
_BY_SET_TEXT = (
    "MVS set by set: LightGBM's trees against ours on the same counters, and ours on categories as "
    "they are (but for columns of more than 255, which become means of the target here too):"
)


def of_hosts(plan: Plan) -> Plan:
    """The same with fewer rates, settings, folds and seeds, in a standard run."""
    if plan.size.effort != 1:
        return plan
    size = replace(
        plan.size,
        seeds=3,
        folds=1,
        small_folds=2,
        rates=(0.02, 0.1, 0.25, 0.5),
        more_rates=(0.8,),
        lambdas=(1e-2, 1.0),
        ratios=((4, 1), (1, 1)),
        looks=(4,),
    )
    return replace(plan, size=size)


def _cells(plan: Plan) -> Iterator[Cell]:
    smaller = of_hosts(plan)
    yield from cells_at_best(smaller, HOST_METHODS)
    yield from cells_by_rate(smaller, {**HOST_METHODS, "own categories": _OWN_CATEGORIES})


def _parts(plan: Plan) -> list[Part]:
    smaller = of_hosts(plan)
    rates = smaller.size.rates
    smaller = where_known(smaller, HOST_METHODS.values(), (*rates, None))
    smaller = where_known(smaller, [_OWN_CATEGORIES], rates)
    if not smaller.sets:
        return []
    size = smaller.size
    counts = {"seeds": size.seeds, "rates": len(size.tuned_rates), "lambdas": len(size.lambdas)}
    text = _TEXT.format(**counts, folds=smaller.tuning_folds)
    parts: list[Part] = [Text(text), quality_table(smaller, HOST_METHODS)]
    parts += rate_tables(smaller, HOST_METHODS, "By rate, mean over the sets:")
    header = ["", *(f"{rate:g}" for rate in rates)]
    return [*parts, Text(_BY_SET_TEXT), Table(header, _by_set(smaller))]


def _by_set(plan: Plan) -> list[list[str]]:
    """MVS in LightGBM, on counters here, and on categories here, for each set and rate."""
    methods = (
        HOST_METHODS["mvs"],
        HOST_METHODS["mvs drawn"],
        HOST_METHODS["ours"],
        _OWN_CATEGORIES,
    )
    found = [(method.title, changes_by_rate(plan, method)) for method in methods]
    rows = []
    for name in plan.sets:
        for title, by_rate in found:
            cells = (with_spread(of[name]) for of in by_rate.values())
            rows.append([f"{SETS[name].title}: {title}", *cells])
    return rows


HOSTS = Experiment("Other libraries as hosts", _cells, _parts)
