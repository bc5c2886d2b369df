"""Node and Chromium with this folder itself inside (see tests/browser)."""

import pytest
from parity.compare import carry


@pytest.fixture(scope="session")
def inside_node(node):
    carry(node)
    return node


@pytest.fixture(scope="session")
def inside_chromium(chromium):
    carry(chromium)
    return chromium
