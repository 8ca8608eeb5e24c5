"""Estimators that train on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, TypeVar

import dask
import numpy as np
from distributed import Client, get_client
from numpy.typing import NDArray

from mvsboost.arguments import EvalRows, naming, starting_point
from mvsboost.dask.cluster import Cluster, DaskDataset, Table
from mvsboost.dask.session import Waiting
from mvsboost.data import Schema
from mvsboost.data.targets import labels_of, numbers_of, vector_of
from mvsboost.errors import DataError, ParameterError
from mvsboost.estimators import MVSClassifier, MVSRegressor
from mvsboost.estimators.fitting import MVSEstimator
from mvsboost.model import Model
from mvsboost.parameters import check_parameters

__all__ = ["DaskMVSClassifier", "DaskMVSRegressor"]

E = TypeVar("E", bound="_DaskEstimator")


class _DaskEstimator(MVSEstimator):
    """What both estimators share: collections go in and come out, rows stay on the workers."""

    client: Client | None
    timeout: float
    _local: type[MVSEstimator]

    def __init__(
        self, *, client: Client | None = None, timeout: float = 600.0, **parameters: Any
    ) -> None:
        super().__init__(**parameters)
        self.client, self.timeout = client, timeout

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(["client", "timeout", *cls._local._get_param_names()])

    def _cluster(self) -> Cluster:
        timeout = self.timeout
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ParameterError("timeout", timeout, "a number of seconds > 0")
        try:
            client = get_client() if self.client is None else self.client
        except ValueError as error:
            allowed = "a distributed.Client, or left out where one is active"
            raise ParameterError("client", self.client, allowed) from error
        return Cluster(client, Waiting(float(timeout)))

    def _fit(
        self,
        rows: EvalRows,
        held_out: list[EvalRows],
        init_model: Any,
        resume: str | PathLike[str] | None,
    ) -> None:
        self._refuse(rows.start, held_out)
        check_parameters(self._parameters())
        start = starting_point(init_model, resume, MVSEstimator)
        with self._cluster() as cluster:
            table = self._read(cluster, rows.X, rows.y, rows.weight, rows.name)
            encode = self._encoder(table, start)
            plan = self._plan(start, resume, evaluated=bool(held_out))
            dataset = self._dataset(cluster, table, encode, start, plan.seed)
            evaluation = {}
            for other in held_out:
                with naming(other.where):
                    evaluation[other.name] = self._evaluated(cluster, other, dataset)
                    evaluation[other.name].check_values(plan.objective)
            backend = cluster.backend_factory(str(self.device))
            self._boost(dataset, evaluation, plan, backend)
            self.traffic_ = cluster.traffic.as_dict()

    def _refuse(self, init_score: Any, held_out: list[EvalRows]) -> None:
        """Say what is not there for collections."""
        if self.validation_fraction is not None:
            allowed = "None for collections of dask: split them, and pass eval_set"
            raise ParameterError("validation_fraction", self.validation_fraction, allowed)
        if init_score is not None or any(rows.start is not None for rows in held_out):
            raise DataError("init_score is not there for collections of dask; fit locally with it")

    def _read(self, cluster: Cluster, X: Any, y: Any, weight: Any, where: str) -> Table:
        classes = isinstance(self, MVSClassifier)
        return cluster.read(
            X,
            y,
            weight,
            where=where,
            categorical_features=self.categorical_features,
            as_target=labels_of if classes else _numbers,
            classes=classes,
        )

    def _encoder(
        self, table: Table, start: Model | None
    ) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
        """What makes numbers of the target; classes are those of all partitions."""
        self._encode_target(np.unique(table.labels), start)
        return self._encoding()

    def _encoding(self) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
        if isinstance(self, MVSClassifier):
            return partial(_codes, self.classes_)
        return _numbers

    def _dataset(
        self,
        cluster: Cluster,
        table: Table,
        encode: Callable[[NDArray[Any]], NDArray[np.float64]],
        start: Model | None,
        seed: int,
    ) -> DaskDataset:
        """Rows to train on, in bins of their own, or in those of the model to start from."""
        n_classes, by_class = self._n_classes(), None
        if isinstance(self, MVSClassifier):
            by_class = self._by_class(table.counts(encode, len(self.classes_)))
        if start is not None and not start.mapper.statistics_sources:
            return cluster.bin(table, start.schema, start.mapper, encode, by_class)
        dataset = cluster.fit_bins(
            table, encode, by_class, n_classes=n_classes, max_bins=self.max_bins, seed=seed
        )
        if start is not None and not dataset.mapper.is_same_as(start.mapper):
            raise DataError(
                "a model with columns of many categories goes on, on a cluster, with the rows it "
                "was trained on only; fit locally with init_model"
            )
        return dataset

    def _evaluated(self, cluster: Cluster, rows: EvalRows, dataset: DaskDataset) -> DaskDataset:
        with naming(rows.where):
            table = self._read(cluster, rows.X, rows.y, rows.weight, rows.name)
            if isinstance(self, MVSClassifier):
                self._codes(np.unique(table.labels), "eval_set", "the training classes")
            return cluster.bin(table, dataset.schema, dataset.mapper, self._encoding())

    # --- what is the local estimator's ----------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        """Those that the local estimator has, too."""
        own = self.get_params(deep=False)
        return {name: own[name] for name in self._local._get_param_names()}

    def _about(self) -> dict[str, Any]:
        local = self._local(**self._parameters())
        if isinstance(self, MVSClassifier):
            local.classes_ = self.classes_
        return local._about()

    def to_local(self) -> Any:
        """The same as an estimator that needs no cluster."""
        local = self._local(**self._parameters())
        state = {k: v for k, v in vars(self).items() if k.endswith("_") and k != "traffic_"}
        local.__dict__.update(state)
        return local

    @classmethod
    def load(cls: type[E], path: str | PathLike[str], *, objective: Any = None) -> E:
        """Read an estimator that `save` wrote, here or locally.

        Parameters
        ----------
        path : path
        objective : object, optional
            The user's own that the model was trained for.
        """
        local = cls._local.load(path, objective=objective)
        estimator = cls(**local.get_params(deep=False))
        estimator.__dict__.update({k: v for k, v in vars(local).items() if k.endswith("_")})
        return estimator

    # --- predicting -----------------------------------------------------------------------------

    def _mapped(self, method: str, X: Any, n_iterations: int | None) -> Any:
        """What a method of the local estimator gives, as a collection where X is one."""
        local = self.to_local()
        if not dask.is_dask_collection(X):
            return getattr(local, method)(X, n_iterations=n_iterations)
        local.set_params(n_jobs=1)  # workers have several partitions at once
        if hasattr(X, "chunks"):
            sample = _empty_like(local, method)
            whole = X.rechunk({1: -1}) if X.ndim > 1 else X
            chunks = (whole.chunks[0], *((n,) for n in sample.shape[1:]))
            return whole.map_blocks(
                _predict_block,
                local,
                method,
                n_iterations,
                dtype=sample.dtype,
                chunks=chunks,
                drop_axis=[] if sample.ndim > 1 else [1],
                meta=sample,
            )
        if not hasattr(X, "map_partitions"):
            raise DataError(f"X must be a dask DataFrame or Array, got {type(X).__name__}")
        meta = _as_pandas(_empty_like(local, method), X._meta.index[:0], local, method)
        return X.map_partitions(_predict_partition, local, method, n_iterations, meta=meta)

    def predict(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Predictions: a collection for a collection, lazily; an array for anything else.

        Parameters
        ----------
        X : dask DataFrame or Array, or a local table
            With the columns of training.
        n_iterations : int, optional
            Use the trees of the first iterations only; by default ``n_iter_``.
        """
        return self._mapped("predict", X, n_iterations)


