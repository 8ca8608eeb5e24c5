"""Workers that add up integers among themselves.

A tree that grows best-first asks for some thirty histograms, one after another. By way of the
client each takes milliseconds of message loops; a connection between two workers takes a tenth
of that. So workers that reach one another grow a tree together: each has the same requests, and
all see the same sums, so all decide alike.

What one sends and receives is at most twice an array, however many they are.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvsboost.backends.composite import MergedBackend
from mvsboost.backends.messages import GrownNodes, TreeRequest
from mvsboost.backends.protocol import Backend
from mvsboost.trees.grower import FeatureTable, grow_verb_by_verb

__all__ = ["Door", "Peers", "grow_together", "visit"]

_GREETING = 24  # bytes: the name of the meeting, and the number of who comes


class Door:
    """Where the others of a meeting come in; only those that know its name.

    Parameters
    ----------
    host : str
        The address that this worker is known by.
    """

    def __init__(self, host: str) -> None:
        self._listener = socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )

    @property
    def port(self) -> int:
        """Where it is on the host."""
        return int(self._listener.getsockname()[1])

    def meet(
        self,
        name: bytes,
        number: int,
        places: Sequence[tuple[str, int]],
        limit: float,
        patience: float,
    ) -> Peers:
        """Connections to all others: to those before this one, and from those after it.

        Parameters
        ----------
        name : bytes
            16 of them, known to those who meet alone.
        number : int
            Of this one among `places`.
        places : sequence of (str, int)
            Host and port of everybody's door.
        limit : float
            Seconds that one waits for another to come.
        patience : float
            Seconds that one waits for what another has to say.
        """
        found: dict[int, socket.socket] = {}
        try:
            for other, place in enumerate(places[:number]):
                found[other] = visit(place, name, number, limit)
            while len(found) < len(places) - 1:
                other, guest = self.admit(name, limit)
                if number < other < len(places) and other not in found:
                    found[other] = guest
                else:
                    guest.close()
        except OSError:
            for one in found.values():
                one.close()
            raise
        finally:
            self.close()
        return Peers(number, found, patience)

    def admit(self, name: bytes, limit: float) -> tuple[int, socket.socket]:
        """The next who knows the name: the number that was said, and the connection."""
        self._listener.settimeout(limit)
        while True:
            guest, _ = self._listener.accept()
            number = _greeting_of(guest, name, limit)
            if number >= 0:
                return number, _prompt(guest)
            guest.close()

    def close(self) -> None:
        """Nobody else comes in."""
        self._listener.close()


def visit(place: tuple[str, int], name: bytes, number: int, limit: float) -> socket.socket:
    """A connection through somebody's door."""
    found = _prompt(socket.create_connection(place, timeout=limit))
    found.sendall(name + number.to_bytes(8, "little"))
    return found


def _prompt(one: socket.socket) -> socket.socket:
    """The same, sending at once what it is given, and noticing a machine that has gone."""
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return one


def _greeting_of(guest: socket.socket, name: bytes, limit: float) -> int:
    """The number of who has come; -1 of a stranger."""
    guest.settimeout(limit)
    said = b""
    while len(said) < _GREETING and (more := guest.recv(_GREETING - len(said))):
        said += more
    return int.from_bytes(said[16:], "little") if said[:16] == name else -1


class Peers:
    """Connections to the others of a meeting.

    Parameters
    ----------
    number : int
        Of this one.
    others : mapping from int to socket
        By their numbers.
    limit : float
        Seconds that the others may be silent.

    Attributes
    ----------
    sent : int
        Bytes, to all others.
    """

    def __init__(self, number: int, others: Mapping[int, socket.socket], limit: float) -> None:
        self._number, self._others, self._limit = number, dict(others), limit
        self.sent = 0
        for one in self._others.values():
            one.setblocking(False)

    @property
    def are_there(self) -> bool:
        """Whether there is anybody else."""
        return bool(self._others)

    def add_up(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of everybody's arrays, in place of one's own; OSError where somebody has gone.

        Of more than two each adds up a share of the entries, and tells the others the sums.
        """
        if not self.are_there:
            return own
        total = own.reshape(-1)
        n = len(self._others) + 1
        if n == 2:
            (other,) = self._others
            found = {other: np.empty_like(total)}
            self._exchange({other: total}, found)
            total += found[other]
            return own
        ends = [i * len(total) // n for i in range(n + 1)]
        shares = [total[a:b] for a, b in pairwise(ends)]
        mine = shares[self._number]
        found = {other: np.empty_like(mine) for other in self._others}
        self._exchange({other: shares[other] for other in self._others}, found)
        for part in found.values():
            mine += part
        self._exchange(dict.fromkeys(self._others, mine), {i: shares[i] for i in self._others})
        return own

    def close(self) -> None:
        """Let the others go; whoever waits for this one is told."""
        for one in self._others.values():
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _exchange(self, give: Mapping[int, Any], take: Mapping[int, Any]) -> None:
        """Send each other its array, and fill those that come from them, all at once."""
        with selectors.DefaultSelector() as selector:
            for other, one in self._others.items():
                out, into = (memoryview(arrays[other].view(np.uint8)) for arrays in (give, take))
                self.sent += len(out)
                if wanted := _wanted(out, into):
                    selector.register(one, wanted, (out, into))
            while selector.get_map():
                ready = selector.select(self._limit)
                if not ready:
                    raise TimeoutError(f"another worker was silent for {self._limit:g} seconds")
                for key, events in ready:
                    at: Any = key.fileobj
                    out, into = key.data
                    if events & selectors.EVENT_WRITE:
                        out = out[at.send(out) :]
                    if events & selectors.EVENT_READ:
                        n = at.recv_into(into)
                        if n == 0:
                            raise ConnectionResetError("another worker has gone")
                        into = into[n:]
                    if wanted := _wanted(out, into):
                        selector.modify(at, wanted, (out, into))
                    else:
                        selector.unregister(at)


def _wanted(out: memoryview, into: memoryview) -> int:
    return (selectors.EVENT_WRITE if out else 0) | (selectors.EVENT_READ if into else 0)


class _Together(MergedBackend):
    """Own rows to part, and everybody's to add up."""

    def __init__(self, own: Backend, peers: Peers) -> None:
        self._own, self._peers = own, peers
        self.n_rows, self.n_outputs = own.n_rows, own.n_outputs

    def _tell(self, verb: str, *arguments: Any) -> None:
        getattr(self._own, verb)(*arguments)

    def _ask(self, verb: str, *arguments: Any) -> Any:
        return self._peers.add_up(getattr(self._own, verb)(*arguments))


def grow_together(
    own: Backend, peers: Peers, n_bins: NDArray[np.int64], request: TreeRequest
) -> GrownNodes:
    """The tree that all workers grow at once, each on its own rows; one alone grows it whole."""
    whole = None if peers.are_there else getattr(own, "grow_whole_tree", None)
    nodes: GrownNodes | None = whole(request) if whole else None
    if nodes is not None:
        return nodes
    return grow_verb_by_verb(_Together(own, peers), _table_of(request, n_bins), request)


def _table_of(request: TreeRequest, n_bins: NDArray[np.int64]) -> FeatureTable:
    """What the request says of features, by their numbers."""
    categorical, monotone = np.zeros(len(n_bins), np.bool_), np.zeros(len(n_bins), np.int8)
    categorical[request.features] = request.categorical
    monotone[request.features] = request.monotone
    return FeatureTable(n_bins, categorical, monotone, request.groups)
