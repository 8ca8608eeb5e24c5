"""The error by sample rate: the paper's table 3 and its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from mvsboost.report import Part, Picture, Table, Text
from research.figures import plot_error_by_rate, to_png
from research.plan import METHODS, NO_SAMPLING, PAPER_RATES, Cell, Experiment, Method, Plan
from research.sets import SETS
from research.summaries import Change, average, change, percent, where_known, with_spread

__all__ = [
    "PAPER_BY_RATE",
    "RATES",
    "cells_by_rate",
    "changes_by_rate",
    "rate_tables",
    "tables_of_means",
]

PAPER_BY_RATE: dict[str, dict[float, float]] = {
    name: dict(zip(PAPER_RATES, values, strict=True))
    for name, values in {
        "sgb": (19.92, 11.35, 6.83, 4.99, 3.84, 3.03, 2.17, 1.57, 1.10, 0.42),
        "goss": (22.37, 12.75, 8.00, 5.32, 3.39, 2.25, 1.41, 0.75, 0.23, -0.16),
        "mvs": (13.93, 7.76, 3.69, 1.91, 0.74, 0.14, -0.21, -0.43, -0.41, -0.45),
        "adaptive": (13.72, 7.47, 3.71, 1.70, 0.55, -0.03, -0.07, -0.28, -0.32, -0.51),
    }.items()
}
"""Change of 1 − AUC in %, mean over the paper's seven sets, by method and rate."""

_TEXT = (
    "Change of 1 − AUC on the test part against no sampling at each sample rate, mean over the "
    "sets and its standard deviation, from those over seeds of the sets as if independent. λ of "
    "MVS, the ratio of GOSS and K of the second look were tuned at each rate on {folds}. Leaf "
    "values are from the sample for SGB, GOSS and the paper's two MVS, from all rows for the next "
    "two, and from either in the last line, which chooses among the settings of all MVS. The "
    "paper's mean is over its own seven sets."
)


def cells_by_rate(plan: Plan, methods: Mapping[str, Method]) -> Iterator[Cell]:
    """Every method at every rate: tuned on folds, then judged on the test part."""
    for name in plan.sets:
        for method in methods.values():
            yield from plan.judged(name, method, NO_SAMPLING)
            for rate in plan.size.rates:
                yield from plan.tuned(name, method, rate)


def changes_by_rate(plan: Plan, method: Method) -> dict[float, dict[str, Change]]:
    """A method's changes by rate and set, where they are known."""
    found: dict[float, dict[str, Change]] = {}
    for rate in plan.size.rates:
        known = {name: change(plan, name, method, rate) for name in plan.sets}
        found[rate] = {name: one[0] for name, one in known.items() if one is not None}
    return found


def _rate_rows(plan: Plan, methods: Mapping[str, Method]) -> list[list[str]]:
    """A row for each method, and the paper's under those that it has."""
    rows = []
    for key, method in methods.items():
        means = {
            rate: average(list(of_sets.values()))
            for rate, of_sets in changes_by_rate(plan, method).items()
        }
        rows.append([method.title, *map(with_spread, means.values())])
        if key in PAPER_BY_RATE:
            theirs = [PAPER_BY_RATE[key].get(rate, math.nan) for rate in means]
            rows.append([f"{method.title}, paper", *map(percent, theirs)])
    return rows


def rate_tables(plan: Plan, methods: Mapping[str, Method], text: str) -> list[Part]:
    """Means by rate under a text, with and without the sets that stand in for others."""
    header = ["", *(f"{rate:g}" for rate in plan.size.rates)]
    return tables_of_means(plan, text, header, partial(_rate_rows, methods=methods))


def tables_of_means(
    plan: Plan, text: str, header: Sequence[str], rows: Callable[[Plan], list[list[str]]]
) -> list[Part]:
    """Rows over the sets of a plan, and again without those that stand in for others if any do."""
    parts: list[Part] = [Text(text), Table(header, rows(plan))]
    if 0 < len(plan.published.sets) < len(plan.sets):
        without = Text("The same without the sets that stand in for others:")
        parts += [without, Table(header, rows(plan.published))]
    return parts


def _records(changes: Mapping[str, Mapping[float, Change]]) -> list[dict[str, Any]]:
    return [
        {
            "method": METHODS[key].title,
            "rate": rate,
            "change": one.mean,
            "low": one.mean - one.deviation,
            "high": one.mean + one.deviation,
        }
        for key, by_rate in changes.items()
        for rate, one in by_rate.items()
    ]


def _parts(plan: Plan) -> list[Part]:
    plan = where_known(plan, METHODS.values(), plan.size.rates)
    if not plan.sets:
        return []
    changes = {key: changes_by_rate(plan, method) for key, method in METHODS.items()}
    mean = {
        key: {rate: average(list(of_sets.values())) for rate, of_sets in by_rate.items()}
        for key, by_rate in changes.items()
    }
    parts = [
        *rate_tables(plan, METHODS, _TEXT.format(folds=plan.tuning_folds)),
        _picture(_records(mean), "mean over the sets"),
        Text("Each set by itself; bands are a standard deviation over the seeds:"),
    ]
    for name in plan.sets:
        of_set = {
            key: {rate: of_sets[name] for rate, of_sets in by_rate.items()}
            for key, by_rate in changes.items()
        }
        parts.append(_picture(_records(of_set), SETS[name].title))
    return parts


def _picture(records: list[dict[str, Any]], what: str) -> Picture:
    description = f"Change of 1 − AUC against the sample rate, {what}, one line for each method"
    return Picture(to_png(plot_error_by_rate(records, title=what)), description)


RATES = Experiment("Sample rates", partial(cells_by_rate, methods=METHODS), _parts)
