"""Run the cells that are missing, in as many processes as asked for.

Cells that measure time run alone, in this process, after the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from mvsboost.paper.engines import fit_and_judge
from mvsboost.paper.experiments import EXPERIMENTS
from mvsboost.paper.levels import boost_by_levels
from mvsboost.paper.plan import Cell, Plan
from mvsboost.paper.race import race
from mvsboost.paper.store import key_of, made_by
from mvsboost.paper.theory import judge_samplers

__all__ = ["missing_cells", "run_cells"]

KINDS: dict[str, Callable[[Cell, Path | None], dict[str, Any]]] = {
    "fit": fit_and_judge,
    "race": race,
    "theory": judge_samplers,
    "levels": boost_by_levels,
}
"""What is done with a cell, by its ``kind``, which is ``"fit"`` where none is named."""


def missing_cells(plan: Plan, experiments: Iterable[str]) -> list[Cell]:
    """Cells that can be done now and are not, each once."""
    cells: dict[str, Cell] = {}
    for name in experiments:
        for cell in EXPERIMENTS[name].cells(plan):
            if plan.store.get(cell) is None:
                cells.setdefault(key_of(cell), cell)
    return list(cells.values())


def run_cells(
    plan: Plan, experiments: Iterable[str], *, jobs: int = 1, progress: bool = True
) -> int:
    """Do all that is missing, what depends on other cells after them; returns how many.

    Parameters
    ----------
    plan : Plan
        Its store must be open for writing: results are kept as they come.
    experiments : iterable of str
    jobs : int
        Processes; each trains with one thread.
    progress : bool
        Show a bar with the time left.
    """
    names, done = list(experiments), 0
    with _workers(jobs) as submit, _bar(progress) as show:
        while cells := missing_cells(plan, names):
            show(0, len(cells))
            shared = sorted((cell for cell in cells if not cell.get("alone")), key=_rows_of)
            results = (
                _results(submit, shared, plan.folder, ahead=jobs + (jobs > 1))
                if shared
                else _results(_at_once, cells, plan.folder, ahead=1)
            )
            for cell, result, seconds in results:
                plan.store.put(cell, result, took=round(seconds, 3), made_by=made_by(cell))
                done += 1
                show(1, 0)
            show(0, len(shared) - len(cells) if shared else 0)  # they are counted again
    return done


def _rows_of(cell: Cell) -> tuple[str, str, int]:
    """Cells of the same rows come together, so that these are read and binned once."""
    return cell["set"], cell.get("view", ""), cell.get("fold", -1)


def _timed(cell: Cell, folder: Path | None) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    return KINDS[cell.get("kind", "fit")](cell, folder), time.perf_counter() - start


Submit = Callable[..., "Future[Any]"]


@contextmanager
def _workers(jobs: int) -> Iterator[Submit]:
    """How work is handed over: here and now, or to processes of their own."""
    if jobs == 1:
        yield _at_once
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.submit
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _at_once(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _results(
    submit: Submit, cells: list[Cell], folder: Path | None, ahead: int
) -> Iterator[tuple[Cell, dict[str, Any], float]]:
    """Results as they come; only a few cells are handed over ahead."""
    waiting: dict[Future[Any], Cell] = {}
    todo = iter(cells)
    while True:
        for cell in islice(todo, ahead - len(waiting)):
            waiting[submit(_timed, cell, folder)] = cell
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            cell = waiting.pop(future)
            result, seconds = future.result()
            yield cell, result, seconds


@contextmanager
def _bar(progress: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that moves the bar on, or makes it longer."""
    if not progress:
        yield lambda steps, more: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("the progress bar needs tqdm: pip install mvsboost[paper]") from error
    with tqdm(total=0, unit="cell", mininterval=0.5, smoothing=0.05) as bar:

        def show(steps: int, more: int) -> None:
            bar.total = (bar.total or 0) + more
            bar.update(steps)
            bar.refresh()

        yield show
