"""Tiny fits that make Numba compile, and keep on disk, every kernel of the CPU backend."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.composite import CompositeBackend
from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.compilation import keep_quiet
from mvsboost.boosting import TrainConfig, train
from mvsboost.data import Dataset
from mvsboost.data.binning import sampled_rows
from mvsboost.estimators import MVSClassifier, MVSRegressor
from mvsboost.exact.dtypes import MAX_BINS
from mvsboost.objectives import Logistic
from mvsboost.runtime.threads import ThreadPool
from mvsboost.sampling import GOSS, MVS, SGB
from mvsboost.trees import TreeParams

__all__ = ["warm_up"]

_ROWS = 600

_SETTINGS: tuple[dict[str, Any], ...] = (
    {"sampler": "none"},
    {"sampler": MVS(rate=0.5), "second_look": 0},
    {"sampler": MVS(rate=0.5), "second_look": 2},
    {"sampler": SGB(rate=0.5), "second_look": 0, "leaf_values": "sample"},
    {"sampler": GOSS(), "max_leaves": None, "max_depth": 2},
)


def warm_up() -> float:
    """Compile what fits and predictions of the built-in objectives use.

    Small models are trained and asked for predictions and contributions: with every objective
    that has a kernel, with and without sampling, second look, row weights, missing values,
    categories, flags and an evaluation set.

    Returns
    -------
    float
        Seconds it took. A second call, in any process, only loads what the first one left.
    """
    keep_quiet()
    start = time.perf_counter()
    table, weight = _table(), np.linspace(0.5, 1.5, _ROWS)
    for estimator, y in _estimators():
        estimator.fit(table, y)
        estimator.fit(table, y, sample_weight=weight, eval_set=[(table, y)])
        estimator.predict(table)
        estimator.apply(table)
        estimator.predict_contributions(table)
    estimator.predict_contributions(table, interactions=True)
    MVSClassifier(n_estimators=1).fit(_flags(), _classes())
    # these few rows are not worth two threads
    ThreadPool(2).together(lambda thread: None, 2)
    ThreadPool(2).whole(2, lambda *pool: None)
    sampled_rows(2, seed=0, sample_rows=1)  # these few rows are all looked at to find edges
    _grow_verb_by_verb(Dataset.from_data(table, _classes(), n_classes=2))
    return time.perf_counter() - start


def _grow_verb_by_verb(dataset: Dataset) -> None:
    """Grow trees as large data does; a composite never grows one in a single call."""
    for second_look in (0, 2):
        tree = TreeParams(second_look=second_look)
        config = TrainConfig(Logistic(), MVS(rate=0.5), n_estimators=2, tree=tree)
        train(
            dataset,
            config,
            backend=lambda rows, objective: CompositeBackend([CPUBackend(rows, objective)]),
        )


def _estimators() -> Iterator[tuple[Any, NDArray[Any]]]:
    """Estimators, each with a target it can be fitted to."""
    for settings in _SETTINGS:
        yield MVSClassifier(n_estimators=2, **settings), _classes()
    rows = np.arange(_ROWS)
    yield MVSClassifier(n_estimators=2), rows % 3
    for objective in ("squared", "absolute", "quantile", "poisson"):
        yield MVSRegressor(n_estimators=2, objective=objective), rows % 5


def _classes() -> NDArray[np.bool_]:
    return np.arange(_ROWS) % 7 > 3


def _table() -> dict[str, NDArray[Any]]:
    """Columns of every kind: whole and real numbers, missing values, few and many categories."""
    rows = np.arange(_ROWS)
    return {
        "whole": rows % 11,
        "real": np.where(rows % 13, np.sqrt(rows % 101), np.nan),
        "few": np.array([f"c{row % 5}" for row in rows], dtype=object),
        "many": np.array([f"c{row % (MAX_BINS + 20)}" for row in rows], dtype=object),
    }


def _flags() -> NDArray[np.bool_]:
    """Columns that are nearly always the same, of which the backend makes lists."""
    flags: NDArray[np.bool_] = np.arange(_ROWS)[:, None] % 20 == np.arange(16)
    return flags
