"""The results as one HTML page and as Markdown, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mvsboost.report import Code, Part, Picture, Section, Table, Text, write_page
from research.experiments import EXPERIMENTS
from research.plan import Plan
from research.provenance import made_from
from research.sets import SETS

__all__ = ["as_markdown", "sections_of", "write_results"]

TITLE = "Minimal Variance Sampling: the paper's experiments, repeated"


def write_results(
    plan: Plan, experiments: Iterable[str], out: Path, command: str, made_by: str
) -> list[Path]:
    """Write `index.html` and `paper.md`, with the pictures of the latter beside it.

    Parameters
    ----------
    plan : Plan
    experiments : iterable of str
    out : Path
        Folder for the results.
    command : str
        What runs all experiments; with ``--only`` it stands under the tables of each, in one
        line with the seeds and versions of their fits.
    made_by : str
        Command and versions of this run in one line, shown at the end.
    """
    sections = [*sections_of(plan, experiments, command), Section("Made by", [Code(made_by)])]
    page = write_page(out / "index.html", TITLE, sections)
    text = out / "paper.md"
    text.write_text(as_markdown(TITLE, sections, out), encoding="utf-8")
    return [page, text]


def sections_of(plan: Plan, experiments: Iterable[str], command: str) -> list[Section]:
    """A section for each experiment that has results."""
    sections = [Section("The data", _data(plan))]
    for name in experiments:
        experiment = EXPERIMENTS[name]
        if parts := experiment.parts(plan):
            again = made_from(plan.store, experiment.cells(plan), f"{command} --only {name}")
            sections.append(Section(experiment.title, [*parts, Code(again)]))
    return sections


def _data(plan: Plan) -> list[Part]:
    rows = [[SETS[name].title, SETS[name].note or "as in the paper"] for name in plan.sets]
    return [Table(["set", "against the paper's"], rows, text_columns=2)]


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


def _part_as_markdown(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Code):
        return f"```\n{part.text}\n```"
    assert isinstance(part, Table)
    rows: list[Sequence[Any]] = [part.header, *part.rows]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    kinds = ["---" if i < part.text_columns else "---:" for i in range(len(part.header))]
    return "\n".join([lines[0], "| " + " | ".join(kinds) + " |", *lines[1:]])
