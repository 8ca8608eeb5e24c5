"""What `fit` takes besides X and y, checked: evaluation sets, a first model, constraints."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mvsboost.data import Columns, Dataset
from mvsboost.errors import DataError, ParameterError
from mvsboost.model import Model
from mvsboost.runtime.files import check_path

__all__ = [
    "ASIDE",
    "VALIDATION",
    "EvalRows",
    "check_beside",
    "check_checkpoint",
    "check_order",
    "check_parts",
    "class_weights",
    "eval_items",
    "groups_by_feature",
    "naming",
    "signs_by_feature",
    "starting_point",
]

VALIDATION = "validation"
"""Name of the evaluation set that `validation_fraction` sets aside, or that X_val is."""

ASIDE = "rows set aside"
"""What errors call the rows that `validation_fraction` sets aside."""


def class_weights(labels: list[Any], by_label: Mapping[Any, Any]) -> list[float]:
    """A weight for each class; 1 for one that the mapping leaves out."""
    unknown = [key for key in by_label if key not in labels]
    if unknown and not all(label in by_label for label in labels):
        allowed = f"keyed by classes, which are {labels}"
        raise ParameterError("class_weight", unknown[0], allowed)
    weights = [by_label.get(label, 1.0) for label in labels]
    for label, weight in zip(labels, weights, strict=True):
        if not isinstance(weight, (int, float, np.number)) or not 0.0 <= weight < math.inf:
            allowed = f"a number, finite and not negative, for class {label!r}"
            raise ParameterError("class_weight", weight, allowed)
    return weights


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Say in errors which evaluation set they are about."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: {error}") from error


def check_parts(
    fraction: float,
    groups: NDArray[np.float64],
    apart: NDArray[np.bool_],
    weight: NDArray[np.float64] | None,
) -> None:
    """Rows must be left to train on, of every class, and to validate on; and weigh something."""
    if not apart.any():
        allowed = f"large enough that one of the {len(apart)} rows is set aside"
        raise ParameterError("validation_fraction", fraction, allowed)
    if len(np.unique(groups[~apart])) < len(np.unique(groups)):
        allowed = f"small enough that rows to train on are left of all {len(apart)}, of every class"
        raise ParameterError("validation_fraction", fraction, allowed)
    for rows, verb in ((apart, "sets aside"), (~apart, "leaves to train on")):
        if weight is not None and not weight[rows].any():
            raise DataError(
                f"sample_weight must not be zero for every row that validation_fraction={fraction} "
                f"{verb}: change it or random_state, or leave out rows of weight zero"
            )


def check_checkpoint(
    stored: Mapping[str, Any], now: Mapping[str, Any], path: str | PathLike[str]
) -> None:
    """A checkpoint is gone on from with the same parameters, but for trees, and the same data."""
    fix = f"pass the same, or remove {os.fspath(path)!r} to start anew"
    ours = now["parameters"]
    then = stored.get("parameters", ours)  # a bare model, as `train` writes, has none
    for name in sorted({*then, *ours} - {"n_estimators"}):
        if then.get(name) != ours.get(name):
            allowed = f"{then.get(name)!r}, as in the checkpoint to resume ({fix})"
            raise ParameterError(name, ours.get(name), allowed)
    then = stored.get("data", now["data"])
    for name in sorted({*then, *now["data"]}):
        if then.get(name) != now["data"].get(name):
            raise DataError(
                f"the checkpoint to resume is of other data ({name}: {then.get(name)}) than this "
                f"fit's ({now['data'].get(name)}): {fix}"
            )


class EvalRows(NamedTuple):
    """Rows to evaluate on.

    Attributes
    ----------
    name : str
        In histories.
    where : str
        What errors call it.
    X, y, weight, start : object
        The last are scores of their own.
    """

    name: str
    where: str
    X: Any
    y: Any
    weight: Any
    start: Any = None


def eval_items(
    eval_set: Any,
    names: Any = None,
    scores: Any = None,
    validation: tuple[Any, Any, Any] = (None, None, None),
) -> list[EvalRows]:
    """Evaluation sets: those of `eval_set` with names and scores, then X_val, y_val and weights."""
    items = [] if eval_set is None else _pairs(eval_set)
    starts = [None] * len(items) if scores is None else list(scores)
    if len(starts) != len(items):
        raise ParameterError("eval_init_score", scores, f"a list of {len(items)} arrays")
    if names is None:
        names = [f"eval_{i}" for i in range(len(items))]
    texts = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) != len(items) or len(names) != len(items):
        allowed = f"a list of {len(items)} different names, one for each evaluation set"
        raise ParameterError("eval_names", names, allowed)
    found = [
        EvalRows(name, f"eval_set[{i}]", *pair, start)
        for i, (name, pair, start) in enumerate(zip(names, items, starts, strict=True))
    ]
    X_val, y_val, weight = validation
    if (X_val is None) != (y_val is None):
        given = "X_val" if y_val is None else "y_val"
        raise ParameterError(given, "given alone", "given together with the other one")
    if X_val is not None:
        found.append(EvalRows(VALIDATION, "X_val", X_val, y_val, weight))
    return found


def _pairs(eval_set: Any) -> list[tuple[Any, Any, Any]]:
    """X, y and weights, or None, of each evaluation set."""
    if not isinstance(eval_set, (tuple, list)):
        raise ParameterError(
            "eval_set", type(eval_set), "a list of (X, y) or (X, y, sample_weight)"
        )
    one = isinstance(eval_set, tuple) and not all(map(_looks_like_a_set, eval_set))
    pairs = [eval_set] if one else eval_set
    pairs = [(pair, None) if isinstance(pair, Dataset) else pair for pair in pairs]
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            raise ParameterError(
                "eval_set", type(pair), "a list of (X, y) or (X, y, sample_weight)"
            )
    return [(pair[0], pair[1], pair[2] if len(pair) == 3 else None) for pair in pairs]


def _looks_like_a_set(item: Any) -> bool:
    """Whether it is a tuple of X and y, and no X or y that is a tuple; or rows that are binned."""
    if isinstance(item, Dataset):
        return True
    parts = item[:2] if isinstance(item, tuple) and len(item) in (2, 3) else ("",)
    return all(hasattr(part, "__len__") and not isinstance(part, str) for part in parts)


def starting_point(
    init_model: Any, resume: str | PathLike[str] | None, estimator: type[Any]
) -> Model | None:
    """The model to go on from: an `estimator`'s, a model, or that of a file."""
    if init_model is not None and resume is not None:
        raise ParameterError("resume", resume, "left out where init_model is given")
    if resume is not None:
        return Model.load(resume) if check_path(resume, "resume").exists() else None
    if isinstance(init_model, estimator):
        check_is_fitted(init_model, "model_")
        model: Model = init_model.model_
        return model
    if init_model is None or isinstance(init_model, Model):
        return init_model
    if not isinstance(init_model, (str, PathLike)):
        raise ParameterError("init_model", init_model, "an estimator, a Model or a path")
    return Model.load(init_model)


