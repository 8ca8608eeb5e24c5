"""Arrays that are used again from tree to tree."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NOTHING = np.empty(0)


class Arena:
    """Memory by name: asked for again, it is the same memory, with whatever it held.

    Fresh memory costs a page fault for every few kilobytes; the arrays of a tree are large
    and come back every iteration.

    Examples
    --------
    >>> arena = Arena()
    >>> first = arena.take("rows", (4,), np.int64)
    >>> second = arena.take("rows", (2,), np.int64)
    >>> bool(np.shares_memory(first, second))
    True
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, NDArray[Any]]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array of this shape and dtype; what was taken under this name before is lost."""
        size = prod(shape)
        kept_dtype, kept = self._kept.get(name, (None, _NOTHING))
        if kept_dtype is not dtype or kept.size < size:
            kept = np.empty(size, dtype)
            self._kept[name] = dtype, kept
        return kept[:size] if len(shape) == 1 else kept[:size].reshape(shape)
