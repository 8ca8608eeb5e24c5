"""What happens beside the loop: early stopping, progress, checkpoints, a time limit.

A callback sees a `Progress` and says, before the first iteration or after one, why
training should stop, or nothing. All callbacks run in the iteration that stops. State that must
survive a resumed run is not kept here but in the model's history.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from mvsboost.errors import ParameterError
from mvsboost.model import Model
from mvsboost.runtime.bars import bar_of
from mvsboost.runtime.files import check_path

__all__ = [
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "LogProgress",
    "Progress",
    "ProgressBar",
    "TimeLimit",
]

logger = logging.getLogger("mvsboost")


@dataclass(frozen=True)
class Progress:
    """Where training stands.

    Attributes
    ----------
    iteration : int
        Number of the last iteration, from 0; -1 if there is none.
    n_iterations : int
        Iterations if nothing stops training.
    model : Model
        The model so far, with its history. Not a copy.
    metrics : mapping from name to bool
        Metrics, and whether greater is better.
    sample : dict or None
        Record of the last draw.
    eval_sets : tuple of str
        Names of the evaluation sets.
    held_out : tuple of str
        Evaluation sets that are not the training set.
    resumed : bool
        Whether the run resumes a checkpoint.
    failed : bool
        Whether an error or an interrupt ended the run. The last iteration may then be missing.
    """

    iteration: int
    n_iterations: int
    model: Model
    metrics: Mapping[str, bool]
    sample: Mapping[str, float] | None
    eval_sets: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    resumed: bool = False
    failed: bool = False

    def latest(self) -> dict[str, float]:
        """The last value of every metric of this run, by "set metric"."""
        return {
            f"{data} {metric}": values[-1]
            for data, metrics in self.model.history.items()
            for metric, values in metrics.items()
            if values and data in self.eval_sets and metric in self.metrics
        }


class Callback:
    """Base class of callbacks; override what you need.

    ``begin(progress)`` is called before the first iteration, ``after_iteration(progress)`` after
    each, and ``end(progress)`` at the end, also after an error. To stop training, return a reason
    (a text) from one of the first two; it becomes ``stop_reason_``.
    """

    def begin(self, progress: Progress) -> str | None:
        """Before the first iteration; a reason not to start, or None to go on."""
        return None

    def after_iteration(self, progress: Progress) -> str | None:
        """After an iteration; a reason to stop, or None to go on."""
        return None

    def end(self, progress: Progress) -> None:
        """After the last iteration, whatever ended it; `Progress.failed` tells of an error."""


class EarlyStopping(Callback):
    """Stop when a metric has not improved for some iterations.

    Sets the model's ``best_iteration``; predictions use that many trees.

    Parameters
    ----------
    rounds : int
        Iterations to wait for an improvement.
    data : str, optional
        Evaluation set to watch. The default is the first that is not the training set.
    metric : str, optional
        Metric to watch. The default is the first.
    min_delta : float
        An improvement must be larger than this.
    """

    def __init__(
        self,
        rounds: int,
        *,
        data: str | None = None,
        metric: str | None = None,
        min_delta: float = 0.0,
    ) -> None:
        _check_count("early_stopping_rounds", rounds)
        if not isinstance(min_delta, (int, float, np.number)) or not 0.0 <= min_delta < math.inf:
            raise ParameterError("EarlyStopping.min_delta", min_delta, "a finite number >= 0")
        self.rounds, self.data, self.metric, self.min_delta = rounds, data, metric, min_delta
        self._watched, self._sign, self._best = ("", ""), 1.0, 0

    def begin(self, progress: Progress) -> str | None:
        """Find what to watch, and the best so far if the model has a history of it.

        A run that was stopped by this very history is over when it is resumed.
        """
        if not progress.metrics or not progress.eval_sets:
            raise ParameterError(
                "early_stopping_rounds", self.rounds, "used with an eval_set or validation_fraction"
            )
        data = self.data or (progress.held_out or progress.eval_sets)[0]
        metric = self.metric or next(iter(progress.metrics))
        if data not in progress.eval_sets:
            raise ParameterError("EarlyStopping.data", data, f"one of {progress.eval_sets}")
        if metric not in progress.metrics:
            raise ParameterError(
                "EarlyStopping.metric", metric, f"one of {sorted(progress.metrics)}"
            )
        self._watched, self._best = (data, metric), 0
        self._sign = -1.0 if progress.metrics[metric] else 1.0
        values = progress.model.history.get(data, {}).get(metric, [])
        for count in range(1, len(values) + 1):
            self._compare(values[:count])
        reason = self._verdict(progress.model, values) if values else None
        return reason if progress.resumed else None

    def _compare(self, values: list[float]) -> None:
        """Note the last value if it is the best; `_best` counts values up to the best."""
        best = values[self._best - 1] if self._best else self._sign * math.inf
        if self._sign * values[-1] < self._sign * best - self.min_delta:
            self._best = len(values)

    def _verdict(self, model: Model, values: list[float]) -> str | None:
        """Note the best iteration; a reason to stop if it is long ago."""
        # iterations of a model continued from may lie before the first value
        first = model.n_iterations - len(values)
        model.best_iteration = first + self._best if self._best else None
        if len(values) - self._best >= self.rounds:
            data, metric = self._watched
            return f"{data} {metric} has not improved for {self.rounds} iterations"
        return None

    def after_iteration(self, progress: Progress) -> str | None:
        """Compare the latest value with the best one."""
        data, metric = self._watched
        values = progress.model.history[data][metric]
        self._compare(values)
        return self._verdict(progress.model, values)


class TimeLimit(Callback):
    """Stop after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        if not isinstance(seconds, (int, float, np.number)) or not seconds > 0:
            raise ParameterError("TimeLimit.seconds", seconds, "positive")
        self.seconds = seconds
        self._start = 0.0

    def begin(self, progress: Progress) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def after_iteration(self, progress: Progress) -> str | None:
        """Look at the clock."""
        if time.perf_counter() - self._start >= self.seconds:
            return f"the time limit of {self.seconds} s is reached"
        return None


