"""The estimators' parameters in one table: defaults, what is allowed, and what they mean.

Docstrings, the pages under ``docs/`` and the checks before training are all made
from it.
"""

from __future__ import annotations

import math
import numbers
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mvsboost.backends.registry import DEVICES
from mvsboost.errors import ParameterError
from mvsboost.exact.dtypes import MAX_BINS
from mvsboost.objectives import objective_from_dict
from mvsboost.objectives.builtin import BUILTIN
from mvsboost.sampling import SAMPLERS

__all__ = [
    "PARAMETERS",
    "Parameter",
    "check_parameters",
    "describe",
    "parameters_of",
    "plain_parameters",
    "revive",
]


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Attributes
    ----------
    name : str
    default : object
    allowed : str
        Phrase that completes "must be ...".
    check : callable
        Whether a value is allowed.
    meaning : str
        What it does, for docstrings and docs.
    only : str
        Class that has it; empty for both.
    classifier, regressor : str
        What it does besides in one of them.
    """

    name: str
    default: Any
    allowed: str
    check: Callable[[Any], bool]
    meaning: str
    only: str = ""
    classifier: str = ""
    regressor: str = ""


def _anything(value: Any) -> bool:
    return True


def _integer(low: int, high: float = math.inf) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return whole and low <= int(value) <= high

    return check


def _real(low: float, high: float = math.inf, *, open_low: bool = False) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        number = float(value)
        over = number > low if open_low else number >= low
        return over and number <= high and math.isfinite(number)

    return check


def _is_collection(value: Any) -> bool:
    """Whether it holds several things, and is no text."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def _is_share_or_shares(value: Any) -> bool:
    """Whether it is a number in (0, 1), or some of them."""
    several = list(value) if _is_collection(value) else [value]
    check = _real(0.0, 1.0, open_low=True)
    return bool(several) and all(check(one) and one < 1 for one in several)


def _is_groups(value: Any) -> bool:
    """Whether it is None, a name, or a list of lists."""
    if value is None or isinstance(value, str):
        return value in (None, "no_interactions", "pairwise")
    several = isinstance(value, (list, tuple)) and len(value) > 0
    return several and all(_is_collection(group) and len(group) > 0 for group in value)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _one_of(*values: Any) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        value = value.item() if isinstance(value, np.generic) else value
        return any(type(value) is type(v) and value == v for v in values)

    return check


PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "n_estimators",
        100,
        "an integer >= 1",
        _integer(1),
        "Boosting iterations.",
        classifier="With more than two classes each grows a tree for every class.",
        regressor="With several quantiles each grows a tree for every quantile.",
    ),
    Parameter(
        "learning_rate",
        0.1,
        "a number > 0",
        _real(0.0, open_low=True),
        "Factor on leaf values. Smaller values need more trees and often generalise better.",
    ),
    Parameter(
        "max_leaves",
        "auto",
        "an integer >= 2, 'auto' or None",
        _or_none(lambda value: _one_of("auto")(value) or _integer(2)(value)),
        "Largest number of leaves of a tree. Trees grow best-first: the split with the largest "
        'gain comes next. None grows level by level to ``max_depth``. ``"auto"`` is None where '
        "``max_depth`` is given, and 31 otherwise.",
    ),
    Parameter(
        "max_depth",
        None,
        "an integer >= 1, or None (then max_leaves must be given)",
        _or_none(_integer(1)),
        "Largest depth of a tree. None is no limit.",
    ),
    Parameter(
        "min_samples_leaf",
        20,
        "an integer >= 1",
        _integer(1),
        "Least number of rows in a leaf. Without a second look it is estimated: a sampled row "
        "counts as its weight.",
    ),
    Parameter(
        "min_child_weight",
        1e-3,
        "a number >= 0",
        _real(0.0),
        "Least sum of hessians in a leaf.",
    ),
    Parameter(
        "l2",
        1.0,
        "a number >= 0",
        _real(0.0),
        "L2 regularisation: added to the sum of hessians in leaf values and split scores.",
    ),
    Parameter(
        "l1",
        0.0,
        "a number >= 0",
        _real(0.0),
        "L1 regularisation: draws the sum of gradients of a leaf towards 0, in values and scores. "
        "Objectives with quantiles as leaves have none.",
    ),
    Parameter("min_gain", 0.0, "a number >= 0", _real(0.0), "A split must gain more than this."),
    Parameter(
        "max_bins",
        MAX_BINS,
        f"an integer from 2 to {MAX_BINS}",
        _integer(2, MAX_BINS),
        "Largest number of bins of a numeric column, and one for missing values. A categorical "
        "column with more categories becomes ordered target statistics.",
    ),
    Parameter(
        "colsample",
        1.0,
        "a number in (0, 1]",
        _real(0.0, 1.0, open_low=True),
        "Share of columns that each tree may use.",
    ),
    Parameter(
        "sampler",
        "mvs",
        "a sampler, its name, or an object with a method probabilities",
        _anything,
        "How rows are sampled: an object such as ``MVS(rate=0.2)``, or a name: "
        '``"mvs"``, ``"goss"``, ``"sgb"``, ``"bernoulli"``, ``"importance"``, ``"bayesian"``, '
        '``"poisson"``, ``"mvs-fixed"``, ``"none"``. The default is MVS on 30% of the rows.',
    ),
    Parameter(
        "leaf_values",
        "all",
        "'all' or 'sample'",
        _one_of("all", "sample"),
        "Compute leaf values from all rows, or from the sample alone as in the paper. "
        "Objectives with quantiles as leaves always use all rows.",
    ),
    Parameter(
        "second_look",
        None,
        "an integer >= 0, or None",
        _or_none(_integer(0)),
        "Number of columns that the sample proposes at each node; all rows then choose the split "
        "among them. 0 lets the sample choose alone, as in the paper. None is 4 if fewer than 100 "
        "sampled rows are expected, and 0 otherwise. A sampler of your own without a ``share`` is "
        "expected to draw all rows.",
    ),
    Parameter(
        "order",
        2,
        "1 or 2",
        _one_of(1, 2),
        "2 uses hessians. 1 is classical gradient boosting, without them; not for Poisson and "
        "other logarithmic links.",
    ),
    Parameter(
        "objective",
        "auto",
        "a name, or an object with gradients, or with gradient and hessian",
        _anything,
        "Loss to minimise. Your own object has a method ``gradients(target, scores)``, or "
        "``gradient`` and ``hessian``.",
        classifier='``"auto"`` is logistic for two classes and softmax for more. An object of your '
        "own needs a ``link`` as well.",
        regressor='``"auto"`` is ``"squared"``; the others are ``"absolute"``, ``"quantile"``, '
        '``"huber"``, ``"poisson"``, ``"gamma"``, ``"tweedie"`` and, for targets in [0, 1], '
        '``"cross_entropy"``.',
    ),
    Parameter(
        "quantile",
        None,
        "a number in (0, 1), an ascending list of them, or None",
        _or_none(_is_share_or_shares),
        'Quantile to predict with ``objective="quantile"``; None is the median. Of a list each row '
        "has a prediction for every quantile, in their order.",
        only="MVSRegressor",
    ),
    Parameter(
        "monotone_constraints",
        None,
        "a mapping from column to -1, 0 or 1, or a list with one of them for each column",
        _or_none(_is_collection),
        "1: predictions must not fall as the column rises; -1: they must not rise; 0: free.",
    ),
    Parameter(
        "interaction_constraints",
        None,
        'a list of groups of columns, "no_interactions", "pairwise", or None',
        _is_groups,
        "Columns that may meet in a branch of a tree: those of one group. Columns of no group are "
        'a group of their own. ``"no_interactions"`` lets no two columns meet, ``"pairwise"`` any '
        "two.",
    ),
    Parameter(
        "categorical_features",
        "auto",
        "'auto', None, or a list of columns",
        _or_none(lambda value: _one_of("auto")(value) or _is_collection(value)),
        "Columns to treat as categories: a list of names or positions, or a boolean mask. "
        '``"auto"`` takes columns of text and of categorical type, None takes none.',
    ),
    Parameter(
        "class_weight",
        None,
        "None, 'balanced' or a mapping from class to weight",
        _or_none(lambda value: _one_of("balanced")(value) or isinstance(value, Mapping)),
        'Factor on the row weights of each class. ``"balanced"`` makes all classes count the same. '
        "It does not apply to evaluation sets.",
        only="MVSClassifier",
    ),
    Parameter(
        "early_stopping_rounds",
        None,
        "an integer >= 1, or None",
        _or_none(_integer(1)),
        "Stop after this many iterations without improvement, and predict with the best number of "
        "trees. Watches the first metric on the set of ``validation_fraction`` or, without one, on "
        "the first ``eval_set`` that is not the training set.",
    ),
    Parameter(
        "validation_fraction",
        None,
        "a number in (0, 1), or None",
        _or_none(lambda value: _real(0.0, 1.0, open_low=True)(value) and value < 1),
        "Share of the training rows to hold out as an evaluation set.",
        classifier="Each class gives its share.",
    ),
    Parameter(
        "eval_metric",
        None,
        "a metric, its name, a list of them, or None",
        _anything,
        "Metrics for the evaluation sets. None is the default of the objective.",
    ),
    Parameter(
        "callbacks",
        None,
        "a list of callbacks, or None",
        _or_none(lambda value: isinstance(value, (list, tuple))),
        "Callbacks, objects of ``mvsboost.callbacks``.",
    ),
    Parameter(
        "n_jobs",
        -1,
        "an integer other than 0, or None",
        _or_none(lambda value: _integer(-(10**6))(value) and value != 0),
        "Number of threads, at most that of cores. -1 uses all cores (or OMP_NUM_THREADS, if that "
        "is less), -2 all but one, None one. Fits at once share the cores. The model does not "
        "depend on it.",
    ),
    Parameter(
        "random_state",
        0,
        "an integer, a numpy RandomState or Generator, or None",
        _or_none(
            lambda value: isinstance(
                value, (numbers.Integral, np.random.RandomState, np.random.Generator)
            )
        ),
        "Random seed. None draws a new one for each fit.",
    ),
    Parameter(
        "device",
        "cpu",
        "one of " + ", ".join(map(repr, DEVICES)),
        _one_of(*DEVICES),
        'Where to train. ``"cuda"`` is an NVIDIA GPU (``pip install mvsboost[cuda]``); '
        '``"reference"`` is plain NumPy: slow, for checking.',
    ),
    Parameter(
        "verbose",
        0,
        "an integer >= 0",
        lambda value: _integer(0)(value) or isinstance(value, bool),
        "Log the metrics every this many iterations with Python's ``logging``. 0 is silent.",
    ),
)


