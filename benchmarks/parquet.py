"""Peak memory and seconds until a table in Parquet is binned: column by column, and read whole.

    python benchmarks/parquet.py [--rows 5000000] [--folder /tmp]

Each way runs in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from pyarrow import parquet

N_COLUMNS = 28
GROUP = 1 << 18

PROGRAM = """
import resource, sys, time
from mvsboost import Dataset
start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if sys.argv[2] == "column by column":
    data = Dataset.from_parquet(sys.argv[1], "y", n_classes=2, n_threads=2)
else:
    import pandas as pd
    frame = pd.read_parquet(sys.argv[1])
    data = Dataset.from_data(frame.drop(columns="y"), frame["y"], n_classes=2, n_threads=2)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(round(time.perf_counter() - start, 1), round(peak * 1024 / data.n_rows, 1))
"""


def write_table(path: Path, n_rows: int) -> None:
    """Random numbers, a row group at a time."""
    rng, writer = np.random.default_rng(0), None
    for start in range(0, n_rows, GROUP):
        n = min(GROUP, n_rows - start)
        columns = {f"x{k}": rng.normal(size=n) for k in range(N_COLUMNS)}
        part = pa.table({**columns, "y": (columns["x0"] > 0).astype(np.int8)})
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--folder")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "table.parquet"
        write_table(file, options.rows)
        for way in ("column by column", "whole"):
            command = [sys.executable, "-c", PROGRAM, str(file), way]
            seconds, size = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.split()
            print(f"{way}: {seconds} s, at most {size} bytes a row beside the imports")


if __name__ == "__main__":
    main()
