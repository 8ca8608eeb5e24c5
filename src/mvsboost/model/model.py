"""A trained model: trees, baseline, objective, bins and schema; it predicts, saves and loads."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import Bins, bins_on_host
from mvsboost.backends.protocol import Backend
from mvsboost.data import BinMapper, Dataset, Schema, ingest
from mvsboost.errors import ModelFormatError, ParameterError
from mvsboost.metrics import Metric
from mvsboost.model.checking import check_mapper, check_schema, check_tests
from mvsboost.model.contributions import contributions_of
from mvsboost.model.files import read_json, write_json
from mvsboost.model.forest import Forest
from mvsboost.model.readable import node_records
from mvsboost.objectives import Objective, objective_from_dict
from mvsboost.trees import Tree

__all__ = ["FORMAT_VERSION", "Model"]

FORMAT = "mvsboost-model"
FORMAT_VERSION = 1

IMPORTANCES = ("gain", "split", "cover")


class Model:
    """Trees in the order they were boosted, and all that prediction needs.

    Attributes
    ----------
    iterations : list of list of Tree
        One tree an output for each boosting iteration.
    baseline : float64 array
        Score before the first tree, one number an output.
    objective : Objective
    mapper : BinMapper
    schema : Schema
    history : dict
        ``history[set][metric]`` lists a metric's value after each iteration; of a model that
        continued another, after each of its own.
    best_iteration : int or None
        Number of iterations predictions use; None for all.
    metadata : dict
        What the caller wants to keep in the file (class labels, parameters): plain JSON.
    """

    def __init__(
        self,
        objective: Objective,
        mapper: BinMapper,
        schema: Schema,
        baseline: NDArray[np.float64],
    ) -> None:
        self.objective = objective
        self.mapper = mapper
        self.schema = schema
        self.baseline = baseline
        self.iterations: list[list[Tree]] = []
        self.history: dict[str, dict[str, list[float]]] = {}
        self.best_iteration: int | None = None
        self.metadata: dict[str, Any] = {}
        self._laid_out: tuple[int, Forest] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the trees as predictions want them, which are laid out again when needed."""
        return {**vars(self), "_laid_out": None}

    @classmethod
    def empty(cls, dataset: Dataset, objective: Objective, baseline: NDArray[np.float64]) -> Model:
        """A model without trees for a data set's columns."""
        return cls(objective, dataset.mapper, dataset.schema, baseline)

    def copy(self) -> Model:
        """A model that can grow on without changing this one; trees are shared."""
        other = copy.copy(self)
        other.iterations = [list(trees) for trees in self.iterations]
        other.history = copy.deepcopy(self.history)
        other.metadata = copy.deepcopy(self.metadata)
        return other

    # --- growing --------------------------------------------------------------------------------

    @property
    def n_outputs(self) -> int:
        """Scores a row has."""
        return len(self.baseline)

    @property
    def n_iterations(self) -> int:
        """Boosting iterations the model holds."""
        return len(self.iterations)

    def last_trees(self) -> list[Tree]:
        """Trees of the last iteration; none before the first."""
        return self.iterations[-1] if self.iterations else []

    def append(self, trees: list[Tree]) -> None:
        """Add the trees of one iteration."""
        self.iterations.append(trees)
        self._laid_out = None

    def expect(self, data: str, metrics: Iterable[Metric]) -> None:
        """Make room for a set's metrics in the history."""
        for metric in metrics:
            self.history.setdefault(data, {}).setdefault(metric.name, [])

    def record(self, data: str, metric: Metric, value: float) -> None:
        """Append a metric's value to the history."""
        self.history[data][metric.name].append(value)

    def best_scores(self) -> dict[str, dict[str, float]]:
        """Metrics at the iterations that predictions use, by set and metric."""
        last = self.used_iterations() - self.n_iterations - 1
        return {
            data: {name: values[last] for name, values in metrics.items() if len(values) >= -last}
            for data, metrics in self.history.items()
        }

    def put_scores(self, backend: Backend) -> None:
        """Bring a backend's rows to the scores of this model, tree by tree."""
        backend.set_baseline(self.baseline)
        for trees in self.iterations:
            for output, tree in enumerate(trees):
                backend.apply_tree(tree, output)

    # --- predicting -----------------------------------------------------------------------------

    def bin(self, X: Any, estimator: str = "the model", n_threads: int = 1) -> Bins:
        """Bins of a table with the columns of training."""
        # a dict has no positions
        columns = self.schema.check(ingest(X), estimator, by_name=isinstance(X, dict))
        return self.mapper.transform(columns, n_threads)

    def used_iterations(self, n_iterations: int | None = None) -> int:
        """Iterations a prediction uses: those asked for, else the best, else all."""
        if n_iterations is None:
            return self.n_iterations if self.best_iteration is None else self.best_iteration
        if n_iterations not in range(self.n_iterations + 1):
            allowed = f"an integer from 0 to {self.n_iterations}"
            raise ParameterError("n_iterations", n_iterations, allowed)
        return int(n_iterations)

    def raw_scores(
        self, bins: Bins, n_iterations: int | None = None, n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Scores of binned rows, (n_outputs, n_rows); of rows on a device they are found there."""
        forest = self._forest(n_iterations)
        if not isinstance(bins, np.ndarray):
            found: NDArray[np.float64] = bins.scores(self.baseline, forest)
            return found
        scores = np.repeat(self.baseline[:, None], len(bins), axis=1)
        forest.add_to(scores, bins, n_threads)
        return scores

    def _forest(self, n_iterations: int | None = None) -> Forest:
        """The trees that a prediction uses; kept for the next, which may be of a row or two."""
        used, last = self.used_iterations(n_iterations), self._laid_out
        if last is None or last[0] != used:
            self._laid_out = last = used, Forest.from_iterations(self.iterations[:used])
        return last[1]

    def staged_scores(self, bins: Bins, n_threads: int = 1) -> Iterator[NDArray[np.float64]]:
        """Scores after each iteration in turn; each array is the caller's to keep."""
        bins = bins_on_host(bins)
        scores = np.repeat(self.baseline[:, None], len(bins), axis=1)
        for trees in self.iterations[: self.used_iterations()]:
            Forest.from_iterations([trees]).add_to(scores, bins, n_threads)
            yield scores.copy()

    def leaves(self, bins: Bins, n_threads: int = 1) -> NDArray[np.int32]:
        """Leaf of each row in each tree, (n_rows, n_trees), numbered within its tree."""
        return self._forest().leaves(bins_on_host(bins), n_threads)

    def predict(
        self, X: Any, n_threads: int = 1, *, n_iterations: int | None = None
    ) -> NDArray[np.float64]:
        """What the link makes of the scores: (n_rows,), or (n_rows, n_outputs) for several."""
        scores = self.raw_scores(self.bin(X, n_threads=n_threads), n_iterations, n_threads)
        predictions = self.objective.link.inverse(scores)
        return predictions[0] if self.n_outputs == 1 else predictions.T

    # --- explaining -----------------------------------------------------------------------------

    def contributions(
        self,
        bins: Bins,
        n_iterations: int | None = None,
        n_threads: int = 1,
        *,
        interactions: bool = False,
    ) -> NDArray[np.float64]:
        """SHAP values of binned rows in every column, and last the mean score.

        They have shape (n_outputs, n_rows, n_features + 1), and with `interactions` one axis more
        of the same length; see `contributions_of`.
        """
        return contributions_of(
            self.iterations[: self.used_iterations(n_iterations)],
            self.baseline,
            self.mapper.source,
            self.schema.n_features,
            bins_on_host(bins),
            interactions=interactions,
            n_threads=n_threads,
        )

    def importances(self, kind: str = "gain") -> NDArray[np.float64]:
        """Importance of each input column, in the order of training.

        Parameters
        ----------
        kind : {"gain", "split", "cover"}
            Sum of the gains of its splits, their number, or the rows they divide.
        """
        if kind not in IMPORTANCES:
            raise ParameterError("kind", kind, "one of " + ", ".join(map(repr, IMPORTANCES)))
        totals = np.zeros(self.schema.n_features)
        source = self.mapper.source
        for trees in self.iterations[: self.used_iterations()]:
            for tree in trees:
                inner = ~tree.is_leaf
                amount = np.ones(tree.n_nodes) if kind == "split" else getattr(tree, kind)
                np.add.at(totals, source[tree.feature[inner]], amount[inner])
        return totals

    def to_dataframe(self) -> Any:
        """A pandas table of all nodes, with the thresholds and categories of the user's columns.

        One row a node, in the order of iteration, output and node. Leaves have a ``value`` and
        no split; of a split, rows go left that have less than ``threshold`` or one of
        ``categories``, and missing values where ``missing_left`` says so.
        """
        import pandas as pd

        used = self.iterations[: self.used_iterations()]
        nodes = pd.DataFrame(node_records(used, self.mapper, self.schema))
        whole = ["parent", "left", "right"]  # none at the root, or in a leaf
        return nodes.astype(dict.fromkeys(whole, "Int64"))

    # --- saving ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON; floats keep every bit."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "objective": self.objective.to_dict(),
            "baseline": self.baseline.tolist(),
            "best_iteration": self.best_iteration,
            "metadata": self.metadata,
            "history": _each_value(self.history, _written),
            "schema": self.schema.to_dict(),
            "mapper": self.mapper.to_dict(),
            "iterations": [[tree.to_dict() for tree in trees] for trees in self.iterations],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Model:
        """The inverse of `to_dict`."""
        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            raise ModelFormatError("the file is not a model of mvsboost")
        if state.get("version") != FORMAT_VERSION:
            raise ModelFormatError(
                f"the model has format version {state.get('version')!r}, this release reads "
                f"{FORMAT_VERSION}; use the release that wrote it"
            )
        try:
            model = cls(
                objective_from_dict(state["objective"]),
                BinMapper.from_dict(state["mapper"]),
                Schema.from_dict(state["schema"]),
                np.array(state["baseline"], np.float64),
            )
            model.best_iteration = state["best_iteration"]
            model.metadata = dict(state["metadata"])
            model.history = _each_value(state["history"], _read)
            model.iterations = [
                [Tree.from_dict(tree) for tree in trees] for trees in state["iterations"]
            ]
        except ModelFormatError:
            raise
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
            ArithmeticError,
        ) as error:
            raise ModelFormatError(f"the model file is damaged: {error!r}") from error
        model._check()
        return model

    def _check(self) -> None:
        """All parts must fit each other."""
        check_schema(self.schema)
        check_mapper(self.mapper, self.schema)
        expected = (self.objective.n_outputs,)
        if self.baseline.shape != expected or not np.isfinite(self.baseline).all():
            raise ModelFormatError(
                f"the model file must have {expected[0]} finite number(s) as its baseline, "
                f"got {self.baseline.tolist()}"
            )
        for trees in self.iterations:
            if len(trees) != self.n_outputs:
                raise ModelFormatError("the model file has trees for another number of outputs")
            for tree in trees:
                check_tests(tree, self.mapper)
        best = self.best_iteration
        if best is not None and (type(best) is not int or not 0 <= best <= self.n_iterations):
            raise ModelFormatError(f"the model file has {best!r} as its best iteration")

    def save(self, path: str | PathLike[str]) -> None:
        """Write one JSON file, gzipped if the name ends in ``.gz``; all of it or nothing."""
        write_json(path, self.to_dict(), checked=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Model:
        """Read a file that `save` wrote. Nothing in it is executed."""
        state = read_json(path)
        try:
            return cls.from_dict(state)
        except ModelFormatError as error:
            raise ModelFormatError(f"{os.fspath(path)}: {error}") from error


def _each_value(
    history: Mapping[str, Mapping[str, list[Any]]], change: Callable[[Any], Any]
) -> dict[str, dict[str, list[Any]]]:
    """A history with every value changed."""
    return {
        data: {metric: [change(value) for value in values] for metric, values in metrics.items()}
        for data, metrics in history.items()
    }


_INFINITE = {"inf": math.inf, "-inf": -math.inf}


def _written(value: float) -> float | str | None:
    """A metric's value as JSON allows, which knows neither NaN nor infinity."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(float(value))


def _read(value: Any) -> float:
    """The inverse of `_written`."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _INFINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"history: {value!r} is not a number")
    return value
