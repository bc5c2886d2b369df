"""Workflow files: every key, and the message for each mistake."""

from pathlib import Path
from textwrap import dedent

import pytest
from support.workflow import Command, Function, Ref, Template

import bursar
from bursar import Aging, Hard, Retry, Soft, Strict, WorkflowError
from bursar.workflow.file import parse_text, read

PATH = Path("/somewhere/flow.toml")


def parsed(text):
    return parse_text(dedent(text), PATH)


def refused(text):
    with pytest.raises(WorkflowError) as caught:
        parsed(text)
    return str(caught.value)


EVERYTHING = """
    name = "all of it"

    [authority]
    order = { interval = "250ms", boost = 2 }
    max_concurrent = 3
    max_queue = 50
    max_wait = "1h"
    reserve_after = 2

    [authority.resources]
    cpu = 2
    ram = "1GiB"
    vram = { hard = "8GiB" }
    tape = { soft = 1 }

    [defaults]
    priority = "low"
    retry = 1
    timeout = "5m"
    env = { LANG = "C", A = "0" }
    output = "discard"

    [task.script]
    run = "studio:write"
    args = { title = "Dunes", scenes = 3 }
    priority = "high"
    retry = { times = 3, backoff = 0.5, factor = 3 }
    timeout = 10
    needs = { cpu = 1, ram = "512MiB" }

    [task.images]
    command = ["draw", "${script}", "--title=${script.title}", "$${x}"]
    env = { A = "${script.title}" }
    cwd = "out"
    output = "capture"
    grace = "2s"
    priority = 70

    [task.done]
    shell = "touch done-$USER-${USER}"
    after = ["images"]
"""


def test_everything():
    w = parsed(EVERYTHING)
    assert (w.name, w.file) == ("all of it", PATH)
    authority = w.authority()
    assert authority.order == Aging(0.25, 2)
    assert (authority.max_concurrent, authority.max_queue) == (3, 50)
    assert (authority.max_wait, authority.reserve_after) == (3600, 2)
    assert authority.resources == {"cpu": 2, "ram": "1GiB", "vram": Hard("8GiB"), "tape": Soft(1)}
    script, images, done = w.steps.values()
    assert script.work == Function("studio:write")
    assert script.kwargs == {"title": "Dunes", "scenes": 3}
    assert (script.priority, script.timeout) == (bursar.Priority.HIGH, 10)
    assert script.retry == Retry(3, 0.5, 3)
    assert script.needs == {"cpu": 1, "ram": "512MiB"}
    assert images.work == Command(("draw", Ref("script"), Template(("--title=", Ref("script", ("title",)))), "${x}"))
    assert images.env == {"LANG": "C", "A": Ref("script", ("title",))}
    assert (images.cwd, images.output, images.grace, images.priority) == ("out", "capture", 2, 70)
    assert (images.retry, images.timeout) == (Retry(1), 300)
    assert images.after == ("script",)
    assert done.work == Command(("touch done-$USER-${USER}",), shell=True)  # ${…} in a shell line is for the shell
    assert (done.after, done.output, done.priority) == (("images",), "discard", bursar.Priority.LOW)


def test_keys_that_are_left_out():
    w = parsed('[task.a]\nrun = "m:f"')
    step = w.steps["a"]
    assert w.name == "flow"
    assert w.authority().order == Strict()
    assert (step.priority, step.retry, step.timeout, step.needs) == (bursar.Priority.NORMAL, None, None, None)
    assert (step.output, step.grace, step.cwd) == ("stream", 5, None)


