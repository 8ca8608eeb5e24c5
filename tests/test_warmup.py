"""Warm-up compiles all there is, and a first compilation is announced once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mvsboost
from mvsboost import SGB, MVSClassifier, MVSRegressor
from mvsboost.backends.cpu import compilation
from mvsboost.runtime.jit import KERNELS
from mvsboost.warmup import warm_up


class Dispatcher(SimpleNamespace):
    """What a kernel of Numba shows of itself, with a cache of our choice."""

    def __init__(self, index: Any, signatures: tuple[str, ...] = ()) -> None:
        super().__init__(
            signatures=list(signatures),
            stats=SimpleNamespace(cache_path="folder"),
            _cache=SimpleNamespace(_cache_file=SimpleNamespace(_load_index=lambda: index)),
            targetctx=SimpleNamespace(
                codegen=lambda: SimpleNamespace(magic_tuple=lambda: "this processor")
            ),
        )


def announcements(caplog: pytest.LogCaptureFixture, kernel: Any) -> list[logging.LogRecord]:
    with caplog.at_level(logging.WARNING, "mvsboost"):
        for _ in range(2):
            compilation.announce_compilation(kernel)
    return caplog.records


HERE = {("signature", "this processor", "hash"): "file"}
ELSEWHERE = {("signature", "another processor", "hash"): "file"}


@pytest.mark.parametrize("index", [{}, ELSEWHERE])
def test_a_first_compilation_is_announced_once(
    caplog: pytest.LogCaptureFixture, index: Any
) -> None:
    (record,) = announcements(caplog, Dispatcher(index))
    assert (record.name, record.levelno) == ("mvsboost", logging.WARNING)
    assert "compiling kernels for this machine, once (about " in record.getMessage()
    assert "`mvsboost warmup` does it ahead" in record.getMessage()


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(Dispatcher(HERE), id="on disk"),
        pytest.param(Dispatcher({}, signatures=("f(x)",)), id="in this process"),
        pytest.param(lambda x: x, id="not compiled at all"),
        pytest.param(SimpleNamespace(signatures=[]), id="a Numba with other private names"),
    ],
)
def test_nothing_is_announced_without_need(caplog: pytest.LogCaptureFixture, kernel: Any) -> None:
    assert not announcements(caplog, kernel)


def test_a_caller_can_keep_it_quiet(caplog: pytest.LogCaptureFixture) -> None:
    kernel = Dispatcher({})
    compilation.keep_quiet([kernel])
    assert not announcements(caplog, kernel)


def test_the_cache_folder_is_where_numba_keeps_it() -> None:
    assert compilation.cache_folder(Dispatcher({})) == Path("folder")
    assert compilation.cache_folder(lambda x: x) is None


FIRST_USE = """
import numpy as np
from mvsboost.backends.cpu.compilation import announce_compilation, needs_compilation
from mvsboost.runtime.pool import make_pool
from mvsboost.kernels.gradients import range_of

announce_compilation()
announce_compilation()
print(range_of(make_pool(1, 9), *np.ones((2, 1, 2), np.float32))[3])
print(needs_compilation())
"""


@pytest.mark.large
def test_the_line_is_seen_by_default_and_only_where_nothing_is_cached(tmp_path: Path) -> None:
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    lines = []
    for _ in range(2):
        process = subprocess.run(
            [sys.executable, "-c", FIRST_USE],
            env=settings,
            cwd=Path(mvsboost.__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        assert process.stdout.split() == ["-1", "False"]
        lines.append(process.stderr.splitlines())
    first, second = lines
    assert len(first) == 1
    assert first[0].startswith("compiling kernels for this machine")
    assert second == []


def compiled() -> dict[str, int]:
    return {f"{kernel.__module__}.{kernel.__name__}": len(kernel.signatures) for kernel in KERNELS}


LEFT_OUT = """
from mvsboost.runtime.jit import KERNELS
from mvsboost.warmup import warm_up

assert KERNELS and warm_up() > 0
print([kernel.__name__ for kernel in KERNELS if not kernel.signatures])
"""


@pytest.mark.large
def test_warm_up_uses_every_kernel() -> None:
    process = subprocess.run(
        [sys.executable, "-c", LEFT_OUT],
        cwd=Path(mvsboost.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split() == ["[]"]


@pytest.mark.large
def test_warm_up_leaves_nothing_to_compile() -> None:
    assert warm_up() > 0
    before = compiled()
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    MVSRegressor(n_estimators=2, sampler="none", max_bins=16).fit(X, y).predict(X)
    MVSRegressor(n_estimators=2, colsample=0.5, monotone_constraints=[1, 0, 0]).fit(X, y)
    labels = (y > 0).astype(int)
    MVSClassifier(n_estimators=2, order=1, sampler=SGB(0.5)).fit(X, labels).predict_proba(X)
    many = 40_000  # enough for two threads
    large = MVSClassifier(n_estimators=2, n_jobs=2)
    large.fit(rng.normal(size=(many, 2)), np.arange(many) % 2, sample_weight=np.ones(many))
    assert compiled() == before
