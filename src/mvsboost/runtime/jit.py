"""How kernels are compiled: one place for the options of Numba.

Every kernel is a serial loop that releases the GIL, and runs on slices of rows; most
call other threads for the rest (`runtime.pool`). No parallel transform is compiled,
which keeps the first fit short, and no threading layer is shared with other libraries.

No kernel allocates: arrays come from the caller, or lie on the stack
(`runtime.intrinsics.stack_array`).

What is used of Numba's insides is in `runtime.private`; without it the same kernels are compiled by
`numba.njit` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any, TypeVar, cast

import numba

from mvsboost.runtime import private

__all__ = [
    "KERNELS",
    "inlined",
    "kernel",
    "kernel_and_inlined",
    "kernels_are_kept",
    "without_thrashing",
]

F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("mvsboost")

KERNELS: list[Any] = []
"""Every compiled kernel, in order of definition."""

_NOT_KEPT: list[str] = []
"""Names of kernels that no folder can keep."""


def kernel(function: F) -> F:
    """Compile a function of scalars and arrays, cached on disk, free of the GIL."""
    options: dict[str, Any] = {}
    if private.probe():
        options = {"pipeline_class": private.kernel_compiler(), **private.KERNEL_OPTIONS}
    compiler = partial(numba.njit, error_model="numpy", nogil=True, **options)
    try:
        compiled = compiler(cache=True)(function)
        if private.probe():
            private.protect_cache(compiled)
    except RuntimeError as error:  # no folder can be written to
        _say_not_kept(function.__name__, error)
        compiled = compiler()(function)
    KERNELS.append(compiled)
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile a small function that only kernels call; LLVM inlines it."""
    compiler = partial(numba.njit, error_model="numpy")
    if private.probe():
        options = private.INLINED_OPTIONS
        compiler = partial(compiler, pipeline_class=private.inlined_compiler(), **options)
    return cast(F, compiler()(function))


def kernel_and_inlined(function: F) -> tuple[F, F]:
    """The same function for Python to call, and for kernels to call; each compiled at need."""
    return kernel(function), inlined(function)


def kernels_are_kept() -> bool:
    """Whether there is a folder on disk in which other processes find what this one compiles."""
    return not _NOT_KEPT


def _say_not_kept(name: str, error: Exception) -> None:
    """Log one line a process."""
    if kernels_are_kept():
        logger.warning(
            "compiled kernels cannot be kept, so every process compiles them anew (%s); "
            "NUMBA_CACHE_DIR may name a folder that can be written to",
            error,
        )
    _NOT_KEPT.append(name)


_LARGE_FRAME = 1 << 16
"""Words: room for all frames of a compilation; what is not used is no memory."""


def without_thrashing(function: F) -> F:
    """Let a function that compiles kernels have a frame with room for those of all it calls.

    CPython keeps frames in chunks of 16 KiB, and returns a chunk to the system with its first
    frame. A loop that calls functions from the end of a chunk maps memory anew for each: Numba's
    compiler does that half a million times, 3 of 16 seconds of a first fit.
    """
    plain: Any = function
    code: CodeType = plain.__code__
    plain.__code__ = code.replace(co_stacksize=_LARGE_FRAME)
    return function
