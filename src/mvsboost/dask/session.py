"""A client's session with the workers that hold its rows: rounds of messages, and faults.

Rows come in runs, each of consecutive rows on one worker. The session keeps a log of what
the runs have been told since they were new: the trees so far, and the verbs of the iteration
under way. A run that is lost with its worker is made again elsewhere by Dask, from where its
rows came from, and told the log; answers are the same, and so is the model.

Workers that reach one another grow trees among themselves (`grow`). Whenever they cannot, the
client grows the tree verb by verb: it is the same.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

from distributed import Client, Future, wait
from distributed.protocol.pickle import dumps, loads

from mvsboost.backends.composite import merge
from mvsboost.backends.messages import GrownNodes, RowObjective, TreeRequest
from mvsboost.dask.lines import Line
from mvsboost.dask.worker import (
    GROW,
    Answer,
    Call,
    Message,
    drop,
    hold,
    meet,
    open_door,
    open_line,
    relay,
    request,
    serve,
)
from mvsboost.errors import ClusterError

__all__ = ["MOST_PEERS", "Session", "Traffic", "Waiting"]

MOST_PEERS = 64
"""Workers that grow trees among themselves: each speaks to all others for every histogram."""

_LOOK = 0.2  # seconds between looks at which workers are there
_GOODBYE = 1.0  # seconds that workers have to say that they let go
_MOST_ASKED = 16  # workers that the client asks itself
_TO_COME = 5.0  # seconds that a worker waits for another to connect
_MOST_MEETINGS = 5  # after so many that failed workers do not try to reach one another
_LEAST_PATIENCE = 60.0  # seconds that a worker keeps rows nobody asks for
_KEPT = frozenset({"set_baseline", "apply_tree"})  # what scores are made of
_CHANGES = _KEPT | {"compute_gradients", "score_rows", "draw", "begin_tree", "partition"}


@dataclass
class Traffic:
    """What went between client and workers.

    Attributes
    ----------
    rounds : int
        Messages to all workers, each with its answers.
    by_verb : Counter
        Rounds by the verb that was answered.
    sent, received : int
        Bytes, over all workers.
    between : int
        Bytes from workers to workers, for trees that they grow among themselves.
    rebuilt : int
        Runs of rows that were lost and made again.
    """

    rounds: int = 0
    by_verb: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0
    between: int = 0
    rebuilt: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As plain numbers."""
        return {**vars(self), "by_verb": dict(self.by_verb)}


class HeldRows(Protocol):
    """What a session asks of rows on a cluster; see `RemoteRows`."""

    @property
    def runs(self) -> Sequence[Future]:
        """Each of `BinnedRows`, in the order of their rows."""

    @property
    def homes(self) -> Sequence[str]:
        """A worker's address for each run."""

    @property
    def checks(self) -> Sequence[tuple[int, int]]:
        """Checksums of each run, of everything first."""


@dataclass(frozen=True)
class Waiting:
    """How long a session waits, and for what it is named.

    Attributes
    ----------
    limit : float
        Seconds that a round, or the way of rows to a worker, may take.
    name : str
        The parameter that sets it.
    """

    limit: float = 600.0
    name: str = "timeout"

    def over(self, what: str) -> ClusterError:
        """The error of a wait that took too long."""
        return ClusterError(
            f"{what} for {self.limit:g} seconds, which is all that {self.name}={self.limit:g} "
            "allows: look at the workers' logs, or set more"
        )


