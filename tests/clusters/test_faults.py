"""Workers that are killed, retired, stopped or raise; clients that are interrupted."""

import os
import random
import signal
import threading
import time

import numpy as np
import pytest

dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

from mvsboost import GOSS, MVS, MVSClassifier, MVSRegressor
from mvsboost.callbacks import Callback
from mvsboost.dask import DaskMVSClassifier, DaskMVSRegressor
from mvsboost.dask import worker as on_worker
from mvsboost.dask.session import MOST_PEERS
from mvsboost.errors import ClusterError
from tests.clusters.tables import as_arrays, mixed, numbers


class Watched:
    """An estimator whose rounds are watched, and whose workers may grow trees together."""

    watch = None
    most_peers = MOST_PEERS

    def _cluster(self):
        cluster = super()._cluster()
        cluster.watch, cluster.most_peers = self.watch, self.most_peers
        return cluster


class Classifier(Watched, DaskMVSClassifier):
    pass


class Regressor(Watched, DaskMVSRegressor):
    pass


ONCE = ("target_range", "target_sums")
"""Verbs that a fit asks only once."""


class Killer:
    """Kills a worker at some round of a verb: before it is sent, or while it is under way."""

    def __init__(self, client, verb, seed, action=None):
        self._client, self._verb = client, verb
        self._random = random.Random(f"{verb} {seed}")
        self._skip = 0 if verb in ONCE else self._random.randrange(3)
        self._action = action or (lambda address, pid: os.kill(pid, signal.SIGKILL))
        self.done = False

    def __call__(self, verb):
        if self.done or verb != self._verb:
            return
        if self._skip:
            self._skip -= 1
            return
        self.done = True
        pids = self._client.run(os.getpid)
        address = self._random.choice(sorted(pids))
        act = self._action, (address, pids[address])
        if self._random.random() < 0.5:
            self._action(*act[1])
        else:
            threading.Timer(self._random.uniform(0.0, 0.004), *act).start()


@pytest.fixture(scope="module")
def classes():
    return mixed(1_500)


@pytest.fixture(scope="module")
def amounts():
    return numbers(1_200)


def file_of(estimator, folder):
    estimator.save(folder / "model.json")
    return (folder / "model.json").read_bytes()


CLASSIFYING = ("target_range", "target_sums", "compute_gradients", "gradient_sums", "draw")
CLASSIFYING += ("score_rows", "threshold_sums", "grow_whole_tree", "histograms", "leaf_sums")
CLASSIFYING += ("metric_range", "metric_sums", "scores")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("verb", CLASSIFYING)
def test_a_worker_killed_leaves_no_trace(client, classes, tmp_path, verb, seed):
    few = classes.first(300)
    parameters = {"n_estimators": 4, "max_leaves": 8, "eval_metric": ["log_loss", "auc"]}
    undisturbed = MVSClassifier(**parameters).fit(classes.X, classes.y, eval_set=[(few.X, few.y)])
    parts, few_parts = classes.parts(), few.parts(2)
    remote = Classifier(client=client, timeout=60, **parameters)
    remote.watch = killer = Killer(client, verb, seed)
    remote.most_peers = 0 if verb == "histograms" else MOST_PEERS
    remote.fit(parts.X, parts.y, eval_set=[(few_parts.X, few_parts.y)])
    assert killer.done
    assert file_of(remote, tmp_path) == file_of(undisturbed, tmp_path)


@pytest.mark.parametrize(
    ("verb", "parameters"),
    [
        ("residual_counts", {"objective": "absolute"}),
        ("rank_counts", {"sampler": GOSS(0.1, 0.2)}),
        ("histograms", {"second_look": 2, "sampler": MVS(0.2), "max_depth": 3}),
        ("grow_whole_tree", {"second_look": 2, "sampler": MVS(0.2), "max_leaves": 8}),
    ],
)
def test_other_verbs_and_looks(client, amounts, tmp_path, verb, parameters):
    undisturbed = MVSRegressor(n_estimators=3, **parameters).fit(*amounts)
    remote = Regressor(client=client, n_estimators=3, timeout=60, **parameters)
    remote.watch = killer = Killer(client, verb, 0)
    remote.most_peers = 0 if verb == "histograms" else MOST_PEERS
    remote.fit(*as_arrays(*amounts, rows=300))
    assert killer.done
    assert file_of(remote, tmp_path) == file_of(undisturbed, tmp_path)


def test_a_worker_retired_and_one_that_joins(cluster, client, amounts, tmp_path):
    undisturbed = MVSRegressor(n_estimators=5).fit(*amounts)

    def retire(address, pid):
        client.retire_workers([address], close_workers=True)

    remote = Regressor(client=client, n_estimators=5, timeout=60)
    remote.watch = killer = Killer(client, "grow_whole_tree", 3, retire)
    cluster.scale(4)  # it may join now or later
    remote.fit(*as_arrays(*amounts, rows=300))
    assert killer.done
    assert file_of(remote, tmp_path) == file_of(undisturbed, tmp_path)
    cluster.scale(3)


