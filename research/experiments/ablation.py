"""Ablation: one choice at a time, each at its own best number of trees, on folds only.

What it shows decides the library's defaults; the test part is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.report import Part, Table, Text
from research.plan import (
    N_FOLDS,
    NO_SAMPLING,
    Cell,
    Experiment,
    Plan,
    Setting,
    goss_sampler,
    setting,
)
from research.summaries import FIFTH_TESTED, percent, standard_error

__all__ = ["ABLATION", "VARIANTS"]

_RATES = ((0.1,), (0.1, 0.3), (0.02, 0.1, 0.3))
_PACE = 2.0  # of the other experiments'
_TEXT = (
    "Change of 1 − AUC on {folds} against no sampling, mean over sets and folds, everybody stopped "
    "at the number of trees of least loss on the fold, of at most twice as many as were tuned, so "
    "that a noisier step does not pass for a better one. The first line is the base: MVS, λ by the "
    "last tree's leaves, leaf values from all rows, no second look; every other line changes one "
    "thing. In brackets on how many of the sets it is better than the base, and the standard error "
    "of its difference to the base, as far as folds tell it, which share rows. Where half of the "
    "rows decide, leaf values come from that half too. The score and λ of a named system are all "
    "that is taken from it; those of the paper are λ root, those of XGBoost λ 0.1. SGB and GOSS "
    "too have leaf values from all rows here; GOSS takes as many rows of large gradients as of "
    "others."
)
_HASTE = " Learning rates under {pace:g} are raised to it, twice as much as elsewhere."
_LEVELS_TEXT = (
    "A draw for each tree or for each level, in a small program of its own (trees of depth 5, "
    "counters in place of categories), against the same program without sampling:"
)


Draw = Callable[[float], Cell]
"""From a rate to a sampler."""


def _mvs(**changes: Any) -> Draw:
    return lambda rate: {"name": "mvs", "rate": rate, "lam": "leaf", **changes}


_OURS = _mvs()


def _as_in(system: str) -> Draw:
    return lambda rate: {"name": "variant", "rate": rate, "variant": system}


def _sgb(rate: float) -> Cell:
    return {"name": "sgb", "rate": rate}


@dataclass(frozen=True)
class _Variant:
    """A title, and what it does instead of the base."""

    title: str
    draw: Draw = _OURS
    leaf_values: str = "all"
    second_look: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    def setting(self, rate: float) -> Setting:
        return setting(self.draw(rate), self.leaf_values, self.second_look)


_BASE = _Variant("base")
VARIANTS = (
    _BASE,
    *(_Variant(f"second look {k}", second_look=k) for k in (1, 2, 4, 8)),
    _Variant("second look 4, half of the rows decide", second_look=4, more={"decider": [0.5, 0.1]}),
    _Variant("leaf values from the sample", leaf_values="sample"),
    *(_Variant(f"λ {lam}", _mvs(lam=lam)) for lam in ("root", "catboost", 0.01, 0.1, 1.0, 10.0)),
    *(
        _Variant(f"score and λ of {name}", _as_in(name))
        for name in ("paper", "catboost", "xgboost", "fork")
    ),
    _Variant("a draw of fixed size", _mvs(name="systematic", ordered=False)),
    _Variant("a systematic draw, by gradient", _mvs(name="systematic", ordered=True)),
    _Variant("SGB", _sgb),
    _Variant("GOSS", goss_sampler),
    _Variant("SGB, second look 4", _sgb, second_look=4),
    _Variant("GOSS, second look 4", goss_sampler, second_look=4),
)
"""The base, and what is changed in it."""


def _smaller(plan: Plan) -> Plan:
    return replace(plan, size=replace(plan.size, pace=_PACE * plan.size.pace))


def _on_folds(plan: Plan, name: str, one: Setting, more: dict[str, Any]) -> list[Cell]:
    cells = []
    for fold in plan.folds(name):
        cell = _smaller(plan).cell(name, one, 0, fold=fold)
        trees = cell["trees"]
        cells.append({**cell, "trees": 2 * trees, "patience": max(20, trees // 5), **more})
    return cells


def _by_levels(plan: Plan, name: str, rate: float, fresh: bool) -> list[Cell]:
    """Cells of the small program that can draw for each level."""
    trees = (20, 100, 300)[plan.size.effort]
    return [
        {
            "kind": "levels",
            "set": name,
            "fold": fold,
            "folds": N_FOLDS,
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
            for variant in VARIANTS:
                yield from _on_folds(plan, name, variant.setting(rate), variant.more)
            for fresh in (False, True):
                yield from _by_levels(plan, name, rate, fresh)


Changes = list[dict[str, NDArray[np.float64]]]
"""By rate: the changes on folds of each set that is known, in %."""


def _changes(
    plan: Plan, cells: Callable[[str, float], list[Cell]], without: Callable[[str], list[Cell]]
) -> Changes:
    found: Changes = []
    for rate in _RATES[plan.size.effort]:
        found.append({})
        for name in plan.sets:
            errors, base = plan.errors(cells(name, rate)), plan.errors(without(name))
            if errors is not None and base is not None:
                found[-1][name] = 100.0 * (np.array(errors) - base) / np.mean(base)
    return found


def _row(title: str, changes: Changes, base: Changes) -> list[str]:
    cells = []
    for ours, other in zip(changes, base, strict=True):
        differences = [ours[name] - other[name] for name in ours if name in other]
        better = sum(difference.mean() < 0 for difference in differences)
        mean = percent(float(np.mean([of.mean() for of in ours.values()]))) if ours else ""
        beside = f"({better} of {len(differences)}{_standard_error(differences)})"
        cells.append(f"{mean} {beside}" if ours and changes is not base else mean)
    return [title, *cells]


def _standard_error(differences: list[NDArray[np.float64]]) -> str:
    """That of the mean over sets, from the folds of each; empty where one has a single fold."""
    if any(len(difference) < 2 for difference in differences):
        return ""
    of_sets = [standard_error(one, FIFTH_TESTED) for one in differences]
    return f", ± {math.hypot(*of_sets) / len(of_sets):.2f}"


def _parts(plan: Plan) -> list[Part]:
    def variant(one: _Variant) -> Changes:
        return _changes(
            plan,
            lambda name, rate: _on_folds(plan, name, one.setting(rate), one.more),
            lambda name: _on_folds(plan, name, NO_SAMPLING, {}),
        )

    def levels(fresh: bool) -> Changes:
        return _changes(
            plan,
            lambda name, rate: _by_levels(plan, name, rate, fresh),
            lambda name: _by_levels(plan, name, 1.0, fresh=False),
        )

    base, once = variant(_BASE), levels(fresh=False)
    if not any(base):
        return []
    rows = [_row(one.title, base if one is _BASE else variant(one), base) for one in VARIANTS]
    by_level = [
        _row("a draw for each tree", once, once),
        _row("a draw for each level", levels(fresh=True), once),
    ]
    header = ["", *(f"rate {rate:g}" for rate in _RATES[plan.size.effort])]
    pace = _smaller(plan).size.pace
    text = _TEXT.format(folds=plan.tuning_folds) + (_HASTE.format(pace=pace) if pace else "")
    return [Text(text), Table(header, rows), Text(_LEVELS_TEXT), Table(header, by_level)]


ABLATION = Experiment("Ablation", _cells, _parts)
