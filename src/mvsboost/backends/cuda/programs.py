"""Kernels that always run together: recorded once, then started by one call.

Numba takes as long to launch a kernel as many a kernel runs. A recorded program (a CUDA graph) is
one call, whatever its length.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.cuda.device import (
    BLOCK,
    FEWEST_BLOCKS,
    MOST_BLOCKS,
    ONE_AT_A_TIME,
    ROWS_AT_ONCE,
    SIMULATED,
    cuda,
    pinned,
    room,
)

__all__ = ["Copy", "Numbers", "Program", "Queue", "Step", "signed", "step"]


class Step(NamedTuple):
    """A kernel, how many blocks run it, and its arguments: arrays on the device."""

    compiled: Any
    blocks: int
    arguments: tuple[Any, ...]


def step(compiled: Any, n: int, *arguments: Any) -> Step:
    """A step with threads for n items, or as many as are at work at one time."""
    blocks = -(-n // (ROWS_AT_ONCE * BLOCK))
    return Step(compiled, max(FEWEST_BLOCKS, min(MOST_BLOCKS, blocks)), arguments)


class Copy(NamedTuple):
    """An array on the host, and its twin on the device."""

    host: NDArray[Any]
    device: Any

    @classmethod
    def room(cls, shape: int | tuple[int, ...], dtype: Any) -> Copy:
        return cls(pinned(shape, dtype), room(shape, dtype))

    @classmethod
    def rooms(cls, *arrays: tuple[int | tuple[int, ...], Any]) -> tuple[Copy, list[Copy]]:
        """Arrays of these shapes and dtypes (of eight bytes) side by side, and each of them."""
        sizes = [math.prod((shape,) if isinstance(shape, int) else shape) for shape, _ in arrays]
        whole, start, parts = cls.room(sum(sizes), np.int64), 0, []
        for (shape, dtype), size in zip(arrays, sizes, strict=True):
            own = (part[start : start + size].view(dtype).reshape(shape) for part in whole)
            parts.append(cls(*own))
            start += size
        return whole, parts


class Numbers:
    """A few numbers that go to the device with a program, and come back from it."""

    def __init__(self, reals: int, integers: int) -> None:
        given = (max(reals, 1), np.float64), (max(integers, 1), np.int64)
        self.both, (self.reals, self.integers) = Copy.rooms(*given)

    @property
    def on_device(self) -> tuple[Any, Any]:
        """The last two arguments of a kernel that reads or writes them."""
        return self.reals.device, self.integers.device


class Program:
    """Steps that run one after the other, with their numbers.

    Parameters
    ----------
    queue : Queue
        What it runs in.
    numbers : Numbers
    steps : sequence of Step
    up, down : sequence of Copy
        What else goes to the device before the steps, and comes back after them.
    """

    def __init__(
        self,
        queue: Queue,
        numbers: Numbers,
        steps: Sequence[Step],
        up: Sequence[Copy] = (),
        down: Sequence[Copy] = (),
    ) -> None:
        self._queue, self._numbers, self._steps = queue, numbers, tuple(steps)
        self._up, self._down = (numbers.both, *up), (numbers.both, *down)
        self._recorded: list[Any] = []
        self._is_compiled = SIMULATED
        self._started = 0
        # what is copied to must not be given back before
        weakref.finalize(self, queue.end, self._recorded)

    def run(
        self, reals: Sequence[float] = (), integers: Sequence[int] = ()
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Run with these numbers; returns what they are in the end."""
        self.start(reals, integers)
        self._queue.wait()
        return self._numbers.reals.host, self._numbers.integers.host

    def start(self, reals: Sequence[float] = (), integers: Sequence[int] = ()) -> None:
        """Run, but do not wait for the end."""
        queue = self._queue
        self.settle()
        self._numbers.reals.host[: len(reals)] = reals
        self._numbers.integers.host[: len(integers)] = integers
        if SIMULATED or not self._is_compiled:
            with ONE_AT_A_TIME:  # Numba loads a kernel twice where two threads want it first
                self._launch()
            self._is_compiled = True
        else:
            if not self._recorded:
                self._recorded.append(queue.record(self._launch))
            queue.replay(self._recorded[0])
        queue.started += 1
        self._started = queue.started

    def settle(self) -> None:
        """Wait until what it takes along to the device may be written to."""
        if self._started > self._queue.waited:
            self._queue.wait()

    def _launch(self) -> None:
        stream = self._queue.stream
        for copy in self._up:
            copy.device.copy_to_device(copy.host, stream=stream)
        for each in self._steps:
            each.compiled[each.blocks, BLOCK, stream](*each.arguments)
        for copy in self._down:
            copy.device.copy_to_host(copy.host, stream=stream)


class Queue:
    """What the programs of a backend run in, one after the other."""

    def __init__(self) -> None:
        self.started = self.waited = 0
        if SIMULATED:
            self.stream = cuda.stream()
            return
        # what Numba checks at each of its calls takes longer than the call
        from cuda.bindings import driver

        cuda.current_context()
        # of its own, so that copies of other threads may meet a recording
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self._driver, self._handle = driver, _checked(driver.cuStreamCreate(flag))
        self.stream = cuda.external_stream(int(self._handle))
        weakref.finalize(self, driver.cuStreamDestroy, self._handle)

    def wait(self) -> None:
        if not SIMULATED:
            _checked(self._driver.cuStreamSynchronize(self._handle))
        self.waited = self.started

    def record(self, launch: Any) -> Any:
        """The graph of what is launched meanwhile."""
        driver, handle = self._driver, self._handle
        self.wait()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        with ONE_AT_A_TIME:
            _checked(driver.cuStreamBeginCapture(handle, mode))
            try:
                launch()
            finally:
                graph = _checked(driver.cuStreamEndCapture(handle))
        try:
            return _checked(driver.cuGraphInstantiate(graph, 0))
        finally:
            _checked(driver.cuGraphDestroy(graph))

    def replay(self, recorded: Any) -> None:
        _checked(self._driver.cuGraphLaunch(recorded, self._handle))

    def end(self, recorded: list[Any]) -> None:
        """Wait for what runs, and forget what a program has recorded."""
        if not SIMULATED:
            self._driver.cuStreamSynchronize(self._handle)
            for one in recorded:
                self._driver.cuGraphExecDestroy(one)


def _checked(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver returns besides its error, which is raised."""
    if answer[0]:
        raise RuntimeError(f"CUDA: {answer[0].name}")
    return answer[-1]


def signed(bits: Any) -> int:
    """64 bits, as the int64 that has them."""
    return int(np.uint64(bits).view(np.int64))
