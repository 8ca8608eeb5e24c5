"""From a name, an object or a model file to an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mvsboost.dialects import OBJECTIVES, known_as
from mvsboost.errors import DataError, ModelFormatError, ParameterError
from mvsboost.objectives.base import Objective
from mvsboost.objectives.builtin import BUILTIN, Quantile, Quantiles, Softmax
from mvsboost.objectives.custom import CustomObjective, RestoredObjective

__all__ = ["OBJECTIVE_NAMES", "make_objective", "objective_from_dict", "same_kind"]

_ALIASES = {
    "binary": "logistic",
    "log_loss": "logistic",
    "squared_error": "squared",
    "absolute_error": "absolute",
}

_READY = (*BUILTIN.values(), CustomObjective, RestoredObjective)
"""Kinds that need no wrapping; a user's subclass is wrapped, or nobody would check its results."""

OBJECTIVE_NAMES: tuple[str, ...] = (*(name for name in BUILTIN if name != "quantiles"), *_ALIASES)
"""Every name that `make_objective` knows."""


def make_objective(
    spec: Any, *, n_classes: int | None = None, alpha: float | Sequence[float] | None = None
) -> Objective:
    """The objective that a user means.

    Parameters
    ----------
    spec : str, Objective or object
        A name out of `OBJECTIVE_NAMES`, an objective of the library's, or an object of the
        user's, which may be an `Objective` as well, and is wrapped in a `CustomObjective`.
        ``"log_loss"`` is softmax when there are more than two classes.
    n_classes : int, optional
        Classes of the target; given, the objective must be one for that many classes.
    alpha : float or sequence of float, optional
        The quantile, for ``"quantile"`` only; or several.

    Examples
    --------
    >>> make_objective("quantile", alpha=0.9)
    Quantile(alpha=0.9)
    >>> make_objective("log_loss", n_classes=3)
    Softmax(n_classes=3)
    """
    if isinstance(spec, str):
        objective = _by_name(spec, n_classes, alpha)
    else:
        if alpha is not None:
            raise ParameterError("alpha", alpha, "left out unless objective is 'quantile'")
        objective = spec if type(spec) in _READY else CustomObjective(spec)
        _check_name(objective)
    if n_classes is not None:
        _check_classes(objective, n_classes)
    return objective


def _by_name(spec: str, n_classes: int | None, alpha: float | Sequence[float] | None) -> Objective:
    spec = known_as(spec, OBJECTIVE_NAMES, OBJECTIVES)
    if spec == "log_loss" and n_classes is not None and n_classes > 2:
        spec = "softmax"
    name = _ALIASES.get(spec, spec)
    if name not in BUILTIN:
        allowed = ", ".join(repr(name) for name in OBJECTIVE_NAMES)
        raise ParameterError("objective", spec, f"one of {allowed}, or an object with gradients")
    if alpha is not None and name != "quantile":
        raise ParameterError("alpha", alpha, "left out unless objective is 'quantile'")
    if name == "softmax":
        if n_classes is None:
            raise ParameterError("n_classes", n_classes, "given for objective 'softmax'")
        return Softmax(n_classes)
    if name == "quantile":
        if alpha is None:
            return Quantile()
        if isinstance(alpha, (Sequence, np.ndarray)) and not isinstance(alpha, str):
            return Quantiles(alpha)
        return Quantile(alpha)
    return BUILTIN[name]()


def _check_name(objective: Objective) -> None:
    # a model file keeps the name alone, and is loaded with the built-in objective of that name
    known = BUILTIN.get(objective.name)
    if known is not None and type(objective) is not known:
        raise ParameterError(
            "objective.name",
            objective.name,
            "another name than that of a built-in objective, when it is one of your own",
        )


def _check_classes(objective: Objective, n_classes: int) -> None:
    if not objective.is_classifier:
        raise ParameterError(
            "objective",
            objective.name,
            "one for classes ('logistic', 'softmax' or one of your own with link 'logit' or "
            "'multinomial') when the target holds classes",
        )
    if objective.n_outputs != n_classes and not (objective.n_outputs == 1 and n_classes <= 2):
        raise ParameterError(
            "objective",
            objective.name,
            f"one for the {n_classes} classes of the target (this has "
            f"{objective.n_outputs} output(s))",
        )


def objective_from_dict(state: Mapping[str, Any]) -> Objective:
    """The inverse of `Objective.to_dict`; a user's own comes back able to predict only.

    Examples
    --------
    >>> objective_from_dict(Softmax(n_classes=3).to_dict())
    Softmax(n_classes=3)
    """
    try:
        fields = dict(state)
        kind = fields.pop("kind")
        if kind == "builtin":
            return BUILTIN[fields.pop("name")](**fields)
        if kind == "custom" and _is_custom_state(fields):
            return RestoredObjective(**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFormatError(f"objective in the model file cannot be read: {state}") from error
    raise ModelFormatError(f"objective in the model file cannot be read: {state}")


def same_kind(then: Objective, now: Objective, where: str) -> Objective:
    """`now`, if a model that `where` has of `then` can go on with it.

    Of a user's own nothing but its name, its link and its outputs can be compared.
    """
    if then.to_dict() != now.to_dict():
        raise DataError(
            f"{where} was trained for {_told(then)}, this is for {_told(now)}: continue with the "
            f"objective it was trained with"
        )
    return now


def _told(objective: Objective) -> str:
    about = {key: value for key, value in objective.to_dict().items() if key not in _TOLD_APART}
    inside = "".join(f", {key} {value!r}" for key, value in about.items())
    return f"objective {objective.name!r} with link {objective.link.name!r}{inside}"


_TOLD_APART = ("kind", "name", "link")


def _is_custom_state(fields: Mapping[str, Any]) -> bool:
    kinds = {"name": str, "link": str, "n_outputs": int, "is_classifier": bool}
    typed = all(type(fields[key]) is kind for key, kind in kinds.items())
    return typed and fields["n_outputs"] >= 1
