"""Errors say what was wrong, and survive a journey between processes."""

from __future__ import annotations

import pickle

import pytest

from mvsboost import errors


def test_parameter_error_names_parameter_value_and_remedy():
    error = errors.ParameterError("rate", "lots", "in (0, 1]")
    assert str(error) == "rate must be in (0, 1], got 'lots'"
    assert (error.parameter, error.value, error.allowed) == ("rate", "lots", "in (0, 1]")


def test_parameter_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(errors.ParameterError("rate", 2, "in (0, 1]")))
    assert isinstance(error, errors.ParameterError)
    assert error.value == 2
    assert str(error) == "rate must be in (0, 1], got 2"


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_the_common_base(name):
    assert issubclass(getattr(errors, name), errors.MVSBoostError)


@pytest.mark.parametrize(
    "name", ["DataError", "ModelFormatError", "ObjectiveError", "ParameterError", "SchemaError"]
)
def test_wrong_input_is_a_value_error(name):
    assert issubclass(getattr(errors, name), ValueError)


def test_convergence_is_no_value_error():
    assert not issubclass(errors.ConvergenceStop, ValueError)
