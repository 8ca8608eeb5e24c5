"""What runs on a worker: backends that hold its rows, and the messages they answer.

A client speaks to workers by short messages of its own, since a task of Dask takes several
times as long. A message brings calls, one after another; the answer of the last one goes
back, merged over the rows the worker holds. What it held is dropped once nobody has asked
for a while, so that a client that was killed leaves nothing behind.

Workers of a session that have met (`open_door`, `meet`) grow whole trees among themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from distributed import get_worker
from distributed.protocol import pickle  # cloudpickle where the plain one fails
from numpy.typing import NDArray

from mvsboost.backends.composite import JOINED, CompositeBackend, merge
from mvsboost.backends.messages import BinnedRows, RowObjective
from mvsboost.backends.protocol import Backend
from mvsboost.backends.registry import backend_factory
from mvsboost.dask.lines import answer_calls
from mvsboost.dask.peers import Door, Peers, grow_together
from mvsboost.errors import ClusterError
from mvsboost.exact.checksum import checksum

__all__ = [
    "GROW",
    "Answer",
    "Call",
    "Message",
    "drop",
    "hold",
    "meet",
    "open_door",
    "open_line",
    "relay",
    "request",
    "serve",
]

GROW = "grow_whole_tree"
"""The verb that all workers answer together, or none does."""


class Call(NamedTuple):
    """A verb of `Backend` and its arguments."""

    verb: str
    arguments: tuple[Any, ...]


class Message(NamedTuple):
    """What a worker is asked to do.

    Attributes
    ----------
    session : str
    runs : sequence of int
        Rows that it is about, in order.
    before, after : int
        What the runs have been told before the calls and after them: 0 is nothing.
    calls : sequence of Call
    """

    session: str
    runs: Sequence[int]
    before: int
    after: int
    calls: Sequence[Call]


class Answer(NamedTuple):
    """What a worker says.

    Attributes
    ----------
    parts : list of (int, object)
        Answers by the first run that each is about.
    done : list of int
        Runs that the answers are about.
    lost : list of int
        Runs that it does not hold, or that have been told other things.
    error : exception or None
        What went wrong in a call.
    between : int
        Bytes that went to other workers.
    """

    parts: list[tuple[int, Any]]
    done: list[int]
    lost: list[int]
    error: BaseException | None = None
    between: int = 0

    @classmethod
    def together(cls, verb: str, answers: Sequence[Answer]) -> Answer:
        """One answer of several, merged where the order of rows does not matter."""
        parts = [part for answer in answers for part in answer.parts]
        if verb not in JOINED and len(parts) > 1:
            parts = [(min(run for run, _ in parts), merge(verb, [one for _, one in parts]))]
        errors = [answer.error for answer in answers if answer.error is not None]
        return cls(
            parts,
            [run for answer in answers for run in answer.done],
            [run for answer in answers for run in answer.lost],
            errors[0] if errors else None,
            sum(answer.between for answer in answers),
        )


@dataclass
class _Rows:
    """Rows behind a backend, what they have been told, and what they answered last."""

    backend: Backend
    n_bins: NDArray[np.int64]
    clock: int = 0
    answer: Any = None


@dataclass
class _Held:
    """What one worker holds for a client's session."""

    patience: float
    runs: dict[int, _Rows] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    asked: float = field(default_factory=monotonic)
    door: Door | None = None
    peers: Peers | None = None

    def part(self) -> None:
        """End what this worker has with others."""
        for one in (self.door, self.peers):
            if one is not None:
                one.close()
        self.door = self.peers = None


_held: dict[tuple[str, str], _Held] = {}
_lock = Lock()
# of several sessions, whose workers may wait for one another: each needs a thread
_thread = ThreadPoolExecutor(64, "mvsboost")


def _dumps(thing: Any) -> bytes:
    written: bytes = pickle.dumps(thing)
    return written


def hold(
    rows: BinnedRows,
    objective: RowObjective,
    device: str,
    session: str,
    run: int,
    patience: float,
    check: int | None,
) -> None:
    """Put rows behind a backend of the worker that this task runs on.

    Rows that were made again must have the checksum of those that were lost.
    """
    if check is not None and checksum(rows.bins, rows.target, rows.weight) != check:
        raise ClusterError(
            "a worker was lost, and its partitions were other rows when they were made again: "
            "persist the collection before the fit, or make where it comes from repeatable"
        )
    worker = get_worker()
    backend = backend_factory(device, worker.state.nthreads)(rows, objective)
    key = worker.address, session
    with _lock:
        if key not in _held:
            _held[key] = _Held(patience=patience)
            worker.loop.add_callback(_watch, worker.loop, key)
        held = _held[key]
    with held.lock:
        held.runs[run], held.asked = _Rows(backend, rows.n_bins), monotonic()