def check_beside(dataset: Dataset, **given: Any) -> None:
    """What is handed to `fit` beside rows that are binned: what they bring may not come twice."""
    fixes = {
        "y": "the target is the data set's",
        "sample_weight": "weights are the data set's: make it with weight=",
        "init_score": "make it with Dataset.from_data(..., init_score=...)",
        "validation_fraction": "split the table, and pass eval_set",
        "class_weight": "make it with weight=",
    }
    for name, fix in fixes.items():
        if given[name] is not None:
            raise ParameterError(name, given[name], f"left out with a Dataset: {fix}")
    if dataset.mapper.n_bins[~dataset.mapper.is_categorical].max(initial=0) > given["max_bins"]:
        allowed = "as large as that of the Dataset: make it with max_bins="
        raise ParameterError("max_bins", given["max_bins"], allowed)


def check_order(columns: Columns, start: Model | None) -> None:
    """Columns must be in the order of the model to start from, as in a prediction."""
    if start is None or columns.names is None or not start.schema.named:
        return
    names = list(start.schema.names)
    if list(columns.names) != names and sorted(columns.names) == sorted(names):
        raise DataError(
            f"the columns of X are in another order than those of the model to start from, "
            f"{names}: put them in that order"
        )


def signs_by_feature(constraints: Any, dataset: Dataset) -> dict[int, int]:
    """Signs by binned feature, from signs by input column."""
    if constraints is None:
        return {}
    names = dataset.schema.names
    if isinstance(constraints, Mapping):
        by_column = {
            _column_index(key, names, "monotone_constraints"): sign
            for key, sign in constraints.items()
        }
    else:
        if len(constraints) != len(names):
            raise ParameterError(
                "monotone_constraints", constraints, f"of length {len(names)}, one for each column"
            )
        by_column = dict(enumerate(constraints))
    for sign in by_column.values():
        if sign not in (-1, 0, 1):
            raise ParameterError("monotone_constraints", sign, "made of -1, 0 and 1")
    for column, sign in by_column.items():
        if sign and dataset.schema.features[column].is_categorical:
            allowed = "on numeric features only"
            raise ParameterError("monotone_constraints", {names[column]: sign}, allowed)
    source = dataset.mapper.source
    return {f: int(by_column[int(c)]) for f, c in enumerate(source) if by_column.get(int(c))}


def groups_by_feature(constraints: Any, dataset: Dataset) -> list[list[int]]:
    """Groups of binned features that may meet in a branch, from groups of input columns."""
    names, n = dataset.schema.names, dataset.schema.n_features
    if constraints is None:
        return []
    if isinstance(constraints, str):
        by_column = {
            "no_interactions": [{column} for column in range(n)],
            "pairwise": [{one, other} for one in range(n) for other in range(one)],
        }[constraints]
    else:
        by_column = [
            {_column_index(key, names, "interaction_constraints") for key in group}
            for group in constraints
        ]
    # a column may be several features, target statistics of several classes; or none
    features: list[list[int]] = [[] for _ in range(n)]
    for feature, column in enumerate(dataset.mapper.source):
        features[column].append(feature)
    found = [[f for column in sorted(group) for f in features[column]] for group in by_column]
    return [group for group in found if group]


def _column_index(key: Any, names: Sequence[str], parameter: str) -> int:
    if isinstance(key, str) and key in names:
        return names.index(key)
    if isinstance(key, (int, np.integer)) and 0 <= key < len(names):
        return int(key)
    raise ParameterError(parameter, key, f"of columns, one of {list(names)}")
