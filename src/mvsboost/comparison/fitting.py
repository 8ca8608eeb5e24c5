"""One fit of a setting on a fold: by this library, or by another one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.callbacks import Callback, Progress
from mvsboost.comparison.peers import PEERS
from mvsboost.comparison.plan import METHODS, Setting
from mvsboost.comparison.store import Fit
from mvsboost.comparison.tasks import Task
from mvsboost.data import Columns
from mvsboost.estimators import MVSClassifier, MVSRegressor

__all__ = ["Protocol", "Rows", "compile_kernels", "fit_on_fold"]

MOST_POINTS = 60
"""Points of a curve that are kept."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of the table."""

    columns: Columns
    target: NDArray[Any]
    weight: NDArray[np.float64] | None = None

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """These of them."""
        weight = None if self.weight is None else self.weight[rows]
        return Rows(self.columns.take(rows), self.target[rows], weight)


@dataclass(frozen=True)
class Protocol:
    """What all fits have in common.

    Attributes
    ----------
    task : Task
    parameters : mapping
        Of the estimator, sampler and second look left out. Which columns are categorical is
        known when the table has been read, and is for the estimator that comes of it.
    n_estimators, patience : int
        Trees of a fit at most, and how many may pass without an improvement.
    """

    task: Task
    parameters: Mapping[str, Any]
    n_estimators: int
    patience: int

    def estimator(self, **given: Any) -> MVSClassifier | MVSRegressor:
        """An estimator of the task."""
        kind = MVSClassifier if self.task.is_classification else MVSRegressor
        return kind(**{**self.parameters, **given})


class _Clock(Callback):
    """When each iteration ended."""

    def __init__(self) -> None:
        self.start, self.seconds = time.perf_counter(), list[float]()

    def after_iteration(self, progress: Progress) -> None:
        self.seconds.append(time.perf_counter() - self.start)


def fit_on_fold(
    protocol: Protocol, setting: Setting, fold: int, parts: tuple[Rows, Rows, Rows]
) -> Fit:
    """Fit on the first part, stop early by the second, judge on the third."""
    if setting.method in PEERS:
        return PEERS[setting.method](protocol, setting, fold, parts)
    training, held, judged = parts
    clock = _Clock()
    model = protocol.estimator(
        **setting.parameters(),
        categorical_features="auto",
        n_estimators=protocol.n_estimators,
        early_stopping_rounds=protocol.patience,
        callbacks=[clock],
    )
    model.fit(
        training.columns,
        training.target,
        training.weight,
        eval_set=[(held.columns, held.target, held.weight)],
    )
    seconds = time.perf_counter() - clock.start
    predict = model.predict_proba if protocol.task.is_classification else model.predict
    (losses,) = model.evals_result_["eval_0"].values()
    history = model.sampling_history_
    chosen = _thinned(len(losses))
    return Fit(
        setting,
        fold,
        error=protocol.task.error(judged.target, predict(judged.columns), judged.weight),
        seconds=seconds,
        trees=int(model.best_iteration_ or model.n_iter_),
        rows=float(np.mean([record["rows"] for record in history])),
        curve=[[i + 1, clock.seconds[i], losses[i]] for i in chosen],
        sampling=[
            [i + 1, *(_number(history[i][name]) for name in ("mu", "lam", "effective_sample_size"))]
            for i in chosen
        ],
    )


def _thinned(n: int) -> list[int]:
    """Positions of at most so many points, the last one with them."""
    spread = np.linspace(0, n - 1, min(n, MOST_POINTS)).round()
    chosen: list[int] = np.unique(spread.astype(int)).tolist()
    return chosen


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def compile_kernels(protocol: Protocol, rows: Rows) -> None:
    """Two trees of each method, so that no time that is measured holds compilation."""
    n = len(rows.target)
    few = rows.take(np.linspace(0, n - 1, min(2000, n)).astype(np.int64))
    for method in METHODS:
        parameters = Setting(method, 0.5).parameters()
        model = protocol.estimator(**parameters, categorical_features="auto", n_estimators=2)
        model.fit(few.columns, few.target, few.weight, eval_set=[(few.columns, few.target)])
