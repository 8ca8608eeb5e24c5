"""Rows on a GPU; nothing outside of this folder imports CUDA."""

from mvsboost.backends.cuda.backend import CUDABackend
from mvsboost.backends.cuda.device import check_device
from mvsboost.backends.cuda.tables import Table

__all__ = ["CUDABackend", "Table", "check_device"]
