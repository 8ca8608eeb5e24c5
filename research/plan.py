"""Which cells there are to run: sizes, methods with their settings, and what is known so far.

A plan knows the size of the run, the sets and the store. An experiment asks it for
cells; those that depend on others (a sampler tuned on folds is judged on the test part)
come up once these are done, so a run asks again until nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mvsboost.report import Part
from research.sets import PAPER_SETS, SETS
from research.store import Store

__all__ = [
    "METHODS",
    "NO_SAMPLING",
    "SIZES",
    "Cell",
    "Experiment",
    "Method",
    "Plan",
    "Setting",
    "Size",
]

Cell = dict[str, Any]
"""Everything that determines one result; see `engines.fit_and_judge`."""

Setting = dict[str, Any]
"""What tuning chooses: ``sampler``, ``leaf_values``, ``second_look`` of a cell."""


@dataclass(frozen=True)
class Size:
    """How much of the paper's protocol a run follows.

    Attributes
    ----------
    effort : {0, 1, 2}
        What experiments of their own protocol go by: quick, standard, full.
    pace : float
        Learning rates under it are raised to it, and the number of trees is divided by as
        much. 0 is the published protocol. Sampling costs more quality at a higher learning
        rate, since fewer trees average out its noise.
    seeds : int
        Fits on the test part.
    folds, small_folds : int
        Folds of the training part that tuning uses, out of 5; of small sets, where folds
        cost less and differ more.
    rates : sequence of float
        Rates that are judged.
    more_rates : sequence of float
        Rates that tuning may choose as well.
    lambdas : sequence of float
    ratios : sequence of pairs
        Large to small gradients, for GOSS.
    looks : sequence of int
        Features that a second look may be tuned to.
    sets : sequence of str
    experiments : sequence of str
        What is run unless asked otherwise; all if empty.
    """

    effort: int
    pace: float
    seeds: int
    folds: int
    small_folds: int
    rates: Sequence[float]
    more_rates: Sequence[float]
    lambdas: Sequence[float]
    ratios: Sequence[tuple[int, int]]
    looks: Sequence[int]
    sets: Sequence[str]
    experiments: Sequence[str] = ()

    @property
    def tuned_rates(self) -> tuple[float, ...]:
        """All rates that tuning may choose."""
        return *self.rates, *self.more_rates


_TUNED_RATES = (0.6, 0.7, 0.8, 0.9)
PAPER_RATES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
_RATIOS = ((5, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 5))
N_FOLDS = 5
N_SEEDS = 10

SIZES: dict[str, Size] = {
    "quick": Size(
        effort=0,
        pace=0.3,
        seeds=2,
        folds=1,
        small_folds=1,
        rates=(0.1, 0.3),
        more_rates=(),
        lambdas=(0.01, 1.0),
        ratios=((2, 1), (1, 2)),
        looks=(4,),
        sets=("adult",),
        # the sets of the suite are not part of the package, and large data are not quick
        experiments=(
            "preparation",
            "quality",
            "rates",
            "time",
            "trees",
            "theory",
            "hosts",
            "ablation",
        ),
    ),
    "standard": Size(
        effort=1,
        pace=0.02,
        seeds=3,
        folds=2,
        small_folds=N_FOLDS,
        rates=PAPER_RATES,
        more_rates=(0.65, 0.8),
        lambdas=(1e-4, 1e-2, 1e-1, 1.0),
        ratios=((4, 1), (1, 1), (1, 4)),
        looks=(2, 4, 8),
        sets=tuple(PAPER_SETS),
    ),
    "full": Size(
        effort=2,
        pace=0.0,
        seeds=N_SEEDS,
        folds=N_FOLDS,
        small_folds=N_FOLDS,
        rates=PAPER_RATES,
        more_rates=_TUNED_RATES,
        lambdas=tuple(10.0**k for k in range(-6, 4)),
        ratios=_RATIOS,
        looks=(1, 2, 4, 8),
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
        From a rate and a size to settings, one of which is chosen on folds.
    engine : str
        Who grows the trees.
    view : {"native", "counters"}
        How the engine sees categories.
    """

    title: str
    settings: Callable[[float, Size], list[Setting]]
    engine: str = "mvsboost"
    view: str = "native"


def setting(sampler: Cell, leaf_values: str = "sample", second_look: int = 0) -> Setting:
    """What a cell does besides the set and its parameters."""
    return {"sampler": sampler, "leaf_values": leaf_values, "second_look": second_look}


NO_SAMPLING = setting({"name": "none"}, "all")


def sgb(rate: float, size: Size) -> list[Setting]:
    """Stochastic gradient boosting has nothing to tune."""
    return [setting({"name": "sgb", "rate": rate})]


def goss_sampler(rate: float, large: int = 1, small: int = 1) -> Cell:
    """GOSS with so many rows of large gradients to so many of others."""
    return {
        "name": "goss",
        "top_rate": rate * large / (large + small),
        "other_rate": rate * small / (large + small),
    }


def goss(rate: float, size: Size) -> list[Setting]:
    """GOSS with several ratios of large to small gradients."""
    return [setting(goss_sampler(rate, *ratio)) for ratio in size.ratios]


def mvs(rate: float, size: Size) -> list[Setting]:
    """The paper's MVS with several λ."""
    return [setting({"name": "mvs", "rate": rate, "lam": lam}) for lam in size.lambdas]


def adaptive(rate: float, size: Size) -> list[Setting]:
    """The paper's MVS with λ from the root."""
    return [setting({"name": "mvs", "rate": rate, "lam": "root"})]


def _all_leaves(rate: float, size: Size) -> list[Setting]:
    return [setting({"name": "mvs", "rate": rate, "lam": "leaf"}, "all")]


