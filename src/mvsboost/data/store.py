"""Binned rows in a folder on disk: written whole or not at all, checked before use.

A folder holds `rows` (bins by row), `columns` (bins by column), `target`, `weight` where rows
have any, and `manifest.json`, which says what they are, what they were made of, and their
checksums. It is written beside its place and moved there last. Where there was a store already, the
new files come to lie beside the old ones, until the new manifest takes the place of the old.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from io import BufferedWriter, FileIO
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from uuid import uuid4
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.messages import BinnedRows
from mvsboost.data.binning import BinMapper
from mvsboost.data.files import TableFiles
from mvsboost.data.schema import Schema
from mvsboost.data.streaming import FileRequest
from mvsboost.data.targets import read_labels, written_labels
from mvsboost.errors import ParameterError, StoreError
from mvsboost.exact.checksum import checksum
from mvsboost.exact.dtypes import BIN, WEIGHT
from mvsboost.runtime.files import followed, held, naming, remove_abandoned
from mvsboost.runtime.mapped import MappedFiles

__all__ = [
    "MemoryRoom",
    "StoreWriter",
    "Stored",
    "bytes_of",
    "check_place",
    "origin_of",
    "read_store",
    "tidy",
]

_FORMAT, _VERSION = "mvsboost store", 1
_MANIFEST = "manifest.json"
_ARRAYS = ("rows", "columns", "target", "weight")
_SLOTS = ("", ".2")  # endings of names: the files of the old store, and those that follow them
_NAMES = {_MANIFEST, *(name + slot for name in _ARRAYS for slot in _SLOTS)}
_SETTINGS = {
    "target",
    "weight",
    "categorical_features",
    "labels",
    "n_classes",
    "max_bins",
    "seed",
    "sample_rows",
}
_PARTIAL = ".partial-"
_BLOCK = 1 << 24


class MemoryRoom:
    """Binned rows in memory, by row."""

    def __init__(self, n_rows: int, n_features: int, *, weighted: bool) -> None:
        self.bins = np.empty((n_rows, n_features), BIN)
        self.target = np.empty(n_rows, WEIGHT)
        self.weight = np.empty(n_rows, WEIGHT) if weighted else None
        self._filled = 0

    def append(self, rows: BinnedRows) -> None:
        """Take the next rows."""
        place = slice(self._filled, self._filled + rows.n_rows)
        self.bins[place], self.target[place] = rows.bins, rows.target
        if self.weight is not None:
            self.weight[place] = rows.weight
        self._filled = place.stop

    def rows(self, n_bins: NDArray[np.int64]) -> BinnedRows:
        """What has come."""
        return BinnedRows(self.bins, n_bins, self.target, self.weight)


class Stored(NamedTuple):
    """What a store holds.

    Attributes
    ----------
    schema : Schema
    mapper : BinMapper
    rows : BinnedRows
    weight_unit : float
    classes : array or None
        Labels, where the target holds numbers of classes.
    extremes : float64 array
        Targets that stand for all.
    check : int
        Checksum of the rows as of those in memory.
    for_training : bool
        Whether they were binned by themselves.
    """

    schema: Schema
    mapper: BinMapper
    rows: BinnedRows
    weight_unit: float
    classes: NDArray[Any] | None
    extremes: NDArray[np.float64]
    check: int
    for_training: bool


class StoreWriter:
    """Binned rows on their way to a folder.

    Parameters
    ----------
    path : path
        Of the folder; a store that is there is replaced at the end.
    n_rows, n_features : int
    """

    def __init__(self, path: str | PathLike[str], n_rows: int, n_features: int) -> None:
        self._path, self._shape = followed(Path(path)), (n_rows, n_features)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = self._path.with_name(f"{self._path.name}{_PARTIAL}{uuid4().hex[:8]}")
        self._files: dict[str, BinaryIO] = {}
        self._opened, self._holding = ExitStack(), ExitStack()
        with naming(self._path, self._partial):
            while not self._partial.exists():  # it may be taken for abandoned before it is held
                self._partial.mkdir()
                self._holding.enter_context(held(self._partial, wait=True))
        self._checks = {"rows": 0, "target": 0, "weight": 0}
        self._columns, self._filled = [0] * n_features, 0

    def append(self, rows: BinnedRows) -> None:
        """Take the next rows."""
        arrays = ("rows", rows.bins), ("target", rows.target), ("weight", rows.weight)
        with naming(self._path):
            for name, array in arrays:
                if array is not None:
                    self._file(name).write(array.data)
                    self._checks[name] = checksum(array, before=self._checks[name])
            columns, by_column = self._file("columns"), np.ascontiguousarray(rows.bins.T)
            for feature, column in enumerate(by_column):
                columns.seek(feature * self._shape[0] + self._filled)
                columns.write(column.data)
                self._columns[feature] = checksum(column, before=self._columns[feature])
        self._filled += rows.n_rows

    def _file(self, name: str) -> BinaryIO:
        if name not in self._files:
            file = BufferedWriter(FileIO(self._partial / name, "w"))
            self._files[name] = self._opened.enter_context(file)
        return self._files[name]

    def finish(
        self, *, classes: NDArray[Any] | None, extremes: NDArray[np.float64], **about: Any
    ) -> None:
        """Move the folder to its place, with what is to be said about it."""
        with naming(self._path):
            self._opened.close()
        check = self._checks["rows"]
        for name in sorted(self._files.keys() & {"target", "weight"}):
            check = _checksum_of_file(self._partial / name, check)
        manifest = {
            **about,
            "labels": None if classes is None else written_labels(classes),
            "extremes": extremes.tolist(),
            "format": _FORMAT,
            "version": _VERSION,
            "shape": self._shape,
            "weighted": "weight" in self._files,
            "check": check,
            "checks": {**self._checks, "columns": self._columns},
        }
        with naming(self._path):
            if _is_free(self._path):
                (self._partial / _MANIFEST).write_text(json.dumps(manifest))
                os.replace(self._partial, self._path)
            else:
                self._replace_store(manifest)

    def _replace_store(self, manifest: dict[str, Any]) -> None:
        """Put a store in the place of another: one step takes from all of the old to the new."""
        with held(self._path):
            slot = next(slot for slot in _SLOTS if slot != _slot_of(self._path))
            (self._partial / _MANIFEST).write_text(json.dumps({**manifest, "slot": slot}))
            try:
                for name in self._files:
                    os.replace(self._partial / name, self._path / (name + slot))
                os.replace(self._partial / _MANIFEST, self._path / _MANIFEST)
            finally:
                _remove_other_slots(self._path)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind of what was not finished."""
        with suppress(OSError):  # each file tells of a full disk once more
            self._opened.close()
        shutil.rmtree(self._partial, ignore_errors=True)
        self._holding.close()


