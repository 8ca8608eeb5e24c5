"""Interaction constraints: columns of a branch have a group in common."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost import MVSClassifier, MVSRegressor
from mvsboost.errors import ParameterError
from mvsboost.trees import Tree

pytestmark = pytest.mark.large

N_COLUMNS = 6


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, N_COLUMNS))
    X[:, 5] = rng.integers(0, 4, 1200)
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] * (X[:, 5] == 2) + X[:, 0] * X[:, 4]
    return X, y + 0.1 * rng.normal(size=1200)


def branches(tree: Tree, node: int = 0, path: frozenset[int] = frozenset()):
    """Sets of features on the way to each leaf."""
    if tree.left[node] < 0:
        yield path
        return
    for child in (tree.left[node], tree.right[node]):
        yield from branches(tree, int(child), path | {int(tree.feature[node])})


def all_branches(model):
    source = model.model_.mapper.source
    for trees in model.model_.iterations:
        for tree in trees:
            for path in branches(tree):
                yield {int(source[feature]) for feature in path}


OPTIONS = {"n_estimators": 8, "min_samples_leaf": 5, "max_leaves": 12}
WAYS = [
    {"sampler": "none"},
    {"sampler": "mvs"},
    {"sampler": "mvs", "second_look": 3},
    {"sampler": "mvs", "second_look": 2, "max_leaves": None, "max_depth": 4},
    {"sampler": "none", "colsample": 0.6},
    {"categorical_features": [5]},
]


@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_columns_of_a_branch_are_in_one_group(rows, ways):
    groups = [{0, 1}, {2, 3}, {0, 4, 5}]
    options = {**OPTIONS, "interaction_constraints": groups, **ways}
    model = MVSRegressor(**options).fit(*rows)
    found = list(all_branches(model))
    assert all(any(path <= group for group in groups) for path in found)
    assert any(len(path) > 1 for path in found)
    for other in ({"device": "reference"}, {"n_jobs": 1}, {"n_jobs": 2}):
        again = MVSRegressor(**options, **other).fit(*rows)
        assert again.predict(rows[0]).tolist() == model.predict(rows[0]).tolist()
    free = MVSRegressor(**{**OPTIONS, **ways}).fit(*rows)
    assert not all(any(path <= group for group in groups) for path in all_branches(free))


def test_columns_of_no_group_are_a_group(rows):
    model = MVSRegressor(interaction_constraints=[[0, 1]], **OPTIONS).fit(*rows)
    found = list(all_branches(model))
    assert all(path <= {0, 1} or path <= {2, 3, 4, 5} for path in found)
    assert any(len(path) > 1 and path <= {2, 3, 4, 5} for path in found)


def test_one_group_of_all_is_no_constraint(rows):
    model = MVSRegressor(interaction_constraints=[range(N_COLUMNS)], **OPTIONS).fit(*rows)
    free = MVSRegressor(**OPTIONS).fit(*rows)
    assert model.predict(rows[0]).tolist() == free.predict(rows[0]).tolist()


def test_no_interactions_is_a_sum_of_functions_of_single_columns(rows):
    X, y = rows
    model = MVSClassifier(interaction_constraints="no_interactions", **OPTIONS).fit(X, y > 0)
    assert all(len(path) <= 1 for path in all_branches(model))
    found = model.predict_contributions(X[:50], interactions=True)[:, :-1, :-1]
    off = found - found * np.eye(N_COLUMNS)
    np.testing.assert_allclose(off, 0.0, atol=1e-9)


def test_pairwise(rows):
    model = MVSRegressor(interaction_constraints="pairwise", **OPTIONS).fit(*rows)
    assert max(len(path) for path in all_branches(model)) == 2


def test_more_groups_than_bits_of_a_word():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 90))
    y = 0.1 * X.sum(axis=1) + 5.0 * ((X[:, 80] > 0) & (X[:, 89] > 0))
    groups = [[k] for k in range(88)] + [[80, 89], [88]]
    options = {**OPTIONS, "sampler": "none", "interaction_constraints": groups}
    model = MVSRegressor(**options).fit(X, y)
    found = list(all_branches(model))
    assert all(len(path) <= 1 or path == {80, 89} for path in found)
    assert any(path == {80, 89} for path in found)
    again = MVSRegressor(**options, device="reference").fit(X, y)
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_names_of_columns_and_files(rows, tmp_path):
    X, y = rows
    table = {f"c{k}": X[:, k] for k in range(N_COLUMNS)}
    options = {**OPTIONS, "interaction_constraints": [["c0", "c1"], ["c2", "c3", "c4", "c5"]]}
    model = MVSRegressor(**options).fit(table, y)
    assert all(path <= {0, 1} or path <= {2, 3, 4, 5} for path in all_branches(model))
    model.save(tmp_path / "m.json")
    again = MVSRegressor.load(tmp_path / "m.json")
    assert again.interaction_constraints == options["interaction_constraints"]


@pytest.mark.parametrize("wrong", ["all", [], [[]], [0, 1], [["c9"]], [[7]], 3])
def test_what_is_no_constraint(rows, wrong):
    with pytest.raises(ParameterError, match="interaction_constraints must be"):
        MVSRegressor(interaction_constraints=wrong).fit(*rows)
