"""Training on a cluster of processes on this machine, beside lightgbm.dask and xgboost.dask.

    python benchmarks/cluster.py latency             what a question to two workers costs
    python benchmarks/cluster.py times [--rows N]    seconds an iteration, rounds, bytes
    python benchmarks/cluster.py kills [--kills 5]   a worker killed in the midst of training
    python benchmarks/cluster.py cost                what larger clusters would take

Tables are random, 28 numbers wide, and made on the workers. Workers have one thread each. The
time of an iteration is the median from the tenth to the fortieth; of other libraries, which do
not tell, that of 40 trees less that of 10, over 30.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from mvsboost import MVS, MVSClassifier
from mvsboost.callbacks import Callback
from mvsboost.dask import DaskMVSClassifier
from mvsboost.dask.session import MOST_PEERS
from mvsboost.dask.worker import request

N_COLUMNS, RATE, PARTITION = 28, 0.1, 250_000
FEW, MANY = 10, 40


@contextmanager
def workers(n: int) -> Iterator[Client]:
    """A client of so many workers of one thread."""
    with (
        LocalCluster(
            n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def block(start: int, n_rows: int) -> np.ndarray:
    """Random rows; the last column is the target."""
    x = np.random.default_rng(start).standard_normal((n_rows, N_COLUMNS + 1), np.float32)
    x[:, -1] = x[:, 0] + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + x[:, -1] > 0.8
    return x


def table(n_rows: int) -> tuple[da.Array, da.Array]:
    """X and y on the workers."""
    size = min(PARTITION, n_rows // 4)
    parts = [
        da.from_delayed(
            dask.delayed(block)(start, min(size, n_rows - start)),
            (min(size, n_rows - start), N_COLUMNS + 1),
            np.float32,
        )
        for start in range(0, n_rows, size)
    ]
    whole = da.concatenate(parts)
    return whole[:, :-1], whole[:, -1].astype(np.int64)


# --- contenders ---------------------------------------------------------------------------------


def fit_ours(client: Client, X: Any, y: Any, n_trees: int, rate: float = RATE, **own: Any) -> Any:
    made = DaskMVSClassifier(client=client, n_estimators=n_trees, sampler=MVS(rate), **own)
    return made.fit(X, y)


def fit_lightgbm(client: Client, X: Any, y: Any, n_trees: int, **own: Any) -> Any:
    import lightgbm

    made = lightgbm.DaskLGBMClassifier(
        client=client, n_estimators=n_trees, num_leaves=31, verbose=-1, **own
    )
    return made.fit(X, y)


def fit_xgboost(client: Client, X: Any, y: Any, n_trees: int, **own: Any) -> Any:
    import xgboost.dask

    made = xgboost.dask.DaskXGBClassifier(
        n_estimators=n_trees,
        max_leaves=31,
        max_depth=0,
        grow_policy="lossguide",
        max_bin=255,
        learning_rate=0.1,
        tree_method="hist",
        **own,
    )
    made.client = client
    return made.fit(X, y)


class Contender(NamedTuple):
    name: str
    fit: Callable[..., Any]
    options: dict[str, Any]


OURS = Contender("mvsboost, MVS 0.1", fit_ours, {})
CONTENDERS = [
    OURS,
    Contender("mvsboost, depth 5", fit_ours, {"max_depth": 5}),
    Contender(
        "lightgbm.dask, GOSS",
        fit_lightgbm,
        {"data_sample_strategy": "goss", "top_rate": 0.05, "other_rate": 0.05},
    ),
    Contender("lightgbm.dask, bagging", fit_lightgbm, {"subsample": 0.1, "subsample_freq": 1}),
    Contender("xgboost.dask, subsample", fit_xgboost, {"subsample": 0.1}),
]


# --- measures -----------------------------------------------------------------------------------


def answer() -> bytes:
    return bytes(1000)


async def answer_at_once() -> bytes:
    return bytes(1000)


def latency(options: argparse.Namespace) -> None:
    """Milliseconds of a question to two workers whose answers are 1 kB."""

    def task(client: Client, addresses: list[str]) -> None:
        client.gather(
            [client.submit(answer, workers=[one], pure=False) for one in addresses], direct=True
        )

    def run(client: Client, addresses: list[str]) -> None:
        client.run(answer, workers=addresses)

    def message(client: Client, addresses: list[str]) -> None:
        async def both() -> None:
            await asyncio.gather(*(request(client.rpc, one, answer_at_once) for one in addresses))

        client.sync(both)

    with workers(2) as client:
        addresses = sorted(client.nthreads())
        for name, ask in {"task": task, "Client.run": run, "message": message}.items():
            times = []
            for _ in range(options.repeat * 100):
                start = time.perf_counter()
                ask(client, addresses)
                times.append(time.perf_counter() - start)
            print(f"{name:12s} {1000 * median(times):6.1f} ms")


class Times(Callback):
    """When each iteration was done."""

    def begin(self, progress: Any) -> None:
        self.moments: list[float] = []

    def after_iteration(self, progress: Any) -> None:
        self.moments.append(time.perf_counter())

    def median(self) -> float:
        return float(np.median(np.diff(self.moments[FEW:])))


def local_iteration(n_rows: int) -> float:
    """Seconds of an iteration on two threads, without a cluster."""
    whole = np.concatenate(
        [block(start, min(PARTITION, n_rows - start)) for start in range(0, n_rows, PARTITION)]
    )
    X, y, times = whole[:, :-1], whole[:, -1].astype(np.int64), Times()
    sampler = MVS(RATE)
    MVSClassifier(n_estimators=MANY, sampler=sampler, n_jobs=2, callbacks=[times]).fit(X, y)
    return times.median()


def times(options: argparse.Namespace) -> None:
    """Seconds of an iteration on 1, 2 and 4 workers."""
    print(
        f"{options.rows:,d} rows; {'contender':24s} workers  s/iteration  rounds/tree  kB/round  "
        "MB between workers/tree"
    )
    for _ in range(options.repeat):
        print(f"{'mvsboost here, 2 threads':36s} {'':8s} {local_iteration(options.rows):8.3f}")
    for n in options.workers:
        with workers(n) as client:
            X, y = client.persist(table(options.rows))
            wait([X, y])
            fit_ours(client, X, y, 2)  # kernels
            for _ in range(options.repeat):
                for contender in CONTENDERS:
                    measure(contender, client, X, y, n)


def measure(contender: Contender, client: Client, X: Any, y: Any, n: int) -> None:
    if contender.fit is fit_ours:
        times = Times()
        made = contender.fit(client, X, y, MANY, callbacks=[times], **contender.options)
        found = made.traffic_
        moved = (found["sent"] + found["received"]) / found["rounds"] / 1000
        between = found["between"] / MANY / 1e6
        said = f"{times.median():8.3f} {found['rounds'] / MANY:8.1f} {moved:8.0f} {between:8.1f}"
    else:
        seconds = []
        for n_trees in (FEW, MANY):
            start = time.perf_counter()
            contender.fit(client, X, y, n_trees, **contender.options)
            seconds.append(time.perf_counter() - start)
        said = f"{(seconds[1] - seconds[0]) / (MANY - FEW):8.3f}"
    print(f"{contender.name:36s} {n:8d} {said}", flush=True)


KILLED = """
import sys, threading, time
sys.path.insert(0, {here!r})
import cluster
name, moment, n_rows, out = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
contender = next(one for one in cluster.CONTENDERS if one.name == name)
if __name__ == "__main__":
    import os, signal
    with cluster.workers(3) as client:
        X, y = cluster.table(n_rows)
        victim = sorted(client.run(os.getpid).items())[1][1]
        if moment > 0:
            threading.Timer(moment, os.kill, (victim, signal.SIGKILL)).start()
        start = time.perf_counter()
        made = contender.fit(client, X, y, cluster.MANY, **contender.options)
        print("seconds", time.perf_counter() - start)
        if hasattr(made, "to_local"):
            made = made.to_local()
        if hasattr(made, "save"):
            made.save(out)
        elif hasattr(made, "booster_"):
            made.booster_.save_model(out)
        else:
            made.save_model(out)
