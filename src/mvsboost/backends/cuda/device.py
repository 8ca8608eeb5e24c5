"""What is asked of Numba's CUDA: formulas, kernels and their launches, sums over a block.

With ``NUMBA_ENABLE_CUDASIM=1`` kernels run as plain Python, thread by thread, for tests.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numba.cuda
import numpy as np

from mvsboost.errors import ParameterError
from mvsboost.exact import numerics

cuda: Any = numba.cuda

SIMULATED = bool(vars(numba.config)["ENABLE_CUDASIM"])

BLOCK = 4 if SIMULATED else 256
"""Threads of a block; a power of two, which sums over a block rely on."""

MOST_BLOCKS = 2 if SIMULATED else 2048
"""Blocks of a launch; each thread takes one row after another until none is left."""

_FEWEST_BLOCKS = 1 if SIMULATED else 128  # Numba warns of fewer, and idle ones cost nothing


def check_device() -> None:
    """Say what is missing where there is no GPU to work on."""
    if not cuda.is_available():
        raise ParameterError(
            "device",
            "cuda",
            "'cpu' on this machine: no NVIDIA GPU, or no driver for it, was found by Numba "
            "(python -m numba -s says more)",
        )


def on_device(function: Callable[..., Any]) -> Any:
    """A function that kernels call."""
    return function if SIMULATED else cuda.jit(device=True)(function)


# --- scalars ------------------------------------------------------------------------------------

_ON_DEVICE: dict[Any, Any] = {}
"""What formulas call on the device in place of these functions."""

if SIMULATED:

    def times(a: Any, b: Any) -> Any:
        """A product that is rounded before anything is added to it."""
        return a * b

    def nearest(x: Any) -> Any:
        """The nearest integer, the even one of two."""
        return np.int64(np.rint(x))

    def root(x: Any) -> Any:
        """The square root of a float32."""
        return np.sqrt(np.float32(x))

    def bits_of_float32(x: Any) -> Any:
        """The bits of a float32, as an uint32."""
        return np.float32(x).view(np.uint32)

    _floor: Any = np.floor

else:
    from numba.cuda import libdevice as _libdevice

    libdevice: Any = _libdevice

    @on_device
    def times(a: Any, b: Any) -> Any:
        """A product that is rounded before anything is added to it."""
        return libdevice.dmul_rn(np.float64(a), np.float64(b))

    @on_device
    def nearest(x: Any) -> Any:
        """The nearest integer, the even one of two."""
        return np.int64(libdevice.rint(x))

    @on_device
    def root(x: Any) -> Any:
        """The square root of a float32."""
        return libdevice.fsqrt_rn(np.float32(x))

    @on_device
    def bits_of_float32(x: Any) -> Any:
        """The bits of a float32, as an uint32."""
        return np.uint32(libdevice.float_as_int(np.float32(x)))

    @on_device
    def _floor(x: Any) -> Any:
        return libdevice.floor(np.float64(x))

    @on_device
    def _bits_of(x: Any) -> Any:
        return np.int64(libdevice.double_as_longlong(np.float64(x)))

    @on_device
    def _float64_of(bits: Any) -> Any:
        return libdevice.longlong_as_double(np.int64(bits))

    _ON_DEVICE |= {numerics.bits_of: _bits_of, numerics.float64_of: _float64_of}


class _RoundedProducts(ast.NodeTransformer):
    """Every product as a call of `times`, what the device has by another name, no decorators."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mult):
            return node
        call = ast.Call(ast.Name("_times", ast.Load()), [node.left, node.right], [])
        return ast.copy_location(call, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name("_floor", ast.Load()) if node.attr == "floor" else node


@cache
def formula(function: Any) -> Any:
    """A function of floats for the device, from the source that other backends have.

    The compiler for the device may fuse a product and a sum, the one for the CPU never does;
    here every product is rounded on its own. Functions of this package that it calls become
    formulas as well.
    """
    plain: Any = getattr(function, "py_func", function)
    if plain in _ON_DEVICE:
        return _ON_DEVICE[plain]
    module = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    module = ast.fix_missing_locations(_RoundedProducts().visit(module))
    names = {**plain.__globals__, "_times": times, "_floor": _floor}
    for name in plain.__code__.co_names:
        if _is_ours(names.get(name)):
            names[name] = formula(names[name])
    exec(compile(module, inspect.getsourcefile(plain) or plain.__name__, "exec"), names)
    return on_device(names[plain.__name__])


@cache
def integers(function: Any) -> Any:
    """A function of integers for the device, as it is, with those of this package that it calls."""
    plain: Any = getattr(function, "py_func", function)
    names = dict(plain.__globals__)
    for name in plain.__code__.co_names:
        if _is_ours(names.get(name)):
            names[name] = integers(names[name])
    return on_device(FunctionType(plain.__code__, names, plain.__name__))


def _is_ours(value: Any) -> bool:
    plain = getattr(value, "py_func", value)
    return isinstance(plain, FunctionType) and plain.__module__.startswith("mvsboost.")


# --- kernels ------------------------------------------------------------------------------------


def kernel(function: Callable[..., Any]) -> Any:
    """A function that `launch` runs on the device.

    It sees CUDA through the functions below alone: the simulator puts itself in the place of CUDA
    in the room of the function that it runs, which is this one.
    """
    if not SIMULATED:
        return cuda.jit(function)

    def simulated(*arguments: Any) -> None:
        with np.errstate(all="ignore"):  # as on the device, where random bits wrap around
            function(*arguments)

    return cuda.jit(simulated)


def launch(compiled: Any, n: int, *arguments: Any) -> None:
    """Run a kernel with threads for n items, or as many as are at work at one time."""
    blocks = max(_FEWEST_BLOCKS, min(MOST_BLOCKS, -(-n // BLOCK)))
    compiled[blocks, BLOCK](*arguments)


@on_device
def each(n: Any) -> Any:
    """The items of n that are this thread's."""
    return range(cuda.grid(1), n, cuda.gridsize(1))


@on_device
def add(out: Any, at: Any, value: Any) -> Any:
    """Add to an entry that other threads may add to; returns what was there."""
    return cuda.atomic.add(out, at, value)


@on_device
def add_of_block(out: Any, at: Any, value: Any) -> None:
    """Add the sum of an int64 over all threads of a block to an entry; each must ask."""
    room = cuda.shared.array(BLOCK, np.int64)
    thread, half = cuda.threadIdx.x, cuda.blockDim.x >> 1
    room[thread] = value
    cuda.syncthreads()
    while half > 0:
        if thread < half:
            room[thread] += room[thread + half]
        cuda.syncthreads()
        half >>= 1
    if thread == 0 and room[0] != 0:
        cuda.atomic.add(out, at, room[0])
    cuda.syncthreads()


@on_device
def raise_by_block(out: Any, at: Any, value: Any) -> None:
    """Raise an entry to the largest of a float64 over all threads of a block; each must ask."""
    room = cuda.shared.array(BLOCK, np.float64)
    thread, half = cuda.threadIdx.x, cuda.blockDim.x >> 1
    room[thread] = value
    cuda.syncthreads()
    while half > 0:
        if thread < half:
            room[thread] = max(room[thread], room[thread + half])
        cuda.syncthreads()
        half >>= 1
    if thread == 0:
        cuda.atomic.max(out, at, room[0])
    cuda.syncthreads()


def put(array: Any) -> Any:
    """A copy on the device."""
    return cuda.to_device(np.ascontiguousarray(array))


def room(shape: Any, dtype: Any) -> Any:
    """Room on the device; what is in it is not said."""
    return cuda.device_array(shape, dtype)


def zeros(shape: Any, dtype: Any) -> Any:
    """Room on the device that holds zeros."""
    return put(np.zeros(shape, dtype))
