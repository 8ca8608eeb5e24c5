"""Many trees at once: the same scores and leaves as one tree after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mvsboost.model import forest as forests
from mvsboost.model.forest import Forest
from mvsboost.trees import Tree


def leaf_by_hand(tree, row):
    node = 0
    while tree.feature[node] >= 0:
        goes = tree.goes_left()[node, row[tree.feature[node]]]
        node = tree.left[node] if goes else tree.right[node]
    return node


@pytest.fixture(scope="module")
def iterations(mixed_tree):
    """Three iterations of two outputs, one tree of a single leaf among them."""
    later = np.where(mixed_tree.threshold < 0, -1, mixed_tree.threshold + 3).astype(np.int32)
    other = replace(mixed_tree, value=mixed_tree.value * 3 + 1, threshold=later)
    single = Tree.single_leaf(0.25)
    return [[mixed_tree, other], [single, mixed_tree], [other, single]]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("masked_rows", [0, 10**6])
def test_scores_and_leaves(
    iterations, n_threads, masked_rows, make_rows, few_rows_each, monkeypatch
):
    monkeypatch.setattr(forests, "MASKED_ROWS", masked_rows)
    monkeypatch.setattr(forests, "BLOCK_ROWS", 64)
    bins = make_rows(600 if n_threads > 1 else 100).bins
    forest = Forest.from_iterations(iterations)
    scores = np.full((2, len(bins)), 0.5)
    threads = few_rows_each(n_threads)
    forest.add_to(scores, bins, threads)
    leaves = forest.leaves(bins, threads)
    assert leaves.shape == (len(bins), 6)
    trees = [tree for group in iterations for tree in group]
    for i in range(0, len(bins), 13):
        nodes = [leaf_by_hand(tree, bins[i]) for tree in trees]
        numbers = [int(t.leaf_numbers()[n]) for t, n in zip(trees, nodes, strict=True)]
        assert leaves[i].tolist() == numbers
        expected = np.full(2, 0.5)
        for t, (tree, node) in enumerate(zip(trees, nodes, strict=True)):
            expected[t % 2] += tree.value[node]
        assert np.array_equal(scores[:, i], expected)


def test_no_trees_add_nothing(make_rows):
    bins = make_rows(10).bins
    forest = Forest.from_iterations([])
    scores = np.ones((1, 10))
    forest.add_to(scores, bins, 1)
    assert np.array_equal(scores, np.ones((1, 10)))
    assert forest.leaves(bins, 1).shape == (10, 0)


def test_no_rows(iterations, make_rows):
    bins = make_rows(10).bins[:0]
    scores = np.empty((2, 0))
    Forest.from_iterations(iterations).add_to(scores, bins, 2)
    assert Forest.from_iterations(iterations).leaves(bins, 2).shape == (0, 6)