"""


def kills(options: argparse.Namespace) -> None:
    """What becomes of a fit on three workers of which one is killed; each has a nanny."""
    rng = np.random.default_rng(0)
    shares = rng.uniform(0.3, 0.95, options.kills)
    program = KILLED.format(here=os.path.dirname(os.path.abspath(__file__)))
    with TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "fit.py"), os.path.join(folder, "model.json")
        with open(script, "w", encoding="utf-8") as file:
            file.write(program)
        for contender in [CONTENDERS[0], *CONTENDERS[2::2]]:
            alone = fit_apart(script, contender, 0.0, options.rows, out, 600.0)
            if alone is None or isinstance(alone, str):
                print(f"{contender.name:26s} undisturbed: {alone}", flush=True)
                continue
            seconds, expected = alone
            found: list[str] = []
            for share in shares:
                limit = max(60.0, 5.0 * seconds)
                got = fit_apart(script, contender, share * seconds, options.rows, out, limit)
                if got is None:
                    found.append(f"hangs (over {limit:.0f} s)")
                elif isinstance(got, str):
                    found.append(got)
                else:
                    same = "the same model" if got[1] == expected else "another model"
                    found.append(f"{same}, {got[0]:.1f} s")
            print(
                f"{contender.name:26s} {seconds:.1f} s undisturbed; {'; '.join(found)}", flush=True
            )


def fit_apart(
    script: str, contender: Contender, moment: float, n_rows: int, out: str, limit: float
) -> tuple[float, bytes] | str | None:
    """Seconds and file of the model, what was raised, or None where it took too long."""
    command = [sys.executable, script, contender.name, str(moment), str(n_rows), out]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        said, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    if process.returncode:
        lines = [line for line in error.strip().splitlines() if "Error" in line or "Exc" in line]
        return f"raises {(lines or ['nothing'])[-1][:60]}"
    seconds = next(line.split()[1] for line in said.splitlines() if line.startswith("seconds"))
    with open(out, "rb") as file:
        return float(seconds), file.read()


# of these measures on two cores: `times` on one worker and two, `latency`, rounds of `times`
NS_A_ROW, OWN_WORK = 30.0, 15e-3
LINE, MESSAGE = 1.0e-3, 1.6e-3  # seconds of a round, by a line or by Dask
EXCHANGE, A_PEER = 0.1e-3, 20e-6  # seconds of a sum, and more for each other worker
BYTES, BETWEEN, BY_DASK = 115e3, 1e9, 300e6  # of a histogram, and bytes a second
ROUNDS, HISTOGRAMS = 7, 30
ROUNDS_BY_CLIENT, ROUNDS_OF_HISTOGRAMS, HISTOGRAMS_A_ROUND = 16, 10, 3.4
ASKED_AT_ONCE = 16


def cost(options: argparse.Namespace) -> None:
    """Seconds an iteration by the formulas of docs/scale.md."""
    for n_rows, n_workers in ((5e6, 1), (5e6, 2), (5e6, 4), (1e8, 10), (1e9, 100), (4e9, 1000)):
        rows = n_rows / n_workers * NS_A_ROW * 1e-9
        round_trip = LINE if n_workers <= ASKED_AT_ONCE else 2 * MESSAGE
        if n_workers <= MOST_PEERS:
            waiting = ROUNDS * round_trip
            each = EXCHANGE + (n_workers - 1) * A_PEER + 2 * BYTES / BETWEEN
            adding = HISTOGRAMS * each if n_workers > 1 else 0.0
        else:
            waiting, answers = ROUNDS_BY_CLIENT * round_trip, 2 * n_workers**0.5
            read = answers * HISTOGRAMS_A_ROUND * BYTES
            adding = ROUNDS_OF_HISTOGRAMS * read / BY_DASK
        whole = rows + waiting + adding + OWN_WORK
        print(
            f"{n_rows:14,.0f} rows {n_workers:5d} workers {rows:6.2f} + {waiting:5.2f} + "
            f"{adding:5.2f} + {OWN_WORK:5.2f} = {whole:5.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("measure", choices=["latency", "times", "kills", "cost"])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    measures = {"latency": latency, "times": times, "kills": kills, "cost": cost}
    measures[options.measure](options)


if __name__ == "__main__":
    main()
