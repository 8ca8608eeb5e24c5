"""What is asked of Numba's CUDA: formulas, kernels, and what the threads of a warp or block share.

With ``NUMBA_ENABLE_CUDASIM=1`` kernels run as plain Python, thread by thread, for tests.
"""

from __future__ import annotations

import ast
import gc
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from types import FunctionType, SimpleNamespace
from typing import Any

import numba.cuda
import numpy as np

from mvsboost.errors import DataError, ParameterError
from mvsboost.exact import numerics
from mvsboost.exact.dtypes import BIN, TABLE
from mvsboost.kernels.split import N_LIMITS
from mvsboost.runtime import private

cuda: Any = numba.cuda

SIMULATED = bool(vars(numba.config)["ENABLE_CUDASIM"])

BLOCK = 4 if SIMULATED else 256
"""Threads of a block."""

LANES = BLOCK if SIMULATED else 32
"""Threads of a warp."""

WARPS = BLOCK // LANES
"""Warps of a block."""

MOST_BLOCKS = 2 if SIMULATED else 2112
"""Blocks of a launch; each thread takes one row after another until none is left."""

SHARED_INTS = 8224
"""Four for each bin of eight features of 256."""

SHARED_WORDS = 1024

ROWS_AT_ONCE = 4
"""Rows that a thread fetches before it works on them: memory answers late, but many at a time."""

BINS_EACH = TABLE // LANES
"""Bins of a histogram for each lane of a warp."""

FEWEST_BLOCKS = 1 if SIMULATED else 128
"""Numba warns of fewer, and idle ones cost nothing."""

_ALL_LANES = 0xFFFFFFFF


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
    """A function that kernels call.

    Always inlined: the compiler may give the two sides of a branch a call each of a function in
    which threads wait for one another, and then they wait for ever.
    """
    return function if SIMULATED else cuda.jit(device=True, forceinline=True)(function)


@cache
def processors() -> int:
    """Multiprocessors of the GPU."""
    return 1 if SIMULATED else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


# --- scalars ------------------------------------------------------------------------------------

_EXPONENT = np.int64(0x7FF0000000000000)

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

    def power_of_two(x: Any) -> Any:
        """The largest power of two that is at most a positive float64, unless subnormal."""
        return (np.float64(x).view(np.int64) & _EXPONENT).view(np.float64)

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

    @on_device
    def power_of_two(x: Any) -> Any:
        """The largest power of two that is at most a positive float64, unless subnormal."""
        return _float64_of(_bits_of(x) & _EXPONENT)

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
def whole_numbers(function: Any) -> Any:
    """A function of integers for the device, as it is, with those of this package that it calls."""
    plain: Any = getattr(function, "py_func", function)
    names = dict(plain.__globals__)
    for name in plain.__code__.co_names:
        if _is_ours(names.get(name)):
            names[name] = whole_numbers(names[name])
    return on_device(FunctionType(plain.__code__, names, plain.__name__))


def _is_ours(value: Any) -> bool:
    plain = getattr(value, "py_func", value)
    return isinstance(plain, FunctionType) and plain.__module__.startswith("mvsboost.")


# --- kernels ------------------------------------------------------------------------------------


def kernel(function: Callable[..., Any]) -> Any:
    """A function that programs run on the device; it finds what to do in its arguments.

    It sees CUDA through the functions below alone: the simulator puts itself in the place of CUDA
    in the room of the function that it runs, which is this one.
    """
    if not SIMULATED:
        return _kept(function)

    def simulated(*arguments: Any) -> None:
        with np.errstate(all="ignore"):  # as on the device, where random bits wrap around
            function(*arguments)

    return cuda.jit(simulated)


def _kept(function: Callable[..., Any]) -> Any:
    """A kernel that other processes find on disk, as those of the CPU."""
    try:
        compiled = cuda.jit(cache=True)(function)
    except RuntimeError:  # no folder can be written to, which the kernels of the CPU have told
        return cuda.jit(function)
    if private.probe():
        private.protect_cache(compiled)
    return compiled


