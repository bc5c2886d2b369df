"""What the tests of workflows share."""

import pytest
from support.workflow import Journal

from bursar.workflow import Workflow


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "bursar"


@pytest.fixture
def chain():
    """a → b → c, and d by itself; `args` of each can be changed."""

    def make(**args):
        w = Workflow("chain")
        w.task("a", "json:dumps", args=[args.get("a", 0)])
        w.task("b", "json:dumps", args=["${a}", args.get("b", 0)], after=["a"])
        w.task("c", "json:dumps", args=[args.get("c", 0)], after=["b"])
        w.task("d", "json:dumps", args=[args.get("d", 0)])
        return w

    return make


@pytest.fixture
def path(tmp_path):
    """Where a journal may be."""
    return tmp_path / "run.journal"


@pytest.fixture
def journal(path, chain):
    """A new one of `chain`, in its first session."""
    with Journal.create(path, chain()) as journal:
        journal.begin(chain())
        yield journal
