"""The page about benchmarks says what the file of results says."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("page")


def test_page_is_current(page):
    notes = (BENCHMARKS / "notes.md").read_text(encoding="utf-8")
    results = json.loads((BENCHMARKS / "results.json").read_text(encoding="utf-8"))
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert written == page.page(notes, results), "run python benchmarks/page.py"


def test_every_comment_of_the_notes_is_filled_in(page):
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "<!--" not in written


def test_a_mark_of_a_whole_column_goes_into_its_header(page):
    mark = " <sup>1</sup>"
    table = page._table(["", "a", "b"], [["x", f"1{mark}", f"2{mark}"], ["y", f"3{mark}", "4"]])
    assert table.splitlines()[0] == f"|  | a{mark} | b |"
    assert table.splitlines()[2:] == [f"| x | 1 | 2{mark} |", "| y | 3 | 4 |"]


def test_one_environment_needs_no_marks(page):
    results = page.load(BENCHMARKS / "results.json")
    figures = [
        figure
        for case in results["cases"].values()
        for measure in page.MEASURES
        for figure in case.get(measure, {}).values()
    ]
    for figure in [*figures, results["growth"]]:
        figure["environment"] = 1
    text = page.page("<!-- iterations --> <!-- races --> <!-- environment -->", results)
    assert "<sup>" not in text
    assert "several versions" not in text
