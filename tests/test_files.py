"""JSON files: all or nothing, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import os
import stat

import pytest

from mvsboost import files
from mvsboost.errors import ModelFormatError, ParameterError
from mvsboost.files import read_json, write_json

CONTENT = {"numbers": [0.1, 1e-300, -2.5, 3], "text": "λ", "nothing": None}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_round_trip(tmp_path, name):
    write_json(tmp_path / name, CONTENT)
    assert read_json(tmp_path / name) == CONTENT
    assert read_json(str(tmp_path / name)) == CONTENT


def test_the_name_decides_on_compression(tmp_path):
    write_json(tmp_path / "a.json", CONTENT)
    write_json(tmp_path / "a.gz", CONTENT)
    assert json.loads((tmp_path / "a.json").read_bytes()) == CONTENT
    assert json.loads(gzip.decompress((tmp_path / "a.gz").read_bytes())) == CONTENT


def test_a_renamed_file_is_read_by_what_it_holds(tmp_path):
    write_json(tmp_path / "a.gz", CONTENT)
    os.rename(tmp_path / "a.gz", tmp_path / "a.json")
    assert read_json(tmp_path / "a.json") == CONTENT


def test_equal_content_makes_equal_files(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_json(tmp_path / name, CONTENT)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_json(path, {"new": 2})
    monkeypatch.undo()
    assert read_json(path) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    for content in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            write_json(path, content)
    assert read_json(path) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_path_that_no_file_can_have(tmp_path):
    cases = {"": "as text", True: "as text", tmp_path: "not of a folder"}
    for path, message in {**cases, tmp_path / "no" / "m.json": "in a folder that exists"}.items():
        with pytest.raises(ParameterError, match=f"^path must be .*{message}"):
            write_json(path, CONTENT)


def test_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    write_json(tmp_path / "a.json", CONTENT)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "a.json")}
    assert len(modes) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": 1',
        b"\xff\xfe\x00",
        b"\x1f\x8b",
        gzip.compress(b'{"a": 1}')[:-6],
        gzip.compress(b'{"a": 1}')[:12] + b"\x00\x01\x02" + gzip.compress(b'{"a": 1}')[15:],
        gzip.compress(b"no json"),
        b"[" * 100_000,
    ],
    ids=["empty", "open", "cut", "binary", "header", "cut gzip", "bad gzip", "text", "deep"],
)
def test_damaged_files_are_named(tmp_path, data):
    path = tmp_path / "broken.json"
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match=r"broken\.json"):
        read_json(path)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent.json")
