"""The beginning of a session: which tasks stay done, which run again, and why. On real journals."""

import pytest
from support.journals import do, resumed, rows, states
from support.workflow import Journal

from bursar import WorkflowError
from bursar.workflow import Workflow


def test_a_resume_finds_results_and_leaves_the_rest_to_run(journal, path, chain):
    do(journal, "a", {"x": (1, 2)})
    journal.started("d")
    journal.failed("d", "no")
    journal.end("failed")
    journal.close()
    plan = resumed(path, chain())
    assert plan.results == {"a": {"x": [1, 2]}}
    assert plan.seconds["a"] >= 0
    assert (plan.again, plan.lost) == ({}, [])
    assert states(path) == {"a": "ok", "b": "pending", "c": "pending", "d": "pending"}


def test_what_was_running_is_lost_and_runs_again(journal, path, chain):
    journal.started("a")
    journal.started("d")
    journal.close()  # without `end`: as if killed
    plan = resumed(path, chain())
    assert plan.lost == [("a", 1), ("d", 1)]
    assert rows(path, "SELECT task, ending FROM attempt ORDER BY task") == [("a", "lost"), ("d", "lost")]
    assert rows(path, "SELECT n, ending FROM session") == [(1, "killed"), (2, None)]
    assert set(states(path).values()) == {"pending"}


def test_a_changed_task_and_all_behind_it_run_again(journal, path, chain):
    for name in "abcd":
        do(journal, name)
    journal.close()
    plan = resumed(path, chain(b=1))
    assert plan.results == {"a": 1, "d": 1}
    assert plan.again == {"b": "its definition has changed", "c": "task 'b', which it depends on, runs again"}
    assert rows(path, "SELECT name, edition FROM task ORDER BY name") == [("a", 1), ("b", 2), ("c", 2), ("d", 1)]
    with Journal.open(path) as second:
        second.begin(chain(b=1))
        do(second, "b")
    assert rows(path, "SELECT n, edition, ending FROM attempt WHERE task = 'b'") == [(1, 1, "ok"), (2, 2, "ok")]


def test_a_change_that_was_taken_back_runs_again_too(journal, path, chain):
    do(journal, "a")
    journal.close()
    with Journal.open(path) as changed:
        changed.begin(chain(a=1))
        do(changed, "a", 2)
    assert resumed(path, chain()).again == {
        "a": "its definition has changed"
    }  # the result of the first definition is gone


def test_a_change_of_what_has_not_run_is_no_news(journal, path, chain):
    do(journal, "a")
    journal.close()
    plan = resumed(path, chain(b=1))
    assert (plan.results, plan.again) == ({"a": 1}, {})


def test_asked_for(journal, path, chain):
    for name in "abcd":
        do(journal, name)
    journal.close()
    assert resumed(path, chain(), "c").again == {"c": "it was asked for"}


def test_asked_for_what_is_not_there(journal, path, chain):
    journal.close()
    with Journal.open(path) as second, pytest.raises(WorkflowError, match="no task 'x' in workflow 'chain'"):
        second.begin(chain(), ["x"])
    assert rows(path, "SELECT count(*) FROM session") == [(1,)]  # the refused session left no row


def test_tasks_that_come_and_go(journal, path, chain):
    for name in "abcd":
        do(journal, name)
    journal.close()
    fewer = Workflow("chain")
    fewer.task("d", "json:dumps", args=[0])
    fewer.task("e", "json:dumps", args=[0])
    assert resumed(path, fewer).results == {"d": 1}
    back = resumed(path, chain())  # their dependencies may have changed meanwhile
    assert (back.results, set(back.again)) == ({"d": 1}, set("abc"))


def uses():
    """maker → user → last: `user` uses the result of `maker`; `last` depends on `user` without its result."""
    w = Workflow("uses")
    maker = w.task("maker", "json:dumps", args=[0])
    w.task("user", "json:dumps", args=[maker])
    w.task("last", "json:dumps", args=[0], after=["user"])
    return w


def test_a_result_that_was_not_kept_is_made_again_if_a_task_needs_it(path):
    w = uses()
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "maker", {1, 2})
    plan = resumed(path, w)
    assert plan.again == {"maker": "task 'user' needs its result, which could not be kept"}
    assert plan.results == {}


def test_a_result_that_was_not_kept_and_no_task_needs_is_not_made_again(path):
    w = uses()
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "maker", {1, 2})
        do(journal, "user")
    plan = resumed(path, w)
    assert plan.again == {}
    assert plan.results == {"maker": None, "user": 1}


def test_one_that_is_made_again_may_need_others_that_are(path):
    w = Workflow("w")
    first = w.task("first", "json:dumps", args=[0])
    second = w.task("second", "json:dumps", args=[first])
    w.task("third", "json:dumps", args=[second])
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "first", {1})
        do(journal, "second", {2})
    assert set(resumed(path, w).again) == {"first", "second"}


def test_a_task_that_runs_again_may_need_results_that_were_not_kept(path):
    w = Workflow("w")
    one = w.task("one", "json:dumps", args=[0])
    two = w.task("two", "json:dumps", args=[0])
    both = w.task("both", "json:dumps", args=[one, two])
    w.task("last", "json:dumps", args=[both])
    with Journal.create(path, w) as journal:
        journal.begin(w)
        do(journal, "one", {1})
        do(journal, "two", {2})
        do(journal, "both")
    assert resumed(path, w).again == {}
    assert resumed(path, w, "one").again == {
        "one": "it was asked for",
        "two": "task 'both' needs its result, which could not be kept",
        "both": "task 'one', which it depends on, runs again",
    }