def tidy(path: str | PathLike[str]) -> None:
    """Remove what processes that were killed have left, beside a store or in it."""
    place = followed(Path(path))
    remove_abandoned(place.parent, place.name + _PARTIAL)
    with suppress(OSError, ValueError), held(place) as alone:
        if alone and json.loads((place / _MANIFEST).read_text())["format"] == _FORMAT:
            _remove_other_slots(place)


def _is_free(path: Path) -> bool:
    """Whether nothing is in a place; an empty folder is removed."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _slot_of(place: Path) -> str:
    """The ending of the names of a store's files."""
    try:
        slot = json.loads((place / _MANIFEST).read_text()).get("slot")
    except (OSError, ValueError, AttributeError):
        slot = None
    return slot if slot in _SLOTS else _SLOTS[0]


def _remove_other_slots(place: Path) -> None:
    """Remove the files of the store that was there before."""
    slot = _slot_of(place)
    for name in _ARRAYS:
        for other in _SLOTS:
            if other != slot:
                (place / (name + other)).unlink(missing_ok=True)


def _checksum_of_file(path: Path, before: int = 0) -> int:
    with open(path, "rb") as file:
        return _checksum_of_part(file, path.stat().st_size, before)


def _checksum_of_part(file: BinaryIO, size: int, check: int = 0) -> int:
    """CRC-32 of so many bytes from where a file is at, after that of others."""
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        check, size = crc32(block, check), size - len(block)
    return check


def origin_of(files: TableFiles, request: FileRequest, mapper: BinMapper | None) -> dict[str, Any]:
    """What a store is made of: files, by name, size and time, and how they are binned."""
    stats = [(os.path.abspath(file), os.stat(file)) for file in files.files]
    settings = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in vars(request).items()
        if name in _SETTINGS
    }
    chosen = settings["categorical_features"]
    if not isinstance(chosen, str | None):
        settings["categorical_features"] = np.asarray(chosen).tolist()
    return {
        "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats],
        "mapper": None if mapper is None else crc32(json.dumps(mapper.to_dict()).encode()),
        "known": None if request.classes is None else written_labels(request.classes),
        **settings,
    }