class DaskMVSClassifier(_DaskEstimator, MVSClassifier):
    """`MVSClassifier` on a Dask cluster: the same model, byte for byte.

    X, y, weights and evaluation sets are dask DataFrames, Series or Arrays of the same
    partitions. Rows stay on the workers, which answer with sums. If a worker is lost, its
    partitions are made again on another and training goes on. Parameters are those of
    `MVSClassifier`, and two more; ``validation_fraction`` and ``init_score`` are not there.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the one that is active.
    timeout : float, default=600
        Seconds that a round of questions, or rows on their way to a worker, may take.
    **parameters
        Those of `MVSClassifier`; ``n_jobs`` is for predictions from local tables.

    Attributes
    ----------
    traffic_ : dict
        Rounds of questions, by verb too, bytes sent and received, and runs of rows that were
        made again after their worker was lost.
    """

    _local = MVSClassifier

    def predict_proba(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Probabilities of the classes in the order of ``classes_``; see `predict`."""
        return self._mapped("predict_proba", X, n_iterations)

    def decision_function(self, X: Any, *, n_iterations: int | None = None) -> Any:
        """Raw scores; see `predict`."""
        return self._mapped("decision_function", X, n_iterations)


class DaskMVSRegressor(_DaskEstimator, MVSRegressor):
    """`MVSRegressor` on a Dask cluster: the same model, byte for byte.

    See `DaskMVSClassifier` for what goes in and what happens to it.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the one that is active.
    timeout : float, default=600
        Seconds that a round of questions, or rows on their way to a worker, may take.
    **parameters
        Those of `MVSRegressor`.

    Attributes
    ----------
    traffic_ : dict
        See `DaskMVSClassifier`.
    """

    _local = MVSRegressor


# --- on workers ---------------------------------------------------------------------------------


def _numbers(y: Any) -> NDArray[np.float64]:
    return numbers_of(vector_of(y))


def _codes(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    return np.searchsorted(classes, labels).astype(np.float64)


def _predict_block(X: Any, local: Any, method: str, n_iterations: int | None) -> Any:
    if not len(X):
        return _empty_like(local, method)
    return getattr(local, method)(X, n_iterations=n_iterations)


def _predict_partition(X: Any, local: Any, method: str, n_iterations: int | None) -> Any:
    return _as_pandas(_predict_block(X, local, method, n_iterations), X.index, local, method)


def _as_pandas(values: NDArray[Any], index: Any, local: Any, method: str) -> Any:
    import pandas as pd

    if values.ndim == 1:
        return pd.Series(values, index=index, name=method)
    names = getattr(local, "classes_", range(values.shape[1]))
    return pd.DataFrame(values, index=index, columns=list(names))


def _empty_like(local: Any, method: str) -> NDArray[Any]:
    """What a method gives for no rows."""
    schema: Schema = local.model_.schema
    table: Mapping[str, Any] = {
        feature.name: [None if feature.categories is None else feature.categories[0]]
        for feature in schema.features
    }
    one: NDArray[Any] = getattr(local, method)(table)
    return one[:0]
