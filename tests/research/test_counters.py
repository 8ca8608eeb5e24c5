"""Running means of the target: what a row may know of its category."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.sets.counters import SEED, count_categories


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 1)), min_size=1))
def test_a_row_sees_the_targets_before_it_in_the_same_category(rows):
    categories = np.array([category for category, _ in rows], object)
    target = np.array([y for _, y in rows])
    (values,) = count_categories(categories, target)
    seen: dict[object, list[int]] = {}
    for row in np.random.RandomState(SEED).permutation(len(rows)):
        before = seen.setdefault(categories[row], [])
        assert values[row] == pytest.approx((sum(before) + 1) / (len(before) + 2))
        before.append(target[row])


def test_other_rows_see_all_training_rows_and_an_unknown_category_is_a_half():
    train, y = np.array(["a", "a", "b"], object), np.array([1, 1, 0])
    _, test = count_categories(train, y, np.array(["a", "b", "c", None], object))
    assert test.tolist() == [3 / 4, 1 / 3, 1 / 2, 1 / 2]


def test_missing_categories_are_one_whatever_they_are_called():
    train, y = np.array([None, np.nan, "a"], object), np.array([1, 1, 0])
    _, test = count_categories(train, y, np.array([None, np.nan], object))
    assert test.tolist() == [3 / 4, 3 / 4]
