"""Words that several threads read and write at once, and ways to wait for one to change.

A word is the first number of an int64 array; kernels pass ``words[at:]``. With the JIT off
there is one thread in a kernel, and these are plain Python.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mvsboost.runtime.intrinsics import PLAIN

__all__ = [
    "CACHE_LINE",
    "add_to",
    "exchange",
    "give_way_or_sleep",
    "read",
    "relax",
    "take_number",
    "wake",
    "write",
]

CACHE_LINE = 8
"""Numbers in it: words of different threads lie apart, or each would wait for the others."""

_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if sys.platform == "linux" else None
"""Number of the system call for sleep and waking."""

_WAIT, _WAKE = 128, 129  # of threads of this process


def _on_word(
    plain: Callable[..., Any], result: Any, n_values: int, instruct: Callable[[Any, Any, Any], Any]
) -> Any:
    """An intrinsic of a word and up to one int64: ``instruct(builder, pointer, value)``.

    With the JIT off it is the plain function.
    """
    if PLAIN:
        return plain

    def typed(word: Any, values: tuple[Any, ...]) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            value = arguments[1] if n_values else None
            found = instruct(builder, array.data, value)
            return context.get_dummy_value() if result is types.void else found

        return result(word, *values), codegen

    def alone(_context: Any, word: Any) -> Any:
        return typed(word, ())

    def with_value(_context: Any, word: Any, value: Any) -> Any:
        return typed(word, (types.int64,))

    return intrinsic(with_value if n_values else alone)


def _relax_core(builder: Any, _word: Any, _value: Any) -> None:
    insert: Any = cgutils.get_or_insert_function
    void, i32 = ir.VoidType(), ir.IntType(32)
    if platform.machine() in ("x86_64", "AMD64"):
        kind = ir.FunctionType(void, [])
        builder.call(insert(builder.module, kind, "llvm.x86.sse2.pause"), [])
    elif platform.machine() in ("aarch64", "arm64"):
        kind = ir.FunctionType(void, [i32])
        builder.call(insert(builder.module, kind, "llvm.aarch64.hint"), [i32(1)])


def _system_call(builder: Any, word: Any, operation: int, number: Any) -> None:
    i32, i64 = ir.IntType(32), ir.IntType(64)
    insert: Any = cgutils.get_or_insert_function
    kind = ir.FunctionType(i64, [i64], var_arg=True)
    function = insert(builder.module, kind, "syscall")
    no_timeout = ir.Constant(i64, 0)
    builder.call(function, [i64(_FUTEX), word, i32(operation), number, no_timeout])


def _sleep(builder: Any, word: Any, seen: Any) -> None:
    low = builder.trunc(seen, ir.IntType(32))  # little-endian: at the same address
    _system_call(builder, word, _WAIT, low)


def _give_way(builder: Any, _word: Any, _seen: Any) -> None:
    if os.name == "posix":
        insert: Any = cgutils.get_or_insert_function
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(insert(builder.module, kind, "sched_yield"), [])


def _wake_all(builder: Any, word: Any, _value: Any) -> None:
    if _FUTEX is not None:
        _system_call(builder, word, _WAKE, ir.IntType(32)(0x7FFFFFFF))


def _plain_add(word: Any, value: Any) -> Any:
    word[0] += value
    return word[0] - value


def _plain_exchange(word: Any, value: Any) -> Any:
    before = int(word[0])
    word[0] = value
    return before


def _plain_write(word: Any, value: Any) -> None:
    word[0] = value


def _nothing(word: Any, value: Any = 0) -> None:
    return None


read: Any = _on_word(
    lambda word: word[0],
    types.int64,
    0,
    lambda builder, word, _: builder.load_atomic(word, "seq_cst", 8),
)
"""``read(word)``: the word as other threads see it."""

write: Any = _on_word(
    _plain_write,
    types.void,
    1,
    lambda builder, word, value: builder.store_atomic(value, word, "seq_cst", 8),
)
"""``write(word, value)``: set it, after everything that was done before."""

add_to: Any = _on_word(
    _plain_add,
    types.int64,
    1,
    lambda builder, word, value: builder.atomic_rmw("add", word, value, "seq_cst"),
)
"""``add_to(word, value)``: add to it, and return what it was."""

exchange: Any = _on_word(
    _plain_exchange,
    types.int64,
    1,
    lambda builder, word, value: builder.atomic_rmw("xchg", word, value, "seq_cst"),
)
"""``exchange(word, value)``: set it, and return what it was."""

take_number: Any = _on_word(
    lambda word: _plain_add(word, 1),
    types.int64,
    0,
    lambda builder, word, _: builder.atomic_rmw("add", word, ir.IntType(64)(1), "seq_cst"),
)
"""``take_number(word)``: what it was; it is one more now."""

relax: Any = _on_word(_nothing, types.void, 0, _relax_core)
"""``relax(word)``: leave what threads of one core share to the other thread for a moment."""

give_way_or_sleep: Any = _on_word(_nothing, types.void, 1, _give_way if _FUTEX is None else _sleep)
"""``give_way_or_sleep(word, seen)``: sleep until woken, unless the word is no longer what was
seen; where the system has no such call, let another thread have the core."""

wake: Any = _on_word(_nothing, types.void, 0, _wake_all)
"""``wake(word)``: wake all who sleep at it."""
