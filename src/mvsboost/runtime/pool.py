"""A pool: threads that run a kernel together, with no Python between them.

Python calls a kernel on one thread. The kernel itself calls the others, which wait in
`serve`: it writes down where its code and its arguments lie, and they enter the same code
with the same arguments, each with another number of a part. Handing a job over costs well
under a microsecond; through Python it would cost some fifty, most of them spent in turn,
since every thread would need Python's lock to read the same arguments once more.

A kernel that is run so has two arguments of its own in front::

    @kernel
    def double(part, pool, x):
        mine = begin(part, pool, worth(pool, x.shape[0]))
        start, stop = share(pool, mine, x.shape[0])
        for i in range(start, stop):
            x[i] *= 2
        end(part, pool)

    double(CALLER, threads.pool(len(x)), x)

Parts are taken by whoever comes first. So nobody waits for a thread that is late: the
caller does what is left over. It returns when nobody is inside any more, so arguments live
long enough. Kernels whose threads meet need all of them, see `ThreadPool.whole`.

What a part has found it hands to `note`, or writes to an array with a row for each part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from mvsboost.runtime.atomics import (
    CACHE_LINE,
    add_to,
    exchange,
    give_way_or_sleep,
    read,
    relax,
    take_number,
    wake,
    write,
)
from mvsboost.runtime.intrinsics import PLAIN
from mvsboost.runtime.jit import inlined, kernel

__all__ = [
    "CALLER",
    "LOOKED",
    "NOTHING",
    "N_ASLEEP",
    "SLEEPS",
    "WANTED",
    "begin",
    "end",
    "largest_found",
    "make_pool",
    "note",
    "recall",
    "serve",
    "share",
    "mark_awake",
    "sum_parts",
    "sums_found",
    "want",
    "worth",
]

CALLER = -1
"""The number that Python calls a kernel with in place of a part's."""

_PATIENCE = 2_000  # looks for those inside before the caller sleeps, some 50 µs

# words of a pool, by cache lines
_JOB, _FUNCTION, _ARGUMENTS, _N_PARTS, _OPEN, _N_THREADS, _SMALLEST = range(7)
_NEXT, _INSIDE = CACHE_LINE, 2 * CACHE_LINE
WANTED, N_ASLEEP = 3 * CACHE_LINE, 3 * CACHE_LINE + 1
"""The number from which on threads may go to sleep, and how many do."""
_FIRST = 4 * CACHE_LINE  # of the lines that each thread has: flags, and what it found
_LINES = 2
_ASLEEP, _RECALLED = 0, 1  # flags of a thread, in its line: it sleeps, it is to come back to Python

SLEEPS, LOOKED = 0, 1
"""Why a thread comes back from `serve`: to sleep, or to look for other work."""


def make_pool(n_threads: int, smallest: int = 1) -> NDArray[np.int64]:
    """The words of a pool whose threads are still asleep; a part has at least `smallest` rows.

    With the JIT off there are no threads in kernels, and a job has one part.
    """
    pool = np.zeros(_FIRST + _LINES * CACHE_LINE * n_threads, np.int64)
    pool[_N_THREADS], pool[_SMALLEST] = 1 if PLAIN else n_threads, smallest
    pool[N_ASLEEP] = pool[_N_THREADS] - 1
    pool[_FIRST + _ASLEEP :: _LINES * CACHE_LINE] = 1
    return pool


@inlined
def _flags(thread: Any) -> Any:
    return _FIRST + _LINES * CACHE_LINE * thread


@inlined
def _found(part: Any) -> Any:
    return _FIRST + _LINES * CACHE_LINE * part + CACHE_LINE


# --- inside a kernel ----------------------------------------------------------------------------


