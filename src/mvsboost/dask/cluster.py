"""Tables of Dask as data sets whose rows stay on the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, wait
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows, RowObjective
from mvsboost.dask import partitions
from mvsboost.dask.backend import DaskBackend
from mvsboost.dask.partitions import Recipe, Summary
from mvsboost.dask.session import MOST_PEERS, Session, Traffic, Waiting
from mvsboost.data import BinFeature, BinMapper, CategoricalColumn, Columns, Dataset, Schema
from mvsboost.data.binning import SAMPLE_ROWS, TrainingRows, sampled_rows
from mvsboost.data.parts import features_of, merge_described, rows_within
from mvsboost.data.targets import unit_of_weights
from mvsboost.errors import DataError, ParameterError

__all__ = ["Cluster", "DaskDataset", "RemoteRows", "Table"]

_GROUPS = 8
"""Tasks that look for edges, at most."""


@dataclass(frozen=True, eq=False)
class RemoteRows:
    """Binned rows on the workers of a cluster; see `BinnedRows`.

    Attributes
    ----------
    runs : tuple of Future
        Of `BinnedRows`, in order.
    homes : tuple of str
        The worker that each run is on.
    checks : tuple of (int, int)
        Checksums of each run: of everything, and of what does not show the target.
    n_rows : int
    n_bins : int64 array
    is_weighted : bool
    """

    runs: tuple[Future, ...]
    homes: tuple[str, ...]
    checks: tuple[tuple[int, int], ...]
    n_rows: int
    n_bins: NDArray[np.int64]
    is_weighted: bool
    start: None = None
    pages: None = None

    @cached_property
    def target(self) -> NDArray[np.float64]:
        """The target, brought to the client: 8 bytes a row, for metrics that see all rows."""
        return np.concatenate(self._bring("target"))

    @cached_property
    def weight(self) -> NDArray[np.float64] | None:
        """Weights, brought to the client like the target."""
        return np.concatenate(self._bring("weight")) if self.is_weighted else None

    def _bring(self, name: str) -> list[Any]:
        client: Client = self.runs[0].client
        vectors = client.map(attrgetter(name), self.runs, pure=False)
        found: list[Any] = client.gather(vectors)
        return found


@dataclass(frozen=True, eq=False)
class DaskDataset(Dataset):
    """A data set whose rows are on the workers of a cluster."""

    def has_rows_of(self, other: Dataset) -> bool:
        """Whether the rows are those of another set, in the same partitions."""
        rows: Any = self.rows
        others: Any = other.rows
        return bool([fixed for _, fixed in rows.checks] == [fixed for _, fixed in others.checks])

    def fingerprint(self) -> str:
        """A short name for the rows, in their partitions."""
        rows: Any = self.rows
        return f"{rows.n_rows} rows, {'-'.join(f'{check:08x}' for check, _ in rows.checks)}"


@dataclass(frozen=True, eq=False)
class Table:
    """A table that has been read: what workers have of it, and what the client knows.

    Attributes
    ----------
    parts : tuple of Future
        Of `Part`, for partitions with rows.
    homes : tuple of str
        The worker that each is on.
    summaries : tuple of Summary
    weighted : bool
    """

    parts: tuple[Future, ...]
    homes: tuple[str, ...]
    summaries: tuple[Summary, ...]
    weighted: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(summary.n_rows for summary in self.summaries)

    @property
    def bounds(self) -> list[int]:
        """Where each part begins, and where the last one ends."""
        return [0, *np.cumsum([summary.n_rows for summary in self.summaries]).tolist()]

    @property
    def described(self) -> Columns:
        """What the columns are."""
        return merge_described([one.described for one in self.summaries if one.described])

    @property
    def labels(self) -> NDArray[Any]:
        """Labels that occur, or the least and the largest number."""
        return np.concatenate([one.labels.values for one in self.summaries if one.labels])

    @property
    def runs(self) -> list[tuple[int, int]]:
        """Parts that follow one another on the same worker: the first, and that after the last."""
        starts = [i for i, home in enumerate(self.homes) if i == 0 or home != self.homes[i - 1]]
        return list(zip(starts, [*starts[1:], len(self.homes)], strict=True))

    def counts(self, encode: Callable[[Any], NDArray[np.float64]], n: int) -> NDArray[np.int64]:
        """Rows of each class."""
        found = np.zeros(n, np.int64)
        for summary in self.summaries:
            if summary.labels is not None and summary.labels.counts is not None:
                found[encode(summary.labels.values).astype(int)] += summary.labels.counts
        return found


class Cluster:
    """A client's workers, and what is to be let go of at the end.

    Parameters
    ----------
    client : distributed.Client
    waiting : Waiting
    watch, most_peers
        See `Session`.
    """

    def __init__(
        self,
        client: Client,
        waiting: Waiting,
        watch: Callable[[str], None] | None = None,
        most_peers: int = MOST_PEERS,
    ) -> None:
        self.client, self.waiting, self.watch = client, waiting, watch
        self.most_peers = most_peers
        self.traffic = Traffic()
        self._sessions: list[Session] = []
        self._current = ExitStack()

    def __enter__(self) -> Cluster:
        self._current.enter_context(self.client.as_current())
        return self

    def __exit__(self, *error: object) -> None:
        for session in self._sessions:
            session.close()
        self._sessions = []
        self._current.close()

    # --- reading --------------------------------------------------------------------------------

    def read(
        self,
        X: Any,
        y: Any,
        weight: Any,
        *,
        where: str,
        categorical_features: Any,
        as_target: Callable[[Any], NDArray[Any]],
        classes: bool,
    ) -> Table:
        """Have workers read the partitions, neighbours on one worker where that has room."""
        vectors = {"y": y, "sample_weight": weight}
        blocks = [_blocks(X, f"{where} X")]
        for name, vector in vectors.items():
            if vector is None and name == "sample_weight":
                continue
            blocks.append(_blocks(vector, f"{where} {name}"))
            if len(blocks[-1]) != len(blocks[0]):
                raise DataError(
                    f"{where} X has {len(blocks[0])} partitions and {name} has {len(blocks[-1])}: "
                    "give them the same, for example by repartition or rechunk"
                )
        homes = self._homes(len(blocks[0]))
        kept: list[tuple[Future, Future, str]] = []
        numbered = enumerate(zip(*blocks, strict=True))
        for home, of_home in groupby(numbered, key=lambda one: homes[one[0]]):
            place = {"workers": [home], "allow_other_workers": True}
            numbers, several = zip(*of_home, strict=True)
            there = self.client.compute([list(one) for one in several], **place)
            for number, future in zip(numbers, there, strict=True):
                part = self.client.submit(
                    partitions.read,
                    future,
                    categorical_features,
                    number,
                    as_target,
                    pure=False,
                    **place,
                )
                summary = self.client.submit(partitions.summary_of, part, classes, pure=False)
                kept.append((part, summary, home))
        summaries = self._gather([summary for _, summary, _ in kept], f"partitions of {where}")
        rows = [
            (part, home, summary)
            for (part, _, home), summary in zip(kept, summaries, strict=True)
            if summary.n_rows
        ]
        if not rows:
            raise DataError(f"{where} X has no rows: all {len(kept)} partitions are empty")
        parts, homes_of, found = zip(*rows, strict=True)
        return Table(parts, homes_of, found, weight is not None)

    def _homes(self, n_parts: int) -> list[str]:
        """A worker for each partition; neighbours are together."""
        workers = sorted(self.client.nthreads())
        if not workers:
            try:
                self.client.wait_for_workers(1, timeout=self.waiting.limit)
            except TimeoutError:
                raise self.waiting.over("no worker has been there") from None
            workers = sorted(self.client.nthreads())
        return [workers[i * len(workers) // n_parts] for i in range(n_parts)]

    def _gather(self, futures: Sequence[Future], what: str) -> list[Any]:
        try:
            wait(list(futures), timeout=self.waiting.limit)
        except TimeoutError:
            raise self.waiting.over(f"{what} have not been ready") from None
        found: list[Any] = self.client.gather(list(futures))
        return found

    # --- binning --------------------------------------------------------------------------------

    def fit_bins(
        self,
        table: Table,
        encode: Callable[[Any], NDArray[np.float64]],
        by_class: NDArray[np.float64] | None,
        *,
        n_classes: int,
        max_bins: int,
        seed: int,
    ) -> DaskDataset:
        """Find the bins of a table, and bin it: those that `Dataset.from_data` finds."""
        described = table.described
        schema = Schema.from_columns(described)
        edges = self._edges(table, described, max_bins, seed)
        recipe = self._recipe(table, schema, BinMapper(()), encode, by_class)
        wide: list[Future] = []
        before: Any = None

        def ask(source: int, _: int) -> list[BinFeature]:
            nonlocal before
            codes = [
                self.client.submit(partitions.codes_of, part, recipe, source, pure=False)
                for part in table.parts
            ]
            settings = schema, n_classes, max_bins, seed
            one = self.client.submit(
                partitions.wide_features, codes, before, source, *settings, pure=False
            )
            before = self.client.submit(attrgetter("check"), one, pure=False)
            found = self.client.submit(attrgetter("features"), one, pure=False)
            wide.append(one)
            made: list[BinFeature] = self._gather([found], "means of the target")[0]
            return made

        features = features_of(described, schema.names, max_bins, edges.__getitem__, ask)
        training = None
        if wide:
            check = self._gather([before], "means of the target")[0]
            training = TrainingRows(int(seed), table.n_rows, check)
        recipe = self._recipe(table, schema, BinMapper(tuple(features), training), encode, by_class)
        return self._binned(table, recipe, wide)

    def bin(
        self,
        table: Table,
        schema: Schema,
        mapper: BinMapper,
        encode: Callable[[Any], NDArray[np.float64]],
        by_class: NDArray[np.float64] | None = None,
    ) -> DaskDataset:
        """Bin a table as another one was."""
        schema.check(table.described)
        return self._binned(table, self._recipe(table, schema, mapper, encode, by_class), [])

    def _recipe(
        self,
        table: Table,
        schema: Schema,
        mapper: BinMapper,
        encode: Callable[[Any], NDArray[np.float64]],
        by_class: NDArray[np.float64] | None,
    ) -> Recipe:
        largest = 1.0 if table.weighted else None
        if table.weighted:
            largest = max(summary.largest_weight for summary in table.summaries)
            if largest == 0.0:
                raise DataError("sample_weight must not be zero for every row")
        if by_class is not None:
            largest = self._largest_of_classes(table, encode, by_class)
        unit = 1.0 if largest is None else unit_of_weights(largest)
        return Recipe(schema, mapper, encode, by_class, unit)

    def _largest_of_classes(
        self, table: Table, encode: Callable[[Any], NDArray[np.float64]], by_class: Any
    ) -> float:
        plain = Recipe(Schema((), False), BinMapper(()), encode, by_class, 1.0)
        tops = [
            self.client.submit(partitions.largest_weight, part, plain, pure=False)
            for part in table.parts
        ]
        largest = max(self._gather(tops, "weights of classes"))
        if largest == 0.0:
            allowed = "such that it leaves a row to train on with a weight greater than zero"
            raise ParameterError("class_weight", by_class.tolist(), allowed)
        return float(largest)

    def _edges(
        self, table: Table, described: Columns, max_bins: int, seed: int
    ) -> dict[int, NDArray[np.float64]]:
        """Edges of the numeric columns, from a sample that goes from worker to worker."""
        numeric = [
            j
            for j, column in enumerate(described.columns)
            if not isinstance(column, CategoricalColumn)
        ]
        rows, bounds = sampled_rows(table.n_rows, seed, SAMPLE_ROWS), table.bounds
        groups = [numeric[i::_GROUPS] for i in range(min(_GROUPS, len(numeric)))]
        found = []
        for group in groups:
            samples = [
                self.client.submit(
                    partitions.sample_of, part, rows_within(rows, a, b), group, pure=False
                )
                for part, a, b in zip(table.parts, bounds[:-1], bounds[1:], strict=True)
            ]
            found.append(self.client.submit(partitions.edges_of, samples, max_bins, pure=False))
        edges: dict[int, NDArray[np.float64]] = {}
        for group, of_group in zip(groups, self._gather(found, "edges of bins"), strict=True):
            edges |= dict(zip(group, of_group, strict=True))
        return edges

    def _binned(self, table: Table, recipe: Recipe, wide: Sequence[Future]) -> DaskDataset:
        """Runs of binned rows, each on the worker that its parts are on."""
        runs, homes, bounds = [], [], table.bounds
        for first, last in table.runs:
            a, b, home = bounds[first], bounds[last], table.homes[first]
            place = {"workers": [home], "allow_other_workers": True}
            own = [
                self.client.submit(partitions.slice_of, one, a, b, pure=False, **place)
                for one in wide
            ]
            parts = list(table.parts[first:last])
            runs.append(
                self.client.submit(partitions.bin_run, parts, recipe, a, own, pure=False, **place)
            )
            homes.append(home)
        mapper = recipe.mapper
        checks = self._gather(
            [
                self.client.submit(partitions.checks_of, run, mapper.of_target, pure=False)
                for run in runs
            ],
            "binned rows",
        )
        weighted = table.weighted or recipe.by_class is not None
        rows: Any = RemoteRows(
            tuple(runs), tuple(homes), tuple(checks), table.n_rows, mapper.n_bins, weighted
        )
        extremes = recipe.encode(np.unique(table.labels))
        return DaskDataset(
            recipe.schema, mapper, rows, recipe.unit, for_training=True, extremes=extremes
        )

    # --- training -------------------------------------------------------------------------------

    def backend_factory(self, device: str) -> Callable[[BinnedRows, RowObjective], Any]:
        """A function that puts the rows of a data set behind a backend."""

        def make(rows: Any, objective: RowObjective) -> DaskBackend:
            session = Session(
                self.client,
                rows,
                objective,
                device,
                self.waiting,
                self.traffic,
                self.watch,
                self.most_peers,
            )
            self._sessions.append(session)
            return DaskBackend(session, rows.n_rows, objective.n_outputs)

        return make


def _blocks(table: Any, what: str) -> list[Any]:
    """The partitions of a collection, from the first rows to the last, each to be computed."""
    if not dask.is_dask_collection(table) or not hasattr(table, "to_delayed"):
        raise DataError(
            f"{what} must be a dask DataFrame, Series or Array, got {type(table).__name__}: make "
            "it one, for example with dask.dataframe.from_pandas or dask.array.from_array"
        )
    if hasattr(table, "chunks"):
        if table.ndim > 1:
            table = table.rechunk({1: -1})
        return list(table.to_delayed().ravel())
    return list(table.to_delayed())
