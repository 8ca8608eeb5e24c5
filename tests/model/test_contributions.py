"""SHAP values against their definition, by all orders of columns on small models."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import DataError
from mvsboost.model import contributions
from mvsboost.model.contributions import Paths
from mvsboost.trees import Tree


def expectation(tree, source, bins, known, node=0):
    """Mean value of a tree where only some columns are known, by the rows in each child."""
    if tree.left[node] < 0:
        return float(tree.value[node])
    children = tree.left[node], tree.right[node]
    if source[tree.feature[node]] in known:
        goes_left = tree.goes_left()[node, bins[tree.feature[node]]]
        return expectation(tree, source, bins, known, children[0 if goes_left else 1])
    rows = np.array([tree.cover[child] for child in children])
    share = rows / rows.sum() if rows.sum() > 0 else np.full(2, 0.5)
    return sum(
        w * expectation(tree, source, bins, known, child)
        for w, child in zip(share, children, strict=True)
    )


def subsets(columns):
    return [set(s) for n in range(len(columns) + 1) for s in combinations(columns, n)]


def by_definition(model, output, bins, n):
    """Shapley values of one row, and the mean, from the definition."""
    trees = [trees[output] for trees in model.iterations[: model.used_iterations()]]

    def game(known):
        value = sum(expectation(tree, model.mapper.source, bins, known) for tree in trees)
        return float(model.baseline[output]) + value

    found = np.zeros(n + 1)
    for i in range(n):
        for s in subsets([j for j in range(n) if j != i]):
            weight = factorial(len(s)) * factorial(n - 1 - len(s)) / factorial(n)
            found[i] += weight * (game(s | {i}) - game(s))
    found[n] = game(set())
    return found


def interactions_by_definition(model, output, bins, n):
    trees = [trees[output] for trees in model.iterations[: model.used_iterations()]]

    def game(known):
        return sum(expectation(tree, model.mapper.source, bins, known) for tree in trees)

    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            for s in subsets([k for k in range(n) if k not in (i, j)]):
                weight = factorial(len(s)) * factorial(n - 2 - len(s)) / factorial(n - 1) / 2
                found[i, j] += weight * (game(s | {i, j}) - game(s | {i}) - game(s | {j}) + game(s))
    found[np.arange(n), np.arange(n)] = by_definition(model, output, bins, n)[:n] - found.sum(1)
    return found


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    colour = np.array(["red", "green", "blue", None], object)[rng.integers(0, 4, n)]
    many = np.array([f"c{k}" for k in rng.integers(0, 40, n)], object)
    z = rng.integers(0, 3, n).astype(float)
    y = np.nan_to_num(x) * z + (colour == "red") + 0.3 * rng.normal(size=n)
    return {"x": x, "colour": colour, "many": many, "z": z}, y


@pytest.fixture(scope="module")
def regressor():
    X, y = table()
    # columns with more categories than bins become two features of one column
    return MVSRegressor(n_estimators=4, max_leaves=9, min_samples_leaf=5, max_bins=16).fit(X, y)


def test_values_are_those_of_the_definition(regressor):
    X, _ = table(12, seed=1)
    found, bins = regressor.predict_contributions(X), regressor.model_.bin(X)
    assert len(regressor.model_.mapper.features) > 4
    for row, own in zip(found, bins, strict=True):
        np.testing.assert_allclose(row, by_definition(regressor.model_, 0, own, 4), atol=1e-12)


def test_interactions_are_those_of_the_definition(regressor):
    X, _ = table(6, seed=2)
    found, bins = regressor.predict_contributions(X, interactions=True), regressor.model_.bin(X)
    for row, own in zip(found, bins, strict=True):
        expected = interactions_by_definition(regressor.model_, 0, own, 4)
        np.testing.assert_allclose(row[:4, :4], expected, atol=1e-12)
    plain = regressor.predict_contributions(X)
    np.testing.assert_allclose(found.sum(axis=2), plain, atol=1e-12)
    np.testing.assert_allclose(found, found.transpose(0, 2, 1), atol=1e-15)


@pytest.mark.parametrize("leaves", [2, 31, 200])
def test_rows_add_up_to_their_scores(leaves):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((4000, 30)) < 0.05, np.nan, rng.normal(size=(4000, 30)))
    y = (np.nan_to_num(X).sum(axis=1) + rng.normal(size=4000) > 0).astype(int)
    clf = MVSClassifier(n_estimators=5, max_leaves=leaves, min_samples_leaf=3, learning_rate=0.5)
    clf.fit(X, y)
    found = clf.predict_contributions(X)
    np.testing.assert_allclose(found.sum(axis=1), clf.decision_function(X), atol=1e-9)
    assert np.ptp(found[:, -1]) == 0.0
    first = clf.predict_contributions(X, n_iterations=2).sum(axis=1)
    np.testing.assert_allclose(first, clf.decision_function(X, n_iterations=2), atol=1e-9)


def test_several_outputs():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    clf = MVSClassifier(n_estimators=3, max_leaves=5).fit(X, y)
    found = clf.predict_contributions(X[:20])
    assert found.shape == (20, 3, 4)
    np.testing.assert_allclose(found.sum(axis=2), clf.decision_function(X[:20]), atol=1e-9)
    bins = clf.model_.bin(X[:20])
    np.testing.assert_allclose(found[0, 2], by_definition(clf.model_, 2, bins[0], 3), atol=1e-12)
    assert clf.predict_contributions(X[:20], interactions=True).shape == (20, 3, 4, 4)


def test_threads_and_blocks_change_nothing(regressor, monkeypatch):
    X, _ = table(200, seed=5)
    bins = regressor.model_.bin(X)
    whole = regressor.model_.contributions(bins, n_threads=1)
    monkeypatch.setattr(contributions, "BLOCK_ROWS", 7)
    np.testing.assert_array_equal(regressor.model_.contributions(bins, n_threads=2), whole)


def test_without_trees_there_is_only_the_mean():
    model = MVSRegressor(n_estimators=2).fit(np.zeros((30, 2)), np.arange(30.0))
    np.testing.assert_allclose(
        model.predict_contributions(np.ones((2, 2))), [[0, 0, 14.5]] * 2, atol=1e-6
    )


def chain(n):
    """A tree that tests one column after another on its only long path."""
    arrays = {name: getattr(Tree.single_leaf(), name) for name in Tree.__annotations__}
    arrays = {k: np.repeat(v, 2 * n + 1, axis=0) if np.ndim(v) else v for k, v in arrays.items()}
    for j in range(n):
        node = 2 * j
        arrays["feature"][node], arrays["threshold"][node] = j, 0
        arrays["left"][node], arrays["right"][node] = node + 1, node + 2
    arrays["cover"][:] = 1.0
    arrays["value"][2 * n] = 1.0
    return Tree(**arrays)


def test_a_path_has_at_most_64_columns():
    assert Paths.of(chain(64), np.arange(64)).length.max() == 64
    with pytest.raises(DataError, match="tests 65 columns"):
        Paths.of(chain(65), np.arange(65))


def test_a_long_path_adds_up():
    n = 40
    bins = np.ones((1, n), np.uint8)
    found = contributions.contributions_of([[chain(n)]], np.zeros(1), np.arange(n), n, bins)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found[0, 0, :n], (1.0 - 0.5**n) / n, rtol=1e-9)
