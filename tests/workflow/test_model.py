"""`Workflow` in Python: what it accepts, and what it refuses before a task runs, with messages that say what to do."""

import functools
import json

import pytest
from support.workflow import Command, Function, Ref

import bursar
from bursar import WorkflowError
from bursar.workflow import Workflow


def work(x=0):
    return x


async def waits():
    return 1


@pytest.fixture
def w():
    return Workflow("w", resources={"cpu": 2, "ram": "1GiB"})


# ---- what can be written


def test_a_function_or_where_it_is(w):
    assert w.task("a", work).work == Function(f"{__name__}:work", work)
    assert w.task("b", "json:dumps", args=[1]).work == Function("json:dumps")
    assert w.load() == {"a": work, "b": json.dumps}


def test_a_method_of_a_class_is_found_behind_dots(w):
    w.task("a", "json:JSONDecoder.decode")
    assert w.load() == {"a": json.JSONDecoder.decode}


def test_a_command_and_a_line_for_the_shell(w):
    a = w.task("a", command=["echo", "x"])
    assert a.work == Command(("echo", "x"))
    assert w.task("b", command=["cat", a]).work == Command(("cat", Ref("a")))
    assert w.task("c", shell="echo $HOME").work == Command(("echo $HOME",), shell=True)


def test_a_step_among_the_arguments_is_a_dependency(w):
    a, b, c = w.task("a", work), w.task("b", work), w.task("c", work)
    d = w.task("d", work, args=[[a], {"k": b}], after=[c, "a"])
    assert d.args == ([Ref("a")], {"k": Ref("b")})
    assert d.after == ("c", "a", "b")
    assert d.uses == {"a", "b"}


def test_keywords(w):
    a = w.task("a", work)
    assert w.task("b", work, args={"x": a}).kwargs == {"x": Ref("a")}


def test_a_step_may_name_one_that_comes_later(w):
    w.task("a", work, after=["b"])
    w.task("b", work)
    w.check()
    assert w.graph == {"a": ("b",), "b": ()}


def test_a_cpu_is_needed_unless_something_else_is_said_or_it_only_awaits(w):
    plain, said, awaits = w.task("a", work), w.task("b", work, needs={"ram": 5}), w.task("c", waits)
    assert w.needs(plain, work) == {"cpu": 1}
    assert w.needs(said, work) == {"ram": 5}
    assert w.needs(awaits, waits) == {}
    assert w.needs(w.task("d", command=["x"]), None) == {"cpu": 1}
    assert w.needs(awaits, functools.partial(waits)) == {}


def test_without_a_number_there_are_as_many_cpus_as_the_machine_has():
    limits = {limit.name: limit.amount for limit in Workflow("w").authority()._limits}
    assert limits["cpu"] >= 1


# ---- what is refused


def refused(message, call, *args, **kwargs):
    with pytest.raises(WorkflowError) as caught:
        call(*args, **kwargs)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a.b", "é", "x" * 81, 3])
def test_names(w, name):
    refused("a name consists of letters, digits, _ and -", w.task, name, work)


def test_a_name_twice(w):
    w.task("a", work)
    refused("task 'a' is defined twice in workflow 'w'; give one of them another name", w.task, "a", work)
    assert len(w.steps) == 1


@pytest.mark.parametrize("given", [{}, {"run": work, "shell": "x"}, {"command": ["x"], "shell": "x"}])
def test_what_to_run_is_said_once(w, given):
    refused("task 'a' must have exactly one of run", w.task, "a", **given)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("run must be 'module:function', not 'ls -l'; for a command use shell", {"run": "ls -l"}),
        ("run must be a function or 'module:function', not 3", {"run": 3}),
        ("command must be a list of strings; for one line of text use shell", {"command": "ls -l"}),
        ("command must be a list of strings", {"command": []}),
        ("every part of a command must be a string or a task", {"command": ["sleep", 3]}),
        ("is a command and takes no args; write the arguments into command or shell", {"command": ["x"], "args": [1]}),
        ("is a Python function and takes no env", {"run": work, "env": {"A": "b"}}),
        ("is a Python function and takes no cwd", {"run": work, "cwd": "."}),
        ("is a Python function and takes no output", {"run": work, "output": "capture"}),
        ("its priority must be a Priority or a whole number, not '1'", {"run": work, "priority": "1"}),
        ("timeout must be a number of seconds up to 1e+09, not -1", {"run": work, "timeout": -1}),
        ("timeout must be a number of seconds up to 1e+09, not nan", {"run": work, "timeout": float("nan")}),
    ],
)
def test_what_does_not_go_together(w, message, given):
    refused(message, w.task, "a", **given)
    assert not w.steps


