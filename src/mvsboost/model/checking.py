"""A model from a file is checked whole before anything follows its numbers.

Kernels follow indexes without asking. Whatever a file says is compared with the rest of it:
trees with the bins, bins with the columns, outputs with the objective and the labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.data import BinFeature, BinMapper, Schema
from mvsboost.errors import ModelFormatError
from mvsboost.exact.dtypes import MAX_BINS
from mvsboost.objectives import Objective
from mvsboost.trees import Tree

__all__ = ["check_labels", "check_mapper", "check_schema", "check_tests"]

_LABEL_KINDS = "biufUO"
_MOST_BYTES = 1 << 26  # of labels as an array


def _refuse(where: str, what: str) -> ModelFormatError:
    return ModelFormatError(f"the model file is damaged: {where} {what}")


def check_schema(schema: Schema) -> None:
    """Columns have names of their own, and categories that differ."""
    names = schema.names
    if not names or not all(isinstance(name, str) for name in names):
        raise _refuse("the names of columns", "must be texts, and there must be some")
    if len(set(names)) < len(names):
        raise _refuse("the names of columns", "must differ")
    for feature in schema.features:
        categories = feature.categories
        if categories is None:
            continue
        if len(set(categories)) < len(categories):
            raise _refuse(f"column {feature.name!r}", "has a category twice")
        if len({isinstance(category, str) for category in categories}) > 1:
            raise _refuse(f"column {feature.name!r}", "has texts and numbers as categories")


def check_mapper(mapper: BinMapper, schema: Schema) -> None:
    """Each feature comes from a column of its kind, and has bins that can be told apart."""
    if not mapper.features:
        raise _refuse("the mapper", "must have a feature")
    sources = [feature.source for feature in mapper.features]
    if any(type(source) is not int for source in sources):
        raise _refuse("the mapper", "must name columns by whole numbers")
    if sources != sorted(sources) or set(sources) != set(range(schema.n_features)):
        raise _refuse("the mapper", f"must be of columns 0 to {schema.n_features - 1} in order")
    for number, feature in enumerate(mapper.features):
        problem = _problem_of(feature, schema)
        if problem:
            raise _refuse(f"feature {number} of the mapper", problem)


def _problem_of(feature: BinFeature, schema: Schema) -> str | None:
    """What is wrong with a feature, if anything is."""
    categories, edges = schema.features[feature.source].categories, feature.edges
    if not isinstance(feature.name, str):
        return "must have a text as its name"
    if feature.n_categories != len(categories or ()) or type(feature.n_categories) is not int:
        return "must have as many categories as its column"
    if edges is not None:
        if edges.ndim != 1 or not np.isfinite(edges).all() or (edges[1:] <= edges[:-1]).any():
            return "must have finite edges that increase"
        if len(edges) >= MAX_BINS:
            return f"must have at most {MAX_BINS - 1} edges"
    if categories is None:
        return (
            "must have edges, and no values"
            if edges is None or feature.values is not None
            else None
        )
    if edges is None:
        if feature.values is not None or len(categories) > MAX_BINS:
            return "must have edges: its categories are values, or more than bins"
        return None
    values = feature.values
    if values is None or values.shape != (len(categories) + 2,) or not np.isfinite(values).all():
        return "must have a finite value for each category and two more"
    return None


def check_tests(tree: Tree, mapper: BinMapper) -> None:
    """Every test is one that bins of its feature can pass or fail."""
    inner = ~tree.is_leaf
    feature = tree.feature[inner].astype(np.int64)
    if (feature >= mapper.n_features).any():
        raise _refuse("a tree", "tests a feature that is not there")
    by_set, n_bins = tree.categories[inner] >= 0, mapper.n_bins[feature]
    threshold = tree.threshold[inner]
    wrong: NDArray[np.bool_] = by_set != mapper.is_categorical[feature]
    wrong |= tree.missing_bin[inner] != n_bins
    wrong |= ~by_set & ((threshold < 0) | (threshold >= n_bins))
    if wrong.any():
        node = int(np.flatnonzero(inner)[np.argmax(wrong)])
        raise _refuse("a tree", f"has a test at node {node} that its feature has no bins for")


def check_labels(metadata: Mapping[str, Any], objective: Objective) -> None:
    """Labels of classes are different, of one type, and as many as the outputs mean."""
    classes, dtype = metadata["classes"], metadata["classes_dtype"]
    if not isinstance(classes, list) or not isinstance(dtype, str):
        raise _refuse("labels", "must be a list with the name of a type")
    if not all(isinstance(label, (str, int, float, bool)) for label in classes):
        raise _refuse("labels", "must be texts, numbers or booleans")
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise _refuse("labels", f"have the type {dtype[:40]!r}") from error
    if kind.kind not in _LABEL_KINDS or kind.itemsize * len(classes) > _MOST_BYTES:
        raise _refuse("labels", f"have the type {dtype[:40]!r}")
    own = objective.to_dict()["kind"] != "builtin"  # which may mean what it likes by its outputs
    allowed = {1, 2} if objective.n_outputs == 1 else {1, objective.n_outputs}
    if not classes or len(set(classes)) < len(classes) or (len(classes) not in allowed and not own):
        raise _refuse("labels", f"must be {max(allowed)} different ones, got {classes[:3]}")
    if kind.kind != "O" and not _fits(classes, kind):
        raise _refuse("labels", f"are not of the type {dtype!r}")


def _fits(classes: list[Any], kind: np.dtype[Any]) -> bool:
    try:
        return bool(np.array(classes, kind).tolist() == classes)
    except (OverflowError, TypeError, ValueError):
        return False
