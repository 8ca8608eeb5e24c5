"""What a target asks for: an estimator, folds, and the error that is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.data.targets import labels_of, numbers_of, vector_of
from mvsboost.errors import DataError, ParameterError

__all__ = ["TASKS", "Task", "folds_of", "task_of"]

Weight = NDArray[np.float64] | None
"""Of rows; None where all count alike."""

MOST_CLASSES = 20
"""Distinct whole numbers up to which a target is taken for classes."""


@dataclass(frozen=True)
class Task:
    """A kind of target.

    Attributes
    ----------
    name : str
    measure : str
        What is kept or lost, as it is shown.
    error : callable
        ``error(y, predictions, weight or None) -> float``, less is better.
    error_name : str
    is_classification : bool
    """

    name: str
    measure: str
    error: Callable[[NDArray[Any], NDArray[np.float64], Weight], float]
    error_name: str
    is_classification: bool


def _area_missed(y: NDArray[Any], p: NDArray[np.float64], weight: Weight) -> float:
    from sklearn.metrics import roc_auc_score

    return 1.0 - float(roc_auc_score(y, p[:, 1], sample_weight=weight))


def _log_loss(y: NDArray[Any], p: NDArray[np.float64], weight: Weight) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(y, p, sample_weight=weight, labels=np.arange(p.shape[1])))


def _rmse(y: NDArray[Any], p: NDArray[np.float64], weight: Weight) -> float:
    return float(np.sqrt(np.average((y - p) ** 2, weights=weight)))


TASKS = {
    task.name: task
    for task in (
        Task("two classes", "AUC", _area_missed, "1 − AUC", True),
        Task("classes", "log loss", _log_loss, "log loss", True),
        Task("numbers", "error", _rmse, "RMSE", False),
    )
}


def task_of(y: Any, asked: str = "auto") -> tuple[Task, NDArray[Any], list[Any]]:
    """The task of a target; the target, of classes as codes; and the classes.

    Parameters
    ----------
    y : array-like
    asked : {"auto", "classification", "regression"}
        By default text, booleans and up to 20 distinct whole numbers are classes.

    Examples
    --------
    >>> task, codes, classes = task_of(["b", "a", "b"])
    >>> task.measure, codes.tolist(), classes
    ('AUC', [1, 0, 1], ['a', 'b'])
    >>> task_of([0.5, 1.5])[0].error_name
    'RMSE'
    """
    if asked not in ("auto", "classification", "regression"):
        raise ParameterError("task", asked, "'auto', 'classification' or 'regression'")
    values = vector_of(y)
    if asked == "regression" or (asked == "auto" and not _are_classes(values)):
        return TASKS["numbers"], numbers_of(values), []
    classes, codes = np.unique(labels_of(y), return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"the target must hold at least two classes, it holds {classes.tolist()}")
    return TASKS["two classes" if len(classes) == 2 else "classes"], codes, classes.tolist()


def _are_classes(values: NDArray[Any]) -> bool:
    if values.dtype.kind not in "fiu":
        return True
    distinct = np.unique(values)
    return len(distinct) <= MOST_CLASSES and bool((distinct == np.round(distinct)).all())


def folds_of(
    task: Task, target: NDArray[Any], n_folds: int, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to train on, an eighth to stop early by, and rows to judge, of each fold."""
    from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

    kind = StratifiedKFold if task.is_classification else KFold
    if task.is_classification and np.bincount(target).min() < 2 * n_folds:
        raise DataError(
            f"every class needs at least {2 * n_folds} rows for {n_folds} folds: "
            "lower folds, or leave out rare classes"
        )
    splitter = kind(n_folds, shuffle=True, random_state=seed)
    for learned, judged in splitter.split(target, target):
        strata = target[learned] if task.is_classification else None
        training, held = train_test_split(
            learned, test_size=0.125, random_state=seed, stratify=strata
        )
        yield np.sort(training), np.sort(held), judged
