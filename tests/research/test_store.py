"""The store: what was put is there, whatever happened to the process."""

from __future__ import annotations

import numpy as np
import pytest

from mvsboost.errors import DataError
from research.store import Store, key_of, made_by

CELL = {"set": "adult", "sampler": {"name": "mvs", "rate": 0.1}, "seed": 0}


def test_results_are_found_by_what_determines_them(tmp_path):
    with Store(tmp_path / "results") as store:
        assert store.get(CELL) is None
        store.put(CELL, {"error": 0.1}, took=1.5)
        assert store.get(CELL) == {"error": 0.1}
    again = Store(tmp_path / "results")
    assert again.get(dict(reversed(CELL.items()))) == {"error": 0.1}
    assert again.get({**CELL, "seed": 1}) is None
    assert [record["took"] for record in again] == [1.5]
    assert len(again) == 1


def test_a_torn_line_is_forgotten_and_written_over(tmp_path):
    with Store(tmp_path) as store:
        store.put(CELL, {"error": 0.1})
        store.put({**CELL, "seed": 1}, {"error": 0.2})
    path = tmp_path / "cells.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    with Store(tmp_path) as store:
        assert len(store) == 1
        assert store.get({**CELL, "seed": 1}) is None
        store.put({**CELL, "seed": 2}, {"error": 0.3})
    assert [record["cell"]["seed"] for record in Store(tmp_path)] == [0, 2]


def test_lines_may_end_as_windows_ends_them(tmp_path):
    with Store(tmp_path) as store:
        for seed in range(5):
            store.put({**CELL, "seed": seed}, {"error": 0.1})
    path = tmp_path / "cells.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with Store(tmp_path) as store:
        store.put({**CELL, "seed": 5}, {"error": 0.2})
    assert [record["cell"]["seed"] for record in Store(tmp_path)] == list(range(6))


def test_who_writes_sees_what_another_has_written_since(tmp_path):
    late = Store(tmp_path)
    with Store(tmp_path) as early:
        early.put(CELL, {"error": 0.1})
    with late:
        assert late.get(CELL) == {"error": 0.1}


def test_a_record_can_say_what_made_it():
    ours, theirs = made_by(CELL), made_by({**CELL, "engine": "numpy"})
    assert set(ours) == {"code"}
    assert theirs == {**ours, "numpy": np.__version__}
    race = {"kind": "race", "contenders": {"a": CELL, "b": {**CELL, "engine": "numpy"}}}
    assert made_by(race) == theirs


def test_a_damaged_line_inside_is_named(tmp_path):
    (tmp_path / "cells.jsonl").write_text('{"key": 1}\nnonsense\n')
    with pytest.raises(DataError, match="line 2 is damaged"):
        Store(tmp_path)


def test_only_one_may_write(tmp_path):
    pytest.importorskip("fcntl")
    with Store(tmp_path), pytest.raises(DataError, match="another run"):
        Store(tmp_path).__enter__()
    with pytest.raises(DataError, match="reading only"):
        Store(tmp_path).put(CELL, {})


def test_another_release_starts_anew(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        store.put(CELL, {"error": 0.1})
    monkeypatch.setattr("mvsboost.__version__", "99.0")
    assert Store(tmp_path).get(CELL) is None


def test_keys_are_short_and_differ():
    keys = {key_of({**CELL, "seed": seed}) for seed in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {16}