def in_place(function: Callable[..., Any]) -> Any:
    """A function whose lines are put where it is called.

    So it can return an array, and call what shares arrays where others do too, which the linker
    would find twice.
    """
    return function if SIMULATED else cuda.jit(device=True, inline="always")(function)


_ALONE = RLock()


def array_near(function: Callable[[], Any]) -> Any:
    """A function that returns an array near the threads.

    The simulator may give two threads that ask for one at the same time one each, and has one for
    each line that asks.
    """

    def alone() -> Any:
        with _ALONE:
            return function()

    return alone if SIMULATED else in_place(function)


@array_near
def shared_ints() -> Any:
    """`SHARED_INTS` int32 that the threads of a block share."""
    return cuda.shared.array(SHARED_INTS, np.int32)


@array_near
def shared_words() -> Any:
    """`SHARED_WORDS` int64 that the threads of a block share."""
    return cuda.shared.array(SHARED_WORDS, np.int64)


@array_near
def shared_reals_of_bins() -> Any:
    """For each warp of a block a float64 for each entry of a table."""
    return cuda.shared.array((WARPS, TABLE), np.float64)


@array_near
def shared_bins() -> Any:
    """For each warp of a block a bin for each entry of a table."""
    return cuda.shared.array((WARPS, TABLE), BIN)


@array_near
def _sums_of_warps() -> Any:
    return cuda.shared.array(WARPS, np.int64)


@array_near
def _values_of_warps() -> Any:
    return cuda.shared.array(WARPS, np.float64)


@array_near
def _tags_of_warps() -> Any:
    return cuda.shared.array(WARPS, np.int64)


@array_near
def _word_of_block() -> Any:
    return cuda.shared.array(1, np.int64)


@array_near
def own_limits() -> Any:
    """`N_LIMITS` float64 of a thread."""
    return cuda.local.array(N_LIMITS, np.float64)


@array_near
def own_words() -> Any:
    """`BINS_EACH` int64 of a thread."""
    return cuda.local.array(BINS_EACH, np.int64)


@array_near
def own_rows() -> Any:
    """`ROWS_AT_ONCE` int64 of a thread."""
    return cuda.local.array(ROWS_AT_ONCE, np.int64)


@array_near
def own_reals() -> Any:
    """`ROWS_AT_ONCE` float64 of a thread."""
    return cuda.local.array(ROWS_AT_ONCE, np.float64)


@array_near
def own_fields() -> Any:
    """Four int32 for each of `ROWS_AT_ONCE` rows of a thread."""
    return cuda.local.array((ROWS_AT_ONCE, 4), np.int32)


@on_device
def batches(n: Any) -> Any:
    """The first of each `ROWS_AT_ONCE` items of n that are this thread's; see `nth`."""
    return range(cuda.grid(1), n, ROWS_AT_ONCE * cuda.gridsize(1))


@on_device
def nth(first: Any, u: Any) -> Any:
    """Item u of a batch; it may be beyond the last."""
    return first + u * cuda.gridsize(1)


@on_device
def each(n: Any) -> Any:
    """The items of n that are this thread's."""
    return range(cuda.grid(1), n, cuda.gridsize(1))


@on_device
def thread() -> Any:
    """The number of this thread in its block."""
    return np.int64(cuda.threadIdx.x)


@on_device
def lane() -> Any:
    """The number of this thread in its warp."""
    return np.int64(cuda.threadIdx.x) % LANES


@on_device
def warp() -> Any:
    """The number of this warp in its block."""
    return np.int64(cuda.threadIdx.x) // LANES


@on_device
def threads() -> Any:
    """Threads of a block."""
    return np.int64(cuda.blockDim.x)


@on_device
def block() -> Any:
    """The number of this block."""
    return np.int64(cuda.blockIdx.x)


@on_device
def blocks() -> Any:
    """How many blocks there are."""
    return np.int64(cuda.gridDim.x)


@on_device
def meet() -> None:
    """Wait for the other threads of the block."""
    cuda.syncthreads()


@on_device
def publish() -> None:
    """Let other blocks see what this thread wrote, and see what they published."""
    cuda.threadfence()


