"""The fast backend for one machine: Numba kernels under a thread pool."""

from mvsboost.backends.cpu.backend import CPUBackend

__all__ = ["CPUBackend"]
