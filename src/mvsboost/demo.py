"""The demo: samplers compared on the Adult data, as a table, a figure and a page."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from os import PathLike
from pathlib import Path

import numpy as np

from mvsboost.boosting import TrainConfig, train
from mvsboost.data import Dataset
from mvsboost.datasets import load_adult
from mvsboost.errors import ParameterError
from mvsboost.objectives import Logistic
from mvsboost.plots import plot_error_by_rate, to_png
from mvsboost.report import Code, Picture, Section, Table, Text, environment, write_page
from mvsboost.runtime.threads import available_cores
from mvsboost.sampling import GOSS, MVS, SGB, NoSampling, Sampler
from mvsboost.trees import TreeParams

__all__ = ["METHODS", "Demo", "DemoResult", "Method", "Record", "format_table"]

LEARNING_RATE = 0.1
SECOND_LOOK = 4
FIXED_LAMBDA = 0.1


@dataclass(frozen=True)
class Method:
    """A way to choose rows.

    Attributes
    ----------
    name : str
    sampler : callable
        From a rate to a sampler.
    second_look : int
        Features that the sample proposes for all rows to decide on; 0 for none.
    """

    name: str
    sampler: Callable[[float], Sampler]
    second_look: int = 0


NO_SAMPLING = Method("no sampling", lambda rate: NoSampling())

METHODS = (
    Method("SGB", SGB),
    Method("GOSS", lambda rate: GOSS(top_rate=rate / 2, other_rate=rate / 2)),
    Method(f"MVS, λ = {FIXED_LAMBDA:g}", lambda rate: MVS(rate, FIXED_LAMBDA)),
    Method("adaptive MVS", lambda rate: MVS(rate, "leaf")),
    Method(
        f"adaptive MVS, second look {SECOND_LOOK}",
        lambda rate: MVS(rate, "leaf"),
        second_look=SECOND_LOOK,
    ),
)
"""What is compared with no sampling, in the order of the table."""


@dataclass(frozen=True)
class Record:
    """One line of the table; means over the seeds.

    Attributes
    ----------
    method : str
    rate : float
        Share of rows asked for.
    error : float
        1 − AUC on the test rows.
    change : float
        Change of `error` against no sampling, in %.
    log_loss : float
        On the test rows.
    rows : float
        Rows drawn for a tree, mean over iterations.
    milliseconds : float
        Training time of an iteration.
    """

    method: str
    rate: float
    error: float
    change: float
    log_loss: float
    rows: float
    milliseconds: float


@dataclass(frozen=True)
class DemoResult:
    """Where the results lie, and what they are."""

    records: list[Record]
    table: Path
    figure: Path
    page: Path


@dataclass(frozen=True)
class Demo:
    """A comparison of samplers on Adult.

    Attributes
    ----------
    n_trees : int
    rates : sequence of float
        Sample rates, each in (0, 1).
    n_seeds : int
        Fits whose mean each line of the table is.
    n_rows : int or None
        Take only so many rows of the training and of the test part.
    progress : bool
        Show a progress bar.
    """

    n_trees: int = 100
    rates: Sequence[float] = (0.05, 0.1, 0.2, 0.4)
    n_seeds: int = 2
    n_rows: int | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("n_trees", "n_seeds"):
            if getattr(self, name) < 1:
                raise ParameterError(name, getattr(self, name), "an integer >= 1")
        if not self.rates:
            raise ParameterError("rates", self.rates, "at least one number in (0, 1)")
        for rate in self.rates:
            if not 0 < rate < 1:
                raise ParameterError("rates", rate, "numbers in (0, 1)")

    def run(self, out: str | PathLike[str], command: str = "mvsboost demo") -> DemoResult:
        """Fit every method at every rate; write `table.csv`, `figure.png` and `index.html`.

        Parameters
        ----------
        out : path
            Folder for the results; it is made if it does not exist.
        command : str
            Shown on the page as what made it.
        """
        _need_matplotlib()
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        records = self.compare()
        result = DemoResult(
            records, folder / "table.csv", folder / "figure.png", folder / "index.html"
        )
        result.table.write_text(_as_csv(records), encoding="utf-8")
        result.figure.write_bytes(to_png(plot_error_by_rate(asdict(record) for record in records)))
        write_page(result.page, "Choosing rows for gradient boosting", self._page(result, command))
        return result

    # --- fitting --------------------------------------------------------------------------------

    def compare(self) -> list[Record]:
        """The records of all methods and rates, no sampling first."""
        training, test = _load(self.n_rows)
        settings = [(NO_SAMPLING, 1.0)]
        settings += [(method, rate) for rate in sorted(self.rates) for method in METHODS]
        records: list[Record] = []
        with self._bar(len(settings) * self.n_seeds) as advance:
            advance("compiling", 0)
            self._compile(training)
            for method, rate in settings:
                fits = []
                for seed in range(self.n_seeds):
                    advance(f"{method.name}, rate {rate:g}", 0)
                    fits.append(self._fit(method, rate, seed, training, test))
                    advance("", 1)
                baseline = records[0].error if records else math.nan
                records.append(_mean_record(method, rate, fits, baseline))
        return records

    def _compile(self, training: Dataset) -> None:
        """Short fits, so that no measured time holds compilation."""
        for method in (NO_SAMPLING, *METHODS):
            train(training, _config(method, 0.5, n_trees=1, seed=0))

    def _fit(
        self, method: Method, rate: float, seed: int, training: Dataset, test: Dataset
    ) -> tuple[float, float, float, float]:
        """Error, log loss, rows a tree and milliseconds an iteration of one fit."""
        from sklearn.metrics import log_loss, roc_auc_score

        start = time.perf_counter()
        result = train(training, _config(method, rate, self.n_trees, seed))
        seconds = time.perf_counter() - start
        scores = result.model.raw_scores(test.rows.bins, n_threads=available_cores())
        probability = result.model.objective.link.inverse(scores)[0]
        history = result.sampling_history
        return (
            1.0 - float(roc_auc_score(test.rows.target, scores[0])),
            float(log_loss(test.rows.target, probability)),
            sum(record["rows"] for record in history) / len(history),
            1000.0 * seconds / len(history),
        )

    @contextmanager
    def _bar(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """A function that names the fit under way, or moves the bar on."""
        if not self.progress:
            yield lambda name, steps: None
            return
        try:
            from tqdm import tqdm
        except ImportError as error:
            raise ImportError("the progress bar needs tqdm: pip install mvsboost[demo]") from error
        with tqdm(total=total, unit="fit", mininterval=0.5) as bar:

            def advance(name: str, steps: int) -> None:
                if name:
                    bar.set_description(f"{name:<38}")
                bar.update(steps)

            yield advance

    # --- the page -------------------------------------------------------------------------------

    def _page(self, result: DemoResult, command: str) -> list[Section]:
        picture = Picture(
            result.figure.read_bytes(),
            "Change of 1 − AUC against the sample rate, one line for each method",
            "Lower is better; the dashed line is training on all rows.",
        )
        table = _cells(result.records)
        versions = "\n".join(f"{name:<14}{value}" for name, value in environment().items())
        return [
            Section("What is shown", [Text(text) for text in self._explanation()]),
            Section("Error by sample rate", [picture]),
            Section("All results", [Table(table[0], table[1:])]),
            Section("Made by", [Code(command), Code(versions)]),
        ]

    def _explanation(self) -> list[str]:
        size = "" if self.n_rows is None else f" The first {self.n_rows:,} rows of each were used."
        seeds = "one seed" if self.n_seeds == 1 else f"the mean of {self.n_seeds} seeds"
        return [
            "Gradient boosting spends its time on building trees, and a tree can be built from a "
            "sample of the rows. This page compares ways to choose the sample on Adult (Census "
            "Income, UCI; Becker and Kohavi, 1996; CC BY 4.0): who earns more than 50,000 "
            "dollars a year? Training used the 32,561 rows that the data set names for it, the "
            f"error is 1 − AUC on its 16,281 test rows.{size}",
            "SGB draws rows uniformly. GOSS keeps the largest gradients (half of the rate) and "
            "draws the rest uniformly. MVS draws each row with a probability in proportion to "
            "sqrt(g² + λh²), which minimises a bound on the variance of split scores; adaptive "
            "MVS sets λ anew in each iteration from the last tree's leaves. With a second look "
            f"the sample only proposes {SECOND_LOOK} features at each node, and all rows decide "
            "among them.",
            f"Every fit has {self.n_trees} trees of at most {TreeParams().max_leaves} leaves and "
            f"learning rate {LEARNING_RATE:g}, and its leaf values come from all rows, so that "
            f"the methods differ in the choice of splits only. Numbers are {seeds}; at small "
            "rates another seed moves a single fit by up to three points, and --seeds averages "
            "over more of them. Times are of this machine, binning not included.",
        ]


# --- small parts --------------------------------------------------------------------------------


def _need_matplotlib() -> None:
    """Fail now rather than after all fits."""
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError("the figure needs matplotlib: pip install mvsboost[demo]") from error


def _load(n_rows: int | None) -> tuple[Dataset, Dataset]:
    """Training and test part of Adult, binned once for all fits."""
    adult = load_adult()
    parts = [np.flatnonzero(adult.part == part)[:n_rows] for part in ("train", "test")]
    tables = [
        ({name: values[rows] for name, values in adult.data.items()}, adult.target[rows])
        for rows in parts
    ]
    threads = available_cores()
    training = Dataset.from_data(*tables[0], n_classes=2, n_threads=threads)
    test = Dataset.from_data(
        *tables[1],
        n_classes=2,
        mapper=training.mapper,
        schema=training.schema,
        n_threads=threads,
    )
    return training, test


def _config(method: Method, rate: float, n_trees: int, seed: int) -> TrainConfig:
    return TrainConfig(
        objective=Logistic(),
        sampler=method.sampler(rate),
        n_estimators=n_trees,
        learning_rate=LEARNING_RATE,
        tree=TreeParams(second_look=method.second_look),
        seed=seed,
        n_threads=available_cores(),
    )


def _mean_record(
    method: Method, rate: float, fits: Sequence[tuple[float, ...]], baseline: float
) -> Record:
    error, log_loss, rows, milliseconds = np.mean(fits, axis=0).tolist()
    change = 0.0 if math.isnan(baseline) else 100.0 * (error / baseline - 1.0)
    return Record(method.name, rate, error, change, log_loss, rows, milliseconds)


def _as_csv(records: Iterable[Record]) -> str:
    names = [field.name for field in fields(Record)]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(record) for record in records)
    return buffer.getvalue()


def _cells(records: Iterable[Record]) -> list[list[str]]:
    """The table as text, its header first."""
    header = ["method", "rate", "1 − AUC", "change", "log loss", "rows a tree", "ms an iteration"]
    return [header] + [
        [
            record.method,
            f"{record.rate:g}",
            f"{record.error:.5f}",
            f"{record.change:+.2f}%",
            f"{record.log_loss:.5f}",
            f"{record.rows:,.0f}",
            f"{record.milliseconds:.1f}",
        ]
        for record in records
    ]


def format_table(records: Iterable[Record]) -> str:
    """The records as lines of text, columns aligned.

    Examples
    --------
    >>> print(format_table([Record("SGB", 0.1, 0.08, 5.0, 0.3, 3256.0, 12.0)]))
    method  rate  1 − AUC  change  log loss  rows a tree  ms an iteration
    SGB      0.1  0.08000  +5.00%   0.30000        3,256             12.0
    """
    cells = _cells(records)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