class Session:
    """The rows of one data set on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    rows : HeldRows
    objective : RowObjective
    device : str
        Of the workers' own backends.
    waiting : Waiting
    traffic : Traffic
        Counted up.
    watch : callable, optional
        Called with the verb of each round before it is sent; for tests of faults.
    most_peers : int
        Workers that grow trees among themselves; if there are more the client takes part.
    """

    def __init__(
        self,
        client: Client,
        rows: HeldRows,
        objective: RowObjective,
        device: str,
        waiting: Waiting,
        traffic: Traffic,
        watch: Callable[[str], None] | None = None,
        most_peers: int = MOST_PEERS,
    ) -> None:
        self._client, self._rows, self._checks = client, list(rows.runs), rows.checks
        self._homes = dict(enumerate(rows.homes))
        self._moved: set[int] = set()  # runs that have been made again
        self._clocks: dict[int, int] = {}  # of runs that are held: what they have been told
        self._objective, self._device = objective, device
        self._waiting, self.traffic, self._watch = waiting, traffic, watch
        self._name = uuid4().hex
        self._now = 0
        self._log: list[Call] = []
        self._most_peers, self._meetings_left = most_peers, _MOST_MEETINGS
        self._have_met: frozenset[str] = frozenset()
        self._lines: dict[str, Line] = {}
        self._without_line: set[str] = set()  # workers to which none could be drawn

    def ask(self, calls: Sequence[Call]) -> Any:
        """Have all rows do what is called for; the merged answer of the last call."""
        verb, after = calls[-1].verb, self._now + len(calls)
        self._begin(verb)
        answers: list[Answer] = []
        todo, deadline = set(self._homes), monotonic() + self._waiting.limit
        while todo:
            self._settle([run for run in todo if run not in self._clocks], deadline)
            said = self._round(sorted(todo), calls, after, deadline)
            todo -= self._hear(said, after)
            answers += said
            if todo:  # someone has gone, or was not reached
                there = self._workers(deadline)
                self._lose(run for run in todo if self._homes[run] not in there)
        self._note(calls, after)
        parts = sorted((part for answer in answers for part in answer.parts), key=_first)
        return merge(verb, [answer for _, answer in parts])

    def grow(self, calls: Sequence[Call], request: TreeRequest) -> GrownNodes | None:
        """A tree that workers grow among themselves, after what there is to tell them.

        None where they do not reach one another, or one of them has gone or is new: then those
        that have been told something are taken for lost, and nothing has happened.
        """
        if not self._can_grow():
            return None
        self._begin(GROW)
        calls = [*calls, Call(GROW, (request,))]
        after, deadline = self._now + len(calls), monotonic() + self._waiting.limit
        said = self._round(sorted(self._homes), calls, after, deadline)
        heard = self._hear(said, after)
        self._lose(set(self._homes) - heard)
        self.traffic.between += sum(answer.between for answer in said)
        found = [nodes for answer in said for _, nodes in answer.parts]
        if not found:
            return None
        self._note(calls, after)
        nodes: GrownNodes = found[0]  # all have the same
        return nodes

    def _can_grow(self) -> bool:
        """Whether workers that hold all rows have met."""
        homes = frozenset(self._homes.values())
        if len(homes) > self._most_peers or len(self._clocks) < len(self._homes):
            return False
        if self._have_met != homes and self._meetings_left:
            met = self._meet(sorted(homes))
            self._have_met = homes if met else frozenset()
            self._meetings_left -= not met
        return self._have_met == homes

    def _meet(self, homes: list[str]) -> bool:
        """Have workers connect to one another; only where messages are not encrypted either."""
        if any(urlsplit(home).scheme != "tcp" for home in homes):
            return False
        limits = _TO_COME, self._waiting.limit
        meeting = _have_meet, self._client, homes, self._name, limits
        limit = min(2 * _TO_COME, self._waiting.limit)
        try:
            met: bool = self._client.sync(*meeting, callback_timeout=limit)
        except (TimeoutError, OSError):
            return False
        return met

    def _begin(self, verb: str) -> None:
        if self._watch is not None:
            self._watch(verb)
        self.traffic.rounds += 1
        self.traffic.by_verb[verb] += 1

    def _hear(self, said: Sequence[Answer], after: int) -> set[int]:
        """Note what answers say; the runs that have done what was asked."""
        done: set[int] = set()
        for answer in said:
            if answer.error is not None:
                raise answer.error
            done.update(answer.done)
            self._lose(answer.lost)
        self._clocks |= dict.fromkeys(done, after)
        return done

    def close(self) -> None:
        """Let the workers go; one that does not answer at once lets go after its patience."""
        addresses, self._rows = sorted(set(self._homes.values())), []
        for home in list(self._lines):
            self._end_line(home)
        with suppress(Exception):  # a client or a cluster may be closed by now
            self._client.sync(_dismiss, self._client, addresses, self._name)

    def _note(self, calls: Sequence[Call], after: int) -> None:
        """Keep what makes a new run of rows what the others are now."""
        self._now = after
        for call in calls:
            if call.verb == "set_baseline":
                self._log = []
            elif call.verb == "compute_gradients":  # a new iteration: of the last one trees stay
                self._log = [kept for kept in self._log if kept.verb in _KEPT]
            if call.verb in _CHANGES:
                self._log.append(call)

    # --- rounds ---------------------------------------------------------------------------------

    def _round(
        self, runs: list[int], calls: Sequence[Call], after: int, deadline: float
    ) -> list[Answer]:
        """One message to each worker, and the answers of those that were reached."""
        by_home: dict[tuple[str, int], list[int]] = {}
        for run in runs:
            by_home.setdefault((self._homes[run], self._clocks[run]), []).append(run)
        messages = []
        for (home, clock), of_home in by_home.items():
            told = calls if clock else [*self._log, *calls]  # new ones know nothing yet
            messages.append((home, dumps(Message(self._name, of_home, clock, after, told))))
        self.traffic.sent += sum(len(message) for _, message in messages)
        verb = calls[-1].verb
        try:
            replies = self._exchange(messages, verb, deadline)
        except TimeoutError:
            names = ", ".join(sorted({home for home, _ in messages}))
            raise self._waiting.over(f"workers {names} have not all answered {verb!r}") from None
        self.traffic.received += sum(map(len, replies))
        return [loads(reply) for reply in replies]

    def _exchange(
        self, messages: list[tuple[str, bytes]], verb: str, deadline: float
    ) -> list[bytes]:
        """Replies of those workers that are reached: by lines where there are some, or by Dask."""
        if monotonic() > deadline:  # a worker may be there and never answer
            raise TimeoutError
        self._draw_lines({home for home, _ in messages}, deadline)
        by_line, by_dask = [], []
        for home, message in messages:
            line = self._lines.get(home)
            if line is None:
                by_dask.append((home, message))
                continue
            with self._ending_line(home):
                line.say(message, max(deadline - monotonic(), _LOOK))
                by_line.append((home, line))
        replies: list[bytes] = []
        if by_dask:
            limit = max(0.0, deadline - monotonic())
            replies += self._client.sync(
                _deliver, self._client, by_dask, verb, callback_timeout=limit
            )
        for home, line in by_line:
            with self._ending_line(home):
                replies.append(line.hear(deadline, _LOOK, partial(self._is_there, home, deadline)))
        return replies

    @contextmanager
    def _ending_line(self, home: str) -> Iterator[None]:
        """End the line to a worker that turns out to have gone."""
        try:
            yield
        except TimeoutError:
            raise
        except OSError:
            self._end_line(home)

    def _draw_lines(self, homes: set[str], deadline: float) -> None:
        """A line to each worker that has none, unless there are too many or it was tried."""
        if len(set(self._homes.values())) > min(_MOST_ASKED, self._most_peers):
            return
        for home in homes - self._lines.keys() - self._without_line:
            self._without_line.add(home)
            if urlsplit(home).scheme != "tcp":
                continue
            name, limit = uuid4().bytes, min(_TO_COME, self._waiting.limit)
            asking = request, self._client.rpc, home, open_line, self._name, name, limit
            with suppress(TimeoutError, OSError):
                place = self._client.sync(*asking, callback_timeout=limit)
                if place is not None:
                    self._lines[home] = Line(place, name, limit)
                    self._without_line.discard(home)

    def _is_there(self, home: str, deadline: float) -> bool:
        return home in self._workers(deadline)

    def _end_line(self, home: str) -> None:
        if (line := self._lines.pop(home, None)) is not None:
            line.close()

    def _lose(self, runs: Iterable[int]) -> None:
        for run in runs:
            if self._clocks.pop(run, None) is not None:
                self.traffic.rebuilt += 1
                self._moved.add(run)
                self._have_met = frozenset()

    # --- where rows are -------------------------------------------------------------------------

    def _settle(self, runs: list[int], deadline: float) -> None:
        """Put runs that nobody holds behind backends of workers that are there."""
        while runs:
            there = self._workers(deadline)
            for run in runs:
                if self._homes[run] not in there:
                    self._homes[run] = min(there, key=self._load)
            held = {run: self._hold(run) for run in runs}
            self._await(held, deadline)
            for run, future in held.items():
                if future.status == "finished":
                    self._clocks[run] = 0
                elif future.status == "error":
                    future.result()  # raises
            runs = [run for run in runs if run not in self._clocks]

    def _load(self, address: str) -> tuple[int, str]:
        return sum(home == address for home in self._homes.values()), address

    def _hold(self, run: int) -> Future:
        return self._client.submit(
            hold,
            self._rows[run],
            self._objective,
            self._device,
            self._name,
            run,
            max(self._waiting.limit, _LEAST_PATIENCE),
            self._checks[run][0] if run in self._moved else None,
            workers=[self._homes[run]],
            pure=False,
        )

    def _await(self, held: dict[int, Future], deadline: float) -> None:
        """Until each run is held, or the worker that was to hold it has gone."""
        pending = dict(held)
        while pending:
            try:
                wait(list(pending.values()), timeout=_LOOK)
            except TimeoutError:
                there = self._workers(deadline)
            else:
                return
            if monotonic() > deadline:
                runs = ", ".join(map(str, pending))
                raise self._waiting.over(f"runs {runs} of rows have been on their way")
            pending = {
                run: future
                for run, future in pending.items()
                if self._homes[run] in there and not future.done()
            }

    def _workers(self, deadline: float) -> dict[str, int]:
        """Addresses of the workers that are there now, once there are any."""
        while True:
            left = deadline - monotonic()
            try:
                there: dict[str, int] = self._client.sync(
                    self._client.scheduler.ncores, callback_timeout=max(left, _LOOK)
                )
            except (TimeoutError, OSError) as error:
                raise ClusterError(f"the scheduler does not answer: {error!r}") from error
            if there:
                return there
            if left <= 0.0:
                raise self._waiting.over("no worker has been there")
            sleep(_LOOK)


