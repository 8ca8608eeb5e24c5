"""What is used of Numba's insides: known releases, others that are tried out, and doing without."""

from __future__ import annotations

from functools import cache

import numba
import pytest

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.runtime import private


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MVSBOOST_PLAIN_NUMBA", raising=False)
    return cache(private.probe.__wrapped__)


def test_a_known_release_is_not_tried_out(probe, monkeypatch):
    monkeypatch.setattr(numba, "__version__", "0.60.1")
    monkeypatch.setattr(private, "_try_out", lambda: pytest.fail("tried out"))
    assert probe()


@pytest.mark.parametrize("version", ["1.2.0rc1", "0+unknown"])
@pytest.mark.parametrize("works", [True, False])
def test_another_release_is_tried_out(works, version, probe, monkeypatch):
    monkeypatch.setattr(numba, "__version__", version)
    monkeypatch.setattr(private, "_try_out", lambda: works)
    assert probe() is works


def test_it_can_be_done_without(probe, monkeypatch):
    monkeypatch.setenv("MVSBOOST_PLAIN_NUMBA", "1")
    assert not probe()


@pytest.mark.skipif(not jit_enabled(), reason="nothing is compiled")
def test_the_insides_of_this_release_are_as_they_are_used():
    assert private._try_out()


@pytest.mark.skipif(not jit_enabled(), reason="nothing is compiled")
def test_insides_that_have_changed_are_not_used(monkeypatch, caplog):
    def gone():
        raise ImportError("cannot import name 'JITCodeLibrary'")

    caplog.set_level("DEBUG", logger="mvsboost")
    monkeypatch.setattr(private, "inlined_compiler", gone)
    assert not private._try_out()
    assert "plain numba.njit compiles kernels: cannot import name" in caplog.text
