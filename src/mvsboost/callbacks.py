"""What happens beside the loop: early stopping, progress, checkpoints, a time limit.

A callback sees a `Progress` and says after an iteration why training should
stop, or nothing. All callbacks run in the iteration that stops. State that must
survive a resumed run is not kept here but in the model's history.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from mvsboost.errors import ParameterError
from mvsboost.model import Model

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
        Number of the iteration just done, from 0; before the first, one less.
    n_iterations : int
        Iterations there will be if nothing stops them.
    model : Model
        The model so far, its history included. Not a copy.
    metrics : mapping from name to bool
        Metrics that are evaluated, and whether greater is better.
    sample : dict or None
        Record of the last draw.
    """

    iteration: int
    n_iterations: int
    model: Model
    metrics: Mapping[str, bool]
    sample: Mapping[str, float] | None

    def latest(self) -> dict[str, float]:
        """The last value of every metric, by "set metric"."""
        return {
            f"{data} {metric}": values[-1]
            for data, metrics in self.model.history.items()
            for metric, values in metrics.items()
        }


class Callback:
    """Base of all callbacks; override what you need."""

    def begin(self, progress: Progress) -> None:
        """Before the first iteration."""

    def after_iteration(self, progress: Progress) -> str | None:
        """After an iteration; a reason to stop, or None to go on."""
        return None

    def end(self, progress: Progress) -> None:
        """After the last iteration, whatever ended it."""


class EarlyStopping(Callback):
    """Stop when a metric has not improved for some iterations.

    The model's ``best_iteration`` is set, and predictions use that many trees.

    Parameters
    ----------
    rounds : int
        Iterations without improvement to wait for.
    data : str, optional
        Evaluation set to watch; the first by default.
    metric : str, optional
        Metric to watch; the first by default.
    min_delta : float
        Smallest change that counts as an improvement.
    """

    def __init__(
        self,
        rounds: int,
        *,
        data: str | None = None,
        metric: str | None = None,
        min_delta: float = 0.0,
    ) -> None:
        if rounds < 1:
            raise ParameterError("early_stopping_rounds", rounds, "a positive integer")
        self.rounds, self.data, self.metric, self.min_delta = rounds, data, metric, min_delta

    def begin(self, progress: Progress) -> None:
        """Check that there is something to watch."""
        if not progress.metrics:
            raise ParameterError(
                "early_stopping_rounds", self.rounds, "used with an eval_set or validation_fraction"
            )
        if self.metric is not None and self.metric not in progress.metrics:
            raise ParameterError(
                "EarlyStopping.metric", self.metric, f"one of {sorted(progress.metrics)}"
            )

    def after_iteration(self, progress: Progress) -> str | None:
        """Compare the latest value with the best one."""
        data = self.data or next(iter(progress.model.history))
        metric = self.metric or next(iter(progress.metrics))
        sign = -1.0 if progress.metrics[metric] else 1.0
        values = progress.model.history[data][metric]
        done = progress.model.n_iterations
        before = done - len(values)  # iterations of a model continued from, never evaluated
        best = progress.model.best_iteration
        if best is None or best <= before:
            best = before + 1
        if sign * values[-1] < sign * values[best - before - 1] - self.min_delta:
            best = done
        progress.model.best_iteration = best
        if done - best >= self.rounds:
            return f"{data} {metric} has not improved for {self.rounds} iterations"
        return None


class TimeLimit(Callback):
    """Stop after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
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
    """Save the model every n iterations, atomically, and at the end.

    A training run that was cut off continues from the file: load it with
    ``Model.load`` and pass it as ``init_model``, or ``fit(..., resume=path)``.
    """

    def __init__(self, path: str | PathLike[str], every: int = 10) -> None:
        if every < 1:
            raise ParameterError("Checkpoint.every", every, "a positive integer")
        self.path, self.every = path, every

    def after_iteration(self, progress: Progress) -> str | None:
        """Save when it is time."""
        if (progress.iteration + 1) % self.every == 0:
            progress.model.save(self.path)
        return None

    def end(self, progress: Progress) -> None:
        """Save what there is."""
        progress.model.save(self.path)


class LogProgress(Callback):
    """Log the metrics every n iterations through Python's `logging`."""

    def __init__(self, every: int = 10) -> None:
        if every < 1:
            raise ParameterError("verbose", every, "a non-negative integer")
        self.every = every

    def begin(self, progress: Progress) -> None:
        """Make sure that what is logged can be seen."""
        if not logger.hasHandlers():
            logger.addHandler(logging.StreamHandler())
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)

    def after_iteration(self, progress: Progress) -> str | None:
        """One line."""
        if (progress.iteration + 1) % self.every == 0:
            values = "  ".join(f"{name} {value:.6g}" for name, value in progress.latest().items())
            rows = "" if progress.sample is None else f"  rows {progress.sample['rows']:,.0f}"
            logger.info("iteration %d%s  %s", progress.iteration + 1, rows, values)
        return None


class ProgressBar(Callback):
    """A progress bar (needs tqdm: ``pip install mvsboost[progress]``)."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._bar: Any = None

    def begin(self, progress: Progress) -> None:
        """Show an empty bar."""
        from tqdm.auto import tqdm

        first = progress.iteration + 1
        self._bar = tqdm(total=progress.n_iterations, initial=first, unit="tree", **self._options)

    def after_iteration(self, progress: Progress) -> str | None:
        """Move it on."""
        self._bar.set_postfix({name: f"{value:.5f}" for name, value in progress.latest().items()})
        self._bar.update()
        return None

    def end(self, progress: Progress) -> None:
        """Close it."""
        self._bar.close()