@on_device
def add(out: Any, at: Any, value: Any) -> Any:
    """Add to an entry that other threads may add to; returns what was there."""
    return cuda.atomic.add(out, at, value)


# --- over a warp or a block, every thread of which must ask -------------------------------------

if SIMULATED:  # where a block is a warp

    @array_near
    def _values_of_lanes() -> Any:
        return cuda.shared.array(BLOCK, object)

    @array_near
    def _tags_of_lanes() -> Any:
        return cuda.shared.array(BLOCK, object)

    def meet_in_warp() -> None:
        """Wait for the other lanes, and see what they wrote."""
        cuda.syncthreads()

    def scan_of_warp(value: Any) -> Any:
        """The sum of an int64 over the lanes before this one, and over all."""
        room = _tags_of_lanes()
        room[cuda.threadIdx.x] = value
        cuda.syncthreads()
        before, total = np.int64(room[: cuda.threadIdx.x].sum()), np.int64(room[:].sum())
        cuda.syncthreads()
        return before, total

    def best_of_warp(value: Any, tag: Any) -> Any:
        """The largest value of all lanes, and the smallest tag that comes with it."""
        values, tags = _values_of_lanes(), _tags_of_lanes()
        values[cuda.threadIdx.x], tags[cuda.threadIdx.x] = value, tag
        cuda.syncthreads()
        best = values[:].max()
        its = tags[:][values[:] == best].min()
        cuda.syncthreads()
        return best, its

else:

    @on_device
    def meet_in_warp() -> None:
        """Wait for the other lanes, and see what they wrote."""
        cuda.syncwarp()

    @on_device
    def scan_of_warp(value: Any) -> Any:
        """The sum of an int64 over the lanes before this one, and over all."""
        total, step = value, 1
        while step < LANES:
            more = cuda.shfl_up_sync(_ALL_LANES, total, step)
            total += more if lane() >= step else np.int64(0)
            step *= 2
        return total - value, cuda.shfl_sync(_ALL_LANES, total, LANES - 1)

    @on_device
    def best_of_warp(value: Any, tag: Any) -> Any:
        """The largest value of all lanes, and the smallest tag that comes with it."""
        step = 1
        while step < LANES:
            other = cuda.shfl_xor_sync(_ALL_LANES, value, step)
            its_tag = cuda.shfl_xor_sync(_ALL_LANES, tag, step)
            if other > value or (other == value and its_tag < tag):
                value, tag = other, its_tag
            step *= 2
        return value, tag


@on_device
def scan_of_block(value: Any) -> Any:
    """The sum of an int64 over the threads before this one, and over all."""
    of_warps = _sums_of_warps()
    before, of_warp = scan_of_warp(value)
    of_warps[warp()] = of_warp
    cuda.syncthreads()
    total = np.int64(0)
    for other in range(WARPS):
        before += of_warps[other] if other < warp() else np.int64(0)
        total += of_warps[other]
    cuda.syncthreads()
    return before, total


@on_device
def best_of_block(value: Any, tag: Any) -> Any:
    """The largest float64 of all threads, and the smallest tag that comes with it."""
    values, tags = _values_of_warps(), _tags_of_warps()
    values[warp()], tags[warp()] = best_of_warp(value, tag)
    cuda.syncthreads()
    value, tag = values[0], tags[0]
    for other in range(1, WARPS):
        if values[other] > value or (values[other] == value and tags[other] < tag):
            value, tag = values[other], tags[other]
    cuda.syncthreads()
    return value, tag


@on_device
def share_of_block(value: Any) -> Any:
    """The int64 of the first thread, for all threads of a block."""
    room = _word_of_block()
    if cuda.threadIdx.x == 0:
        room[0] = value
    cuda.syncthreads()
    value = room[0]
    cuda.syncthreads()
    return value


@on_device
def add_of_block(out: Any, at: Any, value: Any) -> None:
    """Add the sum of an int64 over all threads of a block to an entry."""
    _, total = scan_of_block(value)
    if cuda.threadIdx.x == 0 and total != 0:
        cuda.atomic.add(out, at, total)


