"""What Numba does not write by itself: a few instructions, and arrays on the stack.

With the JIT off all is plain Python, since there is no machine code to put them in.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = [
    "PLAIN",
    "add_pair",
    "copy_items",
    "lowest_bit",
    "prefetch",
    "stack_array",
    "wide_vectors",
]

PLAIN = bool(getattr(numba.config, "DISABLE_JIT", False))
"""Whether kernels are plain Python."""


def _add_pair(flat: Any, position: Any, first: Any, second: Any) -> None:
    flat[position] += first
    flat[position + type(position)(1)] += second


def _copy_items(target: Any, to: Any, source: Any, start: Any, n: Any) -> None:
    target[int(to) : int(to) + n] = source[int(start) : int(start) + n]


def _any_width() -> None:
    return None


def _no_prefetch(array: Any, position: Any) -> None:
    return None


def _plain_lowest_bit(word: Any) -> Any:
    lowest = int(word) & -int(word)
    return type(word)(lowest.bit_length() - 1 if lowest else 8 * word.itemsize)


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


@intrinsic
def _copy_memory(_context: Any, target: Any, to: Any, source: Any, start: Any, n: Any) -> Any:
    """Copy neighbours from one array to another of the same type, which is another memory."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, i64 = ir.IntType(8).as_pointer(), ir.IntType(64)
        places = []
        for i in (0, 2):
            array = context.make_array(signature.args[i])(context, builder, arguments[i])
            place = builder.gep(array.data, [arguments[i + 1]])
            places.append(builder.bitcast(place, byte))
        item = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        size = builder.mul(arguments[4], i64(item))
        kind = ir.FunctionType(ir.VoidType(), [byte, byte, i64, ir.IntType(1)])
        function = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, i64], kind)
        builder.call(function, [*places, size, ir.IntType(1)(0)])
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64, types.uint64), codegen


@intrinsic
def _as_wide_as_can_be(_context: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        attributes = builder.function.attributes
        if isinstance(attributes, set):  # llvmlite's own add knows attributes of one word only
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _count_trailing_zeros(_context: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integer, zero_is_undefined = arguments[0].type, ir.Constant(ir.IntType(1), 0)
        kind = ir.FunctionType(integer, [integer, ir.IntType(1)])
        function = builder.module.declare_intrinsic("llvm.cttz", [integer], kind)
        return builder.call(function, [arguments[0], zero_is_undefined])

    return word(word), codegen


add_pair: Any = _add_pair if PLAIN else _add_vector
"""``add_pair(flat, position, first, second)``: flat[position] += first, the next += second."""

copy_items: Any = _copy_items if PLAIN else _copy_memory
"""``copy_items(target, to, source, start, n)``: target[to:to + n] = source[start:start + n]."""

prefetch: Any = _no_prefetch if PLAIN else _prefetch
"""``prefetch(flat, position)``: have the element in the cache when it is needed."""


lowest_bit: Any = _plain_lowest_bit if PLAIN else _count_trailing_zeros
"""``lowest_bit(word)``: position of the lowest bit set in an unsigned integer; the number of its
bits where there is none."""


wide_vectors: Any = _any_width if PLAIN else _as_wide_as_can_be
"""``wide_vectors()`` in a kernel lets its loops have vectors of 512 bits where there are any.

LLVM would stop at 256, for fear of a processor that slows down; loops over all rows take a tenth
to a third less time with 512."""


def stack_array(dtype: Any, *shape: int) -> Any:
    """A function that makes an array of this shape on the stack of the kernel that calls it.

    It lives as long as the call, needs no memory manager, and holds arbitrary numbers.
    """
    if PLAIN:
        return lambda: np.empty(shape, dtype)
    element = numba.from_dtype(np.dtype(dtype))
    kind = types.Array(element, len(shape), "C")

    @intrinsic
    def make(_context: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(element))
            count = ir.Constant(ir.IntType(64), int(np.prod(shape)))
            alloca: Any = cgutils.alloca_once
            data = alloca(builder, context.get_data_type(element), size=count)
            strides = [size * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
            populate: Any = populate_array
            populate(
                array,
                data=data,
                shape=[context.get_constant(types.intp, n) for n in shape],
                strides=[context.get_constant(types.intp, n) for n in strides],
                itemsize=context.get_constant(types.intp, size),
                meminfo=None,
            )
            return array._getvalue()

        return kind(), codegen

    return make