def _entry_for_parts(builder: Any, arguments: Any) -> Any:
    """Code that enters the kernel under way with arguments from memory, but for the part."""
    i32, i64, enter = ir.IntType(32), ir.IntType(64), builder.function
    kind = ir.FunctionType(ir.VoidType(), [i64, i64])
    entry = ir.Function(builder.module, kind, name=f"{enter.name}.part")
    entry.linkage = "internal"
    body = ir.IRBuilder(entry.append_basic_block("entry"))
    memory = body.inttoptr(entry.args[0], arguments.as_pointer())
    n = len(arguments.elements)
    values = [body.load(body.gep(memory, [i32(0), i32(i)])) for i in range(n)]
    values[0] = entry.args[1]
    result_and_error = [body.alloca(argument.type.pointee) for argument in enter.args[:2]]
    body.call(enter, [*result_and_error, *values])
    body.ret_void()
    return entry


@intrinsic
def _call_others(_context: Any, part: Any, pool: Any, n_parts: Any) -> Any:
    """Open a job of so many parts, unless this is one of them; returns the part to do."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        part, pool, n_parts = arguments
        words = context.make_array(signature.args[1])(context, builder, pool).data
        given = builder.function.args[2:]
        builder.function.attributes.add("noinline")  # it would be compiled kernel_and_inlined
        kinds = ir.LiteralStructType([value.type for value in given])
        alloca: Any = cgutils.alloca_once
        memory, entry = alloca(builder, kinds), _entry_for_parts(builder, kinds)

        def word(at: int) -> Any:
            return builder.gep(words, [i64(at)])

        is_caller = builder.icmp_signed("<", part, i64(0))
        with builder.if_then(is_caller):
            builder.store(n_parts, word(_N_PARTS))
            with builder.if_then(builder.icmp_signed(">", n_parts, i64(1))):
                for i, value in enumerate(given):
                    builder.store(value, builder.gep(memory, [i32(0), i32(i)]))
                builder.store(builder.ptrtoint(entry, i64), word(_FUNCTION))
                builder.store(builder.ptrtoint(memory, i64), word(_ARGUMENTS))
                builder.store(i64(1), word(_NEXT))
                number = builder.add(builder.load(word(_JOB)), i64(1))
                builder.store_atomic(number, word(_OPEN), "seq_cst", 8)
                builder.store_atomic(number, word(_JOB), "seq_cst", 8)
        return builder.select(is_caller, i64(0), part)

    return types.int64(types.int64, pool, types.int64), codegen


@intrinsic
def _enter(_context: Any, pool: Any, part: Any) -> Any:
    """Run the code of the open job on a part."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i64 = ir.IntType(64)
        words = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(ir.VoidType(), [i64, i64])
        function = builder.load(builder.gep(words, [i64(_FUNCTION)]))
        memory = builder.load(builder.gep(words, [i64(_ARGUMENTS)]))
        builder.call(builder.inttoptr(function, kind.as_pointer()), [memory, arguments[1]])
        return context.get_dummy_value()

    return types.void(pool, types.int64), codegen


def _plain_begin(part: int, pool: NDArray[np.int64], n_parts: int) -> int:
    pool[_N_PARTS] = 1
    return max(part, 0)


begin: Any = _plain_begin if PLAIN else _call_others
"""``begin(part, pool, n_parts)``: call the others, if this is the caller; the part to do.

It stands in the kernel itself, whose first two arguments are `part` and `pool`."""


