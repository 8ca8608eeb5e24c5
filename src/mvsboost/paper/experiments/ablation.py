"""Ablation: one choice at a time, each at its own best number of trees, on folds only.

What it shows decides the library's defaults; the test part is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mvsboost.paper.plan import NO_SAMPLING, Cell, Experiment, Plan, Setting, setting
from mvsboost.report import Part, Table, Text

__all__ = ["ABLATION", "VARIANTS"]

_RATES = ((0.1,), (0.1, 0.3), (0.02, 0.1, 0.3))
_PACE = 2.0  # of the other experiments'
_TEXT = (
    "Change of 1 − AUC on folds of the training part against no sampling, mean over sets and "
    "folds, everybody stopped at the number of trees of least loss on the fold, so that a noisier "
    "step does not pass for a better one. The first line is the base: MVS, λ by the last tree's "
    "leaves, leaf values from all rows, no second look; every other line changes one thing. In "
    "brackets on how many of the sets it is better than the base."
)


@dataclass(frozen=True)
class _Variant:
    """A title, and what it does instead of the base."""

    title: str
    sampler: dict[str, Any] = field(default_factory=dict)
    leaf_values: str = "all"
    second_look: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    def setting(self, rate: float) -> Setting:
        sampler = {"name": "mvs", "rate": rate, "lam": "leaf", **self.sampler}
        if sampler["name"] == "variant":
            del sampler["lam"]
        return setting(sampler, self.leaf_values, self.second_look)


_BASE = _Variant("base")
VARIANTS: dict[str, list[_Variant]] = {
    "second look": [
        _BASE,
        *(_Variant(f"second look {k}", second_look=k) for k in (1, 2, 4, 8)),
        _Variant(
            "second look 4, half of the rows decide", second_look=4, more={"decider": [0.5, 0.1]}
        ),
    ],
    "leaf values": [_BASE, _Variant("from the sample", leaf_values="sample")],
    "λ": [
        _BASE,
        *(_Variant(f"λ {lam}", {"lam": lam}) for lam in ("root", "catboost", 0.01, 0.1, 1.0, 10.0)),
    ],
    "as other systems read it": [
        _BASE,
        *(
            _Variant(f"as {name}", {"name": "variant", "variant": name})
            for name in ("paper", "catboost", "xgboost", "fork")
        ),
    ],
    "draws": [
        _BASE,
        _Variant("fixed size", {"name": "systematic", "ordered": False}),
        _Variant("systematic, by gradient", {"name": "systematic", "ordered": True}),
    ],
}
"""What is changed, by the choice that it is about."""


def _smaller(plan: Plan) -> Plan:
    return replace(plan, size=replace(plan.size, pace=_PACE * plan.size.pace))


def _on_folds(plan: Plan, name: str, one: Setting, more: dict[str, Any]) -> list[Cell]:
    cells = []
    for fold in plan.folds(name):
        cell = _smaller(plan).cell(name, one, 0, fold=fold)
        trees = cell["trees"]
        cells.append({**cell, "trees": 2 * trees, "patience": max(20, trees // 5), **more})
    return cells


def _variants() -> list[_Variant]:
    return [_BASE] + [v for group in VARIANTS.values() for v in group if v is not _BASE]


def _by_levels(plan: Plan, name: str, rate: float, fresh: bool) -> list[Cell]:
    """Cells of the small program that can draw for each level."""
    trees = (20, 100, 300)[plan.size.effort]
    return [
        {
            "kind": "levels",
            "set": name,
            "fold": fold,
            "folds": 5,
            "rate": rate,
            "lam": 0.1,
            "fresh": fresh,
            "depth": 5,
            "trees": trees,
            "learning_rate": 0.1,
            "l2": 1.0,
            "seed": 0,
        }
        for fold in plan.folds(name)
    ]


def _cells(plan: Plan) -> Iterator[Cell]:
    for name in plan.sets:
        yield from _on_folds(plan, name, NO_SAMPLING, {})
        yield from _by_levels(plan, name, 1.0, fresh=False)
        for rate in _RATES[plan.size.effort]:
            for variant in _variants():
                yield from _on_folds(plan, name, variant.setting(rate), variant.more)
            for fresh in (False, True):
                yield from _by_levels(plan, name, rate, fresh)


def _change(plan: Plan, cells: list[Cell], base: list[Cell]) -> float | None:
    errors, without = plan.mean_error(cells), plan.mean_error(base)
    return None if errors is None or without is None else 100.0 * (errors / without - 1.0)


def _row(
    title: str, by_rate: list[dict[str, float]], base: list[dict[str, float]]
) -> list[str] | None:
    if not any(by_rate):
        return None
    cells = []
    for ours, other in zip(by_rate, base, strict=True):
        both = [name for name in ours if name in other]
        better = sum(ours[name] < other[name] for name in both)
        mean = f"{np.mean(list(ours.values())):+.2f}%" if ours else ""
        cells.append(f"{mean} ({better} of {len(both)})" if ours is not other and ours else mean)
    return [title, *cells]


def _parts(plan: Plan) -> list[Part]:
    rates = _RATES[plan.size.effort]

    def changes(variant: _Variant) -> list[dict[str, float]]:
        return [
            _known(
                {
                    name: _change(
                        plan,
                        _on_folds(plan, name, variant.setting(rate), variant.more),
                        _on_folds(plan, name, NO_SAMPLING, {}),
                    )
                    for name in plan.sets
                }
            )
            for rate in rates
        ]

    def levels(fresh: bool) -> list[dict[str, float]]:
        return [
            _known(
                {
                    name: _change(
                        plan,
                        _by_levels(plan, name, rate, fresh),
                        _by_levels(plan, name, 1.0, fresh=False),
                    )
                    for name in plan.sets
                }
            )
            for rate in rates
        ]

    base, once = changes(_BASE), levels(fresh=False)
    rows = [
        row for v in _variants() if (row := _row(v.title, base if v is _BASE else changes(v), base))
    ]
    if not rows:
        return []
    by_level = [
        row
        for title, of in (("a draw for each tree", once), ("a draw for each level", levels(True)))
        if (row := _row(title, of, once))
    ]
    header = ["", *(f"rate {rate:g}" for rate in rates)]
    text = (
        "A draw for each tree or for each level, in a small program of its own (trees of depth 5, "
        "counters in place of categories), against the same program without sampling:"
    )
    return [Text(_TEXT), Table(header, rows), Text(text), Table(header, by_level)]


def _known(changes: dict[str, float | None]) -> dict[str, float]:
    return {name: change for name, change in changes.items() if change is not None}


ABLATION = Experiment("Ablation", _cells, _parts)
