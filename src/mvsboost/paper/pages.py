"""The results as one HTML page and as Markdown, with the paper's figures beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mvsboost.paper.plan import EXPERIMENTS, METHODS, Plan
from mvsboost.paper.sets import PAPER_SETS
from mvsboost.paper.summaries import (
    PAPER_BY_RATE,
    PAPER_QUALITY,
    Change,
    average,
    changes_by_rate,
    preparation,
    quality_changes,
)
from mvsboost.plots import plot_error_by_rate, to_png
from mvsboost.report import Code, Part, Picture, Section, Table, Text, write_page

__all__ = ["as_markdown", "sections_of", "write_results"]

TITLE = "Minimal Variance Sampling: the paper's experiments, repeated"


def write_results(plan: Plan, experiments: Iterable[str], out: Path, made_by: str) -> list[Path]:
    """Write `index.html` and `paper.md`, with the pictures of the latter beside it.

    Parameters
    ----------
    plan : Plan
    experiments : iterable of str
    out : Path
        Folder for the results.
    made_by : str
        Command and versions, shown at the end.
    """
    sections = [*sections_of(plan, experiments), Section("Made by", [Code(made_by)])]
    page = write_page(out / "index.html", TITLE, sections)
    text = out / "paper.md"
    text.write_text(as_markdown(TITLE, sections, out), encoding="utf-8")
    return [page, text]


def sections_of(plan: Plan, experiments: Iterable[str]) -> list[Section]:
    """A section for each experiment that has results."""
    makers = {"preparation": _preparation, "quality": _quality, "rates": _rates}
    found = [(EXPERIMENTS[name].title, makers[name](plan)) for name in experiments]
    return [Section("The data", _data(plan))] + [
        Section(title, parts) for title, parts in found if parts
    ]


def _data(plan: Plan) -> list[Part]:
    rows = [
        [PAPER_SETS[name].title, PAPER_SETS[name].note or "as in the paper"] for name in plan.sets
    ]
    return [Table(["set", "against the paper's"], rows, text_columns=2)]


def _preparation(plan: Plan) -> list[Part]:
    found = preparation(plan)
    if not found:
        return []
    rows = [
        [PAPER_SETS[name].title, f"{ours:.4f}", "" if paper is None else f"{paper:.4f}"]
        for name, (ours, paper) in found.items()
    ]
    text = (
        "1 − AUC of LightGBM without sampling, with the published parameters and categories as "
        "running means of the target. Where it agrees with the paper's, the data are prepared "
        "as they were there."
    )
    return [Text(text), Table(["set", "here", "paper"], rows)]


def _quality(plan: Plan) -> list[Part]:
    rows = []
    for name, method in METHODS.items():
        found = quality_changes(plan, name)
        if not found:
            continue
        cells = [_with_spread(found[s][0]) if s in found else "" for s in plan.sets]
        rows.append([method.title, *cells, _percent(average([c for c, _ in found.values()]))])
        paper = PAPER_QUALITY.get(name)
        if paper:
            theirs = [paper[s] for s in plan.sets if s in paper]
            mean = sum(theirs) / len(theirs) if theirs else math.nan
            cells = [_percent(paper[s]) if s in paper else "" for s in plan.sets]
            rows.append([f"{method.title}, paper", *cells, _percent(mean)])
    if not rows:
        return []
    text = (
        "Change of 1 − AUC on the test part against no sampling, mean and standard deviation "
        "over seeds, at the rate and setting that folds of the training part found best. The "
        "paper's mean is over the sets that are here."
    )
    header = ["", *(PAPER_SETS[name].title for name in plan.sets), "mean"]
    return [Text(text), Table(header, rows)]


def _rates(plan: Plan) -> list[Part]:
    by_method = {name: changes_by_rate(plan, name) for name in METHODS}
    rows, records = [], []
    for name, changes in by_method.items():
        means = {rate: average(list(of_sets.values())) for rate, of_sets in changes.items()}
        if all(math.isnan(mean) for mean in means.values()):
            continue
        title = METHODS[name].title
        rows.append([title, *(_percent(means[rate]) for rate in plan.size.rates)])
        records += [
            {"method": title, "rate": rate, "change": mean}
            for rate, mean in means.items()
            if not math.isnan(mean)
        ]
        if name in PAPER_BY_RATE:
            paper = PAPER_BY_RATE[name]
            rows.append(
                [f"{title}, paper", *(_percent(paper.get(r, math.nan)) for r in plan.size.rates)]
            )
    if not rows:
        return []
    text = (
        "Change of 1 − AUC on the test part against no sampling, mean over the sets, at each "
        "sample rate. λ of MVS and the ratio of GOSS were tuned at each rate on folds of the "
        "training part. The paper's mean is over its own seven sets."
    )
    picture = Picture(
        to_png(plot_error_by_rate(records)),
        "Change of 1 − AUC against the sample rate, one line for each method",
    )
    table = Table(["", *(f"{rate:g}" for rate in plan.size.rates)], rows)
    return [Text(text), table, picture]


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.2f}%"


def _with_spread(change: Change) -> str:
    return f"{change.mean:+.2f} ± {change.deviation:.2f}%"


# --- Markdown -----------------------------------------------------------------------------------


def as_markdown(title: str, sections: Sequence[Section], folder: Path) -> str:
    """The page as Markdown; its pictures become files in `folder`."""
    lines, number = [f"# {title}"], 0
    for section in sections:
        lines.append(f"## {section.heading}")
        for part in section.parts:
            if isinstance(part, Picture):
                number += 1
                file = folder / f"figure{number}.png"
                file.write_bytes(part.png)
                lines.append(f"![{part.description}]({file.name})")
            else:
                lines.append(_part_as_markdown(part))
    return "\n\n".join(lines) + "\n"


def _part_as_markdown(part: Text | Code | Table) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Code):
        return f"```\n{part.text}\n```"
    rows: list[Sequence[Any]] = [part.header, *part.rows]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    kinds = ["---" if i < part.text_columns else "---:" for i in range(len(part.header))]
    return "\n".join([lines[0], "| " + " | ".join(kinds) + " |", *lines[1:]])
