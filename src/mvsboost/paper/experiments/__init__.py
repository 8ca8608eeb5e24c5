"""The experiments by name, in the order of the report; each is a module of its own."""

from mvsboost.paper.experiments.ablation import ABLATION
from mvsboost.paper.experiments.fewer_trees import FEWER_TREES
from mvsboost.paper.experiments.folds import FOLDS
from mvsboost.paper.experiments.hosts import HOSTS
from mvsboost.paper.experiments.large import LARGE
from mvsboost.paper.experiments.learning_time import LEARNING_TIME
from mvsboost.paper.experiments.pace import PACE
from mvsboost.paper.experiments.preparation import PREPARATION
from mvsboost.paper.experiments.quality import QUALITY
from mvsboost.paper.experiments.rates import RATES
from mvsboost.paper.experiments.splits import SPLITS
from mvsboost.paper.experiments.suite import SUITE
from mvsboost.paper.experiments.theory import THEORY
from mvsboost.paper.plan import Experiment

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
