"""How long a user waits at first: import, the first fit ever, the first fit of a process.

    python benchmarks/startup.py [--repeat 3]

Each measurement is a new process; the cache of compiled kernels is empty for the first fit
and filled for the second. Prints medians in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from statistics import median

_CHILD = """
import json, time
start = time.perf_counter()
import mvsboost
package = time.perf_counter() - start
from mvsboost import MVSClassifier
import numpy as np
names = time.perf_counter() - start
rng = np.random.default_rng(0)
X = rng.normal(size=(10_000, 10))
y = (X[:, 0] + rng.normal(size=10_000) > 0).astype(int)
begin = time.perf_counter()
MVSClassifier(verbose=0).fit(X, y)
print(json.dumps({"import mvsboost": package, "importing the estimators": names,
                  "fit, 10,000 rows": time.perf_counter() - begin}))
"""


def _run(folder: str) -> dict[str, float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], env=environment, capture_output=True, text=True, check=True
    )
    times: dict[str, float] = json.loads(done.stdout)
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    first, second = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            first.append(_run(folder))
            second.append(_run(folder))
    for title, runs in (("nothing compiled yet", first), ("second process", second)):
        print(title)
        for name in runs[0]:
            times = sorted(run[name] for run in runs)
            print(f"  {name:26s} {median(times):6.2f} s  ({times[0]:.2f} to {times[-1]:.2f})")


if __name__ == "__main__":
    main()
