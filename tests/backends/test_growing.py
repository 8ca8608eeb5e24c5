"""The room that a whole tree is grown in."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mvsboost import MVSRegressor
from mvsboost.backends.cpu import CPUBackend, growing
from mvsboost.backends.cpu.growing import MOST_ROOM, Ways
from mvsboost.backends.draws import AllRows, SmallestKeys
from mvsboost.backends.messages import BinnedRows
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.boosting import train
from mvsboost.exact.fixedpoint import Packing
from mvsboost.exact.random import Purpose, stream_key
from mvsboost.objectives import Logistic, Squared
from mvsboost.sampling import MVS
from mvsboost.trees import FeatureTable, TreeParams, grow_tree

KEY = stream_key(0, 0, Purpose.ROUNDING)
DEEP = TreeParams(max_leaves=None, max_depth=20, min_samples_leaf=20)


def wide_rows(n_rows: int, n_features: int, n_bins: int) -> BinnedRows:
    rng = np.random.default_rng(0)
    bins = rng.integers(0, n_bins, (n_rows, n_features)).astype(np.uint8)
    target = np.sin(bins[:, 0] * 0.3) + bins[:, 1] % 5 + rng.normal(size=n_rows)
    return BinnedRows(bins, np.full(n_features, n_bins, np.int64), target)


def begun(make, rows, rule):
    """A backend that has begun a tree on the squared loss, and its packing."""
    backend = make(rows, Squared())
    backend.set_baseline(np.zeros(1))
    backend.compute_gradients(2)
    seen = backend.draw(rule)
    packing = Packing.choose(seen.n_rows, seen.max_gradient, seen.max_hessian, seen.max_weight)
    backend.begin_tree(0, KEY, packing, None)
    return backend, packing


def grown(backend, packing, params):
    n_bins = backend.rows.n_bins
    flags = np.zeros(len(n_bins), np.bool_)
    table = FeatureTable(n_bins, flags, flags.astype(np.int8))
    return grow_tree(backend, table, table.every, params, packing).structure


@pytest.mark.large
def test_a_deep_tree_takes_no_more_memory_than_its_rows_allow():
    backend, packing = begun(CPUBackend, wide_rows(4000, 30, 255), AllRows())
    grown(backend, packing, replace(DEEP, max_depth=1))  # what does not depend on the depth
    tracemalloc.start()
    try:
        tree = grown(backend, packing, DEEP)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tree.n_leaves > 50
    assert peak < 20e6  # room for a leaf a row would take 500 MB


@pytest.mark.parametrize(
    ("params", "rule", "leaves"),
    [
        (DEEP, AllRows(), 32),  # 600 / 20, and then the next power of two
        (replace(DEEP, max_depth=3), AllRows(), 8),
        (replace(DEEP, max_depth=None), AllRows(), 32),
        (replace(DEEP, max_leaves=7), AllRows(), 7),
        (replace(DEEP, max_leaves=10**9, max_depth=None), AllRows(), 32),
        (replace(DEEP, min_samples_leaf=0), AllRows(), 1024),
        (replace(DEEP, min_samples_leaf=1e-320), AllRows(), 1024),
        (replace(DEEP, min_samples_leaf=1000), AllRows(), 1),
        (replace(DEEP, min_samples_leaf=1, min_sampled=100), AllRows(), 8),
        # rows of the sample stand for several; weights decide, and each leaf has one at least
        (DEEP, SmallestKeys(KEY, np.uint64(2**62), 3.0), 32),
        (replace(DEEP, min_samples_leaf=1), SmallestKeys(KEY, np.uint64(2**62), 4.0), 256),
    ],
)
def test_leaves_that_the_rows_allow(params, rule, leaves):
    rows = wide_rows(600, 2, 12)
    backend, packing = begun(CPUBackend, rows, rule)
    tree = grown(backend, packing, params)
    assert backend.grower.room.size.leaves == leaves
    assert tree.n_leaves <= leaves
    assert tree.to_dict() == grown(*begun(ReferenceBackend, rows, rule), params).to_dict()


@pytest.mark.parametrize("few", [0, 1, 4, 7, 40, 512])
def test_small_nodes_have_no_histogram(few):
    rows = wide_rows(300, 2, 30)
    params = replace(DEEP, min_samples_leaf=1, min_child_weight=0.0, max_depth=None, l2=0.0)
    make = partial(CPUBackend, ways=Ways(small_node=few))
    backend, packing = begun(make, rows, AllRows())
    tree, size = grown(backend, packing, params), backend.grower.room.size
    assert size.leaves == 512
    assert size.slots == {0: 512, 1: 512, 4: 128, 7: 128, 40: 16, 512: 1}[few]
    assert tree.n_leaves > 64
    expected = grown(*begun(ReferenceBackend, rows, AllRows()), params)
    assert tree.to_dict() == expected.to_dict()


@pytest.mark.parametrize("second_look", [0, 2])
def test_what_has_no_room_is_grown_verb_by_verb(second_look, make_data, make_config, model_bytes):
    data, made = make_data("logistic"), []
    config = make_config(sampler=MVS(0.4), max_leaves=None, second_look=second_look)
    models = []
    for room in (MOST_ROOM, 0):
        backend = CPUBackend(data.rows, Logistic(), ways=Ways(room=room))
        models.append(train(data, config, backend=lambda rows, objective, one=backend: one).model)
        made.append(backend.grower.room is not None)
    assert made == [True, False]
    assert model_bytes(models[0]) == model_bytes(models[1])


@pytest.mark.parametrize(
    ("settings", "kernel"),
    [
        ({}, "grow"),
        ({"l1": 0.1, "colsample": 0.5}, "grow"),
        ({"second_look": 1}, "grow_full"),
        ({"categorical_features": [1]}, "grow_full"),
        ({"interaction_constraints": "no_interactions"}, "grow_full"),
        ({"monotone_constraints": [1, 0]}, "grow_full"),
        ({"monotone_constraints": [1, 0], "colsample": 0.5}, "grow_full"),
    ],
)
def test_a_fit_has_one_kernel_and_the_small_one_if_that_will_do(settings, kernel, monkeypatch):
    called = []
    monkeypatch.setattr(
        growing, "announce_compilation", lambda kernel: called.append(kernel.__name__)
    )
    X = np.random.default_rng(0).integers(0, 9, (600, 2)).astype(float)
    MVSRegressor(n_estimators=4, max_leaves=4, n_jobs=1, **settings).fit(X, X[:, 0] + X[:, 1] % 2)
    assert called == [kernel] * 4


def test_both_kernels_grow_the_same_trees():
    rows, trees = wide_rows(2000, 3, 40), []
    params = replace(DEEP, max_leaves=31, l1=0.1)
    for full in (False, True):
        make = partial(CPUBackend, ways=Ways(full=full))
        trees.append(grown(*begun(make, rows, AllRows()), params).to_dict())
    assert trees[0] == trees[1]


def test_room_is_kept_while_samples_are_a_little_smaller():
    rows, rooms = wide_rows(600, 3, 40), []
    backend = CPUBackend(rows, Squared())
    backend.set_baseline(np.zeros(1))
    backend.compute_gradients(2)
    for share in (0.9, 0.5, 0.2):
        seen = backend.draw(SmallestKeys(KEY, np.uint64(share * 2.0**64), 1.0 / share))
        packing = Packing.choose(seen.n_rows, seen.max_gradient, seen.max_hessian, seen.max_weight)
        backend.begin_tree(0, KEY, packing, None)
        grown(backend, packing, TreeParams(max_leaves=16, min_samples_leaf=5))
        rooms.append(backend.grower.room)
    assert all(room is rooms[0] for room in rooms)
