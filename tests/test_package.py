"""The package: what it lists, and that nothing is imported before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mvsboost

DOCUMENTED = (
    "backends",
    "callbacks",
    "datasets",
    "errors",
    "metrics",
    "objectives",
    "plots",
    "sampling",
    "testing",
)


def in_a_fresh_process(code: str) -> str:
    source = Path(mvsboost.__file__).parents[1]
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    return process.stdout.strip()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_module_is_there_without_an_import_of_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(mvsboost, name, raising=False)  # as in a process that has just begun
    assert getattr(mvsboost, name) is sys.modules[f"mvsboost.{name}"]


def test_the_first_use_imports_and_not_the_package() -> None:
    code = (
        "import sys, mvsboost\n"
        "print([name for name in sys.modules if name.startswith(('mvsboost.', 'numpy'))])\n"
        "print(mvsboost.callbacks.EarlyStopping(3).rounds)"
    )
    assert in_a_fresh_process(code).splitlines() == ["[]", "3"]


def test_everything_listed_can_be_had() -> None:
    listed = dir(mvsboost)
    assert set(mvsboost.__all__) < set(listed)
    assert set(DOCUMENTED) - set(listed) == {"testing"}  # it needs pytest
    assert all(getattr(mvsboost, name) is not None for name in listed)


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="'mvsboost' has no attribute 'forests'"):
        _ = mvsboost.forests
