"""A barrier for threads that stay inside compiled code.

Threads of one call meet a few times for every split of a tree; leaving compiled
code to meet would cost more than the work between. Each arrival adds one to a
shared counter, atomically, and waits until all have arrived. A thread that waits
long goes to sleep until the last one wakes it, so that where other programs want
the cores too, the one that is waited for gets its own: a sleeper that is woken
comes before a program that never slept. Where the system has no such call it gives
its core away.

Between two calls threads wait awake, for as long as their owner says; see `threads`.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mvsboost.backends.cpu.machine import PLAIN
from mvsboost.jit import inlined, kernel

CACHE_LINE = 8
"""Numbers in it: counters of different threads lie apart, or each would wait for the others."""

_PATIENCE = 50_000  # looks at the counter, some tens of microseconds

_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if sys.platform == "linux" else None
"""Number of the system call for sleep and waking."""

_WAIT, _WAKE = 128, 129  # of threads of this process


@intrinsic
def _arrive(_context: Any, counter: Any) -> Any:
    """Add one to the counter, and return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", array.data, one, "seq_cst")

    return types.int64(counter), codegen


def _plain_arrive(counter: Any) -> Any:
    counter[0] += 1
    return counter[0] - 1


take_number: Any = _plain_arrive if PLAIN else _arrive
"""``take_number(counter)``: what the counter was, which is one more now."""


@intrinsic
def _arrived(_context: Any, counter: Any) -> Any:
    """Read the counter as other threads see it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "seq_cst", 8)

    return types.int64(counter), codegen


@intrinsic
def _reach(_context: Any, counter: Any, number: Any) -> Any:
    """Set the counter, after everything that was done before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        builder.store_atomic(arguments[1], array.data, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(counter, types.int64), codegen


@intrinsic
def _relax(_context: Any, counter: Any) -> Any:
    """Leave what threads of one core share to the other thread for a moment."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        insert: Any = cgutils.get_or_insert_function
        void, i32 = ir.VoidType(), ir.IntType(32)
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(void, [])
            builder.call(insert(builder.module, kind, "llvm.x86.sse2.pause"), [])
        elif platform.machine() in ("aarch64", "arm64"):
            kind = ir.FunctionType(void, [i32])
            builder.call(insert(builder.module, kind, "llvm.aarch64.hint"), [i32(1)])
        return context.get_dummy_value()

    return types.void(counter), codegen


def _system_call(builder: Any, counter: Any, operation: int, number: Any) -> None:
    i32, i64 = ir.IntType(32), ir.IntType(64)
    insert: Any = cgutils.get_or_insert_function
    kind = ir.FunctionType(i64, [i64], var_arg=True)
    function = insert(builder.module, kind, "syscall")
    no_timeout = ir.Constant(i64, 0)
    builder.call(function, [i64(_FUTEX), counter, i32(operation), number, no_timeout])


@intrinsic
def _sleep(_context: Any, counter: Any, seen: Any) -> Any:
    """Sleep until woken, unless the counter is no longer what was seen."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        low = builder.trunc(arguments[1], ir.IntType(32))  # little-endian: at the same address
        _system_call(builder, array.data, _WAIT, low)
        return context.get_dummy_value()

    return types.void(counter, types.int64), codegen


@intrinsic
def _wake(_context: Any, counter: Any) -> Any:
    """Wake all who sleep at the counter."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _FUTEX is not None:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            _system_call(builder, array.data, _WAKE, ir.IntType(32)(0x7FFFFFFF))
        return context.get_dummy_value()

    return types.void(counter), codegen


@intrinsic
def _give_way(_context: Any, counter: Any, seen: Any) -> Any:
    """Let another thread have the core, where the system has a call for it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            insert: Any = cgutils.get_or_insert_function
            kind = ir.FunctionType(ir.IntType(32), [])
            function = insert(builder.module, kind, "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(counter, types.int64), codegen


_rest = _give_way if _FUTEX is None else _sleep


@kernel
def report_and_wait(mine: Any, reached: int, other: Any, wanted: int, looks: int) -> None:
    """Let others see that this thread has come so far, and look out for another counter."""
    if PLAIN:  # would not let others run
        return
    _reach(mine, reached)  # type: ignore[call-arg]
    wait_awake(other, wanted, looks)


@kernel
def wait_awake(counter: Any, wanted: int, looks: int) -> None:
    """Return when the counter has come so far, or after so many looks at it."""
    if PLAIN:
        return
    for _ in range(looks):
        if _arrived(counter) >= wanted:  # type: ignore[call-arg]
            return
        _relax(counter)


@inlined
def meet(counter: Any, n_threads: Any, meeting: Any) -> None:
    """Wait until all threads are here for their n-th meeting, counted from 1."""
    if n_threads == 1:
        return
    last = meeting * n_threads
    if _arrive(counter) + 1 == last:  # type: ignore[call-arg]
        _wake(counter)
        return
    looks = 0
    while True:
        seen = _arrived(counter)
        if seen >= last:
            return
        looks += 1
        if looks > _PATIENCE:
            _rest(counter, seen)