@on_device
def raise_by_block(out: Any, at: Any, value: Any) -> None:
    """Raise an entry to the largest of a float64 over all threads of a block."""
    largest, _ = best_of_block(value, np.int64(0))
    if cuda.threadIdx.x == 0:
        cuda.atomic.max(out, at, largest)


# --- memory -------------------------------------------------------------------------------------


def check_memory(needed: int, purpose: str, free: float | None = None) -> None:
    """Raise a `DataError` if the device has less than `needed` bytes.

    Parameters
    ----------
    needed : int
    purpose : str
        What for.
    free : float or None
        Bytes that are free; None: the device is asked. On the simulator there is no end of them.
    """
    if free is None:
        free = _free_memory()
        if free < needed:
            give_back()
            free = _free_memory()
    if free < needed:
        raise _no_memory(needed, purpose, free)


def _free_memory() -> float:
    return float(cuda.current_context().get_memory_info().free)


def give_back() -> None:
    """Give back what nobody uses any longer, which Numba does now and then."""
    gc.collect()
    manager = getattr(cuda.current_context(), "memory_manager", None)
    pending = getattr(manager, "deallocations", None)
    if pending is not None:
        pending.clear()


@contextmanager
def asking_for(needed: int) -> Iterator[None]:
    """Where the device has no room for so many bytes the error says what to do."""
    try:
        yield
    except Exception as error:
        # the classes of errors differ between Numba's, the simulator's and other managers of memory
        if not isinstance(error, MemoryError) and "OUT_OF_MEMORY" not in str(error):
            raise
        raise _no_memory(needed, "one array more", _free_memory()) from error


def _no_memory(needed: int, purpose: str, free: float) -> DataError:
    return DataError(
        f"device 'cuda' must have {needed / 1e9:,.3f} GB of memory free for {purpose}, "
        f"got {free / 1e9:,.3f} GB: train with device='cpu', on fewer rows, or on workers with a "
        f"GPU each (mvsboost.dask)"
    )


# --- arrays -------------------------------------------------------------------------------------


ONE_AT_A_TIME = RLock()
"""Held while all work of the device is waited for, or a program is recorded.

CUDA does not let a thread do the one in the midst of the other; several threads may fit at the
same time. Programs run beside whatever else the device does, so copies outside of them wait.
"""


def put(array: Any) -> Any:
    """A copy on the device."""
    array = np.ascontiguousarray(array)
    with ONE_AT_A_TIME, asking_for(array.nbytes):
        found = cuda.to_device(array)
        cuda.synchronize()
    return found


def send(array: Any, to: Any) -> None:
    """Copy an array to one on the device, once nobody works with what is there."""
    with ONE_AT_A_TIME:
        cuda.synchronize()
        to.copy_to_device(np.ascontiguousarray(array))
        cuda.synchronize()


def bring(array: Any) -> Any:
    """A copy on the host of an array on the device, once it is written."""
    with ONE_AT_A_TIME:
        cuda.synchronize()
        return array.copy_to_host()


def room(shape: Any, dtype: Any, order: str = "C") -> Any:
    """Room on the device; what is in it is not said."""
    with asking_for(int(np.prod(shape)) * np.dtype(dtype).itemsize):
        return cuda.device_array(shape, dtype, order=order)


def borrowed(interface: dict[str, Any], owner: Any) -> Any:
    """An array that somebody else has on the device, by its ``__cuda_array_interface__``.

    It is not copied. What its owner has begun to write into it is there.
    """
    with ONE_AT_A_TIME:
        cuda.synchronize()
    if not SIMULATED:
        return cuda.from_cuda_array_interface(interface, owner=owner)
    # the simulator's device has the memory of the host
    interface = {**interface, "version": 3}
    array = np.asarray(SimpleNamespace(__array_interface__=interface, owner=owner))
    return type(cuda.device_array(0))(array)


def filled(shape: Any, dtype: Any, value: Any = 0) -> Any:
    """Room on the device that holds a value everywhere."""
    return put(np.full(shape, value, dtype))


def pinned(shape: Any, dtype: Any) -> Any:
    """Room on the host that the device reads and writes at full speed."""
    return np.zeros(shape, dtype) if SIMULATED else cuda.pinned_array(shape, dtype)
