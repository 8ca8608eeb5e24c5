"""The results as Markdown: ratios against LightGBM without sampling."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

BASE = "LightGBM full"


def as_markdown(results: dict[str, Any]) -> str:
    """Every table there is something for."""
    cases = {k: v for k, v in results.items() if isinstance(v, dict) and "rows" in v}
    parts = [_environment(results["environment"])]
    timed = {
        f"{name} ({case['rounds']} rounds)": case["iteration"]
        for name, case in cases.items()
        if "iteration" in case
    }
    if timed:
        parts.append(_iterations(timed))
    for name, case in cases.items():
        if "quality" in case:
            parts.append(_quality(name, case["quality"]))
        if "auc" in case:
            parts.append(_areas(name, case["auc"]))
        for measure, unit, digits in (
            ("binning", "seconds", 2),
            ("prediction", "rows a second", 0),
            ("memory", "MiB above the input", 0),
        ):
            if measure in case:
                parts.append(_plain(f"{name}: {measure}", case[measure], unit, digits))
    if "growth" in results:
        parts.append(_growth(results["growth"]))
    return "\n\n".join(parts) + "\n"


def rows_of(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _environment(environment: dict[str, str]) -> str:
    text = ", ".join(f"{name} {version}" for name, version in environment.items())
    return f"Medians of alternating rounds. {text}."


def _iterations(timed: dict[str, dict[str, float]]) -> str:
    names = list(dict.fromkeys(name for times in timed.values() for name in times))
    rows = []
    for name in names:
        row = [name]
        for times in timed.values():
            base, own = times.get(BASE), times.get(name)
            row.append(
                "" if own is None else f"{own:.1f} ms" + (f" ({base / own:.1f}×)" if base else "")
            )
        rows.append(row)
    title = "## Time an iteration (how many times faster than LightGBM without sampling)\n\n"
    return title + rows_of(["", *timed], rows)


def _areas(name: str, areas: dict[str, list[float]]) -> str:
    rows = []
    for who, own in areas.items():
        more = [a - b for a, b in zip(own, areas.get(BASE, own), strict=True)]
        error = stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0.0
        against = "" if who == BASE or BASE not in areas else f"{mean(more):+.4f} ± {error:.4f}"
        rows.append([who, f"{mean(own):.5f}", against])
    tables = len(next(iter(areas.values())))
    title = f"## {name}: test AUC after 100 iterations, mean of {tables} tables\n\n"
    return title + rows_of(["", "AUC", "against LightGBM full, by table"], rows)


def _quality(name: str, quality: dict[str, Any]) -> str:
    seconds = quality["seconds"]
    base = seconds.get(BASE)
    rows = [
        [
            who,
            "not reached" if spent is None else f"{spent:.2f} s",
            f"{base / spent:.1f}×" if base and spent else "",
        ]
        for who, spent in seconds.items()
    ]
    rounds = quality.get("rounds", 1)
    times = "one round" if rounds == 1 else f"{rounds} rounds"
    target = f"LightGBM's best test log loss, {quality['target']:.5f}, {times}"
    title = f"## {name}: seconds to {target}\n\n"
    return title + rows_of(["", "time", "times faster"], rows)


def _plain(title: str, values: dict[str, float], unit: str, digits: int) -> str:
    rows = [[name, f"{value:,.{digits}f}"] for name, value in values.items()]
    return f"## {title}\n\n" + rows_of(["", unit], rows)


def _growth(growth: dict[str, Any]) -> str:
    rows = [[f"{int(n):,}", f"{ms:.1f}"] for n, ms in growth["milliseconds"].items()]
    title = f"## MVS 0.1 by number of rows: slope {growth['slope']:.3f} on logarithmic scales\n\n"
    return title + rows_of(["rows", "ms an iteration"], rows)
