"""A backend that notes how long each of its verbs takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
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

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time is noted under this name, also where it fails."""
        seconds = self.seconds

        def with_stopwatch(*arguments: Any) -> Any:
            start = perf_counter()
            try:
                return function(*arguments)
            finally:
                seconds[name] += perf_counter() - start

        return with_stopwatch

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if not callable(value):
            return value

        # found directly from now on
        verb = self.__dict__[name] = self.timed(name, value)
        return verb
