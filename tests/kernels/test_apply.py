"""Leaves by masks: the same as by walking, also where planes have no room for all leaves."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.boosting import train
from mvsboost.data import Dataset
from mvsboost.kernels.apply import MASKED_SPLITS, PLANE, REMAINING, LeafFinder, number_dtype
from mvsboost.objectives import Squared


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 3000 if jit_enabled() else 600
    columns = {
        "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        "b": rng.normal(size=n),
        "kind": np.array(list("abcdefghijkl"), object)[rng.integers(0, 12, n)],
        "place": np.array([f"p{i}" for i in range(60)], object)[rng.integers(0, 60, n)],
        "street": np.array([f"s{i}" for i in range(40)], object)[rng.integers(0, 40, n)],
    }
    y = np.sin(5 * columns["b"]) + np.nan_to_num(columns["a"]) ** 2 + (columns["kind"] < "e")
    for name in ("place", "street"):
        effect = {kind: 1.5 * rng.normal() for kind in sorted(set(columns[name]))}
        y = y + np.array([effect[kind] for kind in columns[name]])
    return Dataset.from_data(columns, y + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize(
    "max_leaves",
    [2, 31, 32, 33, 65, *(pytest.param(n, marks=pytest.mark.large) for n in (256, 257, 350))],
)
def test_leaves_by_masks_are_leaves_by_walking(table, max_leaves, make_config):
    config = make_config(Squared(), max_leaves=max_leaves, min_samples_leaf=2, n_estimators=2)
    trees = [trees[0] for trees in train(table, config).model.iterations]
    assert max(tree.n_leaves for tree in trees) == max_leaves
    for make in (CPUBackend, partial(CPUBackend, n_threads=2)):
        ours, reference = make(table.rows, Squared()), ReferenceBackend(table.rows, Squared())
        for tree in trees:
            ours.apply_tree(tree, 0)
            reference.apply_tree(tree, 0)
            assert np.array_equal(ours.scores(), reference.scores())


@pytest.mark.large
def test_a_test_is_made_once_for_every_plane_with_leaves_to_its_left(table, make_config):
    for max_leaves in (8, 9, 256, 300):
        config = make_config(Squared(), max_leaves=max_leaves, min_samples_leaf=2)
        tree = train(table, config).model.iterations[0][0]
        tests = LeafFinder(tree).tests
        rows, looked_up = tests.rows[: tests.counts[0]], tests.looked_up[: tests.counts[1]]
        n_exits = min(max_leaves, MASKED_SPLITS + 1)
        many = np.flatnonzero((tree.threshold < 0) & (tree.missing_bin >= 32) & ~tree.is_leaf)
        many = many[tree.left[many] <= 2 * MASKED_SPLITS]
        assert len(tests.exits) == len(set(tests.exits)) == n_exits
        assert (rows[:, REMAINING] < 0xFF).all()
        assert rows[:, PLANE].max() <= (n_exits - 1) // 8
        assert n_exits - 1 <= len(rows) + len(many) < 2 * n_exits
        assert sorted(looked_up) == sorted(set(tree.feature[many]))
    assert len(many) > len(looked_up) == 2


def test_leaves_are_numbered_in_as_few_bytes_as_the_tree_allows():
    for n, dtype in ((1, np.uint8), (256, np.uint8), (257, np.uint16), (65_537, np.uint32)):
        assert number_dtype(n) is dtype
