"""Data: from tables to binned rows."""

from mvsboost.data.binning import BinFeature, BinMapper, find_edges
from mvsboost.data.columns import (
    MISSING,
    UNSEEN,
    CategoricalColumn,
    Columns,
    ColumnTypeError,
    NumericColumn,
)
from mvsboost.data.dataset import Dataset, check_init_score, check_weight
from mvsboost.data.ingest import ingest
from mvsboost.data.schema import Feature, Schema
from mvsboost.data.target_statistics import TargetStatistics, row_order, target_columns
from mvsboost.data.targets import check_lengths

__all__ = [
    "MISSING",
    "UNSEEN",
    "BinFeature",
    "BinMapper",
    "CategoricalColumn",
    "ColumnTypeError",
    "Columns",
    "Dataset",
    "Feature",
    "NumericColumn",
    "Schema",
    "TargetStatistics",
    "check_init_score",
    "check_lengths",
    "check_weight",
    "find_edges",
    "ingest",
    "row_order",
    "target_columns",
]
