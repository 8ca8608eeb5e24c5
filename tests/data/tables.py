"""A table of all kinds of columns, and its files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, x),
            "single": rng.normal(size=n).astype(np.float32),
            "whole": rng.integers(0, 9, n),
            "flag": rng.random(n) < 0.5,
            "kind": rng.choice(["a", "b", "c"], n),
            "dictionary": pd.Categorical(rng.choice(["p", "q"], n)),
            "town": [f"t{k}" for k in rng.integers(0, 70, n)],
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9999, n), "s"),
        }
    )
    frame.loc[::7, "kind"] = None
    frame["y"] = (x + (frame["kind"] == "a") > 0.3).astype(int) + (x > 1.0)
    frame["w"] = rng.integers(1, 4, n).astype(float)
    return frame


def files(frame, folder, parts):
    """The table in several files of several row groups."""
    ends = np.linspace(0, len(frame), parts + 1).astype(int)
    for k in range(parts):
        part = pa.Table.from_pandas(frame.iloc[ends[k] : ends[k + 1]], preserve_index=False)
        pq.write_table(part, folder / f"part-{k:02}.parquet", row_group_size=100)
    return folder
