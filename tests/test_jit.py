"""How kernels are compiled: what is remembered, and what is not."""

from __future__ import annotations

import operator

import numba
import numpy as np
import pytest
from numba import types

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.jit import _KernelCompiler, _remember


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """What is remembered: nothing at first."""
    known = {}
    monkeypatch.setattr("mvsboost.jit._RESOLVED", known)
    return known


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


def test_an_operator_without_an_answer_is_asked_again(asked):
    def finds_nothing(function, args, kws):
        asked.append(function)

    for _ in range(2):
        assert _remember(finds_nothing, operator.add, (types.int64, types.int64), {}) is None
    assert len(asked) == 2


@pytest.mark.skipif(not jit_enabled(), reason="nothing is compiled")
def test_kernels_are_compiled_by_what_is_remembered(known):
    """And nobody else's functions are."""

    def total(values):
        found = values[0]
        for i in range(1, values.shape[0]):
            found += values[i]
        return found

    values = np.arange(5.0)
    assert numba.njit(total)(values) == 10.0
    assert known == {}
    first, second = (numba.njit(pipeline_class=_KernelCompiler)(total) for _ in range(2))
    assert first(values) == 10.0
    assert known
    before = dict(known)
    assert second(values) == 10.0
    assert known == before
