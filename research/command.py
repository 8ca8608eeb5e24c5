"""What ``python -m research`` does: run what is missing, then write the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from mvsboost.errors import DataError, ParameterError
from mvsboost.report import environment
from research.experiments import EXPERIMENTS
from research.pages import write_results
from research.plan import SIZES, Plan
from research.runner import check_jobs, run_cells
from research.sets import SETS
from research.store import Store

__all__ = ["among", "run_paper"]

_PACKAGES = ("scipy", "lightgbm", "catboost", "xgboost")
_MOST_TOLD = 5


def run_paper(
    *,
    size: str = "quick",
    experiments: Sequence[str] | None = None,
    sets: Sequence[str] | None = None,
    jobs: int = 1,
    data: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "paper-results",
    command: str = "python -m research",
    progress: bool = True,
) -> list[Path]:
    """Run the experiments of the paper and write the report; returns the files written.

    Parameters
    ----------
    size : {"quick", "standard", "full"}
    experiments : sequence of str, optional
        Names out of `EXPERIMENTS`; those of the size by default.
    sets : sequence of str, optional
        Names out of `SETS`; those of the size by default.
    jobs : int
        Processes.
    data : path, optional
        Folder of the data; that of the environment variable MVSBOOST_DATA by default.
    out : path
        Folder for results. Cells that it has already are not run again.
    command : str
        Shown in the report as what made it.
    progress : bool
        Show a bar with the time left.
    """
    if size not in SIZES:
        raise ParameterError("size", size, f"one of {', '.join(SIZES)}")
    names = among("only", experiments or SIZES[size].experiments or None, EXPERIMENTS)
    chosen = among("datasets", sets, SETS) if sets else list(SIZES[size].sets)
    check_jobs(jobs)
    folder = None if data is None else Path(data)
    with Store(out) as store:
        plan = Plan(SIZES[size], chosen, store, folder)
        given_up = run_cells(plan, names, jobs=jobs, progress=progress)
        facts = (f"{name} {value}" for name, value in environment(*_PACKAGES).items())
        made_by = f"{command}  # {', '.join(facts)}"
        again = shlex.join(["python", "-m", "research", "--size", size, *_datasets(sets)])
        planned = [name for name in names if name not in given_up]
        written = write_results(plan, planned, Path(out), again, made_by)
    _tell(given_up, written)
    return written


def _tell(given_up: Mapping[str, DataError | ImportError], written: Sequence[Path]) -> None:
    """Raise an error that says what was not there, once each, and what is written all the same."""
    if not given_up:
        return
    reasons = {str(error): type(error) for error in given_up.values()}
    kind = DataError if DataError in reasons.values() else ImportError
    told = "; ".join([*list(reasons)[:_MOST_TOLD], *["..."] * (len(reasons) > _MOST_TOLD)])
    raise kind(f"{told}. All else is done, see {written[0]}")


def _datasets(sets: Sequence[str] | None) -> list[str]:
    return ["--datasets", *sets] if sets else []


def among(parameter: str, given: Sequence[str] | None, known: Mapping[str, object]) -> list[str]:
    """The known names that were given, or all of them; another one is an error."""
    for name in given or ():
        if name not in known:
            raise ParameterError(parameter, name, f"among {', '.join(known)}")
    return [name for name in known if given is None or name in given]
