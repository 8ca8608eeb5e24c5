"""Models: trees, bins and schema; prediction and files."""

from mvsboost.model.model import Model

__all__ = ["Model"]
