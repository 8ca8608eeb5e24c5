"""Which cells an experiment is made of.

A plan knows the size of the run, the sets and the store. An experiment asks it for
cells; those that depend on others (a sampler tuned on folds is judged on the test part)
come up once these are done, so a run asks again until nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvsboost.paper.sets import PAPER_SETS
from mvsboost.paper.store import Store

__all__ = ["EXPERIMENTS", "METHODS", "SIZES", "Cell", "Experiment", "Method", "Plan", "Size"]

Cell = dict[str, Any]
"""Everything that determines one result; see `engines.fit_and_judge`."""

LARGEST_LEARNING_RATE = 0.3
SECOND_LOOK = 4


@dataclass(frozen=True)
class Size:
    """How much of the paper's protocol a run follows.

    Attributes
    ----------
    haste : float
        The learning rate is multiplied by it and the number of trees divided, as far as
        the learning rate stays under 0.3. 1 is the published protocol.
    seeds, folds : int
        Fits on the test part, and folds of the training part that tuning uses, out of 5.
    rates : sequence of float
        Rates that are judged.
    more_rates : sequence of float
        Rates that tuning may choose as well.
    lambdas : sequence of float
    ratios : sequence of pairs
        Large to small gradients, for GOSS.
    sets : sequence of str
    """

    haste: float
    seeds: int
    folds: int
    rates: Sequence[float]
    more_rates: Sequence[float]
    lambdas: Sequence[float]
    ratios: Sequence[tuple[int, int]]
    sets: Sequence[str]


_TUNED_RATES = (0.6, 0.7, 0.8, 0.9)
PAPER_RATES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
_RATIOS = ((5, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 5))
N_FOLDS = 5

SIZES: dict[str, Size] = {
    "quick": Size(
        haste=20,
        seeds=2,
        folds=1,
        rates=(0.1, 0.3),
        more_rates=(),
        lambdas=(0.01, 1.0),
        ratios=((2, 1), (1, 2)),
        sets=("adult",),
    ),
    "standard": Size(
        haste=5,
        seeds=5,
        folds=1,
        rates=PAPER_RATES,
        more_rates=_TUNED_RATES,
        lambdas=(1e-4, 1e-2, 1e-1, 1.0, 1e2),
        ratios=((4, 1), (1, 1), (1, 4)),
        sets=tuple(PAPER_SETS),
    ),
    "full": Size(
        haste=1,
        seeds=10,
        folds=N_FOLDS,
        rates=PAPER_RATES,
        more_rates=_TUNED_RATES,
        lambdas=tuple(10.0**k for k in range(-6, 4)),
        ratios=_RATIOS,
        sets=tuple(PAPER_SETS),
    ),
}


@dataclass(frozen=True)
class Method:
    """A way to choose rows, with the settings that tuning chooses from.

    Attributes
    ----------
    title : str
    settings : callable
        From a rate and a size to samplers, one of which is chosen on folds.
    leaf_values : {"sample", "all"}
    second_look : int
    """

    title: str
    settings: Callable[[float, Size], list[Cell]]
    leaf_values: str = "sample"
    second_look: int = 0


def _sgb(rate: float, size: Size) -> list[Cell]:
    return [{"name": "sgb", "rate": rate}]


def _goss(rate: float, size: Size) -> list[Cell]:
    return [
        {
            "name": "goss",
            "top_rate": rate * large / (large + small),
            "other_rate": rate * small / (large + small),
        }
        for large, small in size.ratios
    ]


def _mvs(rate: float, size: Size) -> list[Cell]:
    return [{"name": "mvs", "rate": rate, "lam": lam} for lam in size.lambdas]


def _adaptive(rule: str) -> Callable[[float, Size], list[Cell]]:
    return lambda rate, size: [{"name": "mvs", "rate": rate, "lam": rule}]


METHODS: dict[str, Method] = {
    "sgb": Method("SGB", _sgb),
    "goss": Method("GOSS", _goss),
    "mvs": Method("MVS", _mvs),
    "adaptive": Method("MVS adaptive", _adaptive("root")),
    "all leaves": Method("MVS, leaves from all rows", _adaptive("leaf"), leaf_values="all"),
    "second look": Method(
        f"MVS, second look {SECOND_LOOK}",
        _adaptive("leaf"),
        leaf_values="all",
        second_look=SECOND_LOOK,
    ),
}
"""The paper's methods, and this library's beside them."""


@dataclass(frozen=True)
class Plan:
    """A size, the sets, and what is known so far."""

    size: Size
    sets: Sequence[str]
    store: Store

    def cell(
        self,
        name: str,
        sampler: Cell,
        seed: int,
        *,
        engine: str = "mvsboost",
        view: str = "native",
        fold: int = -1,
        leaf_values: str = "all",
        second_look: int = 0,
    ) -> Cell:
        """A cell with the tuned parameters of a set, at this plan's haste."""
        info = PAPER_SETS[name]
        haste = max(1.0, min(self.size.haste, LARGEST_LEARNING_RATE / info.learning_rate))
        return {
            "set": name,
            "engine": engine,
            "view": view,
            "sampler": sampler,
            "leaf_values": leaf_values,
            "second_look": second_look,
            "trees": round(info.trees / haste),
            "learning_rate": info.learning_rate * haste,
            "tree": dict(info.tree),
            "seed": seed,
            "fold": fold,
            "folds": N_FOLDS if fold >= 0 else 0,
        }

    def with_method(
        self, name: str, method: Method, sampler: Cell, seed: int, fold: int = -1
    ) -> Cell:
        """A method with one of its settings."""
        return self.cell(
            name,
            sampler,
            seed,
            fold=fold,
            leaf_values=method.leaf_values,
            second_look=method.second_look,
        )

    def on_folds(self, name: str, method: Method, sampler: Cell) -> list[Cell]:
        """The cells that a setting is tuned by."""
        return [
            self.with_method(name, method, sampler, seed=0, fold=fold)
            for fold in range(self.size.folds)
        ]

    def settings(self, method: Method, rate: float | None = None) -> list[Cell]:
        """What tuning chooses from: at one rate, or at all of them."""
        rates = (*self.size.rates, *self.size.more_rates) if rate is None else (rate,)
        return [setting for rate in rates for setting in method.settings(rate, self.size)]

    def chosen(self, name: str, method: Method, rate: float | None = None) -> Cell | None:
        """The setting of least error on folds, at one rate or at any; None while unknown."""
        settings = self.settings(method, rate)
        if len(settings) == 1:
            return settings[0]
        errors = [self.mean_error(self.on_folds(name, method, setting)) for setting in settings]
        known = [error for error in errors if error is not None]
        return settings[int(np.argmin(known))] if len(known) == len(errors) else None

    def errors(self, cells: Sequence[Cell]) -> list[float] | None:
        """The error of each cell; None while any is missing."""
        found = [self.store.get(cell) for cell in cells]
        if any(result is None for result in found):
            return None
        return [result["error"] for result in found if result is not None]

    def mean_error(self, cells: Sequence[Cell]) -> float | None:
        """The mean over cells; None while any is missing."""
        found = self.errors(cells)
        return None if found is None else float(np.mean(found))


