"""What is used of Numba's insides: known releases, others that are tried out, and doing without."""

from __future__ import annotations

import operator
from functools import cache

import pytest
from numba import types
from numba.core.compiler import Flags
from numba.core.registry import cpu_target

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.runtime import private


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MVSBOOST_PLAIN_NUMBA", raising=False)
    return cache(private.probe.__wrapped__)


@pytest.mark.parametrize("works", [True, False])
def test_only_a_release_that_is_not_known_is_tried_out(works, probe, monkeypatch):
    monkeypatch.setattr(private, "try_out", lambda: works)
    assert probe()
    monkeypatch.setattr(private, "is_known", lambda version: False)
    assert cache(private.probe.__wrapped__)() is works


def test_it_can_be_done_without(probe, monkeypatch):
    monkeypatch.setenv("MVSBOOST_PLAIN_NUMBA", "1")
    assert not probe()


@pytest.mark.skipif(not jit_enabled(), reason="nothing is compiled")
def test_the_insides_of_this_release_are_as_they_are_used():
    assert private.try_out()


@pytest.mark.skipif(not jit_enabled(), reason="nothing is compiled")
def test_insides_that_have_changed_are_not_used(monkeypatch, caplog):
    def gone():
        raise ImportError("cannot import name 'JITCodeLibrary'")

    caplog.set_level("DEBUG", logger="mvsboost")
    monkeypatch.setattr(private, "inlined_compiler", gone)
    assert not private.try_out()
    assert "plain numba.njit compiles kernels: cannot import name" in caplog.text


def test_what_kernels_remember_is_theirs_alone():
    typing = cpu_target.typing_context
    own = private._remembering(typing)
    args = (types.int64, types.int64)
    known = own.resolve_function_type(operator.add, args, {})
    assert own.resolve_function_type(operator.add, args, {}) is known
    assert known == typing.resolve_function_type(operator.add, args, {})
    assert "resolve_function_type" not in vars(typing)


def test_options_are_settled_once_and_equal_those_they_were():
    flags = Flags()
    flags.nrt = True
    settled = private._settled(flags)
    assert private._settled(flags.copy()) is settled is settled.copy()
    assert settled == flags
    assert hash(settled) == hash(flags)
    other = Flags()
    assert private._settled(other) != settled != other
