"""Training on a table larger than memory: seconds an iteration, bytes read, peak memory.

    python benchmarks/disk.py [--rows 10000000 100000000] [--limit 6] [--folder /tmp] [--keep]

Writes random tables of 28 numbers to Parquet, a row group at a time, and trains on each in a
process that a control group limits to so many GiB, the system's cache of files included. Where
no group can be made, the limit is on the memory the process writes to, and a line says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
from pyarrow import parquet

N_COLUMNS = 28
GROUP = 1 << 20
GIB = 1 << 30
GROUPS = Path("/sys/fs/cgroup/memory")

PROGRAM = """
import resource, sys, time
from statistics import median
from mvsboost import MVS, Dataset, MVSClassifier
from mvsboost.callbacks import Callback

def read():
    with open("/proc/self/io") as file:
        return int(dict(line.split(":") for line in file)["read_bytes"])

class Times(Callback):
    def begin(self, progress):
        self.now = [(time.perf_counter(), read())]
    def after_iteration(self, progress):
        self.now.append((time.perf_counter(), read()))

files, store, limit, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
start = time.perf_counter()
data = Dataset.from_parquet(files, "y", labels=True, store=store, memory_limit=limit)
binned, times = time.perf_counter() - start, Times()
clf = MVSClassifier(n_estimators=20, sampler=MVS(rate), callbacks=[times], n_jobs=2).fit(data)
steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(times.now[3:-1], times.now[4:])]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
seconds, n_bytes = (median(values) for values in zip(*steps))
print(f"{data.n_rows:12,d} {binned:8.0f} {seconds:10.2f} {n_bytes / 1e9:12.2f}", end="")
print(f" {peak / 2**30:10.2f}", flush=True)
"""


def write_table(folder: Path, n_rows: int) -> None:
    """Random numbers in files of 16 row groups."""
    for start in range(0, n_rows, GROUP):
        rng, n = np.random.default_rng(start), min(GROUP, n_rows - start)
        x = rng.standard_normal((N_COLUMNS, n), np.float32)
        score = x[0] + x[1] * x[2] + np.abs(x[3]) + rng.standard_normal(n, np.float32)
        columns = {f"x{k}": x[k] for k in range(N_COLUMNS)}
        part = pa.table({**columns, "y": (score > 0.8).astype(np.int8)})
        path = folder / f"part-{start // GROUP:04}.parquet"
        parquet.write_table(part, path, use_dictionary=False, compression="NONE")


def limited(n_bytes: int) -> tuple[Path | None, str]:
    """A control group of so much memory, or what a program says first to be limited itself."""
    group = GROUPS / f"mvsboost-{os.getpid()}"
    with suppress(OSError):
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(n_bytes))
        return group, "import os; open({!r}, 'w').write(str(os.getpid()))\n".format(
            str(group / "cgroup.procs")
        )
    print("no control group can be made: the limit is on memory that is written to")
    limit = f"resource.setrlimit(resource.RLIMIT_DATA, ({n_bytes}, {n_bytes}))"
    return None, f"import resource; {limit}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--limit", type=float, default=6.0)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1])
    parser.add_argument("--folder")
    parser.add_argument("--keep", action="store_true", help="the tables, and bins")
    options = parser.parse_args()
    limit = int(options.limit * GIB)
    folder = Path(mkdtemp(dir=options.folder) if not options.keep else options.folder)
    group, first = limited(limit)
    print(f"{'rows':>12s} {'bin, s':>8s} {'iteration':>10s} {'GB read':>12s} {'peak GiB':>10s}")
    try:
        for n_rows in options.rows:
            files = folder / f"table-{n_rows}"
            if not files.exists():
                files.mkdir(parents=True)
                write_table(files, n_rows)
            for rate in options.rates:
                store = folder / f"bins-{n_rows}"
                # a quarter is left to the system's cache of files
                arguments = [str(files), str(store), str(limit * 3 // 4), str(rate)]
                subprocess.run([sys.executable, "-c", first + PROGRAM, *arguments], check=True)
            if not options.keep:
                shutil.rmtree(files)
                shutil.rmtree(store)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        if group is not None:
            group.rmdir()


if __name__ == "__main__":
    main()
