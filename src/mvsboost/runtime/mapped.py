"""Arrays in files: the system reads what is touched, and forgets it where memory is short."""

from __future__ import annotations

import mmap
import os
from math import prod
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MappedFiles"]


class MappedFiles:
    """Arrays that lie in files, and count as memory only while they are looked at.

    Parameters
    ----------
    memory_limit : int or None
        Bytes that a process may have resident; None where the system alone decides.
    """

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit
        self._maps: list[mmap.mmap] = []

    def open(self, path: str | PathLike[str], dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """The array in a file; a file of another size is a `ValueError`."""
        # not read-only, since kernels are compiled for arrays of one kind; none writes to these
        writable = os.access(path, os.W_OK)
        expected, found = prod(shape) * np.dtype(dtype).itemsize, os.stat(path).st_size
        if found != expected:
            raise ValueError(f"{os.fspath(path)} has {found} bytes, not {expected}")
        with open(path, "r+b" if writable else "rb") as file:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY
            mapped = mmap.mmap(file.fileno(), 0, access=access)
        self._maps.append(mapped)
        array: NDArray[Any] = np.frombuffer(mapped, dtype).reshape(shape)
        return array

    def let_go(self) -> None:
        """Let go of what was looked at, if memory is bounded; the next look reads it again."""
        if self.memory_limit is not None and hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)
