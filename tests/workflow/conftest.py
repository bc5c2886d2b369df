"""What the tests of workflows share."""

import pytest
from support.workflow import Journal

from bursar.workflow import Workflow


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A separate state folder for each test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "bursar"


@pytest.fixture
def chain():
    """The workflow a → b → c, and d alone. The arguments of each task can be changed."""

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
    """The path of a journal that does not exist yet."""
    return tmp_path / "run.journal"


@pytest.fixture
def journal(path, chain):
    """A new journal of `chain`, in its first session."""
    with Journal.create(path, chain()) as journal:
        journal.begin(chain())
        yield journal
