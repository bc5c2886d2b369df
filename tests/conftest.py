"""For every test: Ctrl-C means Ctrl-C, even where the suite runs in the background and SIGINT is ignored.

And for all of them together one wheel, one node and one browser: starting each costs seconds, and Playwright does not
start twice in one thread. They stand here, and not in tests/browser, because tests/parity needs the same ones: a
fixture that is imported into a second conftest is a second fixture.

A free-threaded Python says on stderr that our extension has it take the GIL. Programs that tests run have it from
the start, or what they say would have to be told from that.
"""

import gc
import os
import signal
import sysconfig

import pytest
from browser.harness import Browser, Chromium, Kit, Node, need
from support.kernel import kernel_in_use
from support.virtual_run import Run

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    os.environ.setdefault("PYTHON_GIL", "1")


def pytest_report_header():
    """Which law these tests are about: `make test` runs them on both."""
    return f"bursar: {kernel_in_use()} kernel"


def pytest_collection_finish():
    """What is there before the first test stays: no collection that a test asks for has to look at it.

    pytest, the tests and all that they import are half a million objects, and a look at each takes half a second.
    """
    gc.collect()
    gc.freeze()


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


@pytest.fixture
def run():
    return Run()
