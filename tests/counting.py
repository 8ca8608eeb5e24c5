"""Lines are counted when modules are imported, and in the first cases of every test.

Further cases reach few lines more, and a test whose lines are counted takes half as long again.
What is not counted is not covered, so the figure is no larger than that of all cases. `make unit`
loads this by ``-p tests.counting``; under coverage alone every case counts.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PACKAGES = ("mvsboost", "research")

CASES, CASES_OF_LARGE = 6, 2
"""Of a test, and of one that is marked as large, in each process."""

_counted: Counter[str] = Counter()


@contextmanager
def not_counting() -> Iterator[None]:
    """Keep what counts lines, in this thread and in those that begin meanwhile, from doing so."""
    here, elsewhere = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(here)
        threading.settrace(elsewhere)  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    for name in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    with not_counting():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    test = item.nodeid.partition("[")[0]
    _counted[test] += 1
    if _counted[test] <= (CASES_OF_LARGE if item.get_closest_marker("large") else CASES):
        return (yield)
    with not_counting():
        return (yield)
