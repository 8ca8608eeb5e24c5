"""Every fit is kept as soon as it is done: one line of JSON each, so that a run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path

from mvsboost.comparison.plan import Setting
from mvsboost.runtime.files import naming

__all__ = ["Fit", "Store"]


@dataclass(frozen=True)
class Fit:
    """One fit on one fold.

    Attributes
    ----------
    setting : Setting
    fold : int
    error : float
        On the rows of the fold.
    seconds : float
        Of the fit: binning, boosting and early stopping.
    trees : int
        Iterations to the best.
    rows : float
        Rows of a tree, mean over iterations.
    curve : list of (iteration, seconds, loss)
        Loss of the rows held out for early stopping.
    sampling : list of (iteration, µ, λ, effective sample size)
        None where there is no such number.
    """

    setting: Setting
    fold: int
    error: float
    seconds: float
    trees: int
    rows: float
    curve: list[list[float]] = field(default_factory=list)
    sampling: list[list[float | None]] = field(default_factory=list)


class Store:
    """Fits of one run, in a file or in memory only.

    Parameters
    ----------
    path : Path or None
    run : str
        What the fits depend on besides setting and fold; those of another run are left alone.
    """

    def __init__(self, path: Path | None, run: str) -> None:
        self._path, self._run = path, run
        self.fits: list[Fit] = list(self._read())

    def _read(self) -> Iterator[Fit]:
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                state = json.loads(line)
                run, setting = state.pop("run"), Setting(**state.pop("setting"))
                fit = Fit(setting=setting, **state)
            except (ValueError, TypeError, KeyError, AttributeError):
                continue  # the last line of a run that was killed
            if run == self._run:
                yield fit

    def has(self, setting: Setting, fold: int) -> bool:
        """Whether it was done already."""
        return any(fit.setting == setting and fit.fold == fold for fit in self.fits)

    def add(self, fit: Fit) -> None:
        """Keep a fit."""
        self.fits.append(fit)
        if self._path is None:
            return
        line = json.dumps({"run": self._run, **asdict(fit)}).encode() + b"\n"
        with naming(self._path), self._path.open("a+b", buffering=0) as file:
            _append(file, b"\n" * _is_torn(file) + line)


def _append(file: FileIO, data: bytes) -> None:
    """Write all at the end of a file, or nothing where the disk is full."""
    size, left = file.seek(0, os.SEEK_END), memoryview(data)
    try:
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except BaseException:
        file.truncate(size)
        raise


def _is_torn(file: FileIO) -> bool:
    """Whether the last line has no end, since its run was killed."""
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"
