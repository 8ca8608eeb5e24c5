"""Workers that add up among themselves, here as threads of one process."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("distributed", reason="distributed is not installed")

from mvsboost.dask.lines import Line, answer_calls
from mvsboost.dask.peers import Door
from mvsboost.dask.worker import GROW, Answer

NAME = bytes(range(16))


@contextmanager
def peers(n, patience=30.0, before=None):
    """So many that have met; `before` is done while their doors are open."""
    doors = [Door("127.0.0.1") for _ in range(n)]
    places = [("127.0.0.1", door.port) for door in doors]
    if before is not None:
        before(places)
    with ThreadPoolExecutor(n) as threads:
        meetings = [
            threads.submit(door.meet, NAME, number, places, 10.0, patience)
            for number, door in enumerate(doors)
        ]
        found = [meeting.result() for meeting in meetings]
        try:
            yield found, threads
        finally:
            for one in found:
                one.close()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(1, 2, 2), (3, 700, 2), (1, 60_000, 2)])
def test_all_have_the_sum_of_all(n, shape):
    rng = np.random.default_rng(n)
    kept = [rng.integers(-(2**60), 2**60, shape) for _ in range(n)]
    with peers(n) as (met, threads):
        for _ in range(2):
            own = [array.copy() for array in kept]
            totals = list(
                threads.map(lambda pair: pair[0].add_up(pair[1]), zip(met, own, strict=True))
            )
            for total in totals:
                np.testing.assert_array_equal(total, np.sum(kept, axis=0))
        assert all((one.sent > 0) == (n > 1) for one in met)


def test_who_has_gone_is_not_waited_for():
    with peers(3) as (met, threads):
        met[1].close()
        waiting = [
            threads.submit(met[i].add_up, np.zeros((1, 50_000, 2), np.int64)) for i in (0, 2)
        ]
        for one in waiting:
            with pytest.raises(OSError, match=r"gone|reset|Broken pipe|Bad file"):
                one.result(timeout=20)


def test_who_is_silent_is_waited_for_so_long():
    with peers(2, patience=0.2) as (met, _), pytest.raises(TimeoutError, match=r"silent for 0\.2"):
        met[0].add_up(np.zeros(4, np.int64))


def test_strangers_do_not_come_in():
    strangers = []

    def come(places):
        for said in (b"", bytes(24), NAME + (9).to_bytes(8, "little")):
            stranger = socket.create_connection(places[0])
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            strangers.append(stranger)

    with peers(2, before=come) as (met, threads):
        totals = threads.map(lambda one: one.add_up(np.arange(4)), met)
        assert [total.tolist() for total in totals] == [[0, 2, 4, 6]] * 2
    for stranger in strangers:
        stranger.close()


def test_who_does_not_come_is_waited_for_so_long():
    doors = [Door("127.0.0.1") for _ in range(2)]
    places = [("127.0.0.1", door.port) for door in doors]
    with pytest.raises(TimeoutError):
        doors[0].meet(NAME, 0, places, 0.2, 1.0)
    doors[1].close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(places[0], timeout=5)


def shout(message):
    return message.upper() * 3


def open_line(answer=shout):
    door = Door("127.0.0.1")
    answer_calls(door, NAME, 10.0, answer)
    return Line(("127.0.0.1", door.port), NAME, 10.0)


def soon():
    return time.monotonic() + 30.0


def test_a_line_has_an_answer_to_each_message():
    line = open_line()
    for message in (b"", b"one", bytes(3_000_000)):
        line.say(message, 10.0)
        assert line.hear(soon(), 1.0, lambda: True) == shout(message)
    line.close()


def test_who_does_not_answer_in_time_is_not_waited_for():
    free = threading.Event()
    line = open_line(lambda message: message if free.wait(30.0) else b"")
    line.say(b"one", 10.0)
    with pytest.raises(TimeoutError):
        line.hear(time.monotonic() + 0.1, 0.05, lambda: True)
    with pytest.raises(ConnectionResetError, match="has gone"):
        line.hear(soon(), 0.05, lambda: False)
    free.set()
    line.close()


def test_a_worker_that_goes_ends_the_line():
    listener = socket.create_server(("127.0.0.1", 0))
    line = Line(listener.getsockname(), NAME, 10.0)
    guest, _ = listener.accept()
    listener.close()
    line.say(b"one", 10.0)
    guest.close()
    with pytest.raises(OSError, match=r"gone|reset"):
        line.hear(soon(), 1.0, lambda: True)
    line.close()


def test_workers_asked_by_another_have_one_tree():
    grown = [Answer([(run, "tree")], [run], [], between=5) for run in (2, 0, 1)]
    answer = Answer.together(GROW, [*grown, Answer([], [], [3])])
    assert answer.parts == [(0, "tree")]
    assert sorted(answer.done) == [0, 1, 2]
    assert (answer.lost, answer.between) == ([3], 15)
