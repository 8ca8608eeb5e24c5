"""Records of finished cells in one file: a line each, written once, by one process.

A line is complete or it is not there: it is written in one piece and forced to disk,
and a last line that was torn by a crash is cut off when the file is opened again.

A key holds the release but not the code in between, which would have every commit begin
anew; `made_by` says what code and what host a record is from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import mvsboost
from mvsboost.errors import DataError

__all__ = ["Store", "code_fingerprint", "fits_of", "key_of", "made_by"]

FILE = "cells.jsonl"

_TRAINING = ("engines", "hosts", "draws", "levels", "theory", "race", "turns", "sets")
"""Parts of the experiments that results depend on, unlike which there are and what is shown."""


def key_of(cell: Mapping[str, Any]) -> str:
    """A short name for everything that determines a cell, the library's release among it.

    Examples
    --------
    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    whole = {**cell, "release": mvsboost.__version__}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def code_fingerprint() -> str:
    """A short name for the code that trains: the library's, and that of the experiments.

    Examples
    --------
    >>> len(code_fingerprint())
    12
    """
    library, here, digest = Path(mvsboost.__file__).parent, Path(__file__).parent, hashlib.sha256()
    for folder in (library, here):
        for module in sorted(folder.rglob("*.py")):
            name = module.relative_to(folder).as_posix()
            if folder == library or name.startswith(_TRAINING):
                content = module.read_bytes().replace(b"\r\n", b"\n")
                digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


def made_by(cell: Mapping[str, Any]) -> dict[str, str]:
    """What a record of a cell is from: the code, and releases of other libraries that train."""
    engines = {fit.get("engine", "mvsboost") for fit in fits_of(cell)} - {"mvsboost"}
    return {"code": code_fingerprint(), **{engine: version(engine) for engine in sorted(engines)}}


def fits_of(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A cell, or those that race in it."""
    return list(cell["contenders"].values()) if "contenders" in cell else [dict(cell)]


class Store:
    """Finished cells in a folder; as a context manager it is open for writing.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with Store(folder) as store:
    ...     store.put({"sampler": "mvs", "seed": 0}, {"auc": 0.9})
    >>> Store(folder).get({"seed": 0, "sampler": "mvs"})
    {'auc': 0.9}
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / FILE
        self._records: dict[str, dict[str, Any]] = {}
        self._file: Any = None
        self._load()

    def _load(self) -> int:
        """Read every whole line; returns the bytes that these take."""
        if not self.path.exists():
            return 0
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        for number, line in enumerate(text[:whole].splitlines(), 1):
            try:
                record = json.loads(line)
                self._records[record["key"]] = record
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"{self.path}, line {number} is damaged: remove it") from error
        return whole

    def __enter__(self) -> Store:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        _lock(self._file, self.path)
        self._file.truncate(self._load())  # again: another run may have ended since
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._file = None

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every record: its cell, its result, and what it came with."""
        return iter(self._records.values())

    def get(self, cell: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result of a cell, or None where it has not been done."""
        record = self._records.get(key_of(cell))
        return None if record is None else record["result"]

    def put(self, cell: Mapping[str, Any], result: Mapping[str, Any], **about: Any) -> None:
        """Keep the result of a cell, and what is worth knowing about it."""
        if self._file is None:
            raise DataError(f"{self.path} is open for reading only: use `with Store(...)`")
        record = {"key": key_of(cell), "cell": dict(cell), "result": dict(result), **about}
        line = json.dumps(record, sort_keys=True, allow_nan=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._records[record["key"]] = json.loads(line)


def _lock(file: Any, path: Path) -> None:
    """Refuse a second writer."""
    try:
        import fcntl
    except ImportError:  # on Windows nobody is refused
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise DataError(f"{path} is being written by another run: wait, or use --out") from error
