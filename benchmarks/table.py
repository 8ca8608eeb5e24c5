"""The results as Markdown: ratios against LightGBM without sampling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import mean, stdev
from typing import Any

from record import BASE, MEASURES

Figures = dict[str, dict[str, Any]]
Marks = dict[int, str]
"""What is put behind a figure, by the number of its environment."""


def as_markdown(results: dict[str, Any]) -> str:
    """Every table there is something for."""
    cases, marks = results["cases"], _marks(results)
    parts = [_environments(results["environments"], marks)]
    timed = {
        f"{name} ({_rounds(case['iteration'])})": case["iteration"]
        for name, case in cases.items()
        if case.get("iteration")
    }
    if timed:
        parts.append(_iterations(timed, marks))
    for name, case in cases.items():
        if case.get("quality"):
            parts.append(_quality(name, case["quality"], marks))
        if case.get("auc"):
            parts.append(_areas(name, case["auc"], marks))
        for measure, unit, digits in (
            ("binning", "seconds", 2),
            ("prediction", "rows a second", 0),
            ("memory", "MiB above the input", 0),
        ):
            if case.get(measure):
                parts.append(_plain(f"{name}: {measure}", case[measure], unit, digits, marks))
    if "growth" in results:
        parts.append(_growth(results["growth"], marks))
    return "\n\n".join(parts) + "\n"


def rows_of(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _used(results: dict[str, Any]) -> Iterator[int]:
    """The number of each figure's environment."""
    for case in results["cases"].values():
        for measure in MEASURES:
            yield from (figure["environment"] for figure in case.get(measure, {}).values())
    if "growth" in results:
        yield results["growth"]["environment"]


def _marks(results: dict[str, Any]) -> Marks:
    """Nothing for the environment that most figures come from, numbers for the others."""
    used = [number for number, _ in Counter(_used(results)).most_common()]
    return {number: f" <sup>{mark}</sup>" if mark else "" for mark, number in enumerate(used)}


def _environments(environments: list[dict[str, str]], marks: Marks) -> str:
    lines = []
    for number, mark in marks.items():
        facts = ", ".join(f"{name} {version}" for name, version in environments[number].items())
        start = f"Figures marked{mark}:" if mark else "Medians of alternating rounds."
        lines.append(f"{start} {facts}.")
    return "\n\n".join(lines) or "Nothing was measured."


def _rounds(figures: Figures) -> str:
    rounds = sorted({figure["rounds"] for figure in figures.values()})
    if rounds == [1]:
        return "one round"
    return " or ".join(str(number) for number in rounds) + " rounds"


def _ratio(figure: dict[str, Any]) -> str:
    """How many times faster than LightGBM without sampling was in the same run."""
    base, own = figure.get("base"), figure["value"]
    return f"{base / own:.1f}×" if base and own else ""


def _iterations(timed: dict[str, Figures], marks: Marks) -> str:
    names = list(dict.fromkeys(name for times in timed.values() for name in times))
    rows = []
    for name in names:
        row = [name]
        for times in timed.values():
            own = times.get(name)
            if own is None:
                row.append("")
                continue
            ratio = _ratio(own)
            text = f"{own['value']:.1f} ms" + (f" ({ratio})" if ratio else "")
            row.append(text + marks[own["environment"]])
        rows.append(row)
    title = "## Time an iteration (how many times faster than LightGBM without sampling)\n\n"
    return title + rows_of(["", *timed], rows)


def _areas(name: str, areas: Figures, marks: Marks) -> str:
    rows = []
    base = areas.get(BASE)
    for who, figure in areas.items():
        own, against = figure["value"], ""
        if base is not None and who != BASE:
            more = [a - b for a, b in zip(own, base["value"], strict=True)]
            error = stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0.0
            against = f"{mean(more):+.4f} ± {error:.4f}"
        rows.append([who, f"{mean(own):.5f}" + marks[figure["environment"]], against])
    tables = len(next(iter(areas.values()))["value"])
    title = f"## {name}: test AUC after 100 iterations, mean of {tables} tables\n\n"
    return title + rows_of(["", "AUC", "against LightGBM full, by table"], rows)


def _quality(name: str, races: Figures, marks: Marks) -> str:
    """Who raced to another loss, in a run before or after LightGBM's, is told by it."""
    target = _target(races.get(BASE) or next(iter(races.values())))
    rows = []
    for who, figure in races.items():
        spent = figure["value"]
        text = "not reached" if spent is None else f"{spent:.2f} s"
        if _target(figure) != target:
            text += f", to {_target(figure)}"
        rows.append([who, text + marks[figure["environment"]], _ratio(figure)])
    whose = "LightGBM's best test log loss" if BASE in races else "a test log loss"
    title = f"## {name}: seconds to {whose}, {target}, {_rounds(races)}\n\n"
    return title + rows_of(["", "time", "times faster"], rows)


def _target(figure: dict[str, Any]) -> str:
    return f"{figure['target']:.5f}"


def _plain(title: str, figures: Figures, unit: str, digits: int, marks: Marks) -> str:
    rows = [
        [name, f"{figure['value']:,.{digits}f}" + marks[figure["environment"]]]
        for name, figure in figures.items()
    ]
    return f"## {title}\n\n" + rows_of(["", unit], rows)


def _growth(growth: dict[str, Any], marks: Marks) -> str:
    mark = marks[growth["environment"]]
    rows = [[f"{int(n):,}", f"{ms:.1f}{mark}"] for n, ms in growth["milliseconds"].items()]
    title = f"## MVS 0.1 by number of rows: slope {growth['slope']:.3f} on logarithmic scales\n\n"
    return title + rows_of(["rows", "ms an iteration"], rows)
