"""One node and one browser for all tests of this folder, with the folder itself inside (see tests/browser)."""

import pytest
from browser.conftest import browser, chromium, kit, node  # noqa: F401 (fixtures)
from parity.compare import carry


@pytest.fixture(scope="session")
def inside_node(node):  # noqa: F811
    carry(node)
    return node


@pytest.fixture(scope="session")
def inside_chromium(chromium):  # noqa: F811
    carry(chromium)
    return chromium
