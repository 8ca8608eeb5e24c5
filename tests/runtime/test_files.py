"""Files written whole or not at all, and what is left by processes that were killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from mvsboost.runtime import files
from mvsboost.runtime.files import held, naming, remove_abandoned, write_whole

locks = pytest.mark.skipif(files.fcntl is None, reason="no locks of files")

KILLED = """
import os, signal, sys
from mvsboost.runtime.files import write_whole
def write(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write_whole(sys.argv[1], write)
"""


def names(folder):
    return sorted(one.name for one in folder.iterdir())


@locks
def test_what_a_kill_has_left_goes_with_the_next_write(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    for _ in range(2):  # the second removes what the first has left
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert ended.returncode == -signal.SIGKILL
        assert path.read_text() == "old"
        assert len(names(tmp_path)) == 2
    write_whole(tmp_path / "b.json", lambda file: file.write(b"other"))
    assert len(names(tmp_path)) == 3  # only its own
    assert write_whole(path, lambda file: file.write(b"new")) == 3
    assert names(tmp_path) == ["a.json", "b.json"]


@locks
def test_what_is_being_written_is_left_alone(tmp_path):
    path = tmp_path / "a.json"

    def write(file):
        write_whole(path, lambda other: other.write(b"between"))
        assert path.read_text() == "between"
        file.write(b"last")

    write_whole(path, write)
    assert path.read_text() == "last"
    assert names(tmp_path) == ["a.json"]


@locks
def test_what_is_taken_for_abandoned_too_early_is_made_anew(tmp_path, monkeypatch):
    lock, tried = files._lock, []

    def late(handle, *, wait):
        if not tried:
            tried.append(names(tmp_path))
            remove_abandoned(tmp_path, ".mvsboost-")
        return lock(handle, wait=wait)

    monkeypatch.setattr(files, "_lock", late)
    write_whole(tmp_path / "a.json", lambda file: file.write(b"new"))
    assert len(tried[0]) == 1
    assert names(tmp_path) == ["a.json"]


@locks
def test_a_folder_is_held_by_one(tmp_path):
    with held(tmp_path) as one, held(tmp_path) as other:
        assert (one, other) == (True, False)
    with held(tmp_path) as again, held(tmp_path / "nothing") as nothing:
        assert (again, nothing) == (True, False)


def test_without_locks_what_is_a_day_old_is_abandoned(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    for name in ("x-old", "x-new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    (tmp_path / "x-file").write_text("")
    for name in ("x-old", "x-file", "other"):
        os.utime(tmp_path / name, (0, 0))
    remove_abandoned(tmp_path, "x-")
    assert names(tmp_path) == ["other", "x-new"]
    write_whole(tmp_path / "a.json", lambda file: file.write(b"new"))
    assert (tmp_path / "a.json").read_text() == "new"


def test_errors_name_the_file(tmp_path):
    for given in ((errno.ENOSPC, "full"), (errno.ENOSPC, "full", str(tmp_path / "temporary"))):
        with (
            pytest.raises(OSError, match=r"No space left on device: '/a/model\.json'"),
            naming("/a/model.json", tmp_path / "temporary"),
        ):
            raise OSError(*given)
    for given in ((errno.ENOSPC, "full", "/another"), ("of some library",)):
        with pytest.raises(OSError, match=r"another|library"), naming("/a/model.json"):
            raise OSError(*given)
