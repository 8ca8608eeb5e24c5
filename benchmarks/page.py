"""Write docs/benchmarks.md.

The words are in ``benchmarks/notes.md``, where a comment such as ``<!-- races -->`` stands for
what is made here from ``benchmarks/results.json``. A new run only has to be followed by
``python benchmarks/page.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from record import BASE, load
from table import rows_of

HERE = Path(__file__).parent
SYNTHETIC, DEEP = "1M x 28", "1M x 28, 255 leaves"
DEFAULT, TENTH = "mvsboost MVS 0.3", "mvsboost MVS 0.1"

SHOWN = {
    "LightGBM full": "LightGBM",
    "LightGBM quantised": "LightGBM quantised",
    "LightGBM GOSS 0.2/0.1": "LightGBM GOSS",
    "LightGBM bagging 0.1": "LightGBM bagging 0.1",
    "XGBoost full": "XGBoost",
    "XGBoost gradient_based 0.1": "XGBoost gradient_based 0.1",
    "CatBoost MVS 0.2": "CatBoost MVS 0.2",
    "scikit-learn HGB": "scikit-learn",
    "mvsboost none": "all rows",
    DEFAULT: "**MVS 0.3**",
    TENTH: "MVS 0.1",
    "mvsboost MVS 0.1, second look 3": "second look, 0.1",
    "mvsboost MVS 0.05, leaves from the sample": "sample leaves, 0.05",
}
"""Contenders, and what they are called on the page."""

Results = dict[str, Any]


# --- tables -------------------------------------------------------------------------------------


def iterations(results: Results) -> str:
    """How many times as fast as LightGBM."""
    timed = {name: case["iteration"] for name, case in results["cases"].items()}
    rows = [
        [f"{title}, ms", *(f"{times[who]:.1f}" for times in timed.values())]
        if who == BASE
        else [title, *(f"{times[BASE] / times[who]:.1f}×" for times in timed.values())]
        for who, title in SHOWN.items()
    ]
    return f"{rows_of(['', *timed], rows)}\n\n{_made(results, 'iteration')}"


def races(results: Results) -> str:
    """Seconds to LightGBM's best test loss, by set, for other libraries in their fastest mode."""
    ours = {who: title for who, title in SHOWN.items() if who.startswith("mvsboost")}
    rows, alone = [], []
    for name, times in _raced(results).items():
        if not any(spent for who, spent in times.items() if who != BASE):
            alone.append(name)
            continue
        fastest = [_fastest(times, library) for library in ("LightGBM", "XGBoost", "CatBoost")]
        cells = [times[BASE], *fastest, *(times[who] for who in ours)]
        rows.append([name, *(_or_dash(cell, 2) for cell in cells)])
    header = ["", "LightGBM", "its fastest mode", "XGBoost", "CatBoost", *ours.values()]
    nobody = f" On {' and '.join(alone)} nobody else gets there." if alone else ""
    return f"{rows_of(header, rows)}\n\n{_made(results, 'quality')}{nobody}"


def libraries(results: Results) -> str:
    """What a library takes besides: time to bin, rows predicted, memory."""
    case = results["cases"][SYNTHETIC]
    rows = []
    for library in ("LightGBM", "XGBoost", "CatBoost", "mvsboost"):
        memory = case["memory"].get(DEFAULT if library == "mvsboost" else f"{library} full")
        rate = case["prediction"][library] / 1e6
        cells = f"{case['binning'][library]:.2f}", f"{rate:.2f}", _or_dash(memory, 0)
        rows.append([library, *cells])
    table = rows_of(["", "binning, s", "million rows predicted a second", "memory, MiB"], rows)
    return f"{table}\n\n{_made(results, 'binning prediction memory')}"


def fits(results: Results) -> str:
    """Whole fits of five large sets, and the medians of the small ones."""
    found = results["fits"]
    small = [one for name, one in found.items() if name.startswith("suite/")]
    large = {name: one for name, one in found.items() if not name.startswith("suite/")}
    told = {"to its loss, s": ("to_loss", 1), "to the end, s": ("seconds", 1), "loss": ("test", 4)}
    rows = []
    for title, (measure, digits) in told.items():
        for who in ("LightGBM", "mvsboost"):
            figures = [one["contenders"][who][measure] for one in large.values()]
            rows.append([f"{who} {title}", *(_or_dash(figure, digits) for figure in figures)])
    shares = [_share_of_time(one) for one in small]
    less = sum(
        one["contenders"]["mvsboost"]["test"] < one["contenders"]["LightGBM"]["test"]
        for one in small
    )
    reached = sum(share < math.inf for share in shares)
    return (
        f"{rows_of(['', *large], rows)}\n\nOf {len(small)} small sets {reached} reach its loss, "
        f"{1.0 / median(shares):.2f} times as fast on the median; {less} end with less. "
        f"`fits.py`: medians of {min(one['rounds'] for one in found.values())} rounds."
    )


def _or_dash(figure: float | None, digits: int) -> str:
    return "–" if figure is None else f"{figure:.{digits}f}"


def _share_of_time(one: dict[str, Any]) -> float:
    """Of LightGBM's to its loss; infinite where it is not reached."""
    base, ours = one["contenders"]["LightGBM"], one["contenders"]["mvsboost"]
    return float(ours["to_loss"] / base["to_loss"]) if ours["to_loss"] else math.inf


# --- sentences ----------------------------------------------------------------------------------