class Checkpoint(Callback):
    """Save the model atomically every n iterations and at the end.

    To resume training, call ``fit(..., resume=path)``, or ``train`` with ``resume=True`` and the
    loaded model as ``init_model``.
    """

    def __init__(self, path: str | PathLike[str], every: int = 10) -> None:
        _check_count("Checkpoint.every", every)
        self.path, self.every = path, every

    def begin(self, progress: Progress) -> None:
        """Make sure, before any work is done, that there is a folder to save in."""
        check_path(self.path, "Checkpoint.path")

    def after_iteration(self, progress: Progress) -> str | None:
        """Save when it is time."""
        if (progress.iteration + 1) % self.every == 0:
            progress.model.save(self.path)
        return None

    def end(self, progress: Progress) -> None:
        """Save what there is; after an error the last whole checkpoint stays."""
        if not progress.failed:
            progress.model.save(self.path)


class LogProgress(Callback):
    """Log the metrics every n iterations through Python's `logging`."""

    def __init__(self, every: int = 10) -> None:
        _check_count("LogProgress.every", every)
        self.every = every
        self._own: list[logging.Handler] = []
        self._level: int | None = None

    def begin(self, progress: Progress) -> None:
        """Make sure that what is logged can be seen."""
        if not logger.hasHandlers():
            self._own.append(logging.StreamHandler())
            logger.addHandler(self._own[0])
        if not logger.isEnabledFor(logging.INFO):
            self._level = logger.level
            logger.setLevel(logging.INFO)

    def after_iteration(self, progress: Progress) -> str | None:
        """One line."""
        if (progress.iteration + 1) % self.every == 0:
            values = "  ".join(f"{name} {value:.6g}" for name, value in progress.latest().items())
            rows = "" if progress.sample is None else f"  rows {progress.sample['rows']:,.0f}"
            logger.info("iteration %d%s  %s", progress.iteration + 1, rows, values)
        return None

    def end(self, progress: Progress) -> None:
        """Say where training ended, and leave logging as it was, or lines would appear twice."""
        if not progress.failed:
            best = progress.model.best_iteration
            told = "" if best is None else f", best {best}"
            logger.info("stopped at %d%s", progress.iteration + 1, told)
        while self._own:
            logger.removeHandler(self._own.pop())
        if self._level is not None:
            logger.setLevel(self._level)
            self._level = None


class ProgressBar(Callback):
    """A progress bar (needs tqdm: ``pip install tqdm``)."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._bar: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no bar until its own run begins: what is on a screen cannot be copied."""
        return {**vars(self), "_bar": None}

    def begin(self, progress: Progress) -> None:
        """Show an empty bar."""
        first = progress.iteration + 1
        self._bar = bar_of(total=progress.n_iterations, initial=first, unit="tree", **self._options)

    def after_iteration(self, progress: Progress) -> str | None:
        """Move it on."""
        self._bar.set_postfix({name: f"{value:.5f}" for name, value in progress.latest().items()})
        self._bar.update()
        return None

    def end(self, progress: Progress) -> None:
        """Close it."""
        self._bar.close()
        self._bar = None


def check_callbacks(callbacks: Any) -> list[Callback]:
    """Some callbacks as a list, once it is sure that they are some; None is none.

    Examples
    --------
    >>> check_callbacks([print])
    Traceback (most recent call last):
        ...
    mvsboost.errors.ParameterError: callbacks must be a list of mvsboost.callbacks.Callback, \
got <built-in function print>
    """
    every = list(callbacks or ())
    for callback in every:
        if not isinstance(callback, Callback):
            raise ParameterError("callbacks", callback, "a list of mvsboost.callbacks.Callback")
    return every


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, (int, np.integer)) or value < 1:
        raise ParameterError(name, value, "a positive integer")