async def serve(message: bytes, dask_worker: Any = None) -> bytes:
    """Answer a message; the loop of the worker goes on meanwhile."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_thread, _serve, dask_worker.address, message)


async def relay(messages: Sequence[tuple[str, bytes]], verb: str, dask_worker: Any = None) -> bytes:
    """Have messages to other workers answered, too, and merge what they say.

    Who does not answer is left out; the client will ask it again.
    """

    async def one(address: str, message: bytes) -> bytes | None:
        if address == dask_worker.address:
            return await serve(message, dask_worker)
        reply: bytes | None = await request(dask_worker.rpc, address, serve, message)
        return reply

    replies = await asyncio.gather(*(one(*pair) for pair in messages))
    return _dumps(Answer.together(verb, [pickle.loads(reply) for reply in replies if reply]))


async def request(rpc: Any, address: str, function: Any, *arguments: Any) -> Any:
    """What a function of this module answers on a worker; None where it cannot be reached."""
    try:
        reply = await rpc(address).run(
            function=_dumps(function), args=_dumps(arguments), kwargs=_dumps({}), wait=True
        )
    except OSError:
        return None
    return reply["result"] if reply["status"] == "OK" else None


def _serve(address: str, message: bytes) -> bytes:
    session, runs, before, after, calls = pickle.loads(message)
    held = _held.get((address, session))
    if held is None:
        return _dumps(Answer([], [], list(runs)))
    verb, answers = calls[-1].verb, []
    with held.lock:
        held.asked = monotonic()
        if verb == GROW:
            return _dumps(_grow(held, runs, before, after, calls))
        lost = [run for run in runs if run not in held.runs]
        for run in runs:
            rows = held.runs.get(run)
            if rows is None:
                continue
            if rows.clock == before:
                rows.clock = after
                try:
                    for name, arguments in calls:
                        rows.answer = getattr(rows.backend, name)(*arguments)
                except Exception as error:
                    return _dumps(_failed(error))
            elif rows.clock != after:  # else asked again, since nobody heard the answer
                lost.append(run)
                continue
            answers.append(Answer([(run, rows.answer)], [run], []))
        return _dumps(Answer.together(verb, [*answers, Answer([], [], lost)]))


def _failed(error: Exception) -> Answer:
    """An answer of what a call raised, or of what it was where that cannot be sent."""
    try:
        pickle.loads(_dumps(error))
    except Exception:
        what = f"a worker raised {type(error).__name__}, which cannot be sent: {error}"
        return Answer([], [], [], ClusterError(what))
    return Answer([], [], [], error)


def _grow(
    held: _Held, runs: Sequence[int], before: int, after: int, calls: Sequence[Call]
) -> Answer:
    """Grow a tree with the other workers that have met this one.

    Where one of them has gone, or is about other things, these rows are lost as well: they have
    been told half of what there was to tell.
    """
    *first, (_, (request,)) = calls
    rows = [held.runs.pop(run, None) for run in runs]
    known = [one for one in rows if one is not None and one.clock == before]
    peers = held.peers
    if len(known) < len(runs) or peers is None:
        held.part()
        return Answer([], [], list(runs))
    sent = peers.sent
    try:
        for one in known:
            for name, arguments in first:
                getattr(one.backend, name)(*arguments)
        backends = [one.backend for one in known]
        own = CompositeBackend(backends) if len(backends) > 1 else backends[0]
        nodes = grow_together(own, peers, known[0].n_bins, request)
    except OSError:
        held.part()
        return Answer([], [], list(runs))
    except Exception as error:
        held.part()
        return _failed(error)
    for run, one in zip(runs, known, strict=True):
        one.clock, held.runs[run] = after, one
    return Answer([(runs[0], nodes)], list(runs), [], between=peers.sent - sent)


async def open_line(
    session: str, name: bytes, limit: float, dask_worker: Any = None
) -> tuple[str, int] | None:
    """Where the client can come in for a line of its own; None where there are no rows of it."""
    address, host = dask_worker.address, dask_worker.ip
    if (address, session) not in _held:
        return None
    door = Door(host)
    answer_calls(door, name, limit, partial(_serve, address))
    return host, door.port


async def open_door(session: str, dask_worker: Any = None) -> tuple[str, int] | None:
    """Where other workers of the session can come in; None where this one holds no rows of it."""
    held = _held.get((dask_worker.address, session))
    if held is None:
        return None
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_thread, _open_door, held, dask_worker.ip)


def _open_door(held: _Held, host: str) -> tuple[str, int]:
    with held.lock:
        held.part()
        held.door = Door(host)
        return host, held.door.port


async def meet(
    session: str,
    name: bytes,
    number: int,
    places: Sequence[tuple[str, int]],
    limits: tuple[float, float],
    dask_worker: Any = None,
) -> bool:
    """Connect this worker with the others, whose doors are open; whether all have come."""
    held = _held.get((dask_worker.address, session))
    if held is None:
        return False
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_thread, _meet, held, name, number, places, limits)


def _meet(
    held: _Held,
    name: bytes,
    number: int,
    places: Sequence[tuple[str, int]],
    limits: tuple[float, float],
) -> bool:
    with held.lock:
        if held.door is None:
            return False
        try:
            held.peers = held.door.meet(name, number, places, *limits)
        except OSError:
            held.part()
        held.door = None
        return held.peers is not None


async def drop(session: str, dask_worker: Any = None) -> None:
    """Let go of the rows of a session."""
    with _lock:
        held = _held.pop((dask_worker.address, session), None)
    if held is not None:
        await asyncio.get_running_loop().run_in_executor(_thread, _drop, held)


def _drop(held: _Held) -> None:
    with held.lock:
        held.part()


def _watch(loop: Any, key: tuple[str, str]) -> None:
    """Let go of rows that nobody has asked for in their session's patience."""
    with _lock:
        held = _held.get(key)
        if held is None:
            return
        left = held.asked + held.patience - monotonic()
        if left <= 0.0:
            del _held[key]
            _thread.submit(_drop, held)
            return
    loop.call_later(left, _watch, loop, key)