def test_a_dependency_that_is_missing(w):
    w.task("images", work)
    w.task("sheet", work, after=["image"])
    refused("task 'sheet' depends on 'image', which is not in the workflow; did you mean 'images'?", w.check)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (["a", "a"], "task 'b': after has task 'a' twice; name it once"),
        ("a", "task 'b': after must be a list of tasks or names, not 'a'"),
        (3, "task 'b': after must be a list of tasks or names, not 3"),
        ([work], "task 'b': after has <function work"),
    ],
)
def test_dependencies_that_are_none(w, after, message):
    w.task("a", work)
    refused(message, w.task, "b", work, after=after)
    assert list(w.steps) == ["a"]


def test_a_step_in_the_place_of_a_list_of_steps(w):
    a = w.task("a", work)
    refused("task 'b': after must be a list of tasks or names, not", w.task, "b", work, after=a)
    assert w.task("b", work, after=[a]).after == ("a",)


def test_a_circle_is_named_step_by_step(w):
    w.task("a", work, after=["c"])
    w.task("b", work, after=["a"])
    w.task("c", work, after=["b"])
    refused("tasks wait for each other in a circle: a → c → b → a (each depends on the next)", w.check)


def test_a_step_that_waits_for_itself(w):
    w.task("a", work, after=["a"])
    refused("a → a", w.check)


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"cpu": 3}, "task 'a' needs 3 of cpu, and there are 2 in all; it could never start"),
        ({"gpu": 1}, "task 'a' needs 'gpu', which its gate does not have (it has: cpu, ram)"),
        ({"ram": "much"}, "task 'a' needs ram='much': not a size"),
    ],
)
def test_a_demand_that_can_never_be_met(w, needs, message):
    w.task("a", work, needs=needs)
    refused(message, w.check)


def test_a_soft_limit_may_be_exceeded(w):
    w.task("a", work, needs={"ram": "2GiB"})
    w.check()


def test_an_empty_workflow(w):
    refused("workflow 'w' has no tasks", w.check)


def test_a_bad_authority():
    refused("workflow 'w': Authority(max_concurrent=0)", Workflow("w", max_concurrent=0).authority)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "no_such_module:f",
            "task 'a': 'no_such_module:f': module 'no_such_module' cannot be imported: ModuleNotFound",
        ),
        ("json:dump_s", "task 'a': 'json:dump_s': there is no 'dump_s' in 'json'; did you mean 'dumps'?"),
        ("json:__name__", "task 'a': 'json:__name__' is a str, not a function"),
    ],
)
def test_what_cannot_be_imported(w, spec, message):
    w.task("a", spec)
    refused(message, w.load)


# ---- what makes a result out of date (STEP-2)


def digest(**changed):
    w = Workflow("w")
    w.task("before", work)
    w.task("other", work)
    given = {"command": ["x", "y"], "env": {"A": "1"}, "after": ["before"]}
    return w.task("a", **(given | changed)).digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"command": ["x", "z"]},
        {"command": ["x y"]},
        {"command": None, "shell": "x"},
        {"env": {"A": "2"}},
        {"cwd": "/tmp"},
        {"output": "capture"},
        {"after": ["other"]},
        {"after": ["before", "other"]},
    ],
)
def test_what_decides_the_result(changed):
    assert digest(**changed) != digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"needs": {"cpu": 2}},
        {"priority": bursar.Priority.HIGH},
        {"retry": 3},
        {"timeout": 5},
        {"grace": 1},
    ],
)
def test_what_only_decides_when(changed):
    assert digest(**changed) == digest()


def test_arguments_are_part_of_the_definition():
    w = Workflow("w")
    a = w.task("a", work, args=[1])
    assert a.digest() != w.task("b", work, args=[2]).digest()
    assert w.task("c", work, args=[a]).digest() != w.task("d", work, args=["${a}"], after=["a"]).digest()


def test_an_argument_that_is_not_json_has_no_definition(w):
    step = w.task("a", work, args=[{1, 2}])
    refused("task 'a': its arguments cannot be written into a journal (a set is not JSON)", step.definition)


def test_an_argument_that_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(WorkflowError, match="task 'a': the value is nested too deeply"):
        Workflow("w").task("a", int, args=endless)


@pytest.mark.parametrize("retry", [-1, 10**30, "3", 1.5])
def test_a_retry_out_of_range_names_its_task(retry):
    with pytest.raises(WorkflowError, match="task 'a': "):
        Workflow("w").task("a", int, retry=retry)
