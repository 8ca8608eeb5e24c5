"""The docstrings of both estimators."""

from __future__ import annotations

from mvsboost.parameters import describe, parameters_of

__all__ = ["documentation"]

_DOCUMENTATION = """Gradient-boosted trees for {task} on rows chosen by Minimal Variance Sampling.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        Trees, bins and schema.
    {more}n_features_in_ : int
        Columns of X; ``feature_names_in_`` has their names, if they had any.
    n_iter_ : int
        Iterations that predictions use.
    best_iteration_ : int or None
        Best number of iterations, counted from 1, if early stopping looked for it.
    best_score_ : dict
        ``best_score_[set][metric]`` is the value at the iterations that predictions use.
    evals_result_ : dict
        ``evals_result_[set][metric]`` lists a metric after each iteration. Sets are ``"eval_0"``,
        ``"eval_1"``, ... and ``"validation"``, that of ``validation_fraction``.
    sampling_history_ : list of dict
        By iteration: rate, mu, lam, rows, certain, max_weight, effective_sample_size.
    stop_reason_ : str
        Why training ended.
    stage_times_ : dict
        Seconds spent in each verb of the backend, and in ``"evaluation"``. A file keeps neither
        these nor ``sampling_history_`` and ``stop_reason_``.
    feature_importances_ : array
        Share of each column in the total gain.

    Examples
    --------
    {example}
    """


def documentation(estimator: str, task: str, example: str, more: str = "") -> str:
    """The docstring of an estimator, its parameters out of their one table."""
    parameters = describe(parameters_of(estimator))
    return _DOCUMENTATION.format(task=task, parameters=parameters, more=more, example=example)
