"""The frozen tree: tables, sets, round trips."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mvsboost.trees import Tree
from mvsboost.trees.tree import pack_set, unpack_sets


@given(hnp.arrays(np.uint8, 256, elements=st.integers(0, 1)))
def test_sets_round_trip(table):
    words = pack_set(table)
    assert words.dtype == np.uint32
    assert np.array_equal(unpack_sets(words[None, :])[0], table)


def test_table_of_a_numeric_test(mixed_tree):
    table = mixed_tree.goes_left()
    assert table.shape == (5, 256)
    # bins 0 to 4 and the missing one, which is bin 12
    assert np.flatnonzero(table[0]).tolist() == [0, 1, 2, 3, 4, 12]


def test_table_of_a_categorical_test(mixed_tree):
    assert np.flatnonzero(mixed_tree.goes_left()[1]).tolist() == [0, 2, 5]


def test_leaves_send_nothing_left(mixed_tree):
    assert not mixed_tree.goes_left()[2:].any()


def test_left_sets_hold_the_same_table(mixed_tree):
    sets = mixed_tree.left_sets()
    assert np.array_equal(unpack_sets(sets), mixed_tree.goes_left())


def test_leaves_are_numbered_in_their_order(mixed_tree):
    assert mixed_tree.leaf_numbers().tolist() == [-1, -1, 0, 1, 2]
    assert mixed_tree.n_leaves == 3
    assert mixed_tree.n_nodes == 5


def test_round_trip_through_json(mixed_tree):
    text = json.dumps(mixed_tree.to_dict())
    again = Tree.from_dict(json.loads(text))
    assert json.dumps(again.to_dict()) == text
    for name in ("feature", "value", "category_sets", "missing_left"):
        assert getattr(again, name).dtype == getattr(mixed_tree, name).dtype


def test_single_leaf():
    tree = Tree.single_leaf(1.5)
    assert tree.is_leaf.tolist() == [True]
    assert tree.value.tolist() == [1.5]
    assert not tree.goes_left().any()
    assert Tree.from_dict(tree.to_dict()).category_sets.shape == (0, 8)
