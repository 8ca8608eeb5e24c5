"""Models as boosters of LightGBM, and Minimal Variance Sampling for LightGBM's own trees.

What reads LightGBM's models reads these: treelite, ONNX converters, servers.

The text format of LightGBM says everything that a tree here says but two things: a category that
training did not have goes where missing values go, and columns are numbers or categories.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.data import Schema
from mvsboost.data.columns import NUMBER
from mvsboost.errors import DataError
from mvsboost.interop.sampled import SampledObjective
from mvsboost.model import Model
from mvsboost.model.readable import ColumnSplit, column_splits
from mvsboost.trees import Tree

__all__ = ["MVSObjective", "as_text", "to_lightgbm"]

_CATEGORICAL, _MISSING_LEFT, _MISSING_IS_NAN = 1, 2, 2 << 2
"""Bits of ``decision_type``."""

_OBJECTIVES = {
    "identity": "regression",
    "logit": "binary sigmoid:1",
    "multinomial": "multiclass num_class:{n}",
    "log": "poisson",
}
"""Objectives of LightGBM with the same link, which is all that predictions need."""


class MVSObjective(SampledObjective):
    """An objective for ``lightgbm.train`` that draws its rows, by MVS or another sampler.

    Parameters are those of `SampledObjective`. LightGBM saves no time by it: it visits all rows,
    and counts them in ``min_data_in_leaf`` too. Pass ``init_score=objective.start_score(y)`` to the
    data set, since LightGBM starts from 0 under an objective that is not its own.

    Examples
    --------
    >>> import numpy as np
    >>> objective = MVSObjective("binary", "none")
    >>> g, h = objective(np.array([1.0, 0.0]), np.zeros(2))
    >>> g.tolist(), objective.start_score([0, 1]).tolist()
    ([-0.5, 0.5], [0.0, 0.0])
    """


def to_lightgbm(model: Any) -> Any:
    """A `lightgbm.Booster` with the same predictions.

    Parameters
    ----------
    model : MVSClassifier, MVSRegressor or Model

    Returns
    -------
    lightgbm.Booster
        It takes a pandas table whose categorical columns have the type ``category``, or an array
        in which a category is its position among the sorted ones of training. A category that
        training did not have counts as missing.

    Raises
    ------
    DataError
        A column holds times or durations, which LightGBM does not know.
    """
    import lightgbm

    return lightgbm.Booster(model_str=as_text(getattr(model, "model_", model)))


def as_text(model: Model) -> str:
    """The text of the model in LightGBM's format."""
    schema, used = model.schema, model.iterations[: model.used_iterations()]
    _check_kinds(schema)
    trees = used or [[Tree.single_leaf() for _ in range(model.n_outputs)]]
    link = model.objective.link.name
    n = model.n_outputs
    lines = [
        "tree",
        "version=v4",
        f"num_class={n}",
        f"num_tree_per_iteration={n}",
        "label_index=0",
        f"max_feature_idx={schema.n_features - 1}",
    ]
    if n == 1 or link == "multinomial":
        lines.append("objective=" + _OBJECTIVES[link].format(n=n))
    lines += [
        "feature_names=" + " ".join(_plain_names(schema.names)),
        "feature_infos=" + " ".join(_feature_infos(model)),
        "",
    ]
    number = 0
    for iteration, group in enumerate(trees):
        for output, tree in enumerate(group):
            # the score before the first tree is a part of that tree
            start = float(model.baseline[output]) if iteration == 0 else 0.0
            lines += [
                f"Tree={number}",
                *_tree_lines(tree, column_splits(tree, model.mapper), start),
            ]
            lines += ["", ""]
            number += 1
    categories = [list(f.categories) for f in schema.features if f.categories is not None]
    lines += ["end of trees", "", "parameters:", "end of parameters", ""]
    return "\n".join([*lines, f"pandas_categorical:{json.dumps(categories or None)}", ""])


def _check_kinds(schema: Schema) -> None:
    for feature in schema.features:
        if feature.kind not in (None, NUMBER):
            raise DataError(
                f"column {feature.name!r} holds values of the kind {feature.kind!r}, and LightGBM "
                "knows numbers and categories: train on a column of numbers to export the model"
            )