def _second_look(rate: float, size: Size) -> list[Setting]:
    return [setting({"name": "mvs", "rate": rate, "lam": "leaf"}, "all", k) for k in size.looks]


def _tuned(rate: float, size: Size) -> list[Setting]:
    """Everything that MVS can be tuned to here."""
    kinds = (mvs, adaptive, _all_leaves, _second_look)
    return [setting for kind in kinds for setting in kind(rate, size)]


METHODS: dict[str, Method] = {
    "sgb": Method("SGB", sgb),
    "goss": Method("GOSS", goss),
    "mvs": Method("MVS", mvs),
    "adaptive": Method("MVS adaptive", adaptive),
    "all leaves": Method("MVS, leaves from all rows", _all_leaves),
    "second look": Method("MVS, second look", _second_look),
    "tuned": Method("MVS, all of these tuned", _tuned),
}
"""The paper's methods, and this library's beside them."""


@dataclass(frozen=True)
class Plan:
    """A size, the sets, what is known so far, and where the data lie."""

    size: Size
    sets: Sequence[str]
    store: Store
    folder: Path | None = None

    @property
    def published(self) -> Plan:
        """The same with the paper's own sets alone, without those that stand in for others."""
        return replace(self, sets=[name for name in self.sets if not SETS[name].stands_in])

    @property
    def on_every_fold(self) -> Plan:
        """The same with the paper's folds of every set, unless the run is a quick one."""
        if self.size.effort == 0:
            return self
        return replace(self, size=replace(self.size, folds=N_FOLDS, small_folds=N_FOLDS))

    @property
    def thorough(self) -> Plan:
        """The same with the paper's folds and seeds on every set, unless the run is a quick one."""
        if self.size.effort == 0:
            return self
        every = self.on_every_fold
        return replace(every, size=replace(every.size, seeds=N_SEEDS))

    @property
    def names_sets(self) -> bool:
        """Whether other sets were asked for than a run of this size has."""
        return list(self.sets) != list(self.size.sets)

    @property
    def tuning_folds(self) -> str:
        """How many folds settings are chosen on, in words."""
        small, others = self.size.small_folds, self.size.folds
        told = f"{small} folds of the training part" if small > 1 else "a fold of the training part"
        return told if small == others else f"{told} ({others} of sets over 50,000 rows)"

    def cell(
        self,
        name: str,
        setting: Mapping[str, Any],
        seed: int,
        *,
        fold: int = -1,
        engine: str = "mvsboost",
        view: str = "native",
    ) -> Cell:
        """A cell with the tuned parameters of a set, at this plan's pace."""
        info = SETS[name]
        haste = max(1.0, self.size.pace / info.learning_rate)
        return {
            "set": name,
            "engine": engine,
            "view": view,
            **setting,
            "trees": round(info.trees / haste),
            "learning_rate": info.learning_rate * haste,
            "tree": dict(info.tree),
            "seed": seed,
            "fold": fold,
            "folds": N_FOLDS if fold >= 0 else 0,
        }

    def folds(self, name: str) -> range:
        """The folds of a set that tuning uses."""
        return range(self.size.small_folds if SETS[name].small else self.size.folds)

    def on_folds(self, name: str, method: Method, setting: Setting) -> list[Cell]:
        """The cells that a setting is tuned by."""
        engine, view = method.engine, method.view
        return [
            self.cell(name, setting, 0, fold=fold, engine=engine, view=view)
            for fold in self.folds(name)
        ]

    def every_setting(self, name: str, methods: Iterable[Method]) -> Iterator[Cell]:
        """No sampling and all that tuning chooses from, on folds."""
        for method in methods:
            for one in (NO_SAMPLING, *self.settings(method)):
                yield from self.on_folds(name, method, one)

    def judged(self, name: str, method: Method, setting: Setting) -> list[Cell]:
        """A setting on the test part, for all seeds."""
        engine, view = method.engine, method.view
        seeds = range(self.size.seeds)
        return [self.cell(name, setting, seed, engine=engine, view=view) for seed in seeds]

    def settings(self, method: Method, rate: float | None = None) -> list[Setting]:
        """What tuning chooses from: at one rate, or at all of them."""
        rates = self.size.tuned_rates if rate is None else (rate,)
        return [setting for rate in rates for setting in method.settings(rate, self.size)]

    def chosen(self, name: str, method: Method, rate: float | None = None) -> Setting | None:
        """The setting of least error on folds, at one rate or at any; None while unknown."""
        settings = self.settings(method, rate)
        if len(settings) == 1:
            return settings[0]
        errors = [self.mean_error(self.on_folds(name, method, setting)) for setting in settings]
        known = [error for error in errors if error is not None]
        return settings[int(np.argmin(known))] if len(known) == len(errors) else None

    def tuned(self, name: str, method: Method, rate: float | None = None) -> Iterator[Cell]:
        """All cells of a method at one rate, or at the best: folds first, then the test part."""
        settings = self.settings(method, rate)
        if len(settings) > 1:
            for setting in settings:
                yield from self.on_folds(name, method, setting)
        chosen = self.chosen(name, method, rate)
        if chosen is not None:
            yield from self.judged(name, method, chosen)

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
    """A title, the cells that are to be run, and what the report shows of them.

    Attributes
    ----------
    title : str
    cells : callable
        From a plan to the cells that can be run now; those that are done may be among them.
    parts : callable
        From a plan to the parts of the report; none while there are no results.
    """

    title: str
    cells: Callable[[Plan], Iterator[Cell]]
    parts: Callable[[Plan], list[Part]]
