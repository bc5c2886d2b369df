"""For tests that meter memory: not every interpreter can."""

import pytest


def require_meter():
    """Skip the test where the meter refuses to work."""
    native = pytest.importorskip("bursar._native", reason="this build has no native extension")
    try:
        native.MemoryAccountSet(lambda _: None).close()
    except RuntimeError as refusal:
        pytest.skip(f"memory is not metered here: {refusal}")
