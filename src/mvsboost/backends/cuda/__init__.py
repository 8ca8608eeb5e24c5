"""Rows on a GPU; nothing outside of this folder imports CUDA."""

from mvsboost.backends.cuda.backend import CUDABackend
from mvsboost.backends.cuda.device import check_device

__all__ = ["CUDABackend", "check_device"]
