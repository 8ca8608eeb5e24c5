"""Fits that take turns, a slice of time each.

A shared machine is slow for seconds at a time. Fits one after another fall into different
seconds; those that take turns all the time see the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Semaphore, Thread
from time import perf_counter
from typing import TypeVar

__all__ = ["Pause", "in_turn", "never"]

Pause = Callable[[], float]
"""Called between iterations: wait for one's turn if the slice is over; the seconds of waiting."""

T = TypeVar("T")


def never() -> float:
    """The pause of a fit that is alone."""
    return 0.0


def in_turn(fits: Sequence[Callable[[Pause], T]], seconds: float) -> list[T]:
    """Results of functions that run in turn, for so many seconds each; never two at a time.

    Parameters
    ----------
    fits : sequence of callable
        ``fit(pause)`` has to call `pause` often. The error of one is raised when all have ended.
    seconds : float

    Examples
    --------
    >>> seen = []
    >>> def count(name):
    ...     def fit(pause):
    ...         for number in range(2):
    ...             seen.append((name, number))
    ...             pause()
    ...         return name
    ...     return fit
    >>> in_turn([count("a"), count("b")], seconds=0.0)
    ['a', 'b']
    >>> seen
    [('a', 0), ('b', 0), ('a', 1), ('b', 1)]
    """
    turns = [Semaphore(0) for _ in fits]
    waiting = list(range(len(fits)))  # whose turn is next comes first
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def hand_on() -> None:
        if waiting:
            turns[waiting.pop(0)].release()

    def run(number: int) -> None:
        turns[number].acquire()
        since = perf_counter()

        def pause() -> float:
            nonlocal since
            stopped = perf_counter()
            if stopped - since < seconds or not waiting:
                return 0.0
            waiting.append(number)
            hand_on()
            turns[number].acquire()
            since = perf_counter()
            return since - stopped

        try:
            results[number] = fits[number](pause)
        except BaseException as error:
            errors.append(error)
        finally:
            hand_on()

    # a program that is interrupted does not wait for those whose turn never comes
    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(len(fits))]
    for thread in threads:
        thread.start()
    hand_on()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(fits))]