def bytes_of(limit: int | str | None) -> int | None:
    """Bytes that a limit of memory means; None is none.

    Examples
    --------
    >>> bytes_of("6GB"), bytes_of("512 MiB"), bytes_of(1000)
    (6000000000, 536870912, 1000)
    """
    if limit is None:
        return None
    number: Any = limit
    unit = ""
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]i?B)\s*", limit)
        number, unit = (float(found[1]), found[2]) if found else (0, "")
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number < 1:
        allowed = "a number of bytes, or a text such as '6GB' or '512MiB'"
        raise ParameterError("memory_limit", limit, allowed)
    base, power = 1024 if "i" in unit else 1000, " kMGT".index(unit[:1] or " ")
    return int(number * base**power)


def check_place(path: str | PathLike[str]) -> None:
    """A store is a folder of its own."""
    place = Path(path)
    if place.is_dir() and (_is_store(place) or not any(place.iterdir())):
        return
    if place.exists():
        raise ParameterError("store", os.fspath(path), "a folder that is new, empty, or a store")


def _is_store(place: Path) -> bool:
    if {file.name for file in place.iterdir()} <= _NAMES:
        return True
    try:  # other programs have manifests too
        return _FORMAT.encode() in (place / _MANIFEST).read_bytes()
    except OSError:
        return False


def read_store(
    path: str | PathLike[str],
    memory_limit: int | None,
    n_threads: int,
    origin: dict[str, Any] | None = None,
) -> Stored:
    """What a store holds, once it is sure that nothing in it is damaged.

    Raises
    ------
    StoreError
        There is none, it is damaged, or of another origin.
    """
    place, pages = Path(path), MappedFiles(memory_limit)
    try:
        manifest = json.loads((place / _MANIFEST).read_text())
        if manifest["format"] != _FORMAT or manifest["version"] != _VERSION:
            raise ValueError(f"it is of version {manifest['version']}, not {_VERSION}")
        if origin is not None and manifest["origin"] != origin:
            raise ValueError("it was made of other files, or in another way")
        n_rows, n_features = manifest["shape"]
        slot = _SLOTS[_SLOTS.index(manifest.get("slot", ""))]
        file_of = {name: place / (name + slot) for name in _ARRAYS}
        if not manifest["weighted"]:
            del file_of["weight"]
        bins = pages.open(file_of["rows"], BIN, (n_rows, n_features))
        columns = pages.open(file_of["columns"], BIN, (n_features, n_rows))
        target = pages.open(file_of["target"], WEIGHT, (n_rows,))
        weight = pages.open(file_of["weight"], WEIGHT, (n_rows,)) if "weight" in file_of else None
        _verify(file_of, manifest["checks"], n_threads)
        mapper = BinMapper.from_dict(manifest["mapper"])
        rows = BinnedRows(bins, mapper.n_bins, target, weight, columns=columns, pages=pages)
        return Stored(
            Schema.from_dict(manifest["schema"]),
            mapper,
            rows,
            float(manifest["weight_unit"]),
            None if manifest["labels"] is None else read_labels(manifest["labels"]),
            np.array(manifest["extremes"], np.float64),
            int(manifest["check"]),
            bool(manifest["for_training"]),
        )
    except FileNotFoundError as error:
        raise StoreError(f"there is no store in {os.fspath(path)!r}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the store in {os.fspath(path)!r} cannot be used: {error}") from error


def _verify(file_of: dict[str, Path], checks: dict[str, Any], n_threads: int) -> None:
    """Every byte is that which was written."""

    def is_intact(name: str) -> bool:
        if name != "columns":
            return bool(_checksum_of_file(file_of[name]) == checks[name])
        size = file_of[name].stat().st_size // len(checks[name])
        with open(file_of[name], "rb") as file:
            return all(_checksum_of_part(file, size) == check for check in checks[name])

    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        found = {name: pool.submit(is_intact, name) for name in file_of}
        damaged = [name for name, intact in found.items() if not intact.result()]
    if damaged:
        raise ValueError(f"{' and '.join(damaged)} {'is' if len(damaged) == 1 else 'are'} damaged")
