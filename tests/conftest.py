"""Small data and helpers that several test files share, as fixtures."""

from __future__ import annotations

import os

# before Numba is imported; `make test-gpu` says 0
os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.growing import Ways
from mvsboost.backends.messages import BinnedRows
from mvsboost.boosting import TrainConfig
from mvsboost.data import Dataset
from mvsboost.model import Model
from mvsboost.objectives import Logistic, Squared
from mvsboost.runtime.threads import Smallest, ThreadPool
from mvsboost.sampling import NoSampling
from mvsboost.trees import Tree, TreeParams
from mvsboost.trees.tree import pack_set

N_BINS = np.array([5, 12, 1, 30], np.int64)
"""Bins of the features that `make_rows` gives; the first is meant as categorical."""


@pytest.fixture(scope="session")
def few_rows_each() -> Callable[[int], ThreadPool]:
    """``few_rows_each(3)``: threads that are worth waking for a few rows."""
    return partial(ThreadPool, smallest=Smallest(slice=7, part=7))


@pytest.fixture(scope="session")
def sliced(few_rows_each: Callable[[int], ThreadPool]) -> Callable[..., Callable[..., CPUBackend]]:
    """``sliced(3, small_node=40)`` makes backends whose threads and lanes share a few rows.

    So small data really is sliced.
    """

    def make(n_threads: int = 1, **ways: int) -> Callable[..., CPUBackend]:
        threads = few_rows_each(n_threads)
        return partial(CPUBackend, n_threads=threads, ways=Ways(lanes=1, **ways))

    return make


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., BinnedRows]:
    """Binned rows with missing values: ``make_rows(n, classes=3, weighted=True, offset=5)``."""

    def make(
        n: int = 150,
        *,
        classes: int = 0,
        counts: bool = False,
        weighted: bool = False,
        offset: int = 0,
        seed: int = 0,
    ) -> BinnedRows:
        rng = np.random.default_rng(seed)
        bins = rng.integers(0, N_BINS + 1, (n, len(N_BINS))).astype(np.uint8)
        if classes:
            target = rng.integers(0, classes, n).astype(np.float64)
        elif counts:
            target = rng.poisson(2.0, n).astype(np.float64)
        else:
            target = rng.normal(size=n) * 3.0 + bins[:, 1]
        weight = rng.choice([0.0, 0.1, 1.0, 2.5], n) if weighted else None
        return BinnedRows(bins, N_BINS, target, weight, offset)

    return make


@pytest.fixture(scope="session")
def mixed_tree() -> Tree:
    """Five nodes over the features of `make_rows`: a numeric test, then a categorical one."""
    table = np.zeros(256, np.uint8)
    table[[0, 2, 5]] = 1
    leaf = -1
    return Tree(
        feature=np.array([1, 0, leaf, leaf, leaf], np.int32),
        threshold=np.array([4, -1, -1, -1, -1], np.int32),
        missing_left=np.array([True, True, False, False, False]),
        categories=np.array([-1, 0, -1, -1, -1], np.int32),
        category_sets=pack_set(table)[None, :],
        missing_bin=np.array([12, 5, 0, 0, 0], np.int32),
        left=np.array([1, 3, leaf, leaf, leaf], np.int32),
        right=np.array([2, 4, leaf, leaf, leaf], np.int32),
        value=np.array([0.0, 0.0, 0.7, -1.3, 0.2]),
        gain=np.array([3.0, 1.0, 0.0, 0.0, 0.0]),
        cover=np.array([100.0, 60.0, 40.0, 20.0, 40.0]),
        hessian=np.array([25.0, 15.0, 10.0, 5.0, 10.0]),
    )


@pytest.fixture(scope="session")
def make_data() -> Callable[..., Dataset]:
    """A table of three numeric columns (one with holes) and a category: ``make_data("logistic")``.

    Targets are made for the objective of that name.
    """

    def make(
        objective: str = "logistic",
        n: int = 300,
        *,
        weighted: bool = False,
        seed: int = 0,
        like: Dataset | None = None,
    ) -> Dataset:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 4))
        X[:, 3] = rng.integers(0, 6, n)
        signal = (
            1.5 * X[:, 0] - np.abs(X[:, 1]) + np.array([0, 2, -1, 1, 0, -2])[X[:, 3].astype(int)]
        )
        X[rng.random(n) < 0.2, 1] = np.nan
        noisy = signal + rng.normal(size=n)
        if objective == "logistic":
            y = (noisy > 0).astype(float)
        elif objective == "softmax":
            y = np.digitize(noisy, [-1.0, 1.0]).astype(float)
        elif objective == "poisson":
            y = rng.poisson(np.exp(np.clip(0.5 * signal, -3, 2))).astype(float)
        else:
            y = noisy
        weight = rng.choice([0.1, 1.0, 3.0], n) if weighted else None
        shared: dict[str, Any] = {"categorical_features": [3], "max_bins": 16}
        if like is not None:
            shared = {"mapper": like.mapper, "schema": like.schema}
        return Dataset.from_data(X, y, weight=weight, **shared)

    return make


@pytest.fixture(scope="session")
def make_config() -> Callable[..., TrainConfig]:
    """A quick `TrainConfig`; fields of `TreeParams` may be given directly."""

    def make(objective: Any = None, sampler: Any = None, **options: Any) -> TrainConfig:
        names = set(TreeParams.__dataclass_fields__)
        tree = {key: options.pop(key) for key in list(options) if key in names}
        tree = {"max_leaves": 6, "min_samples_leaf": 5, **tree}
        options = {"n_estimators": 3, "learning_rate": 0.3, **options}
        return TrainConfig(
            Logistic() if objective is None else objective,
            NoSampling() if sampler is None else sampler,
            tree=TreeParams(**tree),
            **options,
        )

    return make


@pytest.fixture(scope="session")
def model_bytes() -> Callable[[Model], bytes]:
    """The bytes of a model's file."""
    return lambda model: json.dumps(model.to_dict(), allow_nan=False).encode()


@pytest.fixture(scope="session")
def regression() -> tuple[Dataset, Squared]:
    """A smooth curve in one column and a column of noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (400, 2))
    return Dataset.from_data(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)), Squared()
