"""Models and trainings in MLflow: `log_model`, `load_model`, `log_fit` and `autolog`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mvsboost.estimators import MVSClassifier, MVSRegressor, load_estimator

__all__ = ["autolog", "load_model", "log_fit", "log_model"]

_FILE = "model.json"
_AT_ONCE = 1000
"""Metrics that a tracking server takes in one call."""

_plain_fits: dict[type, Callable[..., Any]] = {}
"""Methods that `autolog` stands in for."""


def log_model(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a fitted estimator to the active run, as its JSON file; nothing is pickled.

    Parameters
    ----------
    model : MVSClassifier or MVSRegressor
    name : str
    **options
        Of ``mlflow.pyfunc.log_model``: ``signature``, ``input_example``, ...

    Returns
    -------
    ModelInfo
        Of MLflow; ``mlflow.pyfunc.load_model(info.model_uri)`` predicts, and `load_model` gives
        the estimator.
    """
    import mlflow

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / _FILE
        model.save(file)
        given = {"pip_requirements": [f"mvsboost=={version('mvsboost')}"], **options}
        return mlflow.pyfunc.log_model(
            name=name, loader_module=__name__, data_path=str(file), **given
        )


def load_model(uri: str) -> Any:
    """The estimator that `log_model` logged.

    Parameters
    ----------
    uri : str
        As MLflow takes it: ``"runs:/<run>/model"``, ``"models:/<name>/1"``, ``info.model_uri``.
    """
    import mlflow

    (file,) = Path(mlflow.artifacts.download_artifacts(uri)).rglob(_FILE)
    return _load_pyfunc(str(file))


def _load_pyfunc(path: str) -> Any:
    """Called by MLflow with what `log_model` gave as data."""
    return load_estimator(path)


def log_fit(model: Any) -> None:
    """Log parameters of a fitted estimator and its metrics by iteration to the active run."""
    import time

    import mlflow
    from mlflow.entities import Metric

    run = mlflow.active_run() or mlflow.start_run()
    mlflow.log_params({name: repr(value) for name, value in model.get_params(deep=False).items()})
    now = int(1000 * time.time())
    history = [
        Metric(f"{data} {metric}", value, now, step)
        for data, metrics in model.evals_result_.items()
        for metric, values in metrics.items()
        for step, value in enumerate(values, start=1)
    ]
    history.append(Metric("iterations", model.n_iter_, now, 0))
    for start in range(0, len(history), _AT_ONCE):
        mlflow.MlflowClient().log_batch(run.info.run_id, history[start : start + _AT_ONCE])


def autolog(*, log_models: bool = True, disable: bool = False) -> None:
    """Let every fit of this process log itself.

    A fit has a run of its own, inside the active one if there is one.

    Parameters
    ----------
    log_models : bool
        Whether to log the model with its parameters and metrics.
    disable : bool
        Go back to fits that log nothing.
    """
    for kind in (MVSClassifier, MVSRegressor):
        plain = _plain_fits.setdefault(kind, kind.fit)
        kind.fit = plain if disable else _logged(plain, log_models)  # type: ignore[method-assign]


def _logged(fit: Callable[..., Any], log_models: bool) -> Callable[..., Any]:
    @wraps(fit)
    def fit_and_log(self: Any, *args: Any, **given: Any) -> Any:
        with _run():
            fitted = fit(self, *args, **given)
            log_fit(fitted)
            if log_models:
                log_model(fitted)
        return fitted

    return fit_and_log


@contextmanager
def _run() -> Iterator[None]:
    import mlflow

    with mlflow.start_run(nested=mlflow.active_run() is not None):
        yield
