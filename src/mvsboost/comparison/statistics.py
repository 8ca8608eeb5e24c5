"""From fits to an answer: changes against all rows, paired over folds, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import t as student

from mvsboost.comparison.plan import ALL_ROWS, METHODS, Setting

__all__ = ["Change", "Verdict", "changes_of", "verdict_of"]

CONFIDENCE = 0.95
FASTER = 1.1
"""Times that a setting must be as fast to be worth a change."""


@dataclass(frozen=True)
class Change:
    """A setting beside all rows, over the folds that both have.

    Attributes
    ----------
    setting : Setting
    folds : int
    error : float
        Mean error.
    change : float
        Mean change of the error, in % of that of all rows.
    spread : float
        Standard error of `change`; infinite with a single fold. The training parts of folds
        overlap, so it is larger than that of independent fits (Nadeau and Bengio, 2003).
    low, high : float
        95% interval of the change.
    speed : float
        Times as fast as all rows, the geometric mean over folds.
    seconds, trees, rows : float
        Means of a fit: time, trees to the best, rows of a tree.
    """

    setting: Setting
    folds: int
    error: float
    change: float
    spread: float
    low: float
    high: float
    speed: float
    seconds: float
    trees: float
    rows: float

    @property
    def is_less(self) -> bool:
        """Whether the error is less than that of all rows, as far as these folds can tell."""
        return self.high < 0.0

    @property
    def is_kept(self) -> bool:
        """Whether the error is that of all rows within its standard error, or less."""
        return math.isfinite(self.spread) and self.change <= self.spread


FoldFits = Mapping[int, Mapping[str, float]]
"""Of a setting, by fold: ``error``, ``seconds``, ``trees`` and ``rows``."""


def changes_of(fits: Mapping[Setting, FoldFits]) -> list[Change]:
    """Every setting that has a fold in common with all rows."""
    base = fits.get(ALL_ROWS, {})
    changes = []
    for setting, own in fits.items():
        both = sorted(base.keys() & own.keys())
        if both:
            changes.append(_change(setting, [own[k] for k in both], [base[k] for k in both]))
    return changes


def _change(
    setting: Setting, own: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]]
) -> Change:
    mean = {name: fmean(fit[name] for fit in own) for name in ("error", "seconds", "trees", "rows")}
    scale = fmean(fit["error"] for fit in base) or 1.0
    changes = [100.0 * (a["error"] - b["error"]) / scale for a, b in zip(own, base, strict=True)]
    speeds = [math.log(b["seconds"] / a["seconds"]) for a, b in zip(own, base, strict=True)]
    n, spread, reach = len(own), math.inf, math.inf
    if setting == ALL_ROWS:
        spread = reach = 0.0
    elif n > 1:
        spread = stdev(changes) * math.sqrt(1.0 / n + 1.0 / (n - 1.0))
        reach = spread * float(student.ppf(0.5 + CONFIDENCE / 2.0, n - 1))
    change = fmean(changes)
    return Change(
        setting=setting,
        folds=n,
        change=change,
        spread=spread,
        low=change - reach,
        high=change + reach,
        speed=math.exp(fmean(speeds)),
        **mean,
    )


@dataclass(frozen=True)
class Verdict:
    """The answer: a setting, and why, in one sentence."""

    setting: Setting
    sentence: str


def verdict_of(changes: Sequence[Change], measure: str) -> Verdict:
    """The fastest setting that keeps the error of all rows, if one is faster.

    Parameters
    ----------
    changes : sequence of Change
    measure : str
        What is to be kept: "AUC", "log loss", "error".
    """
    ours = [c for c in changes if c.setting.method in METHODS and c.setting != ALL_ROWS]
    if not ours:
        return Verdict(ALL_ROWS, "All rows: nothing was compared with them yet.")
    if all(not math.isfinite(c.spread) for c in ours):
        return Verdict(ALL_ROWS, "All rows: one fold says nothing of chance; let more of them run.")
    kept = [c for c in ours if c.is_kept or c.is_less]
    faster = [c for c in kept if c.speed >= FASTER]
    if faster:
        best = max(faster, key=lambda c: c.speed)
        return Verdict(best.setting, f"{_start(best)}: {_kept(best, measure)}.")
    less = [c for c in kept if c.is_less]
    if less:
        best = min(less, key=lambda c: c.change)
        return Verdict(best.setting, f"{_start(best)}: {_kept(best, measure)}.")
    if any(c.is_kept for c in ours):
        text = (
            f"samples make no difference of {measure} that these data can tell, and are no faster"
        )
        return Verdict(ALL_ROWS, f"All rows: {text}.")
    return Verdict(ALL_ROWS, f"All rows: every sample costs {measure} on these data.")


def _start(best: Change) -> str:
    return best.setting.name


def _kept(best: Change, measure: str) -> str:
    pace = f"{best.speed:.1f} × faster" if best.speed >= FASTER else f"{best.speed:.1f} × as fast"
    if best.is_less:
        return f"{-best.change:.1f}% less error than all rows, {pace}"
    return f"the {measure} of all rows within its error, {pace}"