@pytest.mark.parametrize("verb", ["draw", "grow_whole_tree"])
def test_a_worker_that_hangs_is_named_in_time(client, amounts, verb):
    stopped = []

    def stop(address, pid):
        os.kill(pid, signal.SIGSTOP)
        stopped.append((address, pid))

    remote = Regressor(client=client, n_estimators=5, timeout=1.5)
    remote.watch = killer = Killer(client, verb, 0, stop)
    start = time.monotonic()
    try:
        with pytest.raises(ClusterError, match=r"have not all answered.*timeout=1\.5"):
            remote.fit(*as_arrays(*amounts, rows=300))
    finally:
        for _, pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert killer.done
    assert time.monotonic() - start < 20.0
    assert not hasattr(remote, "model_")


def _held(dask_worker):
    return [key for key in on_worker._held if key[0] == dask_worker.address]


def held(client):
    """Rows that workers hold; those of a session that could not say goodbye stay a minute."""
    return {key for keys in client.run(_held).values() for key in keys}


class Interrupt(Callback):
    def after_iteration(self, progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt
        return


def test_an_interrupted_client_lets_go_and_goes_on(client, amounts, tmp_path):
    before = held(client)
    parts, checkpoint = as_arrays(*amounts, rows=300), tmp_path / "checkpoint.json"
    remote = DaskMVSRegressor(client=client, n_estimators=6, callbacks=[Interrupt()])
    with pytest.raises(KeyboardInterrupt):
        remote.fit(*parts, resume=checkpoint)
    assert held(client) <= before
    remote.set_params(callbacks=None).fit(*parts, resume=checkpoint)
    assert held(client) <= before
    undisturbed = MVSRegressor(n_estimators=6).fit(*amounts)
    assert file_of(remote, tmp_path) == file_of(undisturbed, tmp_path)


class Raises:
    def gradient(self, target, score):
        if np.abs(score).max() > 0.5:
            raise ZeroDivisionError("of the user's own")
        return score - target

    def hessian(self, target, score):
        return np.ones_like(target)


def test_what_a_worker_raises_is_raised(client, amounts):
    before = held(client)
    objective = Raises()
    remote = DaskMVSRegressor(client=client, n_estimators=50, objective=objective)
    with pytest.raises(ZeroDivisionError, match="of the user's own"):
        remote.fit(*as_arrays(*amounts, rows=300))
    assert held(client) <= before


class CannotBeSent(Exception):
    def __reduce__(self):
        raise TypeError("not to be sent")


class RaisesWhatCannotBeSent(Raises):
    def gradient(self, target, score):
        raise CannotBeSent("too large")


def test_what_cannot_be_sent_is_named(client, amounts):
    remote = DaskMVSRegressor(client=client, objective=RaisesWhatCannotBeSent())
    with pytest.raises(ClusterError, match="raised CannotBeSent, which cannot be sent: too large"):
        remote.fit(*as_arrays(*amounts, rows=300))


def test_rows_that_come_back_different_are_told(client):
    """Partitions that are made anew each time, as by an unseeded generator."""

    def piece(_):
        import pandas as pd

        r = np.random.default_rng()
        return pd.DataFrame({"a": r.normal(size=200), "y": r.normal(size=200)})

    frame = dd.from_map(piece, range(4), meta=piece(0)[:0])
    remote = Regressor(client=client, n_estimators=5, timeout=60)

    def fit_until_rows_are_lost():
        for _ in range(5):  # the worker that is killed may have held none
            remote.watch = Killer(client, "grow_whole_tree", 1)
            remote.fit(frame[["a"]], frame["y"])
            client.wait_for_workers(3, timeout=60)

    with pytest.raises(ClusterError, match="were other rows when they were made again"):
        fit_until_rows_are_lost()


def test_memory_that_is_spilled(classes):
    """Dask writes partitions to disk and reads them again; what backends hold stays."""
    import dask
    import distributed

    rows = classes
    expected = MVSClassifier(n_estimators=4).fit(*rows)
    with (
        # the worker is in the process of the tests, whose memory must not stop it
        dask.config.set(
            {
                "distributed.worker.memory.target": 1e-6,
                "distributed.worker.memory.spill": False,
                "distributed.worker.memory.pause": False,
            }
        ),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            memory_limit="1GB",
            dashboard_address=":0",
        ) as small,
        distributed.Client(small) as connected,
    ):
        parts = connected.persist(rows.parts())
        distributed.wait(parts)
        (worker,) = small.workers.values()
        assert len(worker.data.slow) > 0  # on disk
        made = DaskMVSClassifier(client=connected, n_estimators=4).fit(*parts)
    assert made.model_.to_dict()["iterations"] == expected.model_.to_dict()["iterations"]
