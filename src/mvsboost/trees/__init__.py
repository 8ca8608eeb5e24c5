"""Trees: their form, how splits are chosen, how they grow, and where leaf values come from."""

from mvsboost.trees.grower import FeatureTable, GrownTree, TreeParams, grow_tree
from mvsboost.trees.tree import Tree

__all__ = ["FeatureTable", "GrownTree", "Tree", "TreeParams", "grow_tree"]