def _first(part: tuple[int, Any]) -> int:
    return part[0]


async def _dismiss(client: Client, addresses: list[str], session: str) -> None:
    asked = [
        asyncio.ensure_future(request(client.rpc, address, drop, session)) for address in addresses
    ]
    _, late = await asyncio.wait(asked, timeout=_GOODBYE)
    for one in late:
        one.cancel()


async def _have_meet(
    client: Client, homes: list[str], session: str, limits: tuple[float, float]
) -> bool:
    doors = [request(client.rpc, home, open_door, session) for home in homes]
    places = await asyncio.gather(*doors)
    if not all(places):
        return False
    name = uuid4().bytes
    visits = [
        request(client.rpc, home, meet, session, name, number, places, limits)
        for number, home in enumerate(homes)
    ]
    return all(await asyncio.gather(*visits))


async def _deliver(client: Client, messages: list[tuple[str, bytes]], verb: str) -> list[bytes]:
    """Replies to messages, from those workers that are there until they have answered."""

    async def one(group: list[tuple[str, bytes]]) -> bytes | None:
        (address, message), *others = group
        if others:
            found = await request(client.rpc, address, relay, group, verb)
        else:
            found = await request(client.rpc, address, serve, message)
        reply: bytes | None = found
        return reply

    groups = _groups(messages)
    waited = {asyncio.ensure_future(one(group)): group[0][0] for group in groups}
    pending = set(waited)
    while pending:
        done, pending = await asyncio.wait(pending, timeout=_LOOK)
        if pending and not done:
            there = await client.scheduler.ncores()
            for task in pending:
                if waited[task] not in there:
                    task.cancel()
    replies = [task.result() for task in waited if not task.cancelled()]
    return [reply for reply in replies if reply is not None]


def _groups(messages: list[tuple[str, bytes]]) -> list[list[tuple[str, bytes]]]:
    """Who is asked by whom: all by the client, or of many workers some by the first of a group."""
    if len(messages) <= _MOST_ASKED:
        return [[message] for message in messages]
    size = math.isqrt(len(messages) - 1) + 1
    return [messages[i : i + size] for i in range(0, len(messages), size)]
