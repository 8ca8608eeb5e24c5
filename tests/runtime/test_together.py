"""Fits and predictions beside others, in threads and in processes: the same bytes as alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from mvsboost import MVSRegressor
from mvsboost.callbacks import Callback
from mvsboost.runtime import threads as threads_module
from mvsboost.runtime.threads import ThreadPool, sharing_cores, threads_of

pytestmark = pytest.mark.large

N_ROWS = 60_000


def table(seed: int):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 100, (N_ROWS, 6)).astype(np.float32)
    return X, X[:, 0] + X[:, 1] * (seed % 5)


def fitted(seed: int, n_estimators: int = 10) -> MVSRegressor:
    return MVSRegressor(n_estimators=n_estimators, random_state=seed, n_jobs=-1).fit(*table(seed))


def bytes_of(seed: int) -> bytes:
    """A model's file, and what it predicts."""
    model = fitted(seed)
    return str(model.model_.to_dict()).encode() + model.predict(table(seed)[0]).tobytes()


@pytest.fixture(scope="module")
def alone() -> list[bytes]:
    return [bytes_of(seed) for seed in range(4)]


def test_in_threads(alone):
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(bytes_of, range(4))) == alone


def test_one_model_predicts_in_threads():
    model, X = fitted(0), table(0)[0]
    expected = model.predict(X)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: model.predict(X), range(40)):
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_inside_joblib(backend, alone):
    with joblib.parallel_config(backend):
        found = joblib.Parallel(2)(joblib.delayed(bytes_of)(seed) for seed in range(4))
    assert found == alone


def test_folds_of_scikit_learn():
    X, y = table(1)
    model = MVSRegressor(n_estimators=5)
    expected = cross_val_score(model, X, y, cv=3)
    with joblib.parallel_config("threading"):
        assert np.array_equal(cross_val_score(model, X, y, cv=3, n_jobs=2), expected)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_in_processes(method, alone):
    with multiprocessing.get_context(method).Pool(2) as pool:  # this process has had threads
        assert pool.map_async(bytes_of, range(4)).get(timeout=120) == alone


# --- cores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("told", "expected"), [("3", 3), ("2,1", 2), ("99", 8), ("", 8), ("x", 8)])
def test_cores_that_others_leave(told, expected, monkeypatch):
    monkeypatch.setattr(threads_module, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert threads_of(-1) == expected
    assert threads_of(-2) == expected - 1
    assert threads_of(5) == 5  # who says a number means it


def test_calls_at_once_share_the_cores(monkeypatch):
    monkeypatch.setattr(threads_module, "available_cores", lambda: 8)
    pool, inside, leave = ThreadPool(8), threading.Barrier(3), threading.Event()

    def another() -> None:
        with sharing_cores():
            inside.wait(timeout=30)
            leave.wait(timeout=30)

    others = [threading.Thread(target=another) for _ in range(2)]
    for other in others:
        other.start()
    inside.wait(timeout=30)
    assert pool.worth(10**9) == 4
    with sharing_cores(), sharing_cores():  # one call within another is no further one
        assert pool.worth(10**9) == 2
    leave.set()
    for other in others:
        other.join()
    assert pool.worth(10**9) == 8


# --- ends -----------------------------------------------------------------------------------------


class Interrupt(Callback):
    """Sends what Ctrl-C sends, from another thread, while kernels run."""

    def begin(self, progress):
        main = threading.main_thread().ident
        self.timer = threading.Timer(0.3, lambda: self.send(main))
        self.timer.start()

    def send(self, thread):
        self.sent = time.monotonic()
        signal.pthread_kill(thread, signal.SIGINT)


@pytest.fixture
def interrupts():
    """Ctrl-C raises, also where these tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_fit_leaves_the_estimator_as_it_was():
    X, y = table(2)
    interrupt = Interrupt()
    model = MVSRegressor(n_estimators=100_000, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "model_")
    model.set_params(n_estimators=5, callbacks=None).fit(X, y)
    expected = model.predict(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(n_estimators=100_000, callbacks=[interrupt]).fit(X, y)
    assert np.array_equal(model.predict(X), expected)


ENDING = """
import threading, sys
sys.path.insert(0, {folder!r})
import test_together
threading.Thread(target=test_together.fitted, args=(0, 10**6), daemon=True).start()
import time
time.sleep(1.0)
print("the end")
"""


def test_the_interpreter_ends_during_a_fit():
    command = [sys.executable, "-c", ENDING.format(folder=os.path.dirname(__file__))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout) == (0, "the end\n"), ended.stderr[-2000:]