@dataclass(frozen=True)
class Experiment:
    """A name for the command line, a title for the page, and its cells."""

    title: str
    cells: Callable[[Plan], Iterator[Cell]]


def _preparation(plan: Plan) -> Iterator[Cell]:
    """LightGBM without sampling, on counters: the figures that the paper starts from."""
    for name in plan.sets:
        if not PAPER_SETS[name].stands_in:
            yield preparation_cell(plan, name)


def preparation_cell(plan: Plan, name: str) -> Cell:
    """The check of one set's preparation."""
    return plan.cell(name, {"name": "none"}, 0, engine="lightgbm", view="counters")


def baselines(plan: Plan, name: str) -> list[Cell]:
    """No sampling on the test part, for all seeds."""
    return [plan.cell(name, {"name": "none"}, seed) for seed in range(plan.size.seeds)]


def _quality(plan: Plan) -> Iterator[Cell]:
    """Every method at the rate and setting that folds find best."""
    for name in plan.sets:
        yield from baselines(plan, name)
        for method in METHODS.values():
            yield from _cells_at(plan, name, method, None)


def _rates(plan: Plan) -> Iterator[Cell]:
    """Every method at every rate: tuned on folds, then judged on the test part."""
    for name in plan.sets:
        yield from baselines(plan, name)
        for method in METHODS.values():
            for rate in plan.size.rates:
                yield from _cells_at(plan, name, method, rate)


def _cells_at(plan: Plan, name: str, method: Method, rate: float | None) -> Iterator[Cell]:
    settings = plan.settings(method, rate)
    if len(settings) > 1:
        for setting in settings:
            yield from plan.on_folds(name, method, setting)
    chosen = plan.chosen(name, method, rate)
    if chosen is not None:
        yield from judged(plan, name, method, chosen)


def judged(plan: Plan, name: str, method: Method, sampler: Mapping[str, Any]) -> list[Cell]:
    """A chosen setting on the test part, for all seeds."""
    seeds = range(plan.size.seeds)
    return [plan.with_method(name, method, dict(sampler), seed) for seed in seeds]


EXPERIMENTS: dict[str, Experiment] = {
    "preparation": Experiment("The preparation of the data", _preparation),
    "quality": Experiment("Quality at the best rate", _quality),
    "rates": Experiment("Sample rates", _rates),
}
"""Experiments by name, in the order of the report."""