@inlined
def worth(pool: Any, n_rows: Any) -> Any:
    """Parts that so many rows are worth."""
    return max(1, min(pool[_N_THREADS], n_rows // pool[_SMALLEST]))


@inlined
def share(pool: Any, part: Any, n_rows: Any) -> Any:
    """First row of a part, and the end."""
    n = pool[_N_PARTS]
    return n_rows * part // n, n_rows * (part + 1) // n


@inlined
def end(part: Any, pool: Any) -> None:
    """The caller does the parts that nobody has taken, and waits for the others."""
    if part >= 0 or pool[_N_PARTS] == 1:
        return
    number = take_number(pool[_NEXT:])
    while number < pool[_N_PARTS]:
        _enter(pool, number)  # type: ignore[call-arg]
        number = take_number(pool[_NEXT:])
    write(pool[_OPEN:], 0)
    looks = 0
    while True:
        inside = read(pool[_INSIDE:])
        if inside == 0:
            return
        looks += 1
        if looks > _PATIENCE:
            give_way_or_sleep(pool[_INSIDE:], inside)
        relax(pool)


@inlined
def note(pool: Any, part: Any, sums: Any, largest: Any) -> None:
    """Note three numbers of a part to be added up, and three of which the largest counts."""
    at = _found(part)
    pool[at], pool[at + 1], pool[at + 2] = sums
    pool[at + 3], pool[at + 4], pool[at + 5] = largest


@inlined
def sums_found(pool: Any) -> Any:
    """Sums of what all parts have noted."""
    first = second = third = np.int64(0)
    for part in range(pool[_N_PARTS]):
        at = _found(part)
        first += pool[at]
        second += pool[at + 1]
        third += pool[at + 2]
    return first, second, third


@inlined
def largest_found(pool: Any) -> Any:
    """The largest numbers that parts have noted."""
    at = _found(np.int64(0))
    first, second, third = pool[at + 3], pool[at + 4], pool[at + 5]
    for part in range(1, pool[_N_PARTS]):
        at = _found(part)
        first = max(first, pool[at + 3])
        second = max(second, pool[at + 4])
        third = max(third, pool[at + 5])
    return first, second, third


@inlined
def sum_parts(pool: Any, flat: Any, size: Any) -> None:
    """Add what all parts have written, `size` numbers each, to what the first one has."""
    for part in range(1, pool[_N_PARTS]):
        for i in range(size):
            flat[i] += flat[part * size + i]


NOTHING = (np.int64(0), np.int64(0), np.int64(0))
"""What a part notes that has found nothing of a kind."""


# --- between kernels ----------------------------------------------------------------------------


@kernel
def mark_awake(pool: Any, thread: Any) -> Any:
    """Note that a sleeping thread is about to be awake; whether it was asleep until now."""
    was_asleep = exchange(pool[_flags(thread) + _ASLEEP :], 0)
    add_to(pool[N_ASLEEP:], -was_asleep)
    return was_asleep == 1


@kernel
def want(pool: Any, n_threads: Any) -> Any:
    """Let none of the first threads go to sleep from now on; how many of all sleep already."""
    write(pool[WANTED:], n_threads)
    return read(pool[N_ASLEEP:])


@kernel
def recall(pool: Any, thread: Any) -> None:
    """Let a thread come back to Python, where it has other work."""
    write(pool[_flags(thread) + _RECALLED :], 1)


@kernel
def serve(pool: Any, thread: Any, seen: Any, looks: Any, n_jobs: Any) -> Any:
    """Take part in jobs after the number `seen`; the last number, and why it comes back.

    It comes back after so many looks without a job, flagged as asleep; or when it is recalled
    or has had so many jobs.
    """
    if PLAIN:
        return seen, SLEEPS
    flags, quiet, done = pool[_flags(thread) :], 0, 0
    while done < n_jobs:
        number = read(pool[_JOB:])
        if number != seen:
            add_to(pool[_INSIDE:], 1)
            if read(pool[_OPEN:]) == number:
                part = take_number(pool[_NEXT:])
                while part < pool[_N_PARTS]:
                    _enter(pool, part)  # type: ignore[call-arg]
                    part = take_number(pool[_NEXT:])
            if add_to(pool[_INSIDE:], -1) == 1:
                wake(pool[_INSIDE:])
            seen, quiet = number, 0
            done += 1
            continue
        if read(flags[_RECALLED:]) == 1:
            break
        quiet += 1
        if quiet > looks and read(pool[WANTED:]) <= thread:
            write(flags[_ASLEEP:], 1)
            add_to(pool[N_ASLEEP:], 1)
            # who has come in the meantime may not have seen that: unless it has, stay awake
            if read(pool[WANTED:]) <= thread or exchange(flags[_ASLEEP:], 0) == 0:
                return seen, SLEEPS
            add_to(pool[N_ASLEEP:], -1)
        relax(pool)
    write(flags[_RECALLED:], 0)
    return seen, LOOKED
