"""The experiments' command line: what it names, how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import research.__main__ as command_line
from mvsboost.errors import ParameterError
from research.__main__ import main
from research.experiments import EXPERIMENTS

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "huge"], "--size must be one of quick, standard, full, got 'huge'"),
        (["--only", "this"], "--only must be among preparation,"),
        (["--datasets", "iris"], "--datasets must be among adult,"),
        (["--jobs", "0"], "--jobs must be an integer >= 1, got 0"),
    ],
)
def test_an_error_names_the_flag(
    arguments: list[str], message: str, tmp_path: Path, capsys: Output
) -> None:
    assert main([*arguments, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"research: error: {message}")


def test_an_error_about_something_else_keeps_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def run_paper(**_: Any) -> list[Path]:
        raise ParameterError("view", "upside down", "one of two")

    monkeypatch.setattr(command_line, "run_paper", run_paper)
    assert main([]) == 2
    assert "error: view must be one of two, got 'upside down'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "within", "line"),
    [
        (["--check", "1"], "check_paper", "interrupted"),
        (
            [],
            "run_paper",
            "interrupted; what is done is kept, and the same command goes on from there",
        ),
    ],
)
def test_an_interrupt_ends_with_one_line(
    arguments: list[str], within: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, within, stop)
    assert main(arguments) == 130
    assert capsys.readouterr() == ("", f"research: {line}\n")


def test_the_help_names_every_experiment(capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in EXPERIMENTS)
