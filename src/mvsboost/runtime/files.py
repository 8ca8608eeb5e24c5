"""Files written whole or not at all, and what processes that were killed have left of them."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from zlib import crc32

from mvsboost.errors import ParameterError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_path", "followed", "held", "naming", "remove_abandoned", "write_whole"]

T = TypeVar("T")


def check_path(path: Any, parameter: str = "path") -> Path:
    """The path of a file that can be written, as far as its folder can tell before."""
    if not isinstance(path, (str, PathLike)) or path == "":
        raise ParameterError(parameter, path, "the path of a file, as text or a pathlib.Path")
    target = Path(path)
    if target.is_dir():
        raise ParameterError(parameter, path, "the path of a file, not of a folder: add a name")
    folder = followed(target).parent
    if not folder.is_dir():
        allowed = f"in a folder that exists: make {os.fspath(folder)!r} first"
        raise ParameterError(parameter, path, allowed)
    return target


def followed(path: Path) -> Path:
    """The file that a link leads to, there or not; the path itself where it is no link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def write_whole(
    path: str | PathLike[str], write: Callable[[BinaryIO], T], parameter: str = "path"
) -> T:
    """Write to a neighbouring file, then move it into place in one step.

    A link stays, and the file that it leads to is replaced. A file that is replaced keeps its
    permissions. What is no file, such as a pipe or a device, is written to.

    Parameters
    ----------
    path : path
    write : callable
        Is given the file, and may return something.
    parameter : str
        What an error calls the path.
    """
    target = check_path(path, parameter)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return _replace(followed(target), write, None)
    # what /dev/stdout leads to may be a file that others write to as well
    if stat.S_ISREG(mode) and target.parts[:2] not in (("/", "dev"), ("/", "proc")):
        return _replace(followed(target), write, stat.S_IMODE(mode))
    flags = os.O_WRONLY | os.O_APPEND
    with naming(target), open(target, "wb", opener=lambda name, _: os.open(name, flags)) as file:
        return write(file)


def _replace(target: Path, write: Callable[[BinaryIO], T], mode: int | None) -> T:
    """Put a file in the place of another; `mode` has its permissions, None the usual ones."""
    # a name of its own: the target's with something added could be too long
    beginning = f".mvsboost-{crc32(os.fsencode(target.name)):08x}-"
    temporary = target.with_name(beginning + secrets.token_hex(4))
    with naming(target, temporary):
        remove_abandoned(target.parent, beginning)
        try:
            # never more permissions than the old file has, not even for a moment
            opener = partial(os.open, mode=0o666 if mode is None else mode)
            with _created(temporary, opener) as file:
                found = write(file)
                file.flush()
                os.fsync(file.fileno())
                file.close()
                if mode is not None:
                    os.chmod(temporary, mode)
                os.replace(temporary, target)
        except BaseException:
            # an interrupt may come when it is moved already
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    return found


@contextmanager
def _created(path: Path, opener: Callable[[str, int], int]) -> Iterator[BinaryIO]:
    """A new file that others see to be in use, also when it is closed already."""
    while True:
        with open(path, "xb", opener=opener) as file, held(path, wait=True):
            if path.exists():
                yield file
                return
        # it was taken for abandoned before it was held


@contextmanager
def naming(path: str | PathLike[str], temporary: Path | None = None) -> Iterator[None]:
    """Name a file in errors of the system that do not, or that name what stands for it."""
    try:
        yield
    except OSError as error:
        own = None if temporary is None else os.fspath(temporary)
        if error.errno is None or error.filename not in (None, own):
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error


# --- what is abandoned ----------------------------------------------------------------------------


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[bool]:
    r"""Hold a file or folder to the end, or until the process is killed; False where it cannot.

    Who makes what is held later `wait`\ s, and sees whether it is still there.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if fcntl is not None else None
    except OSError:
        handle = None
    if handle is None:
        yield False
        return
    try:
        yield _lock(handle, wait=wait)
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by another, or a file system that has no locks
        return False
    return True


def remove_abandoned(folder: Path, beginning: str) -> None:
    """Remove files and folders of this beginning that no process holds any more."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(beginning):
                with suppress(OSError):
                    _remove_if_abandoned(folder / entry.name)


def _remove_if_abandoned(path: Path) -> None:
    if fcntl is None:
        if time.time() - path.stat().st_mtime > _STALE:
            _remove(path)
        return
    with held(path) as abandoned:
        if abandoned:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


_STALE = 86_400.0  # seconds after which, without locks, what was not finished is abandoned
