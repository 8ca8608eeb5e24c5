"""The kernels of a first fit are compiled by two processes, and all that can go wrong there."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mvsboost
from mvsboost.backends.cpu import compilation, precompile
from mvsboost.runtime.jit import KERNELS
from mvsboost.runtime.pool import serve

FIT = """
import numpy as np
from mvsboost import MVSClassifier

X = np.random.default_rng(0).normal(size=(20_000, 2))
MVSClassifier(n_estimators=2, n_jobs=2).fit(X, X[:, 0] > 0)
"""

# with a tree that may use no feature of the constrained ones
FULL_FIT = FIT.replace("n_jobs=2", "n_jobs=2, monotone_constraints=[1, 0], colsample=0.5")

NAMES = """
from mvsboost.runtime.jit import KERNELS

print(sorted(kernel.__name__ for kernel in KERNELS if kernel.stats.cache_misses))
"""


def compiled() -> dict[str, set[Any]]:
    return {f"{kernel.__module__}.{kernel.__name__}": set(kernel.signatures) for kernel in KERNELS}


@pytest.mark.skipif(not compilation.jit_enabled(), reason="nothing is compiled")
@pytest.mark.parametrize(
    ("program", "compile_part"),
    [
        (FIT, precompile.compile_growing),
        (FULL_FIT, partial(precompile.compile_growing, full=True)),
        (FIT, precompile.compile_the_rest),
    ],
)
def test_kernels_are_compiled_for_what_a_fit_calls_them_with(
    program: str, compile_part: Any
) -> None:
    exec(program, {})
    deadline = time.monotonic() + 20.0
    while not serve.signatures and time.monotonic() < deadline:
        time.sleep(0.01)  # on a busy machine the other thread comes late
    before = compiled()
    compile_part()
    assert compiled() == before


@pytest.mark.large
def test_a_first_fit_compiles_only_its_part(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", FIT + NAMES],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        cwd=Path(mvsboost.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    # before it comes to the backend, data is binned
    part = ["_bin_block", "_close_bins", "copy_nodes", "describe_nodes", "finish_nodes", "grow"]
    assert process.stdout.strip() == str(part)
    (line,) = process.stderr.splitlines()
    assert line.startswith("compiling kernels for this machine")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was called, in place of the parts, on a machine where nothing is compiled yet."""
    called: list[str] = []

    monkeypatch.setattr(precompile, "needs_compilation", lambda: True)
    monkeypatch.setattr(precompile, "announce_compilation", lambda: called.append("announced"))
    monkeypatch.setattr(precompile, "compile_growing", lambda full: called.append("growing"))
    monkeypatch.setattr(precompile, "compile_nodes", lambda: called.append("nodes"))
    return called


def no_helper(nodes: bool) -> None:
    """What there is where no Python can be run."""


def unexpected(nodes: bool) -> Any:
    pytest.fail("a helper was started")


def test_with_one_core_there_is_no_helper(parts: list[str]) -> None:
    precompile.prepare_kernels(1, start=unexpected)
    assert parts == ["announced"]


def test_without_a_helper_the_fit_compiles(parts: list[str]) -> None:
    precompile.prepare_kernels(2, start=no_helper)
    assert parts == ["announced"]


def test_where_all_is_compiled_nothing_happens(
    parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompile, "needs_compilation", lambda: False)
    precompile.prepare_kernels(2, start=unexpected)
    assert parts == ["announced"]


def test_without_a_cache_there_is_no_helper(parts: list[str]) -> None:
    precompile.prepare_kernels(2, kept=False, start=unexpected)
    assert parts == ["announced"]


@pytest.mark.parametrize("program", ["import time; time.sleep(600)", "raise SystemExit(1)"])
def test_a_helper_that_hangs_or_fails_is_not_waited_for(
    parts: list[str],
    caplog: pytest.LogCaptureFixture,
    program: str,
) -> None:
    caplog.set_level("DEBUG", logger="mvsboost")
    helper = subprocess.Popen([sys.executable, "-c", program])
    precompile.prepare_kernels(2, start=lambda nodes: helper)
    assert parts == ["announced", "growing", "nodes"]
    assert helper.returncode != precompile._DONE
    assert f"ended with status {helper.returncode}" in caplog.text


OTHER_PACKAGE = """
import queue
from pathlib import Path

def compile_the_rest(nodes):
    Path(__file__).with_name("queue.txt").write_text(queue.__file__)
"""


def test_a_helper_imports_what_this_process_would_and_nothing_from_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "first" / "mvsboost" / "backends" / "cpu" / "precompile.py"
    module.parent.mkdir(parents=True)
    module.write_text(OTHER_PACKAGE)
    (tmp_path / "first" / "mvsboost" / "__init__.py").touch()
    (tmp_path / "queue.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "first"), *sys.path])
    helper = precompile.start_helper()
    assert helper is not None
    assert helper.wait() == precompile._DONE
    assert module.with_name("queue.txt").read_text() == queue.__file__


@pytest.mark.parametrize(("status", "lines"), [(precompile._DONE, 0), (0, 1)])
def test_a_helper_is_done_when_it_says_so(
    parts: list[str],
    caplog: pytest.LogCaptureFixture,
    status: int,
    lines: int,
) -> None:
    caplog.set_level("DEBUG", logger="mvsboost")
    helper = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"])
    helper.wait()
    precompile.prepare_kernels(2, start=lambda nodes: helper)
    assert parts == ["announced", "growing", "nodes"]
    assert len(caplog.records) == lines


def test_an_interrupt_ends_the_helper(parts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(full: bool) -> None:
        raise KeyboardInterrupt

    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(precompile, "compile_growing", interrupt)
    with pytest.raises(KeyboardInterrupt):
        precompile.prepare_kernels(2, start=lambda nodes: helper)
    assert helper.returncode is not None


@pytest.mark.parametrize("executable", ["", None, "/usr/bin/uwsgi", "/nowhere/python3"])
def test_there_is_no_helper_without_a_python_to_run(
    monkeypatch: pytest.MonkeyPatch, executable: Any
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert precompile.start_helper() is None


def test_a_frozen_program_starts_no_copy_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert precompile.start_helper() is None
