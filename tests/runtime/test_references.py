"""References to named tuples read as the tuples do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from mvsboost.runtime.intrinsics import PLAIN
from mvsboost.runtime.jit import inlined, kernel
from mvsboost.runtime.references import by_reference


class Inner(NamedTuple):
    values: Any
    step: int


class Outer(NamedTuple):
    first: Inner
    flag: bool
    second: Inner
    table: Any


@inlined
def add_step(inner: Any) -> None:
    for i in range(inner.values.shape[0]):
        inner.values[i] += inner.step


@inlined
def add_all(outer: Any, number: Any) -> None:
    add_step(outer.first)
    if outer.flag:
        add_step(outer.second)
    outer.table[number, 1] = outer.second.step


@kernel
def add_to_one(a: Any, b: Any, number: Any) -> None:
    pair = by_reference(a), by_reference(b)
    add_all(pair[number], number)


@kernel
def ask_for_more(a: Any) -> Any:
    return by_reference(a).third


def make(step: int, flag: bool) -> Outer:
    first, second = (Inner(np.arange(3), step), Inner(np.arange(2), 10 * step))
    return Outer(first, flag, second, np.zeros((2, 2), np.int64))


@pytest.mark.parametrize("number", [0, 1])
def test_fields_are_read_and_arrays_written(number: int) -> None:
    both = make(1, flag=True), make(2, flag=False)
    add_to_one(*both, number)
    one, other = both[number], both[1 - number]
    step = number + 1
    assert one.first.values.tolist() == [step, 1 + step, 2 + step]
    assert one.second.values.tolist() == ([10, 11] if number == 0 else [0, 1])
    assert one.table[number, 1] == 10 * step
    assert other.first.values.tolist() == [0, 1, 2]
    assert not other.table.any()


def test_there_are_no_other_fields() -> None:
    with pytest.raises(AttributeError if PLAIN else TypingError, match="third"):
        ask_for_more(make(1, flag=True))
