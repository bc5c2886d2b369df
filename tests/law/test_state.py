"""Every move between states, every ending, and nothing else: the whole transition table, pair by pair."""

import ast
from itertools import product
from pathlib import Path

import pytest
from support.law import UNSTATED, Nursery, Task, root_pools

import bursar
from bursar import BursarError, CancelKind, CancelReason
from bursar.errors import IllegalTransition
from bursar.law.state import ENDINGS, TRANSITIONS, Outcome, OutcomeKind, State, end, move, severer

# written out by hand from the drawing, row by row: what each state may become
TABLE = {
    "PENDING": "READY PAUSED DONE",
    "READY": "RUNNING PAUSED DONE",
    "RUNNING": "READY BLOCKED EXHAUSTED PAUSED DONE",
    "BLOCKED": "READY PAUSED DONE",
    "EXHAUSTED": "READY PAUSED DONE",
    "PAUSED": "READY PENDING DONE",
    "DONE": "",
}
LEGAL = {(State[a], State[b]) for a, row in TABLE.items() for b in row.split()}

# and how a task may end from there
ENDS = {
    "PENDING": "DROPPED CANCELLED",
    "READY": "CANCELLED",
    "RUNNING": "OK FAILED CANCELLED PANICKED",
    "BLOCKED": "CANCELLED FAILED",
    "EXHAUSTED": "CANCELLED FAILED",
    "PAUSED": "CANCELLED FAILED",
    "DONE": "",
}
LEGAL_ENDS = {(State[a], OutcomeKind[b]) for a, row in ENDS.items() for b in row.split()}


def task_in(state: State) -> Task:
    pools = root_pools(UNSTATED)
    task = Task(7, "seven", Nursery(1, "n", None, pools, pools, {}), pools, {})
    task.state = state
    return task


def named(value: object) -> str:
    return getattr(value, "name", str(value))


def test_the_states_are_these_seven_with_these_numbers():
    assert [(s.name, s.value) for s in State] == [
        ("PENDING", 0),
        ("READY", 1),
        ("RUNNING", 2),
        ("BLOCKED", 3),
        ("EXHAUSTED", 4),
        ("PAUSED", 5),
        ("DONE", 6),
    ]


@pytest.mark.parametrize(("before", "after"), list(product(State, State)), ids=named)
def test_a_move_is_made_exactly_if_the_table_holds_it(before, after):
    task = task_in(before)
    if (before, after) in LEGAL:
        move(task, after)
        assert task.state is after
        return
    with pytest.raises(IllegalTransition, match=rf"'seven' \(7\) cannot go from {before.name} to {after.name}"):
        move(task, after)
    assert task.state is before


def test_the_published_table_is_the_one_that_is_enforced():
    assert {(a, b) for a, row in TRANSITIONS.items() for b in row} == LEGAL
    assert {(a, b) for a, row in ENDINGS.items() for b in row} == LEGAL_ENDS


@pytest.mark.parametrize(("state", "kind"), list(product(State, OutcomeKind)), ids=named)
def test_a_task_ends_only_in_ways_that_its_state_allows(state, kind):
    task, outcome = task_in(state), Outcome(kind)
    if (state, kind) in LEGAL_ENDS:
        end(task, outcome)
        assert (task.state, task.outcome) == (State.DONE, outcome)
        return
    with pytest.raises(IllegalTransition, match=rf"'seven' \(7\) cannot end {kind.name} while {state.name}"):
        end(task, outcome)
    assert (task.state, task.outcome) == (state, None)


@pytest.mark.parametrize("state", [s for s in State if s is not State.DONE], ids=named)
def test_every_live_state_can_be_cancelled(state):
    end(task_in(state), Outcome(OutcomeKind.CANCELLED))


def test_only_a_task_that_did_not_start_is_dropped():
    assert [s for s in State if OutcomeKind.DROPPED in ENDINGS[s]] == [State.PENDING]


def test_only_a_running_task_returns_or_panics():
    for kind in (OutcomeKind.OK, OutcomeKind.PANICKED):
        assert [s for s in State if kind in ENDINGS[s]] == [State.RUNNING]


def test_done_is_left_no_more():
    task = task_in(State.RUNNING)
    end(task, Outcome(OutcomeKind.OK, 1))
    for kind in OutcomeKind:
        with pytest.raises(IllegalTransition):
            end(task, Outcome(kind))
    assert task.outcome == Outcome(OutcomeKind.OK, 1)


def test_an_illegal_move_is_a_bug_of_ours_and_one_of_our_errors():
    assert issubclass(IllegalTransition, AssertionError)
    assert issubclass(IllegalTransition, BursarError)


def assignments_to_state(path: Path) -> set[tuple[str, str]]:
    """(file, function) of every assignment to an attribute `state`, apart from constructors, the pump and workflows."""
    found = set()
    if path.name == "pump.py" or path.parent.name == "workflow":  # whose tasks are records of a journal
        return found
    functions = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)]
    for function in functions:
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            targets = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
            if any(isinstance(t, ast.Attribute) and t.attr == "state" for t in targets) and function.name != "__init__":
                found.add((path.name, function.name))
    return found


def test_no_other_function_changes_a_state():
    package = Path(bursar.__file__).parent
    found = set().union(*(assignments_to_state(path) for path in package.rglob("*.py")))
    assert found == {("state.py", "move"), ("nursery.py", "move"), ("ticket.py", "move")}


# ---- outcomes


SEVERITY = ["OK", "DROPPED", "FAILED", "CANCELLED", "PANICKED"]


@pytest.mark.parametrize(("a", "b"), list(product(SEVERITY, SEVERITY)))
def test_the_severer_of_two_endings_is_the_later_in_the_list(a, b):
    worse = SEVERITY[max(SEVERITY.index(a), SEVERITY.index(b))]
    assert severer(OutcomeKind[a], OutcomeKind[b]) is OutcomeKind[worse]


def test_there_are_no_other_endings():
    assert {kind.name for kind in OutcomeKind} == set(SEVERITY)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome(OutcomeKind.OK, 42), "ok"),
        (Outcome(OutcomeKind.FAILED, error=ValueError("no")), "failed: ValueError: no"),
        (Outcome(OutcomeKind.PANICKED, error=SystemExit(3)), "panicked: SystemExit: 3"),
        (Outcome(OutcomeKind.CANCELLED, reason=CancelReason(CancelKind.USER, "enough")), "cancelled: user: enough"),
        (Outcome(OutcomeKind.DROPPED, reason=CancelReason(CancelKind.DROP)), "dropped: drop"),
    ],
    ids=str,
)
def test_an_outcome_says_what_became_of_the_task(outcome, text):
    assert str(outcome) == text


def test_an_outcome_cannot_be_changed():
    with pytest.raises(AttributeError):
        Outcome(OutcomeKind.OK).kind = OutcomeKind.FAILED
