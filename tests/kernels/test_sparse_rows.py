"""Rows as lists of what is sparse in them: the same trees, with fewer additions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.boosting import train
from mvsboost.data import Dataset
from mvsboost.kernels.small_nodes import MOST_ROWS
from mvsboost.kernels.sparse_rows import (
    COST_OF_A_SPARSE_ROW,
    LEAST_SHARE,
    SparseRows,
    SparseTable,
    make_sparse,
)
from mvsboost.objectives import Logistic, Softmax
from mvsboost.runtime.threads import ThreadPool
from mvsboost.sampling import MVS, SGB, NoSampling


def bins_of(sparse: SparseTable, lists: SparseRows) -> np.ndarray:
    """The table that lists stand for."""
    starts, lengths, entries = lists
    table = np.tile(np.maximum(sparse.usual, 0), (len(starts), 1))
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        own = entries[start : start + length]
        feature = np.searchsorted(sparse.places, own, side="right") - 1
        assert len(set(feature)) == len(feature) <= sparse.longest
        table[row, feature] = own - sparse.places[feature]
    return table


@given(
    bins=arrays(np.uint8, st.tuples(st.integers(1, 60), st.just(12)), elements=st.integers(0, 3)),
    n_threads=st.integers(1, 3),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lists_say_what_the_table_says(bins, n_threads, few_rows_each):
    bins[:, 1:] *= bins[:, 1:] > 2  # mostly 0
    sparse = make_sparse(bins, np.full(12, 3), few_rows_each(n_threads))
    assume(sparse is not None)
    assert np.array_equal(bins_of(sparse, sparse.lists), bins)


def test_only_what_is_not_usual_is_listed():
    rng = np.random.default_rng(0)
    bins = np.zeros((5000, 30), np.uint8)
    bins[np.arange(5000), rng.integers(0, 28, 5000)] = 1  # flags, one of them on in every row
    bins[:, 28:] = rng.integers(0, 200, (5000, 2))
    sparse = make_sparse(bins, np.array([2] * 28 + [200] * 2), ThreadPool(1))
    assert sparse is not None
    assert (sparse.lists.lengths == 3).all()
    assert sparse.usual.tolist() == [0] * 28 + [-1, -1]


def test_rows_with_nothing_usual_are_not_listed():
    bins = np.random.default_rng(0).integers(0, 200, (500, 12)).astype(np.uint8)
    assert make_sparse(bins, np.full(12, 200), ThreadPool(1)) is None
    few = np.zeros((500, COST_OF_A_SPARSE_ROW - 1), np.uint8)
    assert make_sparse(few, np.full(COST_OF_A_SPARSE_ROW - 1, 200), ThreadPool(1)) is None
    wide = np.zeros((2, 300), np.uint8)  # more entries than two bytes can name
    assert make_sparse(wide, np.full(300, 254), ThreadPool(1)) is None
    assert 0.0 < LEAST_SHARE < 1.0


@pytest.fixture(scope="module")
def flags():
    """Flags, amounts that are mostly 0, missing values, a category, and plain numbers."""
    rng = np.random.default_rng(3)
    n = 300 if jit_enabled() else 90
    which = rng.integers(0, 8, n)
    columns = {f"flag{k}": (which == k).astype(float) for k in range(8)}
    for k in range(6):
        columns[f"amount{k}"] = np.where(rng.random(n) < 0.8, 0.0, rng.exponential(size=n))
        columns[f"gap{k}"] = np.where(rng.random(n) < 0.7, np.nan, rng.normal(size=n))
    columns["kind"] = np.array(["a"] * 6 + list("bcd"), object)[rng.integers(0, 9, n)]
    columns["x"] = rng.normal(size=n)
    score = columns["x"] + columns["amount0"] - columns["flag2"] + (columns["kind"] == "b")
    score += np.nan_to_num(columns["gap1"]) + 0.5 * rng.normal(size=n)
    return columns, np.digitize(score, [-0.3, 0.6]).astype(float)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_a_tree_gathers_the_lists_of_drawn_rows(flags, n_threads, rate, make_config, sliced):
    if n_threads > 1 and not jit_enabled():
        pytest.skip("plain Python has no threads to grow a tree with")
    columns, y = flags
    data = Dataset.from_data(columns, np.minimum(y, 1.0), n_classes=2)
    backend = sliced(n_threads)(data.rows, Logistic())
    config = make_config(Logistic(), sampler=MVS(rate=rate), n_estimators=3)
    train(data, config, backend=lambda rows, objective: backend)
    assert 0 < len(backend._drawn) < data.rows.n_rows
    assert np.array_equal(bins_of(backend._sparse, backend._lists), data.rows.bins[backend._drawn])


@pytest.mark.parametrize("small_node", [0, 40, MOST_ROWS])
@pytest.mark.parametrize("sampler", [NoSampling(), MVS(rate=0.4), SGB(rate=0.3)], ids=repr)
@pytest.mark.parametrize(("look", "colsample"), [(0, 1.0), (0, 0.5), (3, 1.0), (3, 0.5)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_are_those_of_the_reference(
    flags, sampler, look, colsample, n_classes, small_node, make_config, sliced
):
    columns, y = flags
    if n_classes == 2:
        y = np.minimum(y, 1.0)
    data = Dataset.from_data(columns, y, n_classes=n_classes)
    objective = Logistic() if n_classes == 2 else Softmax(3)
    assert CPUBackend(data.rows, objective)._sparse is not None
    config = make_config(
        objective, sampler=sampler, second_look=look, n_estimators=2, min_samples_leaf=4
    )
    config = replace(config, colsample=colsample)
    check_against_reference(data, config, partial(sliced, small_node=small_node))


def check_against_reference(data, config, make):
    expected = train(data, replace(config, device="reference")).model.to_dict()
    for n_threads in (1, 3) if jit_enabled() else (3,):
        assert train(data, config, backend=make(n_threads)).model.to_dict() == expected
