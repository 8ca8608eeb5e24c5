"""Write docs/benchmarks.md, and the complete tables beside the results.

The words are in ``benchmarks/notes.md``, where a comment such as ``<!-- races -->`` stands for
what is made here from ``benchmarks/results.json``. A new run only has to be followed by
``python benchmarks/page.py``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from record import BASE, MEASURES, load
from table import as_markdown, rows_of

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
"""Contenders of the page, and what they are called there; the complete tables have all."""

LEFT_OUT = (DEEP, "5M x 28")
"""Cases that the page leaves to the complete tables."""

MARK = re.compile(r" <sup>\d+</sup>$")

Results = dict[str, Any]


# --- tables -------------------------------------------------------------------------------------


def iterations(results: Results) -> str:
    """How many times as fast as LightGBM."""
    timed = {
        name: case["iteration"]
        for name, case in results["cases"].items()
        if case.get("iteration") and name not in LEFT_OUT
    }
    marks, rows = _marks(results), []
    for who, title in _present(timed.values()):
        cells = [_ratio(times.get(who), who == BASE, marks) for times in timed.values()]
        rows.append([f"{title}, ms" if who == BASE else title, *cells])
    return f"{_table(['', *timed], rows)}\n\n{_made('iteration', timed.values())}"


def races(results: Results) -> str:
    """Seconds to LightGBM's best test loss, by set, for other libraries in their fastest mode."""
    marks, rows, alone = _marks(results), [], []
    ours = {who: title for who, title in SHOWN.items() if who.startswith("mvsboost")}
    raced = {name: results["cases"][name]["quality"] for name in _raced(results)}
    for name, times in raced.items():
        if not any(figure["value"] for who, figure in times.items() if who != BASE):
            alone.append(name)
            continue
        fastest = [_fastest(times, library) for library in ("LightGBM", "XGBoost", "CatBoost")]
        cells = [times.get(BASE), *fastest, *(times.get(who) for who in ours)]
        rows.append([name, *(_seconds(cell, marks) for cell in cells)])
    header = ["", "LightGBM", "its fastest mode", "XGBoost", "CatBoost", *ours.values()]
    nobody = f" On {' and '.join(alone)} nobody else gets there." if alone else ""
    return f"{_table(header, rows)}\n\n{_made('quality', raced.values())}{nobody}"


def libraries(results: Results) -> str:
    """What a library takes besides: time to bin, rows predicted, memory."""
    case, marks = results["cases"].get(SYNTHETIC, {}), _marks(results)
    columns = {
        "binning, s": ("binning", "{}", 1.0, 2),
        "million rows predicted a second": ("prediction", "{}", 1e-6, 2),
        "memory, MiB": ("memory", "{} full", 1.0, 0),
    }
    rows = []
    for library in ("LightGBM", "XGBoost", "CatBoost", "mvsboost"):
        row = [library]
        for measure, name, unit, digits in columns.values():
            who = DEFAULT if measure == "memory" and library == "mvsboost" else name.format(library)
            figure = case.get(measure, {}).get(who)
            row.append("" if figure is None else _number(figure, unit, digits, marks))
        rows.append(row)
    table = _table(["", *columns], rows)
    return f"{table}\n\n{_made('binning prediction memory', [])}"


def fits(results: Results) -> str:
    """Whole fits of five large sets, and the medians of the small ones."""
    found = results["fits"]["sets"]
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
    sooner = {name: _sooner(results, name, [DEFAULT]) for name in _raced(results)}
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
        f"MVS 0.1 takes {', '.join(times)} ms on {', '.join(rows)} million rows"
        f"{_marks(results)[found['environment']]}, a slope of {found['slope']:.2f} on logarithmic "
        "scales (`run.py --measures growth`)."
    )


def aims(results: Results) -> str:
    """Aims that are missed, and how many there are."""
    best = [_sooner(results, name) for name in _raced(results)]
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
    """Versions and machine of most figures in one line; those of others are in the tables."""
    marks = _marks(results)
    usual, *others = marks
    facts = results["environments"][usual]
    told = [name for name in facts if name not in ("platform", "narwhals")]
    line = ", ".join(f"{name} {facts[name]}" for name in told) + "."
    if not others:
        return line
    known = "timed from iteration"
    marked = [
        f"{marks[number].strip()} is timed from iteration {results['environments'][number][known]}"
        for number in others
        if known in results["environments"][number]
    ]
    return f"{line} Figures are of several versions yet: {', '.join(marked)}, others earlier."


