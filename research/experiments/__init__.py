"""The experiments by name, in the order of the report; each is a module of its own."""

from research.experiments.ablation import ABLATION
from research.experiments.fewer_trees import FEWER_TREES
from research.experiments.folds import FOLDS
from research.experiments.hosts import HOSTS
from research.experiments.large import LARGE
from research.experiments.learning_time import LEARNING_TIME
from research.experiments.pace import PACE
from research.experiments.preparation import PREPARATION
from research.experiments.quality import QUALITY
from research.experiments.rates import RATES
from research.experiments.splits import SPLITS
from research.experiments.suite import SUITE
from research.experiments.theory import THEORY
from research.plan import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    "preparation": PREPARATION,
    "quality": QUALITY,
    "rates": RATES,
    "pace": PACE,
    "splits": SPLITS,
    "folds": FOLDS,
    "time": LEARNING_TIME,
    "trees": FEWER_TREES,
    "large": LARGE,
    "suite": SUITE,
    "theory": THEORY,
    "hosts": HOSTS,
    "ablation": ABLATION,
}
