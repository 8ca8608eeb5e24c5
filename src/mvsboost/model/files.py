"""JSON files written all or not at all, gzipped where their name says so."""

from __future__ import annotations

import gzip
import io
import json
import os
import secrets
import stat
import zlib
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any
from zlib import crc32

from mvsboost.errors import ModelFormatError, ParameterError


def check_path(path: Any, parameter: str = "path") -> Path:
    """The path of a file that can be written, as far as its folder can tell before."""
    if not isinstance(path, (str, PathLike)) or path == "":
        raise ParameterError(parameter, path, "the path of a file, as text or a pathlib.Path")
    target = Path(path)
    if target.is_dir():
        raise ParameterError(parameter, path, "the path of a file, not of a folder: add a name")
    folder = _followed(target).parent
    if not folder.is_dir():
        allowed = f"in a folder that exists: make {os.fspath(folder)!r} first"
        raise ParameterError(parameter, path, allowed)
    return target


def write_json(path: str | PathLike[str], content: Any, *, checked: bool = False) -> None:
    """Write JSON to a neighbouring file, then move it into place in one step.

    What is to be checked gets its checksum.

    A link stays, and the file that it leads to is replaced. A file that is replaced keeps its
    permissions. What is no file, such as a pipe or a device, is written to.
    """
    target = check_path(path)
    data = _dumps(content)
    if checked:
        data = data[:-1] + _ending(crc32(data))
    if target.suffix == ".gz":
        # no time stamp: equal content makes equal files
        data = gzip.compress(data, mtime=0)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        _replace(_followed(target), data, None)
        return
    # what /dev/stdout leads to may be a file that others write to as well
    if stat.S_ISREG(mode) and target.parts[:2] not in (("/", "dev"), ("/", "proc")):
        _replace(_followed(target), data, stat.S_IMODE(mode))
    else:
        flags = os.O_WRONLY | os.O_APPEND
        with open(target, "wb", opener=lambda name, _: os.open(name, flags)) as file:
            file.write(data)


def _followed(path: Path) -> Path:
    """The file that a link leads to, there or not; the path itself where it is no link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    """Put a file in the place of another; `mode` has its permissions, None the usual ones."""
    # a name of its own: the target's with something added could be too long
    temporary = target.with_name(f".mvsboost-{secrets.token_hex(8)}")
    try:
        # never more permissions than the old file has, not even for a moment
        opener = partial(os.open, mode=0o666 if mode is None else mode)
        with open(temporary, "xb", opener=opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        # an interrupt may come when it is moved already
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


_CHECKSUM = "checksum"


def _dumps(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _ending(checksum: Any) -> bytes:
    return b',"' + _CHECKSUM.encode() + b'":' + str(checksum).encode() + b"}"


def _is_intact(data: bytes, content: Any, checksum: Any) -> bool:
    """Whether the checksum is that of the content, perhaps in other words, as on many lines."""
    ending = _ending(checksum)
    if data.endswith(ending) and crc32(data[: -len(ending)] + b"}") == checksum:
        return True
    try:
        return bool(crc32(_dumps(content)) == checksum)
    except ValueError:  # numbers that JSON does not have
        return False


def _decompressed(data: bytes) -> bytes:
    """What was gzipped, unless that is far more than any model of this size is."""
    limit = max(_SMALL, _LARGEST_RATIO * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise ValueError(f"its {len(data)} bytes become more than {limit}")
    return found


_SMALL, _LARGEST_RATIO = 1 << 26, 32


def read_json(path: str | PathLike[str]) -> Any:
    """Read what `write_json` wrote, gzipped or not."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # what has no end can be read for ever
        raise ModelFormatError(f"{os.fspath(path)} is not a model file: it is no regular file")
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = _decompressed(data)
        content = json.loads(data)
    except (ValueError, EOFError, OSError, RecursionError, zlib.error) as error:
        raise ModelFormatError(f"{os.fspath(path)} is not a model file: {error}") from error
    if isinstance(content, dict) and _CHECKSUM in content:
        said = content.pop(_CHECKSUM)
        if not _is_intact(data, content, said):
            raise ModelFormatError(
                f"{os.fspath(path)} is damaged: its checksum does not fit what it says. If it was "
                f"edited on purpose, remove {_CHECKSUM!r} from it"
            )
    return content
