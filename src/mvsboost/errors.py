"""Errors that name the parameter, the value seen and the fix."""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "StoreError",
    "ConvergenceStop",
    "DataError",
    "ModelFormatError",
    "MVSBoostError",
    "ObjectiveError",
    "ParameterError",
    "SchemaError",
    "UnknownParameterError",
]


class MVSBoostError(Exception):
    """Base of every error the library raises on purpose."""


class ParameterError(MVSBoostError, ValueError):
    """A parameter has a value outside what is allowed.

    Parameters
    ----------
    parameter : str
        Name as the user typed it.
    value : object
        The value seen.
    allowed : str
        What is allowed, as a phrase that completes "must be ...".

    Examples
    --------
    >>> raise ParameterError("rate", 1.5, "in (0, 1]")
    Traceback (most recent call last):
        ...
    mvsboost.errors.ParameterError: rate must be in (0, 1], got 1.5
    """

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        super().__init__(f"{parameter} must be {allowed}, got {value!r}")
        self.parameter = parameter
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str]]:
        return type(self), (self.parameter, self.value, self.allowed)


class UnknownParameterError(MVSBoostError, TypeError):
    """An argument has a name that the method does not know."""


class DataError(MVSBoostError, ValueError):
    """The data handed in cannot be trained on or predicted from."""


class SchemaError(DataError):
    """Columns at prediction differ from the columns seen in training."""


class ObjectiveError(MVSBoostError, ValueError):
    """An objective returned gradients of a wrong shape, not finite, or a negative hessian."""


class ModelFormatError(MVSBoostError, ValueError):
    """A model file is not one of ours, is damaged, or is of a newer format version."""


class ClusterError(MVSBoostError, RuntimeError):
    """Workers of a cluster do not answer, or there are none."""


class StoreError(MVSBoostError, RuntimeError):
    """Binned rows on disk are not there, damaged, or others."""


class ConvergenceStop(MVSBoostError):
    """All gradients vanish: the model is at its optimum and no tree can improve it."""