@pytest.mark.parametrize(
    ("written", "order"), [('"strict"', Strict()), ('"aging"', Aging()), ("{ boost = 3 }", Aging(0.5, 3))]
)
def test_orders(written, order):
    assert parsed(f'[authority]\norder = {written}\n[task.a]\nrun = "m:f"').authority().order == order


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam = 'x'", "the file: there is no key 'nam'; did you mean 'name'?"),
        ("name = 3", "the file, name: must be a non-empty string, not 3"),
        ("[tasks.a]\nrun = 'm:f'", "the file: there is no key 'tasks'; did you mean 'task'?"),
        ("task = 3", "[task]: must be a table, not 3"),
        ("[task.a]", "task 'a' must have exactly one of run"),
        ("[task.a]\nrun = 'm:f'\nprioritty = 1", "[task.a]: there is no key 'prioritty'; did you mean 'priority'?"),
        (
            "[task.a]\nrun = 'm:f'\npriority = 'urgent'",
            "[task.a], priority: must be one of high, normal, low, not 'urgent'",
        ),
        ("[task.a]\nrun = 'm:f'\nafter = 'b'", "[task.a], after: must be a list of task names, not 'b'"),
        ("[task.a]\nrun = 'm:f'\nafter = ['b']", "task 'a' depends on 'b', which is not in the workflow"),
        ("[task.a]\nrun = 'm:f'\nargs = 3", "[task.a], args: must be a list, or a table of keywords, not 3"),
        ("[task.a]\nrun = 'm:f'\nargs = ['${b c}']", "[task.a], args: ${b c} is not a reference to a task"),
        ("[task.a]\nrun = 'm:f'\nargs = ['${b}']", "task 'a' depends on 'b', which is not in the workflow"),
        ("[task.a]\nrun = 'm:f'\nretry = -1", "[task.a], retry: must be a whole number from 0 to 1,000,000, not -1"),
        ("[task.a]\nrun = 'm:f'\nretry = { backoff = 1 }", "[task.a], retry: the key times is missing"),
        ("[task.a]\nrun = 'm:f'\ntimeout = 'soon'", "[task.a], timeout: must be a time"),
        ("[task.a]\nrun = 'm:f'\nneeds = { ram = -1 }", "[task.a], needs, ram: must be a whole number"),
        ("[task.a]\nrun = 'm:f'\nenv = { A = 'x' }", "task 'a' is a Python function and takes no env"),
        ("[task.a]\ncommand = ['x', 3]", "[task.a], command, item 2: must be a non-empty string"),
        ("[task.a]\nshell = 'x'\nenv = { A = 3 }", "[task.a], env, A: must be a string"),
        ("[task.a]\nshell = 'x'\noutput = 'catch'", "[task.a], output: must be one of stream, capture, discard"),
        ("[task.'a b']\nshell = 'x'", "task 'a b': a name consists of letters"),
        ("[authority]\nslots = 3\n[task.a]\nshell = 'x'", "[authority]: there is no key 'slots'"),
        ("[authority]\norder = 'random'\n[task.a]\nshell = 'x'", "order: must be one of strict, aging"),
        ("[authority.resources]\nx = { hard = 1, soft = 2 }", "resources, x: must have one key, hard or soft"),
        ("[authority.resources]\nx = { firm = 1 }", "resources, x: there is no key 'firm'"),
        ("[authority.resources]\ncpu = 1\n[task.a]\nshell='x'\nneeds={cpu=2}", "task 'a' needs 2 of cpu"),
        ("[defaults]\nrun = 'm:f'", "[defaults]: there is no key 'run'"),
        ("[task.a]\nrun = 'm:f'\nafter=['a']", "a → a"),
        ("", "workflow 'flow' has no tasks; add one: [task.NAME] in a file"),
        ("[task.a]\n[task.a]", "this is not TOML: Cannot declare ('task', 'a') twice (at line 2"),
        ("x = ", "this is not TOML: Invalid value"),
    ],
)
def test_mistakes(text, message):
    assert message in refused(text)


def test_the_file_is_named(tmp_path):
    file = tmp_path / "w.toml"
    file.write_text("x = 1")
    with pytest.raises(WorkflowError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}: the file: there is no key 'x'")


