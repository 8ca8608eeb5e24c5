"""A barrier for threads that stay inside compiled code.

Threads of one call meet a few times for every split of a tree; leaving compiled
code to meet would cost more than the work between. Each arrival adds one to a
shared counter, atomically, and waits until all have arrived. A thread that waits
long goes to sleep until the last one wakes it, so that where other programs want
the cores too, the one that is waited for gets its own: a sleeper that is woken
comes before a program that never slept. Where the system has no such call it gives
its core away.
"""

from __future__ import annotations

from typing import Any

from mvsboost.runtime.atomics import give_way_or_sleep, read, take_number, wake
from mvsboost.runtime.jit import inlined

_PATIENCE = 50_000  # looks at the counter, some tens of microseconds


@inlined
def meet(counter: Any, n_threads: Any, meeting: Any) -> None:
    """Wait until all threads are here for their n-th meeting, counted from 1."""
    if n_threads == 1:
        return
    last = meeting * n_threads
    if take_number(counter) + 1 == last:
        wake(counter)
        return
    looks = 0
    while True:
        seen = read(counter)
        if seen >= last:
            return
        looks += 1
        if looks > _PATIENCE:
            give_way_or_sleep(counter, seen)
