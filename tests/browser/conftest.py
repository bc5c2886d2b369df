"""One wheel, one node and one browser for all tests of a session: starting each costs seconds."""

import pytest
from browser.harness import Browser, Chromium, Kit, Node, need


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    need("pyodide")
    return Kit(tmp_path_factory.mktemp("kit"))


@pytest.fixture(scope="session")
def node(request):
    need("node", "pyodide")
    with Node(request.getfixturevalue("kit")) as backend:
        yield backend


@pytest.fixture(scope="session")
def browser():
    need("playwright", "chromium")
    with Browser() as backend:
        yield backend


@pytest.fixture(scope="session")
def chromium(request, browser):
    with Chromium(request.getfixturevalue("kit"), browser) as backend:
        yield backend
