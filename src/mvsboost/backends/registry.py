"""From a device's name to a backend."""

from __future__ import annotations

from collections.abc import Callable

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.precompile import prepare_kernels
from mvsboost.backends.messages import BinnedRows, RowObjective
from mvsboost.backends.protocol import Backend
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.errors import ParameterError
from mvsboost.runtime.threads import ThreadPool, available_cores

DEVICES = ("cpu", "cuda", "reference")

BackendFactory = Callable[[BinnedRows, RowObjective], Backend]


def backend_factory(device: str, n_threads: int) -> BackendFactory:
    """A function that puts rows behind the backend of a device.

    There are no more threads than cores, however many are asked for.

    Examples
    --------
    >>> backend_factory("abacus", 1)
    Traceback (most recent call last):
        ...
    mvsboost.errors.ParameterError: device must be one of 'cpu', 'cuda', 'reference', got 'abacus'
    """
    if device == "cpu":
        # of one fit: threads of another backend would stay awake on cores that this one needs
        threads = ThreadPool.within_cores(n_threads)
        prepare_kernels(available_cores())
        return lambda rows, objective: CPUBackend(rows, objective, threads)
    if device == "cuda":
        from mvsboost.backends.cuda import CUDABackend, check_device

        check_device()
        return CUDABackend
    if device == "reference":
        return ReferenceBackend
    raise ParameterError("device", device, "one of " + ", ".join(map(repr, DEVICES)))
