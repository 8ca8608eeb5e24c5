"""What is compared, and in which order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mvsboost.errors import ParameterError
from mvsboost.sampling import GOSS, MVS, SGB, NoSampling, Sampler

__all__ = [
    "ALL_ROWS",
    "METHODS",
    "RATES",
    "Setting",
    "check_rates",
    "in_order_of_use",
    "seconds_of",
    "settings_of",
]

RATES = (0.1, 0.2, 0.3, 0.5)
SECOND_LOOK = 4

_A_TURN = 3
"""Settings that are fitted on a fold before those before them are on the next."""


@dataclass(frozen=True)
class Method:
    """A way to choose rows.

    Attributes
    ----------
    sampler : callable
        From a rate to a sampler.
    code : str
        The same as code, with ``{rate}``.
    second_look : int
    """

    sampler: Callable[[float], Sampler]
    code: str
    second_look: int = 0


METHODS = {
    "all rows": Method(lambda rate: NoSampling(), '"none"'),
    "MVS": Method(MVS, "MVS(rate={rate})"),
    "MVS, second look": Method(MVS, "MVS(rate={rate})", SECOND_LOOK),
    "SGB": Method(SGB, "SGB(rate={rate})"),
    "GOSS": Method(
        lambda rate: GOSS(top_rate=rate / 2, other_rate=rate / 2),
        "GOSS(top_rate={half}, other_rate={half})",
    ),
}
"""Ways to choose rows, those first that are of most use to know."""


@dataclass(frozen=True)
class Setting:
    """A method at a rate; a library at rate 1."""

    method: str
    rate: float

    @property
    def name(self) -> str:
        """As it is shown.

        Examples
        --------
        >>> Setting("MVS", 0.25).name, ALL_ROWS.name
        ('MVS at 0.25', 'all rows')
        """
        return self.method if self.rate == 1.0 else f"{self.method} at {self.rate:g}"

    def parameters(self) -> dict[str, Any]:
        """Those of the estimator."""
        method = METHODS[self.method]
        return {"sampler": method.sampler(self.rate), "second_look": method.second_look}

    def code(self) -> str:
        """The same as arguments in code."""
        method = METHODS[self.method]
        sampler = method.code.format(rate=f"{self.rate:g}", half=f"{self.rate / 2:g}")
        look = f", second_look={method.second_look}" if method.second_look else ""
        return f"sampler={sampler}{look}"


ALL_ROWS = Setting("all rows", 1.0)
"""What the others are compared with."""


def check_rates(rates: Sequence[float]) -> tuple[float, ...]:
    """Rates in (0, 1), each once and ascending."""
    found = tuple(sorted({float(rate) for rate in rates}))
    if not found:
        raise ParameterError("rates", rates, "at least one number in (0, 1)")
    for rate in found:
        if not 0.0 < rate < 1.0:
            raise ParameterError("rates", rate, "numbers in (0, 1)")
    return found


def settings_of(rates: Sequence[float], peers: Sequence[str] = ()) -> list[Setting]:
    """All settings: all rows, then methods at the rates nearest to the default, then libraries.

    Examples
    --------
    >>> [setting.name for setting in settings_of([0.1, 0.3])][:4]
    ['all rows', 'MVS at 0.3', 'MVS at 0.1', 'MVS, second look at 0.3']
    """
    return list(_settings(sorted(rates, key=lambda rate: abs(math.log(rate / 0.3))), peers))


def _settings(rates: Sequence[float], peers: Sequence[str]) -> Iterator[Setting]:
    yield ALL_ROWS
    for method in METHODS:
        if method != ALL_ROWS.method:
            yield from (Setting(method, rate) for rate in rates)
    yield from (Setting(peer, 1.0) for peer in peers)


def in_order_of_use(settings: Sequence[Setting], folds: int) -> list[tuple[int, Setting]]:
    """Every setting on every fold: the first ones on a second fold before the last on the first.

    Wherever a run ends, what is known of most use is known of most folds.

    Examples
    --------
    >>> plan = in_order_of_use(settings_of([0.3]), 2)
    >>> [(fold, setting.name) for fold, setting in plan[3:6]]
    [(0, 'SGB at 0.3'), (0, 'GOSS at 0.3'), (1, 'all rows')]
    """
    turns = [
        (fold + place // _A_TURN, fold, place)
        for fold in range(folds)
        for place in range(len(settings))
    ]
    return [(fold, settings[place]) for _, fold, place in sorted(turns)]


_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def seconds_of(budget: str | float | None) -> float:
    """A time such as "10min" in seconds; infinite where there is none.

    Examples
    --------
    >>> seconds_of("10min"), seconds_of(90)
    (600.0, 90.0)
    """
    if budget is None:
        return math.inf
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*)\s*", budget)
        try:
            seconds = float(found[1]) * _UNITS[found[2]] if found else -1.0
        except (KeyError, ValueError):
            seconds = -1.0
    else:
        seconds = float(budget)
    if not seconds > 0.0:
        raise ParameterError("budget", budget, "a time such as '90s', '10min' or '2h'")
    return seconds
