"""The page about benchmarks says what the file of results says."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_page_is_current(module):
    notes = (BENCHMARKS / "notes.md").read_text(encoding="utf-8")
    results = json.loads((BENCHMARKS / "results.json").read_text(encoding="utf-8"))
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert written == module("page").page(notes, results), "run python benchmarks/page.py"
    assert "<!--" not in written


def test_every_contender_is_on_the_page(module):
    names = [contender.name for contender in module("contenders").contenders()]
    assert names == list(module("page").SHOWN)


def test_new_figures_replace_the_same_ones(module, tmp_path):
    record, path = module("record"), tmp_path / "results.json"
    record.merge(path, {"cases": {"a": {"rows": 3, "iteration": {"x": 1.0, "y": 2.0}}}})
    found = record.merge(path, {"cases": {"a": {"iteration": {"x": 4.0}}, "b": {"rows": 5}}})
    assert found == json.loads(path.read_text())
    expected = {"a": {"rows": 3, "iteration": {"x": 4.0, "y": 2.0}}, "b": {"rows": 5}}
    assert found["cases"] == expected
    record.open_for(path)


def test_a_file_is_of_one_environment(module, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"environment": {"numpy": "0.1"}}))
    with pytest.raises(SystemExit, match="another environment"):
        module("record").open_for(path)
