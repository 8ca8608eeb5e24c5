"""Objectives: a loss composed with a link.

`make_objective` finds the one a user means; `objective_from_dict` the one a model file names.
"""

from __future__ import annotations

from mvsboost.objectives.base import Objective
from mvsboost.objectives.builtin import (
    Absolute,
    CrossEntropy,
    Gamma,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Quantiles,
    Softmax,
    Squared,
    Tweedie,
)
from mvsboost.objectives.custom import CustomObjective, RestoredObjective
from mvsboost.objectives.links import (
    IdentityLink,
    Link,
    LogitLink,
    LogLink,
    MultinomialLogit,
    link_by_name,
)
from mvsboost.objectives.registry import (
    OBJECTIVE_NAMES,
    make_objective,
    objective_from_dict,
    same_kind,
)

__all__ = [
    "OBJECTIVE_NAMES",
    "Absolute",
    "CrossEntropy",
    "CustomObjective",
    "Gamma",
    "Huber",
    "IdentityLink",
    "Link",
    "LogLink",
    "Logistic",
    "LogitLink",
    "MultinomialLogit",
    "Objective",
    "Poisson",
    "Quantile",
    "Quantiles",
    "RestoredObjective",
    "Softmax",
    "Squared",
    "Tweedie",
    "link_by_name",
    "make_objective",
    "objective_from_dict",
    "same_kind",
]
