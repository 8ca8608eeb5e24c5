"""A barrier for threads that stay inside compiled code.

Threads of one call meet a few times for every split of a tree; leaving compiled
code to meet would cost more than the work between. Each arrival adds one to a
shared counter, atomically, and waits until all have arrived; a thread that waits
long gives its core away, so that more threads than cores do no harm.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mvsboost.jit import inlined

_PATIENCE = 2000  # looks at the counter, a few microseconds, before the core is given away


@intrinsic
def _arrive(_context: Any, counter: Any) -> Any:
    """Add one to the counter."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", array.data, one, "seq_cst")

    return types.int64(counter), codegen


@intrinsic
def _arrived(_context: Any, counter: Any) -> Any:
    """Read the counter as other threads see it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "seq_cst", 8)

    return types.int64(counter), codegen


@intrinsic
def _give_way(_context: Any) -> Any:
    """Let another thread have the core, where the system has a call for it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            insert: Any = cgutils.get_or_insert_function
            kind = ir.FunctionType(ir.IntType(32), [])
            function = insert(builder.module, kind, "sched_yield")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), codegen


@inlined
def meet(counter: Any, n_threads: Any, meeting: Any) -> None:
    """Wait until all threads are here for their n-th meeting, counted from 1."""
    if n_threads == 1:
        return
    _arrive(counter)  # type: ignore[call-arg]
    looks = 0
    while _arrived(counter) < meeting * n_threads:
        looks += 1
        if looks > _PATIENCE:
            _give_way()
