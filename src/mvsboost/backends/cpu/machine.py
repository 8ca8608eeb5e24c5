"""Two instructions of the processor that Numba does not write by itself.

With the JIT off they are plain Python, since there is no machine code to put them in.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["add_pair", "prefetch"]

_PLAIN = bool(getattr(numba.config, "DISABLE_JIT", False))


def _add_pair(flat: Any, position: Any, first: Any, second: Any) -> None:
    flat[position] += first
    flat[position + type(position)(1)] += second


def _no_prefetch(array: Any, position: Any) -> None:
    return None


@intrinsic
def _add_vector(_context: Any, flat: Any, position: Any, first: Any, second: Any) -> Any:
    """Add to two neighbouring int64 at once: one load, one addition, one store."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pair, i32 = ir.VectorType(ir.IntType(64), 2), ir.IntType(32)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), pair.as_pointer())
        old = builder.load(place)
        old.align = 8
        change = ir.Constant(pair, ir.Undefined)
        for lane in range(2):
            change = builder.insert_element(change, arguments[2 + lane], ir.Constant(i32, lane))
        builder.store(builder.add(old, change), place).align = 8
        return context.get_dummy_value()

    return types.void(flat, types.uint64, types.int64, types.int64), codegen


@intrinsic
def _prefetch(_context: Any, array: Any, position: Any) -> Any:
    """Ask for the cache line of an element that will be needed soon."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data_cache = i32(0), i32(3), i32(1)
        builder.call(function, [place, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


add_pair: Any = _add_pair if _PLAIN else _add_vector
"""``add_pair(flat, position, first, second)``: flat[position] += first, the next += second."""

prefetch: Any = _no_prefetch if _PLAIN else _prefetch
"""``prefetch(flat, position)``: have the element in the cache when it is needed."""
