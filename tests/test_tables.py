"""Tables in files, by their suffix."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mvsboost.data import ingest
from mvsboost.errors import DataError, ParameterError
from mvsboost.tables import column_of, read_table, without, write_table

pytest.importorskip("pyarrow")

COLUMNS = {"x": np.array([1.5, 2.5]), "c": np.array(["a", "b"], object)}


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "feather", "PARQUET"])
def test_what_is_written_is_read(suffix: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"t.{suffix}")
    write_table(COLUMNS, path)
    table = read_table(path)
    assert column_of(table, "x", "target").tolist() == [1.5, 2.5]
    assert ingest(without(table, ["x"])).columns[0].categories == ("a", "b")


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, content: bytes = b"") -> None:
            self.buffer = io.BytesIO(content)

    out = Stream()
    monkeypatch.setattr(sys, "stdout", out)
    write_table(COLUMNS, "-")
    assert out.buffer.getvalue().splitlines()[0] == b'"x","c"'
    monkeypatch.setattr(sys, "stdin", Stream(out.buffer.getvalue()))
    assert read_table("-").column_names == ["x", "c"]
    frame = io.BytesIO()
    pd.DataFrame(COLUMNS).to_parquet(frame)
    monkeypatch.setattr(sys, "stdin", Stream(frame.getvalue()))
    assert read_table("-", "parquet").num_rows == 2


def test_the_data_that_ships() -> None:
    table = read_table("adult")
    assert len(column_of(table, "target", "target")) == 48842


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        read_table(str(tmp_path / "none.csv"))
    with pytest.raises(ParameterError, match=r"data must be a file that ends in \.csv"):
        read_table("table.xlsx")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read"):
        read_table(str(tmp_path / "torn.parquet"))
    with pytest.raises(ParameterError, match="out must be a file that ends in"):
        write_table(COLUMNS, str(tmp_path / "t.xlsx"))
    with pytest.raises(ParameterError, match="target must be a column of the table: x, c, got 'y'"):
        column_of(COLUMNS, "y", "target")
