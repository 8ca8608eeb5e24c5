"""JSON files written all or not at all, gzipped where their name says so."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

from mvsboost.errors import ModelFormatError, ParameterError


def check_path(path: Any, parameter: str = "path") -> Path:
    """The path of a file that can be written, as far as its folder can tell before."""
    if not isinstance(path, (str, PathLike)) or path == "":
        raise ParameterError(parameter, path, "the path of a file, as text or a pathlib.Path")
    target = Path(path)
    if target.is_dir():
        raise ParameterError(parameter, path, "the path of a file, not of a folder: add a name")
    if not target.parent.is_dir():
        allowed = f"in a folder that exists: make {os.fspath(target.parent)!r} first"
        raise ParameterError(parameter, path, allowed)
    return target


def write_json(path: str | PathLike[str], content: Any) -> None:
    """Write JSON to a neighbouring file, then move it into place in one step."""
    target = check_path(path)
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    if target.suffix == ".gz":
        # no time stamp: equal content makes equal files
        data = gzip.compress(data, mtime=0)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a saved file has the usual permissions
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def read_json(path: str | PathLike[str]) -> Any:
    """Read what `write_json` wrote, gzipped or not."""
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return json.loads(data)
    except (ValueError, EOFError, OSError, RecursionError, zlib.error) as error:
        raise ModelFormatError(f"{os.fspath(path)} is not a model file: {error}") from error
