"""Fits take turns; one runs at a time, and waiting does not count."""

import time

import pytest

from research.turns import in_turn, never


def _fit(name, steps, seen):
    def fit(pause):
        waited = 0.0
        for step in range(steps):
            seen.append((name, step))
            waited += pause()
        return name, waited

    return fit


def test_turns_go_round_until_everybody_is_done():
    seen = []
    results = in_turn([_fit("a", 1, seen), _fit("b", 3, seen), _fit("c", 2, seen)], 0.0)
    assert [name for name, _ in results] == ["a", "b", "c"]
    assert seen == [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("b", 2)]


def test_a_slice_that_is_not_over_is_not_given_away():
    seen = []
    results = in_turn([_fit("a", 3, seen), _fit("b", 3, seen)], 600.0)
    assert [name for name, _ in seen] == ["a"] * 3 + ["b"] * 3
    assert [waited for _, waited in results] == [0.0, 0.0]


def test_waiting_is_told():
    def sleeps(pause):
        time.sleep(0.05)
        return pause()

    def waits(pause):
        return pause()

    assert in_turn([waits, sleeps], 0.0)[0] >= 0.05
    assert never() == 0.0


def test_an_error_is_raised_when_the_others_are_done():
    seen = []

    def fails(pause):
        pause()
        raise ValueError("no more rows")

    with pytest.raises(ValueError, match="no more rows"):
        in_turn([fails, _fit("b", 3, seen)], 0.0)
    assert seen == [("b", 0), ("b", 1), ("b", 2)]
    assert in_turn([], 0.0) == []