# --- small parts --------------------------------------------------------------------------------


def _present(tables: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    tables = list(tables)
    return [(who, title) for who, title in SHOWN.items() if any(who in t for t in tables)]


def _marks(results: Results) -> dict[int, str]:
    """Nothing for the environment of most figures, numbers for the others."""
    used = [
        figure["environment"]
        for case in results["cases"].values()
        for measure in MEASURES
        for figure in case.get(measure, {}).values()
    ]
    used += [results["growth"]["environment"]] if "growth" in results else []
    ranked = [number for number, _ in Counter(used).most_common()]
    return {number: f" <sup>{mark}</sup>" if mark else "" for mark, number in enumerate(ranked)}


def _table(header: list[str], rows: list[list[str]]) -> str:
    """A table; a mark that a whole column has goes into its header."""
    header, columns = list(header), [list(column) for column in zip(*rows, strict=True)]
    for number, column in enumerate(columns):
        found = {MARK.search(cell)[0] if MARK.search(cell) else "" for cell in column if cell}
        if number and len(found) == 1 and found != {""}:
            (mark,) = found
            header[number] += mark
            columns[number] = [cell.removesuffix(mark) for cell in column]
    return rows_of(header, [list(row) for row in zip(*columns, strict=True)])


def _ratio(figure: Any, is_base: bool, marks: dict[int, str]) -> str:
    if figure is None:
        return ""
    text = f"{figure['value']:.1f}" if is_base else f"{figure['base'] / figure['value']:.1f}×"
    return text + marks[figure["environment"]]


def _seconds(figure: Any, marks: dict[int, str]) -> str:
    if figure is None:
        return ""
    spent = figure["value"]
    return ("–" if spent is None else f"{spent:.2f}") + marks[figure["environment"]]


def _fastest(times: dict[str, Any], library: str) -> Any:
    """The figure of a library's fastest mode; any of those that did not get there if none did."""
    own = [figure for who, figure in times.items() if who.startswith(library)]
    return min(own, key=lambda figure: figure["value"] or math.inf, default=None)


def _number(figure: Any, unit: float, digits: int, marks: dict[int, str]) -> str:
    return f"{figure['value'] * unit:.{digits}f}{marks[figure['environment']]}"


def _made(measures: str, tables: Iterable[dict[str, Any]]) -> str:
    """The command of a table, and of how many rounds its medians are."""
    rounds = sorted({figure["rounds"] for times in tables for figure in times.values()})
    command = f"`run.py --measures {measures}`"
    if not rounds:
        return f"{command}."
    span = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    return f"{command}: medians of {span} rounds."


def _times_faster(results: Results, case: str, who: str) -> float:
    figure = results["cases"][case]["iteration"][who]
    return float(figure["base"] / figure["value"])


def _against(results: Results, who: str, other: str) -> float:
    times = results["cases"][SYNTHETIC]["iteration"]
    return float(times[other]["value"] / times[who]["value"])


def _raced(results: Results) -> list[str]:
    return [name for name, case in results["cases"].items() if case.get("quality")]


def _sooner(results: Results, case: str, among: Iterable[str] = ()) -> float:
    """How many times sooner than LightGBM's fastest mode; 0 where nobody gets there."""
    spent = {who: figure["value"] for who, figure in results["cases"][case]["quality"].items()}
    theirs = [x for who, x in spent.items() if x and who.startswith("LightGBM")]
    names = list(among) or [who for who in spent if who.startswith("mvsboost")]
    ours = [spent[who] for who in names if spent.get(who)]
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
    results = load(HERE / "results.json")
    notes = (HERE / "notes.md").read_text(encoding="utf-8")
    docs = HERE.parent / "docs" / "benchmarks.md"
    docs.write_text(page(notes, results), encoding="utf-8")
    complete = "# Benchmarks: complete tables\n\n" + as_markdown(results)
    (HERE / "results.md").write_text(complete, encoding="utf-8")


if __name__ == "__main__":
    main()
