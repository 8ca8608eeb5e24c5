"""What tests of the CUDA backend share."""

import sys

import pytest


@pytest.fixture
def often_switched():
    """The simulator looks at its threads without a pause; so they have their turn sooner."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)
