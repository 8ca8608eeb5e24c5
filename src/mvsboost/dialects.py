"""What other libraries call things: names of parameters, metrics and objectives.

Names of metrics and objectives are taken as they come. Those of parameters are not, so that code
says one thing in one way; the error says what the parameter is called here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from mvsboost.errors import UnknownParameterError

__all__ = ["METRICS", "OBJECTIVES", "PARAMETERS", "checks_names", "known_as"]

F = TypeVar("F", bound=Callable[..., Any])

_CALLED = {
    "n_estimators": "iterations num_iterations num_boost_round n_iter max_iter num_trees n_trees",
    "learning_rate": "eta shrinkage_rate",
    "max_leaves": "num_leaves max_leaf_nodes max_leaf",
    "max_depth": "depth",
    "min_samples_leaf": "min_child_samples min_data_in_leaf min_data_per_leaf min_data",
    "min_child_weight": "min_sum_hessian_in_leaf min_sum_hessian",
    "l2": "reg_lambda lambda_l2 l2_regularization l2_leaf_reg lambda_",
    "l1": "reg_alpha lambda_l1",
    "min_gain": "gamma min_split_loss min_split_gain min_gain_to_split min_impurity_decrease",
    "max_bins": "max_bin border_count",
    "colsample": "colsample_bytree feature_fraction sub_feature rsm max_features",
    "objective": "loss loss_function application",
    "quantile": "alpha quantile_alpha",
    "monotone_constraints": "monotonic_cst monotonic_constraints mc",
    "interaction_constraints": "interaction_cst",
    "categorical_features": "cat_features categorical_feature cat_feature enable_categorical",
    "class_weight": "scale_pos_weight is_unbalance auto_class_weights class_weights",
    "early_stopping_rounds": "early_stopping_round n_iter_no_change od_wait early_stopping",
    "eval_metric": "metric custom_metric scoring feval",
    "n_jobs": "nthread num_threads num_thread thread_count nthreads",
    "random_state": "seed random_seed bagging_seed",
    "verbose": "verbosity silent verbose_eval logging_level",
    "device": "device_type task_type",
}

_RATE = "rows are sampled by a sampler here: sampler=SGB(rate=...), or MVS(rate=...)"
_GOSS = "rows are sampled by a sampler here: sampler=GOSS(top_rate=..., other_rate=...)"
_GROWTH = "trees grow best-first up to max_leaves; max_leaves=None grows them level by level"
_HISTOGRAM = "trees are always grown from histograms here: leave it out"

PARAMETERS: Mapping[str, str] = {
    **{
        other: f"{other!r} is called {own!r} here"
        for own, others in _CALLED.items()
        for other in others.split()
    },
    **dict.fromkeys(("subsample", "bagging_fraction", "sub_row", "bagging", "bagging_freq"), _RATE),
    **dict.fromkeys(("bootstrap_type", "sampling_method", "subsample_freq"), _RATE),
    **dict.fromkeys(("top_rate", "other_rate", "data_sample_strategy"), _GOSS),
    **dict.fromkeys(("grow_policy", "growing_policy"), _GROWTH),
    **dict.fromkeys(("tree_method", "booster", "boosting_type", "boosting"), _HISTOGRAM),
}
"""What to say of a parameter that another library has."""

METRICS: Mapping[str, str] = {
    other: own
    for own, others in {
        "log_loss": "logloss binary_logloss multi_logloss mlogloss binary multiclass cross_entropy "
        "crossentropy neg_log_loss multi_class",
        "auc": "roc_auc rocauc roc_auc_score",
        "accuracy": "acc accuracy_score",
        "error": "binary_error multi_error merror zerooneloss",
        "brier": "brier_score brierscore",
        "rmse": "root_mean_squared_error l2_root",
        "mse": "l2 mean_squared_error squared_error regression regression_l2",
        "mae": "l1 mean_absolute_error absolute_error regression_l1",
        "r2": "r2_score",
        "pinball": "quantile",
        "poisson_deviance": "poisson poisson-nloglik mean_poisson_deviance",
    }.items()
    for other in others.split()
}
"""Our names of metrics by those of others, in small letters."""

OBJECTIVES: Mapping[str, str] = {
    other: own
    for own, others in {
        "log_loss": "logloss binary:logistic binary_logloss multiclass multi:softprob "
        "multi:softmax binary_crossentropy",
        "cross_entropy": "crossentropy xentropy reg:logistic",
        "squared": "l2 regression mse rmse mean_squared_error reg:squarederror reg:linear "
        "regression_l2 least_squares",
        "absolute": "l1 mae mean_absolute_error reg:absoluteerror regression_l1",
        "quantile": "pinball reg:quantileerror",
        "huber": "reg:pseudohubererror",
        "poisson": "count:poisson",
        "gamma": "reg:gamma",
        "tweedie": "reg:tweedie",
    }.items()
    for other in others.split()
}
"""Our names of objectives by those of others, in small letters."""


def known_as(name: str, own: Any, others: Mapping[str, str]) -> str:
    """The name that is ours, given one of ours or of `others`, in any case; or as it is.

    Examples
    --------
    >>> known_as("RMSE", ["rmse"], METRICS), known_as("binary_logloss", ["rmse"], METRICS)
    ('rmse', 'log_loss')
    """
    small = name.lower()
    return small if small in own else others.get(small, name)


def checks_names(of_fit: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """Let a method say what its keyword arguments are called, where one is unknown.

    Parameters
    ----------
    of_fit : mapping, optional
        What to say of names that belong elsewhere, before those of other libraries.
    """

    def decorate(method: F) -> F:
        names = [name for name in inspect.signature(method).parameters if name != "self"]

        @functools.wraps(method)
        def checked(self: Any, *args: Any, **given: Any) -> Any:
            unknown = [name for name in given if name not in names]
            if unknown:
                raise UnknownParameterError(
                    _told(type(self).__name__, unknown, names, of_fit or {})
                )
            return method(self, *args, **given)

        return cast(F, checked)

    return decorate


def _told(kind: str, unknown: list[str], names: list[str], first: Mapping[str, str]) -> str:
    lines = []
    for name in unknown:
        near = get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
        otherwise = f"there is no parameter {name!r}{hint}"
        lines.append(first.get(name, PARAMETERS.get(name, otherwise)).replace("{kind}", kind))
    return f"{kind}: " + "; ".join(lines)
