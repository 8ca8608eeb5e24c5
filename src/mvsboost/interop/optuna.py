"""Pruning of Optuna's trials: a fit that promises nothing ends early."""

from __future__ import annotations

from typing import Any

from mvsboost.callbacks import Callback, Progress

__all__ = ["PruningCallback"]


class PruningCallback(Callback):
    """Report a metric to a trial after each iteration, and end the fit where the trial says so.

    Parameters
    ----------
    trial : optuna.Trial
    data, metric : str, optional
        Evaluation set and metric to report; by default the first ones that early stopping would
        watch.
    """

    def __init__(self, trial: Any, data: str | None = None, metric: str | None = None) -> None:
        self._trial, self._data, self._metric = trial, data, metric

    def after_iteration(self, progress: Progress) -> None:
        """Report the metric; a trial that is to be pruned raises `optuna.TrialPruned`."""
        import optuna

        data = self._data or (progress.held_out or progress.eval_sets)[0]
        metric = self._metric or next(iter(progress.metrics))
        value = progress.model.history[data][metric][-1]
        self._trial.report(value, progress.iteration)
        if self._trial.should_prune():
            raise optuna.TrialPruned(f"pruned at iteration {progress.iteration + 1}")
