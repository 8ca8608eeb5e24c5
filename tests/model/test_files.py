"""JSON files: all or nothing, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mvsboost import MVSClassifier
from mvsboost.errors import ModelFormatError, ParameterError
from mvsboost.model import files
from mvsboost.model.files import read_json, write_json
from mvsboost.runtime import files as whole

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


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_have_the_usual_permissions(tmp_path, monkeypatch):
    (tmp_path / "usual").write_text("")
    # it belongs to all threads
    monkeypatch.delattr(os, "umask")
    write_json(tmp_path / "a.json", CONTENT)
    assert mode(tmp_path / "a.json") == mode(tmp_path / "usual")


@pytest.mark.parametrize("permissions", [0o600, 0o440, 0o666])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, permissions):
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(permissions)
    usual = mode(path)
    write_json(path, CONTENT)
    assert mode(path) == usual
    assert read_json(path) == CONTENT


def test_what_replaces_a_private_file_is_private_from_the_start(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o600)
    seen = []
    monkeypatch.setattr(files.os, "fsync", lambda handle: seen.append(os.fstat(handle).st_mode))
    write_json(path, CONTENT)
    assert [stat.S_IMODE(found) for found in seen] == [0o600]


def interrupt_at(step: int) -> Any:
    """A tracer that interrupts after so many instructions of what writes; it counts them down."""
    left = [step]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in (files.__file__, whole.__file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        return trace

    return trace


def interrupted(step: int, path: Path) -> bool:
    """Whether a write came to this step, and so was interrupted there."""
    before = sys.gettrace()
    sys.settrace(interrupt_at(step))
    try:
        write_json(path, {"new": 2})
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file not closed
def test_an_interrupt_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "fsync", lambda handle: None)
    path = tmp_path / "a.json"
    interrupted(10_000, path)  # Python 3.12 traces no instructions the first time that it is asked
    found = []
    for step in range(10_000):
        path.write_text('{"old":1}')
        ended = not interrupted(step, path)
        found.append(path.read_text())
        assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
        if ended:
            break
    assert ended
    moved = found.index('{"new":2}')
    assert 0 < moved < len(found) - 1
    assert set(found[:moved]) == {'{"old":1}'}
    assert set(found[moved:]) == {'{"new":2}'}


def test_threads_may_save_at_once(tmp_path):
    path = tmp_path / "a.json"
    contents = [{"of": of, "numbers": [of] * 20_000} for of in range(2)]

    def save_and_read(content: Any) -> list[Any]:
        found = []
        for _ in range(20):
            write_json(path, content)
            found.append(read_json(path))
        return found

    with ThreadPoolExecutor(2) as pool:
        seen = [one for found in pool.map(save_and_read, contents) for one in found]
    assert all(one in contents for one in seen)
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_leads_to_the_new_file(tmp_path, there):
    folder = tmp_path / "folder"
    folder.mkdir()
    if there:
        (folder / "a.json").write_text("old")
    (tmp_path / "between.json").symlink_to("folder/a.json")
    link = tmp_path / "link.json"
    link.symlink_to("between.json")
    write_json(link, CONTENT)
    assert link.readlink() == Path("between.json")
    assert (tmp_path / "between.json").readlink() == Path("folder/a.json")
    assert json.loads((folder / "a.json").read_bytes()) == CONTENT
    assert [p.name for p in folder.iterdir()] == ["a.json"]


def test_a_link_that_leads_nowhere(tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to("no/a.json")
    with pytest.raises(ParameterError, match=r"in a folder that exists: make .*no' first"):
        write_json(link, CONTENT)
    link.unlink()
    link.symlink_to("link.json")
    with pytest.raises(OSError, match="symbolic links"):
        write_json(link, CONTENT)
    assert link.is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_json(path, CONTENT)
    assert json.loads(os.read(reader, 1000)) == CONTENT
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals")
def test_a_device_is_written_to():
    reader, terminal = os.openpty()
    write_json(os.ttyname(terminal), {"a": 1})
    assert os.read(reader, 1000) == b'{"a":1}'
    assert stat.S_ISCHR(os.stat(os.ttyname(terminal)).st_mode)
    os.close(terminal)
    os.close(reader)


@pytest.mark.skipif(not Path("/dev/fd/1").exists(), reason="open files have no names")
def test_the_standard_output_of_a_process_is_written_to(tmp_path):
    link = tmp_path / "stdout"
    link.symlink_to("/dev/fd/1")  # as /dev/stdout is
    code = f"from mvsboost.model.files import write_json; write_json({str(link)!r}, {CONTENT!r})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout) == CONTENT
    assert link.is_symlink()


def test_a_standard_output_that_is_a_file_keeps_what_it_has(tmp_path):
    path = tmp_path / "log.txt"
    program = "from mvsboost.model.files import write_json; write_json('/dev/stdout', [1, 2])"
    with path.open("a") as log:
        log.write("before ")
        log.flush()
        subprocess.run([sys.executable, "-c", program], stdout=log, check=True)
        log.write(" after")
    assert path.read_text() == "before [1,2] after"


@pytest.mark.parametrize("name", ["a" * 250 + ".json", "λ" * 125 + ".json"])
def test_a_name_may_be_as_long_as_any(tmp_path, name):
    for content in ({"old": 1}, CONTENT):
        write_json(tmp_path / name, content)
    assert read_json(tmp_path / name) == CONTENT


def test_a_model_is_saved_through_a_link(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = MVSClassifier(n_estimators=2).fit(X, X[:, 0] > 0)
    link = tmp_path / "latest.json"
    link.symlink_to("first.json.gz")
    model.save(link)
    assert link.is_symlink()
    assert np.array_equal(MVSClassifier.load(link).predict_proba(X), model.predict_proba(X))


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
