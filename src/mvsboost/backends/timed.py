"""A backend that notes how long each of its verbs takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from mvsboost.backends.protocol import Backend


class TimedBackend:
    """Any backend, with a stopwatch on every verb; two readings of the clock a call.

    Attributes
    ----------
    seconds : dict of str to float
        Time spent in each verb so far.
    """

    def __init__(self, backend: Backend) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.n_rows, self.n_outputs = backend.n_rows, backend.n_outputs
        self._backend = backend

    @contextmanager
    def stopwatch(self, name: str) -> Iterator[None]:
        """Note the time of a block under this name, also where it fails."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += perf_counter() - start

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if not callable(value):
            return value

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.stopwatch(name):
                return value(*arguments, **named)

        # found directly from now on
        self.__dict__[name] = timed
        return timed
