"""What the rounding of very large data costs, on data of ordinary size.

    python benchmarks/rounding.py [--seeds 5] [--sets Adult "IEEE fraud"]

The more rows a tree sums, the fewer levels each row's gradient and hessian keep
(`mvsboost.exact.fixedpoint`). Here rows are packed as coarsely as if there were many more of them.
That is harder than really having them: the noise of rounding averages out over the rows of a
node, and these nodes have few.

Prints Markdown tables, a column for each pretended number of rows: differences of the test AUC
and log loss to the same fit packed for its real number of rows, as mean and standard deviation
over seeds; and of the splits of the trees that the same scores give under both packings, the
share that is the same, among nodes that hold the same rows and are split under both. Sets from
the folder MVSBOOST_DATA are left out where they are not there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any
from unittest.mock import patch

import numpy as np
from cases import Data, adult, ieee_fraud, synthetic
from sklearn.metrics import log_loss, roc_auc_score
from table import rows_of

from mvsboost import MVS
from mvsboost.backends.cpu import CPUBackend
from mvsboost.boosting import TrainConfig, train
from mvsboost.data import Dataset
from mvsboost.errors import DataError
from mvsboost.exact import fixedpoint
from mvsboost.exact.fixedpoint import Packing
from mvsboost.objectives import Logistic
from mvsboost.sampling import make_sampler
from mvsboost.trees import TreeParams

PRETENDED = {"10M": 10**7, **{f"2**{power}": 2**power for power in (26, 27, 28, 29, 30)}}
SETTINGS: dict[str, tuple[Any, int]] = {
    "no sampling": ("none", 0),
    "MVS 0.3": (MVS(rate=0.3), 0),
    "MVS 0.3, second look 4": (MVS(rate=0.3), 4),
}
TREES, LEAVES, COMPARED = 30, 31, 5  # of every fifth iteration both trees are grown


@dataclass
class Prepared:
    """Binned rows, and what is needed to judge a model of them."""

    rows: Dataset
    bins: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, data: Data, weight: np.ndarray | None = None) -> Prepared:
        rows = Dataset.from_data(data.X, data.y, n_classes=2, weight=weight)
        test = Dataset.from_data(data.X_test, data.y_test, mapper=rows.mapper, schema=rows.schema)
        return cls(rows, test.rows.bins, data.y_test)

    def judge(self, model: Any) -> tuple[float, float]:
        p = 1 / (1 + np.exp(-model.raw_scores(self.bins)[0]))
        return roc_auc_score(self.y_test, p), log_loss(self.y_test, p)


def fraud_part() -> Prepared:
    """Some rows of IEEE fraud: 3.5% are positive, so that few gradients are near the largest."""
    data, n = ieee_fraud(), 60_000
    return Prepared.of(Data(data.X[:n], data.y[:n], data.X_test, data.y_test))


def skewed() -> Prepared:
    """Synthetic rows of weights between 0.04 and 25, of which most are small."""
    weight = np.exp(np.clip(np.random.default_rng(0).normal(size=200_000), -3.2, 3.2))
    return Prepared.of(synthetic(200_000, n_features=10), weight)


SETS: dict[str, Callable[[], Prepared]] = {
    "Adult": lambda: Prepared.of(adult()),
    "IEEE fraud": fraud_part,
    "synthetic, weighted": skewed,
}


@contextmanager
def packed_by(choose: Callable[..., Packing]) -> Iterator[None]:
    """Let trees be packed by another function, for more rows than are allowed."""
    most = patch.object(fixedpoint, "MAX_ROWS", 2**31 - 1)
    with most, patch.object(Packing, "choose", choose):
        yield


@dataclass
class Agreement:
    """Of the nodes that two trees split alike or not, how many of each, the root apart."""

    roots: list[bool] = field(default_factory=list)
    others: list[bool] = field(default_factory=list)

    def note(self, one: Any, other: Any) -> None:
        below = [(0, 0)]
        while below:
            a, b = below.pop()
            if one.feature[a] < 0 or other.feature[b] < 0:
                continue
            same = one.feature[a] == other.feature[b]
            same = bool(same and np.array_equal(one.goes_left[a], other.goes_left[b]))
            (self.others if a else self.roots).append(same)
            if same:
                below += [(one.left[a], other.left[b]), (one.right[a], other.right[b])]

    def __str__(self) -> str:
        shares = [f"{100 * mean(same):.0f}" if same else "–" for same in (self.roots, self.others)]
        return " / ".join(shares)


class BothWays(CPUBackend):
    """Grows some trees under every pretended packing as well, and notes where they agree."""

    maxima: list[tuple[float, ...]]
    agreement: dict[str, Agreement]
    n_trees = 0

    def begin_tree(self, output: int, key: Any, sample: Packing, all_rows: Any) -> None:
        self.begun = output, key
        super().begin_tree(output, key, sample, all_rows)

    def grow_whole_tree(self, request: Any) -> Any:
        maxima, self.n_trees = self.maxima[-2 if request.all_rows else -1 :], self.n_trees + 1
        others = {}
        for name, n_rows in PRETENDED.items() if self.n_trees % COMPARED == 0 else ():
            coarse = [CHOOSE(n_rows, *largest) for largest in maxima]
            packings = coarse if request.all_rows else [*coarse, None]
            super().begin_tree(*self.begun, *packings)
            grown = super().grow_whole_tree(
                request._replace(sample=packings[0], all_rows=packings[1])
            )
            others[name] = grown._replace(goes_left=grown.goes_left.copy())
        super().begin_tree(*self.begun, request.sample, request.all_rows)
        nodes = super().grow_whole_tree(request)
        for name, grown in others.items():
            self.agreement[name].note(nodes, grown)
        return nodes


CHOOSE = Packing.choose


def run(prepared: Prepared, setting: str, seeds: int) -> dict[str, tuple[str, str, str]]:
    """For each pretended number of rows the difference of AUC and log loss, and the agreement."""
    sampler, look = SETTINGS[setting]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PRETENDED}
    agreement = {name: Agreement() for name in PRETENDED}
    exact = []
    for seed in range(seeds):
        config = TrainConfig(
            Logistic(),
            make_sampler(sampler),
            n_estimators=TREES,
            tree=TreeParams(max_leaves=LEAVES, second_look=look),
            seed=seed,
        )
        maxima: list[tuple[float, ...]] = []

        def noting(n_rows: int, *largest: float, maxima: Any = maxima) -> Packing:
            maxima.append(largest)
            return CHOOSE(n_rows, *largest)

        def both_ways(rows: Any, objective: Any, maxima: Any = maxima) -> BothWays:
            backend = BothWays(rows, objective)
            backend.maxima, backend.agreement = maxima, agreement
            return backend

        with packed_by(noting):
            model = train(prepared.rows, config, backend=both_ways).model
        exact.append(prepared.judge(model))
        for name, n_rows in PRETENDED.items():
            with packed_by(lambda _, *largest, n=n_rows: CHOOSE(n, *largest)):
                model = train(prepared.rows, config).model
            found[name].append(prepared.judge(model))
    result = {"real": (_mean(exact, 0), _mean(exact, 1), "")}
    for name, values in found.items():
        auc, loss = (
            _spread([own[k] - other[k] for own, other in zip(values, exact, strict=True)])
            for k in range(2)
        )
        result[name] = auc, loss, str(agreement[name])
    return result


def _mean(values: list[tuple[float, float]], which: int) -> str:
    own = [value[which] for value in values]
    return f"{mean(own):.4f} ± {stdev(own):.4f}"


def _spread(differences: list[float]) -> str:
    scaled = [1e4 * value for value in differences]
    return f"{mean(scaled):+.1f} ± {stdev(scaled):.1f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    arguments = parser.parse_args()
    print("Levels of the largest gradient, hessian and weight:\n")
    with packed_by(CHOOSE):
        levels = [CHOOSE(n, 1.0, 1.0, 1.0).scales() for n in PRETENDED.values()]
    print(rows_of(["", *PRETENDED], [["", *(" / ".join(f"{x:.0f}" for x in s) for s in levels)]]))
    tables: list[list[list[str]]] = [[], [], []]
    for name in arguments.sets:
        try:
            prepared = SETS[name]()
        except (DataError, FileNotFoundError) as error:
            print(f"{name} is left out: {error}")
            continue
        for setting in SETTINGS:
            found = run(prepared, setting, arguments.seeds)
            for which, table in enumerate(tables):
                table.append([f"{name}, {setting}", *(cells[which] for cells in found.values())])
    titles = ("Test AUC, differences in 1e-4", "Test log loss, differences in 1e-4")
    for title, table in zip(titles, tables, strict=False):
        print(f"\n{title}:\n\n{rows_of(['', 'real number', *PRETENDED], table)}")
    print("\nThe same split, % of roots / % of other nodes:\n")
    print(rows_of(["", *PRETENDED], [[row[0], *row[2:]] for row in tables[2]]))


if __name__ == "__main__":
    main()
