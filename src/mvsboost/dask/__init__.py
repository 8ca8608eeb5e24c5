"""Training on a Dask cluster: the model of one machine, byte for byte, on any number of them."""

try:
    import dask  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:  # pragma: no cover - tests have both
    raise ImportError(
        "mvsboost.dask needs dask and distributed: pip install 'mvsboost[dask]'"
    ) from error

from mvsboost.dask.estimators import DaskMVSClassifier, DaskMVSRegressor

__all__ = ["DaskMVSClassifier", "DaskMVSRegressor"]
