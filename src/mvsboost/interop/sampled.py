"""Gradients of a sample of the rows, for hosts that ask an objective of their user's for them.

Rows that are not drawn get gradients of 0, drawn ones are weighted. The host goes on to visit all
rows, so it shows the quality of a sampler, and saves no time by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.data import check_weight
from mvsboost.errors import ParameterError
from mvsboost.objectives import make_objective
from mvsboost.sampling import LeafSummary, Sample, make_sampler
from mvsboost.sampling.gradient_rows import GradientRows

__all__ = ["SampledObjective"]

Gradients = tuple[NDArray[np.float64], NDArray[np.float64]]
HostObjective = Callable[[Any, Any], Gradients]


def _quantile(y: NDArray[np.float64], weight: NDArray[np.float64] | None, alpha: float) -> float:
    if weight is None:
        return float(np.quantile(y, alpha))
    order = np.argsort(y, kind="stable")
    up_to = np.cumsum(weight[order])
    return float(y[order][np.searchsorted(up_to, alpha * up_to[-1])])


class SampledObjective:
    """An objective whose gradients are those of drawn rows.

    Parameters
    ----------
    objective : str, Objective or callable
        A name, ours or the host's; an objective of this library; or a function of predictions and
        the host's data set, as the host takes it.
    sampler : str or Sampler
    n_classes : int, optional
        Of a name for several classes.
    learning_rate : float
        The host's, by which the last trees are told from the scores: λ of MVS needs them.
    seed : int

    Attributes
    ----------
    samples : list of Sample
        What each iteration drew.
    """

    def __init__(
        self,
        objective: Any = "logistic",
        sampler: Any = "mvs",
        *,
        n_classes: int | None = None,
        learning_rate: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.sampler = make_sampler(sampler)
        self.sampler.validate()
        if not learning_rate > 0:
            raise ParameterError("learning_rate", learning_rate, "a number > 0")
        own = callable(objective) and not hasattr(objective, "gradients")
        self._host: HostObjective | None = objective if own else None
        self.objective = None if own else make_objective(objective, n_classes=n_classes)
        self.learning_rate, self.seed = learning_rate, seed
        self.samples: list[Sample] = []
        self._before: NDArray[np.float64] | None = None

    def __deepcopy__(self, memo: Any) -> SampledObjective:
        """Itself: hosts copy their parameters, and the caller wants to see what was drawn."""
        return self

    def __call__(self, first: Any, second: Any, weight: Any = None) -> Gradients:
        """Gradients and hessians, for (predictions, data set) or for (y, predictions)."""
        if hasattr(second, "get_label"):
            predictions = np.asarray(first, np.float64)
            target, weight = second.get_label(), second.get_weight()
        else:
            predictions, target = np.asarray(second, np.float64), first
        if self.objective is None:
            assert self._host is not None
            g, h = (np.asarray(x, np.float64) for x in self._host(first, second))
        else:
            scores = np.atleast_2d(predictions.T)
            y = np.asarray(target, np.float64)
            g, h = (x.T.reshape(predictions.shape) for x in self.objective.gradients(y, scores))
            if weight is not None and len(weight):
                own = np.asarray(weight, np.float64).reshape(-1, *[1] * (g.ndim - 1))
                g, h = g * own, h * own
        drawn = self._draw(g, h, predictions).reshape(-1, *[1] * (g.ndim - 1))
        return g * drawn, h * drawn

    def start_score(self, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
        """The score to start from, one a row: hosts have none for an objective of their user's.

        Parameters
        ----------
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional
            Weights that the host is given, too.
        """
        if self.objective is None:
            raise ParameterError("objective", self._host, "one of this library, to know its start")
        y = np.asarray(y, np.float64)
        weight = check_weight(sample_weight, len(y), "sample_weight")
        several = self.objective.n_outputs > 1
        of_outputs = y[None, :] == np.arange(self.objective.n_outputs)[:, None] if several else [y]
        means = np.average(of_outputs, axis=1, weights=weight)
        start = self.objective.baseline(means, lambda alpha: _quantile(y, weight, alpha))
        return np.tile(start, (len(y), 1)) if len(start) > 1 else np.full(len(y), start[0])

    def _draw(
        self, g: NDArray[np.float64], h: NDArray[np.float64], scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Weight of each row, 0 where it is not drawn."""
        rows = GradientRows(g.T, h.T)
        leaves: tuple[LeafSummary, ...] = ()
        if self._before is not None and self._before.shape == scores.shape:
            steps = np.atleast_2d(((scores - self._before) / self.learning_rate).T)
            hessians = np.atleast_2d(h.T)
            leaves = tuple(map(LeafSummary, steps, hessians))
        previous = self.samples[-1] if self.samples else None
        context = rows.context(self.seed, len(self.samples), leaves=leaves, previous=previous)
        self.samples.append(self.sampler.draw(rows, context))
        self._before = scores.copy()
        return rows.weights
