"""What is used of Numba's insides: known releases, others that are tried out, and doing without."""

from __future__ import annotations

import os
import subprocess
import sys
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


@pytest.mark.parametrize("works", [True, False])
def test_a_later_release_is_tried_out(works, probe, monkeypatch):
    monkeypatch.setattr(numba, "__version__", "1.2.0rc1")
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


FIT = """
import numpy as np
from mvsboost import MVSRegressor

X = np.linspace(0, 1, 200)[:, None]
print(repr(float(MVSRegressor(n_estimators=3).fit(X, X[:, 0] ** 2).predict(X).sum())))
"""


@pytest.mark.large
def test_kernels_by_plain_numba_give_the_same_model(tmp_path):
    def predicted(**more: str) -> str:
        environment = {**os.environ, **more}
        command = [sys.executable, "-c", FIT]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    plain = predicted(MVSBOOST_PLAIN_NUMBA="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert plain == predicted(MVSBOOST_PLAIN_NUMBA="0")
