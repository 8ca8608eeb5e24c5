"""How kernels are compiled: what is remembered, what is kept on disk, and what is not."""

from __future__ import annotations

import errno
import os
import pickle
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import pytest
from numba.core.caching import CacheImpl, IndexDataCacheFile

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.runtime import jit, private

KERNEL = """
from mvsboost.runtime.jit import kernel

@kernel
def add(x):
    return x + {number}
"""

CALLER = """
from mvsboost.runtime.jit import inlined, kernel

with open({path!r}) as file:
    exec(compile(file.read(), {path!r}, "exec"))
number = inlined(number)

@kernel
def add(x):
    return x + number()
"""


class Package:
    """A folder of modules in place of the package, and processes that import them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        """Write a module, of the same age as all the others."""
        module = self.folder / name
        module.write_text(text)
        os.utime(module, ns=(0, 1_234_567_891))

    def load(self) -> Any:
        """The kernel `add` of the module `kernels`, as a new process sees it."""
        for remembered in (
            private._digest,
            private._package_stamp,
            private._stamp,
            private._remove_others,
        ):
            remembered.cache_clear()
        path, names = self.folder / "kernels.py", {"__name__": "kernels"}
        exec(compile(path.read_text(), str(path), "exec"), names)
        return names["add"]

    def kept(self) -> set[str]:
        """Names of the files that hold compiled code, and of their indices."""
        return {file.name for file in (self.folder / "__pycache__").glob("*.nb?")}


@pytest.fixture
def package(tmp_path, monkeypatch):
    if not jit_enabled():
        pytest.skip("nothing is compiled")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(private, "_FOLDERS", [tmp_path])
    monkeypatch.setattr(jit, "KERNELS", [])
    monkeypatch.setattr(jit, "_NOT_KEPT", [])
    # what is remembered of the package itself stays
    for name in ("_digest", "_package_stamp", "_stamp", "_remove_others"):
        monkeypatch.setattr(private, name, cache(getattr(private, name).__wrapped__))
    return Package(tmp_path)


def hits(kernel: Any) -> int:
    return sum(kernel.stats.cache_hits.values())


def test_where_no_folder_can_be_written_to_kernels_are_compiled_all_the_same(
    package, monkeypatch, caplog
):
    package.write("kernels.py", KERNEL.format(number=1) + KERNEL.format(number=2))
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    add = package.load()
    assert add(1) == 3
    assert len(jit.KERNELS) == 2
    assert not jit.kernels_are_kept()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("mvsboost", "WARNING")
    assert "cannot be kept" in record.getMessage()


def test_a_full_disk_does_not_end_a_fit(package, monkeypatch, caplog):
    def fail(file: Any, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    package.write("kernels.py", KERNEL.format(number=1))
    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", fail)
    caplog.set_level("DEBUG", logger="mvsboost")
    assert package.load()(1) == 2
    assert jit.kernels_are_kept()
    (record,) = (record for record in caplog.records if record.name == "mvsboost")
    assert record.levelname == "DEBUG"
    assert "No space left on device" in record.getMessage()


def test_what_is_kept_does_not_depend_on_times(package):
    package.write("kernels.py", KERNEL.format(number=1))
    package.write("other.py", "")
    assert package.load()(1) == 2
    for module in package.folder.glob("*.py"):
        os.utime(module, (0, 1))  # as an archive does, whole seconds
    add = package.load()
    assert add(1) == 2
    assert hits(add) == 1


def test_a_change_that_size_and_time_do_not_show_is_compiled(package):
    package.write("kernels.py", CALLER.format(path=str(package.folder / "other.py")))
    for number in (1, 2):
        package.write("other.py", f"def number():\n    return {number}\n")
        add = package.load()
        assert add(1) == 1 + number
        assert hits(add) == 0


def test_a_process_that_is_killed_leaves_no_old_code_for_a_new_version(package, monkeypatch):
    def kill(file: Any, name: str, data: Any) -> None:
        raise KeyboardInterrupt

    package.write("kernels.py", KERNEL.format(number=1))
    assert package.load()(1) == 2
    package.write("kernels.py", KERNEL.format(number=2))
    with monkeypatch.context() as patched:
        patched.setattr(IndexDataCacheFile, "_save_data", kill)
        add = package.load()
        with pytest.raises(KeyboardInterrupt):
            add(1)
    assert package.load()(1) == 3


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "longer": lambda content: content + b"0",
    "garbage": lambda content: b"no pickle" * 100,
    "first byte": lambda content: flipped(content, 0),
    "middle byte": lambda content: flipped(content, len(content) // 2),
    "last byte": lambda content: flipped(content, -1),
}


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_anew(package, kind):
    package.write("kernels.py", KERNEL.format(number=1))
    assert package.load()(1) == 2
    (file,) = (package.folder / "__pycache__").glob(f"*.{kind}")
    for name, damage in DAMAGES.items():
        file.write_bytes(damage(file.read_bytes()))
        for expected in (0, 1):  # compiled, and then found whole
            add = package.load()
            assert add(1) == 2, name
            assert hits(add) == expected, name


def test_an_index_that_names_what_is_gone_is_empty(tmp_path):
    def load() -> dict[Any, Any]:
        raise AttributeError("Can't get attribute 'Members' on <module 'grow'>")

    path, version = tmp_path / "a.nbi", "0.60"
    path.write_bytes(pickle.dumps(version, protocol=-1) + private._seal(b"index"))
    file = SimpleNamespace(_index_path=path, _version=version)
    assert private._load_index_or_forget(file, load) == {}
    assert private._load_index_or_forget(file, lambda: {"key": "name"}) == {"key": "name"}


def test_each_byte_of_a_sealed_file_counts(tmp_path):
    path, head, content = tmp_path / "sealed", b"head", b"some content"
    whole = head + private._seal(content)
    path.write_bytes(whole)
    assert private._is_sealed(path, head)
    for damaged in [
        *(flipped(whole, at) for at in range(len(whole))),
        *(whole[:length] for length in range(len(whole))),
    ]:
        path.write_bytes(damaged)
        assert not private._is_sealed(path, head)


def test_other_versions_are_removed_from_the_cache(package):
    package.write("kernels.py", KERNEL.format(number=1))
    package.load()(1)
    first = package.kept()
    module, function, python, stamp, *_ = min(first).split(".")
    others = {
        f"{module}.{function}.{python}.nbi",  # Numba's own
        f"{module}.{function}.{python}.1.nbc",
        f"other.{function}.{python}.{stamp}.1.nbc",
    }
    for name in others:
        (package.folder / "__pycache__" / name).touch()
    package.write("kernels.py", "\n" + KERNEL.format(number=2))  # and on another line
    add = package.load()
    add(1)
    second = package.kept() - others
    assert len(first) == len(second) == 2
    assert not first & second
    assert others <= package.kept()
    add(1.0)
    assert second < package.kept() - others
