"""Native functions that pause: a busy machine may take long."""

import pytest
from support.time_limits import PAUSE_MS


@pytest.fixture(autouse=True)
def pause_patience(monkeypatch):
    monkeypatch.setenv("BURSAR_PAUSE_MS", PAUSE_MS)
