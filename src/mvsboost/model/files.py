"""JSON files written all or not at all, gzipped where their name says so."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import zlib
from os import PathLike
from pathlib import Path
from typing import Any
from zlib import crc32

from mvsboost.errors import ModelFormatError
from mvsboost.runtime.files import check_path, write_whole


def write_json(path: str | PathLike[str], content: Any, *, checked: bool = False) -> None:
    """Write JSON by `write_whole`; what is to be checked gets its checksum."""
    check_path(path)
    data = _dumps(content)
    if checked:
        data = data[:-1] + _ending(crc32(data))
    if Path(path).suffix == ".gz":
        # no time stamp: equal content makes equal files
        data = gzip.compress(data, mtime=0)
    write_whole(path, lambda file: file.write(data))


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
