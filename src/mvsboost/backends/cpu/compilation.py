"""Whether kernels are compiled already, and the one line that says so when they are not."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mvsboost.kernels import gradients
from mvsboost.runtime.jit import KERNELS, kernels_are_kept
from mvsboost.runtime.private import compiled_on_disk

__all__ = [
    "announce_compilation",
    "cache_folder",
    "jit_enabled",
    "keep_quiet",
    "needs_compilation",
]

logger = logging.getLogger("mvsboost")

TYPICAL_SECONDS = 11
"""What a first fit takes on two shared cores; `benchmarks/startup.py` measures it."""

_CENTRAL: Any = gradients.bit_range
"""Every fit on the CPU runs this kernel, so it stands for all of them."""

_announced: list[Any] = []
"""Kernels of which there is nothing more to say."""


def jit_enabled() -> bool:
    """Whether kernels are compiled at all; NUMBA_DISABLE_JIT=1 leaves plain functions.

    Examples
    --------
    >>> import numba
    >>> jit_enabled() != bool(numba.config.DISABLE_JIT)
    True
    """
    return _is_compiled(_CENTRAL)


def _is_compiled(kernel: Any) -> bool:
    return hasattr(kernel, "signatures")


def cache_folder(kernel: Any = _CENTRAL) -> Path | None:
    """Folder that holds the compiled kernels of the backend; None if they are not kept."""
    return Path(kernel.stats.cache_path) if _is_compiled(kernel) and kernels_are_kept() else None


def needs_compilation(kernel: Any = _CENTRAL) -> bool:
    """Whether the first fit of this process will compile kernels."""
    if not _is_compiled(kernel) or kernel.signatures:
        return False
    return not kernels_are_kept() or not compiled_on_disk(kernel)


def announce_compilation(kernel: Any = _CENTRAL) -> None:
    """Log one line, at most once a process, if kernels are about to be compiled."""
    if any(kernel is other for other in _announced):
        return
    _announced.append(kernel)
    if needs_compilation(kernel):
        logger.warning(
            "compiling kernels for this machine, once (about %d s); "
            "`mvsboost warmup` does it ahead",
            TYPICAL_SECONDS,
        )


def keep_quiet(kernels: Iterable[Any] = KERNELS) -> None:
    """Announce nothing in this process, for a caller that says so itself."""
    _announced.extend(kernels)
