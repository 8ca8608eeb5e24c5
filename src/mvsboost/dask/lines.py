"""Lines from a client to its workers, for questions that come one after another.

A message through Dask's own connections passes two message loops and four threads on its way;
a line is one connection with one thread at its end. Where a worker cannot be reached by one,
messages go by Dask.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from mvsboost.dask.peers import Door, visit

__all__ = ["Line", "answer_calls"]

_LENGTH = 8  # bytes in front of each message, which say how long it is
_AT_ONCE = 1 << 20  # bytes


class Line:
    """The client's end.

    Parameters
    ----------
    place : (str, int)
        Host and port of the worker's door.
    name : bytes
        16 of them, known to both ends alone.
    limit : float
        Seconds that the worker has to open.
    """

    def __init__(self, place: tuple[str, int], name: bytes, limit: float) -> None:
        self._socket = visit(place, name, 0, limit)

    def say(self, message: bytes, limit: float) -> None:
        """Send a message."""
        self._socket.settimeout(limit)
        _write(self._socket, message)

    def hear(self, deadline: float, look: float, is_there: Callable[[], bool]) -> bytes:
        """The answer; OSError where the worker has gone, TimeoutError after the deadline.

        `is_there` is asked after each `look` seconds of silence.
        """
        self._socket.settimeout(look)

        def some(n: int) -> bytes:
            while True:
                try:
                    return self._socket.recv(n)
                except TimeoutError:
                    if monotonic() > deadline:
                        raise
                    if not is_there():
                        raise ConnectionResetError("the worker has gone") from None

        answer = _read(some)
        if answer is None:
            raise ConnectionResetError("the worker has gone")
        return answer

    def close(self) -> None:
        """End the line; the thread at its end ends too."""
        self._socket.close()


def answer_calls(door: Door, name: bytes, limit: float, answer: Callable[[bytes], bytes]) -> None:
    """Wait for one client at a door, and answer until it goes; in a thread of its own."""

    def work() -> None:
        try:
            _, caller = door.admit(name, limit)
        except OSError:
            return
        finally:
            door.close()
        with caller, suppress(OSError):
            caller.settimeout(None)
            while (message := _read(caller.recv)) is not None:
                _write(caller, answer(message))

    threading.Thread(target=work, name="mvsboost line", daemon=True).start()


def _write(to: socket.socket, message: bytes) -> None:
    to.sendall(len(message).to_bytes(_LENGTH, "little") + message)


def _read(some: Callable[[int], bytes]) -> bytes | None:
    """A message, by a function that reads up to so many bytes; None where there are no more."""
    head = _exactly(some, _LENGTH)
    return None if head is None else _exactly(some, int.from_bytes(head, "little"))


def _exactly(some: Callable[[int], bytes], n: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < n:
        part = some(min(n - len(parts), _AT_ONCE))
        if not part:
            return None
        parts += part
    return bytes(parts)
