"""Quality at the best rate: the paper's table 2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from mvsboost.report import Part, Table, Text
from research.plan import METHODS, NO_SAMPLING, Cell, Experiment, Method, Plan, Setting
from research.sets import SETS
from research.summaries import average, change, percent, where_known, with_spread

__all__ = ["PAPER_QUALITY", "QUALITY", "cells_at_best", "paper_quality", "quality_table"]

_ORDER = ("internet", "adult", "amazon", "upselling", "kick", "churn", "click")
PAPER_QUALITY: dict[str, dict[str, float]] = {
    name: dict(zip(_ORDER, values, strict=True))
    for name, values in {
        "sgb": (-1.13, 0.81, -1.14, 0.03, -0.14, 0.14, -0.14),
        "goss": (-0.64, -0.11, -1.23, 0.07, -0.10, 0.16, -0.09),
        "mvs": (-3.03, -0.24, -1.78, -0.07, -0.19, 0.17, -0.04),
        "adaptive": (-2.79, -0.13, -1.57, -0.28, -0.19, 0.07, -0.03),
    }.items()
}
"""Change of 1 − AUC in % at the best rate, by method and set."""

_TEXT = (
    "Change of 1 − AUC on the test part against the mean of no sampling, mean and standard "
    "deviation over {} seeds, at the rate and setting that folds of the training part found best. "
    "A star marks changes that a paired t-test over the seeds gives a probability under 5% to be "
    "chance. The last column is the mean without the sets that stand in for others, the paper's is "
    "over the same sets; its mean before that is over all seven that it has."
)


def paper_quality(key: str, names: Sequence[str]) -> float:
    """The paper's mean over those of the sets that it has; NaN if there are none.

    Its Click is the whole; the first tenth stands beside the same figure.
    """
    asked = ["click" if name == "whole click" else name for name in names]
    theirs = [PAPER_QUALITY[key][name] for name in asked if name in PAPER_QUALITY[key]]
    return sum(theirs) / len(theirs) if theirs else math.nan


def cells_at_best(plan: Plan, methods: Mapping[str, Method]) -> Iterator[Cell]:
    """Every method at the rate and setting that folds find best, and no sampling."""
    for name in plan.sets:
        for method in methods.values():
            yield from plan.judged(name, method, NO_SAMPLING)
            yield from plan.tuned(name, method)


def quality_table(plan: Plan, methods: Mapping[str, Method]) -> Table:
    """A row for each method, all of whose results are known, and the paper's under those it has."""
    rows, published = [], plan.published.sets
    for key, method in methods.items():
        known = {name: change(plan, name, method) for name in plan.sets}
        found = {name: one[0] for name, one in known.items() if one is not None}
        of_paper = average([found[name] for name in published])
        means = average(list(found.values())), of_paper
        rows.append([method.title, *map(with_spread, (*found.values(), *means))])
        if key in PAPER_QUALITY:
            cells = [percent(paper_quality(key, [name])) for name in plan.sets]
            of_all, of_these = (paper_quality(key, names) for names in (_ORDER, plan.sets))
            rows.append([f"{method.title}, paper", *cells, percent(of_all), percent(of_these)])
    return Table(["", *(SETS[name].title for name in plan.sets), "mean", "no stand-ins"], rows)


def _chosen_rows(plan: Plan) -> list[list[str]]:
    """The settings that folds chose."""
    return [
        [method.title, *(_short(plan.chosen(name, method)) for name in plan.sets)]
        for method in METHODS.values()
    ]


def _short(chosen: Setting | None) -> str:
    """A setting in a few characters.

    Examples
    --------
    >>> _short({"sampler": {"name": "mvs", "rate": 0.5, "lam": "leaf"}, "second_look": 4})
    'rate 0.5, λ leaf, K 4'
    """
    if chosen is None:
        return ""
    sampler = chosen["sampler"]
    if "top_rate" in sampler:
        return f"{sampler['top_rate']:.3g} + {sampler['other_rate']:.3g}"
    words = [f"rate {sampler['rate']:g}"]
    if "lam" in sampler:
        lam = sampler["lam"]
        words.append(f"λ {lam if isinstance(lam, str) else format(lam, 'g')}")
    if chosen["second_look"]:
        words.append(f"K {chosen['second_look']}")
    return ", ".join(words)


def _cells(plan: Plan) -> Iterator[Cell]:
    return cells_at_best(plan.thorough, METHODS)


def _parts(plan: Plan) -> list[Part]:
    plan = where_known(plan.thorough, METHODS.values())
    if not plan.sets:
        return []
    table = quality_table(plan, METHODS)
    baselines: list[str] = []
    for name in plan.sets:
        error = plan.mean_error(plan.judged(name, METHODS["mvs"], NO_SAMPLING))
        baselines.append("" if error is None else f"{error:.4f}")
    rows = [["no sampling, 1 − AUC", *baselines, "", ""], *table.rows]
    chosen = Table(table.header[:-2], _chosen_rows(plan))
    return [
        Text(_TEXT.format(plan.size.seeds)),
        Table(table.header, rows),
        Text("What folds chose:"),
        chosen,
    ]


QUALITY = Experiment("Quality at the best rate", _cells, _parts)