def test_a_file_that_cannot_be_read(tmp_path):
    for path, message in ((tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(WorkflowError, match=f"the workflow cannot be read: {message}"):
            read(path)
    binary = tmp_path / "w.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(WorkflowError, match="the file is not UTF-8 text"):
        read(binary)


def test_reading_imports_nothing(tmp_path):
    (tmp_path / "w.toml").write_text("[task.a]\nrun = 'no_such_module_at_all:f'")
    assert read(tmp_path / "w.toml").file == (tmp_path / "w.toml").resolve()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("args = " + "[" * 5000 + "]" * 5000, "line 4: values are nested too deeply; 100 levels are possible"),
        ("args = " + "[" * 150 + "]" * 150, "[task.a], args: the value is nested too deeply; 100 levels are possible"),
        ("args." + "a." * 150 + "a = 1", "[task.a], args: the value is nested too deeply"),
        ("args = [" + "9" * 6000 + "]", "line 4: a number has too many digits"),
        ("retry = " + "9" * 30, "[task.a], retry: must be a whole number from 0 to 1,000,000, not 9999"),
        ("retry = { times = 10000000 }", "[task.a], retry, times: must be a whole number from 1 to 1,000,000"),
        (
            "retry = { times = 3, backoff = 1e300 }",
            "[task.a], retry, backoff: must be a number from 0 to 1,000,000,000",
        ),
        (
            "retry = { times = 3, factor = 1e300 }",
            "[task.a], retry, factor: must be a number from 1 to 1,000, not 1e+300",
        ),
        ("retry = { times = 3, factor = 0.5 }", "[task.a], retry, factor: must be a number from 1"),
        ("retry = { times = 3, factor = nan }", "[task.a], retry, factor: must be a number from 1"),
        ("timeout = 1e300", "[task.a], timeout: must be a number from 0 to 1,000,000,000, not 1e+300"),
        ("timeout = 0x" + "f" * 400, "[task.a], timeout: must be a number from 0 to"),
        ('timeout = "' + "9" * 400 + 'h"', "[task.a], timeout: must be a number from 0 to"),
        ("priority = 1" + "0" * 30, "[task.a], priority: must be a whole number from -"),
        ("needs = { cpu = 1" + "0" * 30 + " }", "[task.a], needs, cpu: must be a whole number from 0"),
    ],
)
def test_values_out_of_range_have_a_place(tmp_path, text, said):
    path = tmp_path / "w.toml"
    path.write_text(f'name = "w"\n\n[task.a]\n{text}\nrun = "os:getcwd"\n')
    with pytest.raises(WorkflowError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    "text",
    [
        "grace = 1e300",
        "order = { interval = 1e300 }",
        "order = { interval = 0 }",
        "order = { boost = 1e3 }",
        "max_wait = inf",
    ]
    + [f"{key} = 1{'0' * 30}" for key in ("max_concurrent", "max_queue", "max_wait", "reserve_after", "resources.cpu")],
)
def test_an_authority_out_of_range_has_a_place(tmp_path, text):
    path = tmp_path / "w.toml"
    where = "defaults" if text.startswith("grace") else "authority"
    path.write_text(f'[{where}]\n{text}\n[task.a]\nshell = "true"\n')
    with pytest.raises(WorkflowError, match=rf"w\.toml: \[{where}\], "):
        read(path)


@pytest.mark.parametrize("line", ["echo ${a}", "echo x${a}y", "echo ${a.title}", "a=1; echo ${a.title}"])
def test_a_reference_in_a_shell_line_is_refused(tmp_path, line):
    path = tmp_path / "w.toml"
    path.write_text(f"[task.a]\nshell = 'true'\n[task.b]\nshell = {line!r}\n")
    with pytest.raises(WorkflowError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: [task.b], shell: ${{a}} is a variable of the shell, not the result of task 'a'; for the result add "
        'env = { A = "${a}" } and write "$A"; for a variable of the shell write $a'
    )


@pytest.mark.parametrize(
    "line",
    [
        "echo $a",
        "a=1; echo ${a}",
        "for a in 1 2; do echo ${a}; done",
        "read a b; echo ${a}",
        "echo ${HOME}",
        "echo $${a}",
    ],
)
def test_variables_of_the_shell_are_left_alone(tmp_path, line):
    path = tmp_path / "w.toml"
    path.write_text(f"[task.a]\nshell = 'true'\n[task.b]\nshell = {line!r}\n")
    assert str(read(path).steps["b"].work) == line


def test_a_variable_in_env_may_have_the_name_of_a_task(tmp_path):
    path = tmp_path / "w.toml"
    path.write_text("[task.a]\nshell = 'true'\n[task.b]\nshell = 'echo ${a}'\nenv = { a = '${a}' }\n")
    assert read(path).steps["b"].after == ("a",)
