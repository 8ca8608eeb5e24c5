"""Arrays on a GPU: a table stays there, and becomes bins there; vectors are brought to the host.

What is done there is behind `DeviceTable`; nothing here knows CUDA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvsboost.backends.messages import DeviceTable
from mvsboost.backends.registry import device_table
from mvsboost.data.columns import DeviceColumn
from mvsboost.errors import DataError, ParameterError

__all__ = [
    "check_on_host",
    "device_columns",
    "form_of",
    "is_on_device",
    "on_host",
]

_GPUS = (2, 13)
"""What DLPack calls memory of CUDA, managed memory included."""


def is_on_device(values: Any) -> bool:
    """Whether it is an array on a GPU, as its ``__cuda_array_interface__`` says."""
    return hasattr(values, "__cuda_array_interface__")


def check_on_host(values: Any, name: str) -> None:
    """Raise a `DataError` for an array on a GPU."""
    if is_on_device(values):
        raise _unreadable(values, name, "its copy on the host")
    device = getattr(values, "__dlpack_device__", None)
    if device is not None and int(device()[0]) in _GPUS:
        raise DataError(
            f"{name} is an array on a GPU ({type(values).__name__}) without "
            f"__cuda_array_interface__: pass cupy.from_dlpack({name})"
        )


def _unreadable(values: Any, name: str, what: str) -> DataError:
    return DataError(
        f"{name} is an array on a GPU ({type(values).__name__}): pass {what}, "
        f"{name}.get() of CuPy or {name}.cpu() of PyTorch"
    )


def on_host(values: Any, name: str) -> Any:
    """A copy of an array on a GPU; anything else as it is."""
    if not is_on_device(values):
        check_on_host(values, name)
        return values
    shape, dtype = form_of(values)
    if dtype.kind not in "fbiu" or len(shape) not in (1, 2):
        raise _unreadable(values, name, f"{name} on the host, which has {dtype} of shape {shape}")
    copied = _table(values, name).values()
    return copied[:, 0] if len(shape) == 1 else copied


def device_columns(X: Any) -> tuple[DeviceColumn, ...]:
    """The columns of a two-dimensional array of numbers on a GPU, which stays where it is."""
    _, dtype = form_of(X)
    if dtype.kind not in "fbiu" or dtype.itemsize not in (1, 2, 4, 8) or dtype == np.float16:
        raise DataError(
            f"X on a GPU must hold float32, float64, integers or booleans, got {dtype}: convert "
            f"it, for example with X.astype('float32') of CuPy or X.float() of PyTorch"
        )
    table = _table(X, "X")
    return tuple(DeviceColumn(table, j) for j in range(table.shape[1]))


def form_of(array: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array on a GPU."""
    interface = array.__cuda_array_interface__
    return tuple(map(int, interface["shape"])), np.dtype(interface["typestr"])


def _table(values: Any, name: str) -> DeviceTable:
    try:
        return device_table(values)
    except ParameterError as error:  # no GPU for Numba
        raise _unreadable(values, name, "its copy on the host, as Numba finds no GPU") from error
