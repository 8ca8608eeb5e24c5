"""Full disks and folders that take nothing: errors with the path, and the old file kept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
resource = pytest.importorskip("resource")

from mvsboost import Dataset, MVSClassifier  # noqa: E402
from mvsboost.errors import ParameterError  # noqa: E402
from tests.kills import campaign  # noqa: E402
from tests.kills.campaign import OPERATIONS, Command, Compare, Operation, tree_of  # noqa: E402


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills") / "inputs"
    campaign.make_inputs(folder)
    return folder


# --- places that take nothing ---------------------------------------------------------------------


class Place:
    """A folder, and what makes it take nothing more for a while; `code` is the system's."""

    code = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def spoilt(self) -> Iterator[None]:
        raise NotImplementedError
        yield


class Limited(Place):
    """No file may grow beyond a few bytes."""

    code = errno.EFBIG

    @contextmanager
    def spoilt(self) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Full(Place):
    """A disk without a free byte."""

    code = errno.ENOSPC

    @contextmanager
    def spoilt(self) -> Iterator[None]:
        filler = self.folder.parent / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue
        yield
        filler.unlink()


class ReadOnly(Place):
    """A disk that is read only."""

    code = errno.EROFS

    @contextmanager
    def spoilt(self) -> Iterator[None]:
        mount("-o", "remount,ro", os.fspath(self.folder.parent))
        yield
        mount("-o", "remount,rw", os.fspath(self.folder.parent))


class Forbidden(Place):
    """A folder that one may not write to."""

    code = errno.EACCES

    @contextmanager
    def spoilt(self) -> Iterator[None]:
        for folder in (self.folder, *filter(Path.is_dir, self.folder.rglob("*"))):
            folder.chmod(0o555)
        yield
        for folder in (self.folder, *filter(Path.is_dir, self.folder.rglob("*"))):
            folder.chmod(0o755)


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk of its own: {done.stderr.strip()}")


@pytest.fixture(params=[Limited, Full, ReadOnly, Forbidden], ids=lambda kind: kind.__name__)
def place(request, tmp_path):
    folder = tmp_path / "disk" / "folder"
    if request.param is Forbidden and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    own_disk = request.param in (Full, ReadOnly)
    folder.parent.mkdir()
    if own_disk:
        if os.geteuid() != 0:
            pytest.skip("mounting a disk needs root")
        mount("-t", "tmpfs", "-o", "size=4m", "none", os.fspath(folder.parent))
    folder.mkdir()
    yield request.param(folder)
    if own_disk:
        subprocess.run(["umount", "-l", os.fspath(folder.parent)], check=True)


# --- what holds -----------------------------------------------------------------------------------


class Continued(Operation):
    """A fit with a checkpoint of fewer trees."""

    def prepare(self, folder: Path) -> None:
        self.fit(folder, 10)

    def run(self, folder: Path) -> None:
        self.fit(folder, 20)

    def fit(self, folder: Path, trees: int) -> None:
        made = MVSClassifier(n_estimators=trees, max_leaves=7, n_jobs=1)
        made.fit(campaign.features(), campaign.table()["y"], resume=folder / "checkpoint.json")


CALLED = [name for name, kind in OPERATIONS.items() if not issubclass(kind, Command)]
COMMANDS = [name for name, kind in OPERATIONS.items() if issubclass(kind, Command)]


@pytest.mark.parametrize("name", [*CALLED, "checkpoint over a checkpoint"])
def test_the_old_file_is_kept_and_the_error_names_it(name, place, inputs):
    operation = OPERATIONS.get(name, Continued)(inputs)
    operation.prepare(place.folder)
    before = tree_of(place.folder)
    with place.spoilt():
        with pytest.raises(OSError, match=str(place.folder)) as caught:
            operation.run(place.folder)
        assert tree_of(place.folder) == before
    assert caught.value.errno == place.code
    assert ".partial-" not in str(caught.value)
    assert ".mvsboost-" not in str(caught.value)
    assert all(any(one.iterdir()) for one in place.folder.iterdir() if one.is_dir())
    operation.run(place.folder)  # when there is room again


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_end_with_one_line(name, place, inputs, capsys):
    operation: Any = OPERATIONS[name](inputs)
    operation.prepare(place.folder)
    before = tree_of(place.folder)
    capsys.readouterr()
    with place.spoilt():
        assert operation.call(place.folder) == 1
        after = tree_of(place.folder)
    if name == "compare" and after["fits.jsonl"].endswith(b"\n"):
        # the last block of a full disk may have had room for some fits
        after["fits.jsonl"] = after["fits.jsonl"][: len(before["fits.jsonl"])]
    assert after == before
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "error: [Errno " in said
    assert str(place.folder) in said
    assert ".mvsboost-" not in said
    assert operation.call(place.folder) == 0


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_file_where_a_folder_should_be(name, inputs, tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    operation: Any = OPERATIONS[name](inputs)
    if isinstance(operation, Command):
        assert operation.call(tmp_path / "file") == (1 if isinstance(operation, Compare) else 2)
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert str(tmp_path / "file") in said
    else:
        with pytest.raises((ParameterError, OSError), match=str(tmp_path / "file")):
            operation.run(tmp_path / "file")
    assert tree_of(tmp_path) == {"file": b"kept"}


def test_fits_that_were_kept_stay_when_the_disk_is_full(inputs, tmp_path, capsys):
    operation = Compare(inputs)
    operation.prepare(tmp_path)
    before = tree_of(tmp_path)
    size = len(before["fits.jsonl"])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2500, limits[1]))  # room for some of them
    try:
        assert operation.call(tmp_path) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    kept = tree_of(tmp_path)
    assert kept.pop("fits.jsonl").endswith(b"\n")  # the one that had no room is not there in part
    assert len((tmp_path / "fits.jsonl").read_bytes()) > size
    del before["fits.jsonl"]
    assert kept == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments", [["predict", "TABLE"], ["info", "--json"]], ids=lambda given: given[0]
)
def test_an_output_that_is_full(arguments, inputs):
    places = {"TABLE": [str(inputs / "table.csv"), "--model", str(inputs / "new.json")]}
    given = [word for one in arguments for word in places.get(one, [one])]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mvsboost", *given],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "error: [Errno 28] No space left on device" in done.stderr


def test_a_store_is_used_where_nothing_can_be_written(inputs, place):
    operation: Any = OPERATIONS["store over a store"](inputs)
    operation.prepare(place.folder)
    with place.spoilt():
        again = Dataset.open(place.folder / "out", n_threads=1)
        operation.prepare(place.folder)  # what is there is what is asked for
    assert again.n_rows == 500