def _plain_names(names: Sequence[str]) -> list[str]:
    """Names without what LightGBM's format gives a meaning to, each once."""
    found: dict[str, None] = {}
    for name in names:
        plain = re.sub(r'[\s,:\[\]{}"]', "_", name) or "_"
        while plain in found:
            plain += "_"
        found[plain] = None
    return list(found)


def _feature_infos(model: Model) -> Iterator[str]:
    edges = {f.source: f.edges for f in model.mapper.features if f.edges is not None}
    for column, feature in enumerate(model.schema.features):
        if feature.categories is not None:
            yield ":".join(str(code) for code in range(len(feature.categories))) or "none"
        elif column in edges and len(edges[column]):
            yield f"[{_written(edges[column][0])}:{_written(edges[column][-1])}]"
        else:
            yield "none"


def _tree_lines(tree: Tree, splits: list[ColumnSplit | None], start: float) -> list[str]:
    inner, leaves = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    # an inner node is its rank among them, a leaf the complement of its own
    place = np.empty(tree.n_nodes, np.int64)
    place[inner], place[leaves] = np.arange(len(inner)), ~np.arange(len(leaves))
    tests = [_Test(split, tree.left[node], tree.right[node]) for node, split in _inner(splits)]
    sets = [test.words for test in tests if test.words]
    ends = np.cumsum([0, *map(len, sets)])
    numbers = iter(range(len(sets)))
    thresholds = [float(next(numbers)) if test.words else test.threshold for test in tests]
    lines: dict[str, Any] = {
        "num_leaves": [len(leaves)],
        "num_cat": [len(sets)],
        "split_feature": [test.column for test in tests],
        "split_gain": tree.gain[inner],
        "threshold": thresholds,
        "decision_type": [test.kind for test in tests],
        "left_child": [place[test.left] for test in tests],
        "right_child": [place[test.right] for test in tests],
        "leaf_value": tree.value[leaves] + start,
        "leaf_weight": tree.hessian[leaves],
        "leaf_count": np.rint(tree.cover[leaves]).astype(np.int64),
        "internal_value": np.zeros(len(inner)),
        "internal_weight": tree.hessian[inner],
        "internal_count": np.rint(tree.cover[inner]).astype(np.int64),
        "is_linear": [0],
        "shrinkage": [tree.shrinkage],
    }
    if sets:
        lines |= {"cat_boundaries": ends, "cat_threshold": list(chain.from_iterable(sets))}
    return [f"{name}={' '.join(map(_written, values))}" for name, values in lines.items()]


def _inner(splits: list[ColumnSplit | None]) -> Iterator[tuple[int, ColumnSplit]]:
    """Inner nodes with their splits."""
    return ((node, split) for node, split in enumerate(splits) if split is not None)


class _Test:
    """A split as LightGBM says it; of categories, missing ones always go right."""

    def __init__(self, split: ColumnSplit, left: int, right: int) -> None:
        self.column, self.left, self.right = split.column, int(left), int(right)
        self.threshold, self.words = 0.0, list[int]()
        self.kind = _MISSING_IS_NAN + (_MISSING_LEFT if split.missing_left else 0)
        if split.categories is None:
            assert split.threshold is not None
            # less than t is at most the number before t
            self.threshold = math.nextafter(split.threshold, -math.inf)
            if math.isinf(split.threshold):
                self.threshold = math.inf
            return
        self.kind = _CATEGORICAL + _MISSING_IS_NAN
        left_set = split.categories
        if split.missing_left:
            left_set, self.left, self.right = ~left_set, self.right, self.left
        self.words = _words(left_set)


def _words(chosen: NDArray[np.bool_]) -> list[int]:
    """Flags as 32-bit words, at least one."""
    padded = np.zeros(max(1, -(-len(chosen) // 32)) * 32, np.uint8)
    padded[: len(chosen)] = chosen
    words: list[int] = np.packbits(padded, bitorder="little").view("<u4").tolist()
    return words


def _written(value: Any) -> str:
    """A number with all its digits."""
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(int(value))
