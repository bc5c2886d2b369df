"""The law is tested on the kernel in use, whichever that is: `bursar.backend` names its classes.

Some files test pure functions of the law on records that they make by hand (lanes, steal, timers, the tables of states
and wakes, the invariants that damage is found by). In C only a kernel makes records, so these import the law in Python
by its own name and run on it always; the same functions in C have tests of their own, in tests/native.
"""

import pytest
from support.kernel import NATIVE


@pytest.fixture
def python_law():
    """For a test that looks inside the law in Python: its queues, its streams, its private methods. C has others."""
    if NATIVE:
        pytest.skip("looks inside the kernel in Python; the native one is in use")