def summary(results: Results) -> str:
    """What a reader came for."""
    ours = {name: _times_faster(results, SYNTHETIC, name) for name in (DEFAULT, TENTH)}
    sooner = {name: _sooner(times, [DEFAULT]) for name, times in _raced(results).items()}
    reached = sorted(x for x in sooner.values() if x)
    missed = [name for name, x in sooner.items() if not x]
    text = (
        f"On a million rows an iteration of the default, MVS 0.3, is {ours[DEFAULT]:.1f} times as "
        f"fast as LightGBM's, and one of MVS 0.1 {ours[TENTH]:.1f} times. On {len(reached)} of "
        f"{len(sooner)} real sets the default reaches LightGBM's best loss {reached[0]:.1f} to "
        f"{reached[-1]:.1f} times sooner than LightGBM's fastest mode"
    )
    return text + (f"; on {' and '.join(missed)} it does not reach it." if missed else ".")


def growth(results: Results) -> str:
    """Time by number of rows."""
    found = results["growth"]
    times = [f"{ms:.1f}" for ms in found["milliseconds"].values()]
    rows = [f"{int(n) / 1e6:g}" for n in found["milliseconds"]]
    return (
        f"MVS 0.1 takes {', '.join(times)} ms on {', '.join(rows)} million rows, a slope of "
        f"{found['slope']:.2f} on logarithmic scales (`run.py --measures growth`)."
    )


def aims(results: Results) -> str:
    """Aims that are missed, and how many there are."""
    best = [_sooner(times) for times in _raced(results).values()]
    bagging, drawn = "LightGBM bagging 0.1", "XGBoost gradient_based 0.1"
    look = "mvsboost MVS 0.1, second look 3"
    goals: list[tuple[str, float, float]] = [
        ("MVS 0.1 against LightGBM", 6.0, _times_faster(results, SYNTHETIC, TENTH)),
        ("MVS 0.1 against LightGBM bagging", 3.0, _against(results, TENTH, bagging)),
        ("MVS 0.1 against XGBoost gradient_based", 8.0, _against(results, TENTH, drawn)),
        ("MVS 0.3 against LightGBM", 3.5, _times_faster(results, SYNTHETIC, DEFAULT)),
        ("MVS 0.1 with 255 leaves", 4.0, _times_faster(results, DEEP, TENTH)),
        ("MVS 0.3 on Adult", 1.5, _times_faster(results, "Adult", DEFAULT)),
        ("the second look", 3.0, _times_faster(results, SYNTHETIC, look)),
        ("all rows", 1.0, _times_faster(results, SYNTHETIC, "mvsboost none")),
        ("time to LightGBM's loss, median set", 3.0, median(best)),
        ("time to LightGBM's loss, worst set", 1.0, min(best)),
    ]
    missed = [
        f"{what} ({reached:.1f}× of {aim:g}×)" if reached else f"{what} (not reached)"
        for what, aim, reached in goals
        if round(reached, 1) < aim
    ]
    text = f"{len(goals) - len(missed)} of {len(goals)} aims are reached."
    return f"{text} Missed: {', '.join(missed)}." if missed else text


def environment(results: Results) -> str:
    """Versions and machine in one line."""
    facts = results["environment"].items()
    return ", ".join(f"{name} {value}" for name, value in facts) + "."


# --- small parts --------------------------------------------------------------------------------


def _made(results: Results, measures: str) -> str:
    """The command of a table, and of how many rounds its medians are."""
    rounds = sorted({str(case["rounds"]) for case in results["cases"].values()})
    return f"`run.py --measures {measures}`: medians of {' or '.join(rounds)} rounds."


def _fastest(times: dict[str, Any], library: str) -> float | None:
    """The time of a library's fastest mode; None if none got there."""
    return min((t for who, t in times.items() if who.startswith(library) and t), default=None)


def _times_faster(results: Results, case: str, who: str) -> float:
    return _against(results, who, BASE, case)


def _against(results: Results, who: str, other: str, case: str = SYNTHETIC) -> float:
    times = results["cases"][case]["iteration"]
    return float(times[other] / times[who])


def _raced(results: Results) -> dict[str, dict[str, float | None]]:
    return {name: case["quality"] for name, case in results["cases"].items() if "quality" in case}


def _sooner(times: dict[str, float | None], among: Iterable[str] = ()) -> float:
    """How many times sooner than LightGBM's fastest mode; 0 where nobody gets there."""
    theirs = [spent for who, spent in times.items() if spent and who.startswith("LightGBM")]
    names = list(among) or [who for who in times if who.startswith("mvsboost")]
    ours = [spent for who in names if (spent := times[who])]
    return min(theirs) / min(ours) if ours else 0.0


MADE: dict[str, Callable[[Results], str]] = {
    one.__name__: one
    for one in (summary, iterations, races, fits, libraries, growth, aims, environment)
}
"""What a comment in the notes stands for."""


def page(notes: str, results: Results) -> str:
    """The notes with every comment that has a name of `MADE` filled in."""
    return re.sub(
        r"<!-- (\w+) -->",
        lambda found: MADE[found[1]](results) if found[1] in MADE else found[0],
        notes,
    )


def main() -> None:
    notes = (HERE / "notes.md").read_text(encoding="utf-8")
    docs = HERE.parent / "docs" / "benchmarks.md"
    docs.write_text(page(notes, load()), encoding="utf-8")


if __name__ == "__main__":
    main()
