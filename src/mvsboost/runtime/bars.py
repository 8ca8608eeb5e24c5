"""The progress bar of a library that need not be there."""

from __future__ import annotations

from typing import Any

__all__ = ["bar_of"]


def bar_of(**options: Any) -> Any:
    """A bar of tqdm with these options."""
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("the progress bar needs tqdm: pip install tqdm") from error
    return tqdm(**options)
