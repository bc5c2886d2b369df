"""Where journals are, and how a run is found."""

from pathlib import Path

import pytest
from support.workflow import Journal, keep, lock_of

from bursar import JournalError
from bursar.workflow import Workflow, store


@pytest.fixture
def run(tmp_path):
    """Make a journal in the state folder, for a workflow in a file."""

    def make(name="flow", finished=False):
        w = Workflow(name)
        w.file = (tmp_path / f"{name}.toml").resolve()
        w.task("a", "json:dumps", args=[0])
        path = store.new_path(w)
        with Journal.create(path, w) as journal:
            journal.begin(w)
            if finished:
                journal.started("a")
                journal.succeeded("a", keep(1))
        return path

    return make


def test_the_folder(state, monkeypatch):
    assert store.folder() == state
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which the standard says to ignore
    assert store.folder() == Path.home() / ".local" / "state" / "bursar"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert store.folder() == Path.home() / ".local" / "state" / "bursar"


def test_a_name_that_no_other_run_has(state):
    names = {store.new_path(Workflow("a/b c ü")) for _ in range(20)}
    assert len(names) == 20
    assert all(path.parent == state and path.name.startswith("a-b-c-") for path in names)
    assert store.new_path(Workflow("/")).name.startswith("workflow-")


def test_there_may_be_none():
    assert store.journals() == []
    with pytest.raises(JournalError, match="there is no unfinished run to resume"):
        store.find(None)


def test_the_newest_unfinished_run(run):
    run("old")
    newer = run("newer")
    run("newest", finished=True)
    assert store.find(None) == newer


def test_one_that_is_running_is_not_to_be_resumed(run):
    waiting, running = run("waiting"), run("running")
    with Journal.open(running):
        assert store.find(None) == waiting


def test_by_id_by_path_and_by_workflow(run, tmp_path):
    first, other, second = run("flow"), run("other"), run("flow")
    assert store.find(first.stem) == first
    assert store.find(str(other)) == other
    assert store.find(str(tmp_path / "flow.toml")) == second
    assert [head.path for head in store.of_workflow(tmp_path / "flow.toml")] == [second, first]


@pytest.mark.parametrize(
    ("what", "message"),
    [("none.toml", "there is no journal of this workflow"), ("none", "there is no such workflow file, journal or id")],
)
def test_what_is_not_there(what, message):
    with pytest.raises(JournalError, match=message):
        store.find(what)


def test_other_files_are_left_out(run, state):
    path = run()
    (state / "half.journal").touch()
    (state / "text.journal").write_text("x" * 1000)
    (state / "notes.txt").touch()
    assert [head.path for head in store.journals()] == [path]


def test_the_oldest_are_deleted(run, state, monkeypatch):
    monkeypatch.setattr(store, "JOURNALS_MAX", 2)
    paths = [run() for _ in range(5)]
    with Journal.open(paths[0]):
        store.prune()
    assert [head.path for head in store.journals()] == [paths[4], paths[3], paths[0]]
    assert not paths[1].exists()
    assert not lock_of(paths[1]).exists()
    assert {path.name.split(".")[0] for path in state.iterdir()} == {paths[i].stem for i in (0, 3, 4)}
