"""Trees in the words of the table: the tests send rows where the bins do."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from mvsboost import MVSRegressor
from mvsboost.model.readable import column_splits


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    n = 500
    X = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "town": [f"t{k}" for k in rng.integers(0, 50, n)],
        }
    )
    y = np.nan_to_num(X["x"]) + (X["colour"] == "red") + X["town"].str[1:].astype(int) / 20
    return MVSRegressor(n_estimators=6, max_bins=16, min_samples_leaf=5).fit(X, y), X


def walk(table, row):
    """The value of a tree for a row, by the columns of the table of nodes."""
    node = table.loc[0]
    while not pd.isna(node["left"]):
        value = row[node["column"]]
        if value is None or value != value:
            left = node["missing_left"]
        elif isinstance(node["categories"], list):
            left = value in node["categories"]
        else:
            left = value < node["threshold"]
        node = table.loc[node["left"] if left else node["right"]]
    return node["value"]


def test_the_table_says_what_the_model_does(model):
    estimator, X = model
    nodes = estimator.model_.to_dataframe()
    assert set(nodes["column"].dropna()) <= set(X)
    trees = [group.set_index("node") for _, group in nodes.groupby("iteration")]
    baseline = float(estimator.model_.baseline[0])
    for i in range(40):
        total = baseline + sum(walk(tree, X.iloc[i]) for tree in trees)
        assert total == pytest.approx(estimator.predict(X.iloc[i : i + 1])[0], abs=1e-12)


def test_parents_depths_and_covers_fit(model):
    nodes = model[0].model_.to_dataframe()
    for _, tree in nodes.groupby("iteration"):
        tree = tree.set_index("node")
        for node, row in tree.iterrows():
            if pd.isna(row["left"]):
                assert pd.isna(row["gain"])
                continue
            children = tree.loc[[row["left"], row["right"]]]
            assert (children["parent"] == node).all()
            assert (children["depth"] == row["depth"] + 1).all()
            assert children["cover"].sum() == pytest.approx(row["cover"])


def test_splits_are_told(model):
    estimator, _ = model
    fitted = estimator.model_
    told = {
        split.told(fitted.schema)
        for trees in fitted.iterations
        for split in column_splits(trees[0], fitted.mapper)
        if split is not None
    }
    assert any(text.startswith("x < ") for text in told)
    assert any(text.startswith(("colour is", "town is")) for text in told)
    assert any("more" in text for text in told if text.startswith("town"))


def test_all_numbers_on_one_side():
    x = np.array([np.nan, 1.0] * 100)
    model = MVSRegressor(n_estimators=1).fit(pd.DataFrame({"x": x}), np.isnan(x) * 1.0)
    (split,) = [s for s in column_splits(model.model_.iterations[0][0], model.model_.mapper) if s]
    assert math.isinf(split.threshold)
    assert split.told(model.model_.schema) == "x is not missing"
    assert not split.missing_left
