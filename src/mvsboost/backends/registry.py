"""From a device's name to a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mvsboost.backends.cpu import CPUBackend
from mvsboost.backends.cpu.growing import Ways
from mvsboost.backends.cpu.precompile import prepare_kernels
from mvsboost.backends.messages import BinnedRows, DeviceTable, RowObjective
from mvsboost.backends.protocol import Backend
from mvsboost.backends.reference import ReferenceBackend
from mvsboost.errors import ParameterError
from mvsboost.runtime.threads import ThreadPool, available_cores

DEVICES = ("cpu", "cuda", "reference")

BackendFactory = Callable[[BinnedRows, RowObjective], Backend]


def backend_factory(device: str, n_threads: int, full: bool = False) -> BackendFactory:
    """A function that puts rows behind the backend of a device.

    There are no more threads than cores, however many are asked for. `full` says that some trees
    have a second look, categories or constraints, for which a larger kernel is compiled.

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
        prepare_kernels(available_cores(), full)
        ways = Ways(full=full)
        return lambda rows, objective: CPUBackend(_on_host(rows, device), objective, threads, ways)
    if device == "cuda":
        from mvsboost.backends.cuda import CUDABackend, check_device

        check_device()
        return CUDABackend
    if device == "reference":
        return lambda rows, objective: ReferenceBackend(_on_host(rows, device), objective)
    raise ParameterError("device", device, "one of " + ", ".join(map(repr, DEVICES)))


def _on_host(rows: BinnedRows, device: str) -> BinnedRows:
    """The same rows, once it is sure that they are on the host."""
    if not isinstance(rows.bins, np.ndarray):
        allowed = "'cuda' for rows on a GPU; or pass their copies on the host, as X.get() of CuPy"
        raise ParameterError("device", device, f"{allowed} or X.cpu() of PyTorch")
    return rows


def device_table(array: Any) -> DeviceTable:
    """The table of an array with ``__cuda_array_interface__``, of one or two dimensions."""
    from mvsboost.backends.cuda import Table, check_device

    check_device()
    return Table.of(array)
