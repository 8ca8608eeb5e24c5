"""The demo compares what it says it compares, and its files hold the results."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

import mvsboost
from mvsboost.demo import METHODS, Demo, Record, format_table
from mvsboost.errors import ParameterError
from mvsboost.report import environment
from mvsboost.sampling import GOSS, MVS, SGB


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "folder"


@pytest.fixture(scope="module")
def result(folder: Path) -> Any:
    demo = Demo(n_trees=2, rates=(0.6, 0.3), n_seeds=2, n_rows=150, progress=False)
    return demo.run(folder, "mvsboost demo --out <here>")


def test_every_method_is_fitted_at_every_rate(result: Any) -> None:
    settings = [(record.method, record.rate) for record in result.records]
    expected = [("no sampling", 1.0)]
    expected += [(method.name, rate) for rate in (0.3, 0.6) for method in METHODS]
    assert settings == expected


def test_changes_are_against_no_sampling(result: Any) -> None:
    none, *others = result.records
    assert (none.change, none.rows) == (0.0, 150)
    for record in others:
        assert record.change == pytest.approx(100 * (record.error / none.error - 1))
        assert record.rows == pytest.approx(150 * record.rate, rel=0.3)
        assert 0 < record.error < 0.5
        assert record.log_loss > 0
        assert record.milliseconds > 0


def test_methods_are_those_of_the_comparison() -> None:
    made = [(method.sampler(0.2), method.second_look) for method in METHODS]
    assert [type(sampler) for sampler, _ in made] == [SGB, GOSS, MVS, MVS, MVS]
    assert (made[1][0].top_rate, made[1][0].other_rate) == (0.1, 0.1)
    assert [sampler.lam for sampler, _ in made[2:]] == [0.1, "leaf", "leaf"]
    assert [look for _, look in made] == [0, 0, 0, 0, 4]


def test_the_table_file_holds_the_records(result: Any, folder: Path) -> None:
    assert result.table == folder / "table.csv"
    with open(result.table, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [record.method for record in result.records]
    assert [float(row["error"]) for row in rows] == [record.error for record in result.records]


def test_the_page_holds_everything(result: Any) -> None:
    page = result.page.read_text(encoding="utf-8")
    assert result.figure.read_bytes().startswith(b"\x89PNG")
    assert page.count("data:image/png;base64,") == 1
    assert "mvsboost demo --out &lt;here&gt;" in page
    assert f"{result.records[3].error:.5f}" in page
    assert "the mean of 2 seeds" in page
    assert "first 150 rows" in page
    assert "CC BY 4.0" in page
    for method in METHODS:
        assert method.name in page
    for value in environment().values():
        assert value in page


def test_the_printed_table_is_aligned(result: Any) -> None:
    lines = format_table(result.records).splitlines()
    assert len(lines) == 1 + len(result.records)
    assert len({len(line) for line in lines}) == 1


def test_the_bar_counts_fits(capsys: pytest.CaptureFixture[str]) -> None:
    demo = Demo(n_trees=1, rates=(0.5,), n_seeds=1, n_rows=60)
    demo.compare()
    shown = capsys.readouterr().err
    assert "6/6" in shown
    assert METHODS[-1].name in shown


def test_without_tqdm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"pip install mvsboost\[demo\]"):
        Demo(n_rows=60).compare()


def test_without_matplotlib_nothing_is_fitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fitted: list[Any] = []
    monkeypatch.setattr(Demo, "compare", lambda self: fitted.append(self))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"matplotlib: pip install mvsboost\[demo\]"):
        Demo().run(tmp_path / "out")
    assert fitted == []
    assert not (tmp_path / "out").exists()


def test_the_table_outlives_a_figure_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: Any) -> None:
        raise OSError("no fonts")

    record = Record("SGB", 0.1, 0.08, 5.0, 0.3, 3256.0, 12.0)
    monkeypatch.setattr(Demo, "compare", lambda self: [record])
    monkeypatch.setattr("mvsboost.demo.to_png", fail)
    with pytest.raises(OSError, match="no fonts"):
        Demo().run(tmp_path)
    assert "SGB,0.1,0.08" in (tmp_path / "table.csv").read_text(encoding="utf-8")


def test_the_environment_names_the_release() -> None:
    facts = environment()
    assert facts["mvsboost"] == mvsboost.__version__
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert int(facts["cores"]) >= 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_trees": 0}, "n_trees must be an integer >= 1, got 0"),
        ({"n_seeds": -1}, "n_seeds must be an integer >= 1, got -1"),
        ({"rates": ()}, "rates must be at least one number"),
        ({"rates": (0.1, 1.5)}, r"rates must be numbers in \(0, 1\), got 1.5"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Demo(**settings)