def check_parameters(values: dict[str, Any]) -> None:
    """Raise `ParameterError` for the first value that is not allowed.

    Examples
    --------
    >>> check_parameters({"n_estimators": 0})
    Traceback (most recent call last):
        ...
    mvsboost.errors.ParameterError: n_estimators must be an integer >= 1, got 0
    """
    for parameter in PARAMETERS:
        if parameter.name in values and not parameter.check(values[parameter.name]):
            raise ParameterError(parameter.name, values[parameter.name], parameter.allowed)
    if values.get("max_leaves", 2) is None and values.get("max_depth") is None:
        raise ParameterError("max_depth", None, "given when max_leaves is None")


def parameters_of(estimator: str) -> list[Parameter]:
    """The parameters of one estimator, in the order of its constructor."""
    own = "classifier" if estimator == "MVSClassifier" else "regressor"
    return [
        replace(p, meaning=f"{p.meaning} {getattr(p, own)}".strip())
        for p in PARAMETERS
        if p.only in ("", estimator)
    ]


def describe(parameters: Iterable[Parameter], indent: str = "    ") -> str:
    """The parameters as the section of a numpydoc docstring."""
    lines: list[str] = []
    for parameter in parameters:
        lines.append(f"{indent}{parameter.name} : default={parameter.default!r}")
        text = f"{parameter.meaning} Must be {parameter.allowed}."
        lines += textwrap.wrap(
            text, 96, initial_indent=indent + "    ", subsequent_indent=indent + "    "
        )
    return "\n".join(lines).strip()


# --- parameters in a file -----------------------------------------------------------------------


def plain_parameters(values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters a file can hold, and the names of those it cannot: a user's own objects.

    Left out of both is what does not determine the model: threads and loudness.
    """
    beside = {"n_jobs", "verbose", "callbacks"}
    plain = {name: _plain(value) for name, value in values.items() if name not in beside}
    kept = {name: value for name, value in plain.items() if value is not _UNWRITABLE}
    return kept, [name for name in plain if name not in kept]


_UNWRITABLE = object()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _UNWRITABLE
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return _plain(value.item())
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
        return _UNWRITABLE if _UNWRITABLE in items else items
    if isinstance(value, Mapping):
        pairs = [[_plain(k), _plain(v)] for k, v in value.items()]
        return _UNWRITABLE if any(_UNWRITABLE in pair for pair in pairs) else {"pairs": pairs}
    if type(value) in _sampler_kinds().values():
        parameters = {name: _plain(item) for name, item in value.get_params().items()}
        if _UNWRITABLE not in parameters.values():
            return {"sampler": type(value).__name__, "parameters": parameters}
    if type(value) in BUILTIN.values():
        return {"objective": value.to_dict()}
    return _UNWRITABLE


def revive(value: Any) -> Any:
    """The inverse of the step a value takes in `plain_parameters`."""
    if isinstance(value, dict) and "sampler" in value:
        parameters = {name: revive(item) for name, item in value["parameters"].items()}
        return _sampler_kinds()[value["sampler"]](**parameters)
    if isinstance(value, dict) and "objective" in value:
        return objective_from_dict(value["objective"])
    if isinstance(value, dict):
        return {revive(key): revive(item) for key, item in value["pairs"]}
    return value


def _sampler_kinds() -> dict[str, Any]:
    return {kind.__name__: kind for kind in SAMPLERS.values()}
