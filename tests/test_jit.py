"""How kernels are compiled: what is remembered, and what is not."""

from __future__ import annotations

import operator

import pytest
from numba import types

from mvsboost.jit import _remember


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr("mvsboost.jit._RESOLVED", {})


@pytest.fixture
def asked():
    """Calls of `resolve`, which gives a new answer each time."""
    return []


@pytest.fixture
def resolve(asked):
    def resolve(function, args, kws):
        asked.append((function, args, kws))
        return object()

    return resolve


def own_function(x):
    """A function that may register something when it is typed."""
    return x


def test_an_operator_is_resolved_once_for_each_of_its_types(resolve, asked):
    word = types.UniTuple(types.int64, 2)
    for _ in range(3):
        first = _remember(resolve, operator.getitem, (word, types.int64), {})
        other = _remember(resolve, operator.getitem, [word, types.int32], {})
    assert first is not other
    assert _remember(resolve, operator.getitem, [word, types.int64], {}) is first
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("function", "kws"), [(own_function, {}), (operator.getitem, {"a": types.int64})]
)
def test_anything_else_is_resolved_each_time(function, kws, resolve, asked):
    word = types.UniTuple(types.int64, 2)
    answers = [_remember(resolve, function, (word, types.int64), kws) for _ in range(3)]
    assert len({id(answer) for answer in answers}) == len(asked) == 3


def test_an_operator_that_does_not_fit_is_asked_again():
    def fails(function, args, kws):
        raise TypeError("no such thing")

    word = types.UniTuple(types.int64, 2)
    for _ in range(2):
        with pytest.raises(TypeError, match="no such thing"):
            _remember(fails, operator.getitem, (word, types.int64), {})
