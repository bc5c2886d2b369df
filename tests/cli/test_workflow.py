"""`bursar run FILE.toml`, `bursar resume` and `bursar explain`, with real files, processes and signals."""

import contextlib
import json
import os
import pty
import signal
import sqlite3
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from support.time_limits import WAIT_S


@pytest.fixture
def environment(environment, tmp_path):
    """The environment, with a separate state folder."""
    return environment | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state" / "bursar"


@pytest.fixture
def flow(tmp_path):
    """Write a workflow, and the module beside it, in a folder that is not the current one."""

    def write(text, module=""):
        folder = tmp_path / "flow"
        folder.mkdir(exist_ok=True)
        (folder / "workflow.toml").write_text(dedent(text))
        (folder / "steps.py").write_text(dedent(module))
        return folder / "workflow.toml"

    return write


@pytest.fixture
def started(script, environment, tmp_path):
    """Start a command with `--json`, and read its events one by one."""
    running = []

    class Running:
        def __init__(self, *args):
            self.process = subprocess.Popen(
                [script, *map(str, args), "--json"],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=lambda: signal.signal(
                    signal.SIGHUP, signal.SIG_DFL
                ),  # the process that runs the tests may ignore it
            )
            running.append(self.process)

        def until(self, event, task=None):
            """Read up to this event."""
            for line in self.process.stdout:
                found = json.loads(line)
                if found["event"] == event and task in (None, found.get("task")):
                    return found
            raise AssertionError(f"no {event} of {task}: {self.process.communicate()[1]}")

        def signal(self, number):
            self.process.send_signal(number)

        def end(self):
            """The exit code and the last event of the command."""
            out, _ = self.process.communicate(timeout=WAIT_S)
            lines = out.splitlines()
            return self.process.returncode, json.loads(lines[-1]) if lines else None

    yield Running
    for process in running:
        process.terminate()  # this also ends the processes that its commands have started
        process.communicate(timeout=WAIT_S)


def journal_of(state):
    (path,) = state.glob("*.journal")
    return path


def rows(path, query):
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def states(state):
    return dict(rows(journal_of(state), "SELECT name, state FROM task"))


def lives(pid):
    """Whether a process runs. A zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def refused(answer, *messages):
    assert (answer.returncode, answer.stdout) == (2, ""), answer
    assert "Traceback" not in answer.stderr
    for message in messages:
        assert message in answer.stderr
    return True


STEPS = """
    def twice(x):
        print("working")
        return 2 * x
"""

SMALL = """
    name = "small"
    [task.a]
    shell = "echo 20"
    output = "capture"
    [task.b]
    run = "steps:twice"
    args = ["${a}"]
    [task.c]
    shell = "echo $X > c.txt"
    env = { X = "${b}" }
"""


# ---- running


def test_all_is_well(bursar, flow, state, tmp_path):
    answer = bursar("run", flow(SMALL, STEPS))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "working\n" in answer.stdout
    assert "small: 3 ok in " in answer.stdout
    assert "critical path: " in answer.stdout
    assert (tmp_path / "flow" / "c.txt").read_text() == "2020\n"  # in the folder of the file
    assert states(state) == {"a": "ok", "b": "ok", "c": "ok"}


def test_json_is_all_there_is_on_the_output(bursar, flow):
    answer = bursar("run", flow(SMALL, STEPS), "--json")
    events = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.stderr == "working\n"
    assert events[0]["event"] == "run"
    assert {"event": "ok", "task": "b", "result": "2020"}.items() <= next(
        one for one in events if one["event"] == "ok" and one["task"] == "b"
    ).items()
    assert events[-1].items() >= {"event": "summary", "ok": True, "exit_code": 0, "counts": {"ok": 3}}.items()
    assert events[-1]["critical_path"] == ["a", "b", "c"]


def test_on_a_terminal_there_is_a_view(script, environment, flow, tmp_path):
    file = flow(SMALL, STEPS)
    master, slave = pty.openpty()
    with subprocess.Popen([script, "run", file], stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # the end of a terminal raises this
            while chunk := os.read(master, 65536):
                said += chunk
        os.close(master)
    assert process.returncode == 0
    assert b"small: 3 ok in" in said


def test_a_run_goes_on_without_its_reader(script, environment, flow, state, tmp_path):
    """`bursar run … | head -1`: the tasks go on after the reader has closed the pipe."""
    file = flow(SMALL, STEPS)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [script, "run", file, "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        timeout=WAIT_S,
    )
    os.close(writer)
    assert done.returncode == 0
    assert "the output of the run could not be written: BrokenPipeError" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert states(state) == {"a": "ok", "b": "ok", "c": "ok"}


def test_a_task_that_fails(bursar, flow, state):
    answer = bursar(
        "run", flow("[task.bad]\nshell = 'echo why >&2; exit 3'\n[task.after]\nshell='true'\nafter=['bad']")
    )
    assert answer.returncode == 1
    assert "workflow: 1 failed, 1 cancelled" in answer.stdout
    assert "exited with code 3" in answer.stdout
    assert f"bursar resume {journal_of(state).stem}" in answer.stdout
    assert states(state) == {"bad": "failed", "after": "cancelled"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no tasks"),
        ("[task.a]\nrunn = 'm:f'", "workflow.toml: [task.a]: there is no key 'runn'; did you mean 'run'?"),
        ("[task.a]\nrun = 'm:f'", "workflow.toml: task 'a': 'm:f': module 'm' cannot be imported"),
        ("[task.a]\nrun = 'steps:none'", "task 'a': 'steps:none': there is no 'none' in 'steps'"),
        ("[task.a]\nshell = 'x'\nafter = ['b']", "task 'a' depends on 'b', which is not in the workflow"),
        ("[task.a]\nshell='x'\nafter=['b']\n[task.b]\nshell='x'\nafter=['a']", "in a circle: a → b → a"),
        ("[authority.resources]\ncpu=1\n[task.a]\nshell='x'\nneeds={cpu=2}", "it could never start"),
    ],
)
def test_what_cannot_be_run_leaves_nothing_behind(bursar, flow, state, text, message):
    assert refused(bursar("run", flow(text)), message)
    assert not state.exists()


def test_no_such_file(bursar):
    assert refused(bursar("run", "none.toml"), "none.toml: the workflow cannot be read: No such file")


@pytest.mark.parametrize(
    "options",
    [["x"], ["--record", "t"], ["--ops", "5"], ["--clock", "virtual"], ["--fingerprint"], ["--profile", "cluster"]],
)
def test_options_of_a_program(bursar, flow, options):
    assert refused(bursar("run", flow(SMALL, STEPS), *options), "is a workflow, which takes no")


@pytest.mark.parametrize("options", [["--plain"], ["--json"], ["--journal", "x"], ["--no-journal"], ["--resume"]])
def test_options_of_a_workflow(bursar, tmp_path, options):
    (tmp_path / "p.py").write_text("async def main(): ...")
    assert refused(bursar("run", "p.py", *options), f"p.py is a program, which takes no {options[0]}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plain", "--json"], "choose one of them"),
        (["--no-journal", "--resume"], "need a journal"),
        (["--no-journal", "--journal", "x"], "need a journal"),
    ],
)
def test_options_that_do_not_go_together(bursar, flow, options, message):
    assert refused(bursar("run", flow(SMALL, STEPS), *options), message)


# ---- journals


def test_a_journal_of_ones_own(bursar, flow, state, tmp_path):
    file = flow(SMALL, STEPS)
    assert bursar("run", file, "--journal", "mine.db").returncode == 0
    assert not state.exists()
    assert rows(tmp_path / "mine.db", "SELECT count(*) FROM attempt") == [(3,)]
    assert refused(bursar("run", file, "--journal", "mine.db"), "the journal exists already; continue it")
    again = bursar("run", file, "--journal", "mine.db", "--resume")
    assert again.returncode == 0
    assert "3 ok (3 of them in an earlier session)" in again.stdout


def test_no_journal(bursar, flow, state, tmp_path):
    assert bursar("run", flow(SMALL, STEPS), "--no-journal").returncode == 0
    assert not state.exists()


BREAKABLE = """
    name = "breakable"
    [task.first]
    shell = "echo first >> ran; echo 1"
    output = "capture"
    [task.second]
    shell = "echo second >> ran; test -e ok"
    after = ["first"]
    [task.third]
    shell = "echo third >> ran"
    after = ["second"]
"""


@pytest.mark.parametrize("how", ["file", "id", "path", "newest", "run"])
def test_resume(bursar, flow, state, tmp_path, how):
    file = flow(BREAKABLE)
    assert bursar("run", file).returncode == 1
    (file.parent / "ok").touch()
    path = journal_of(state)
    what = {"file": [file], "id": [path.stem], "path": [path], "newest": []}
    answer = bursar("run", file, "--resume") if how == "run" else bursar("resume", *what[how])
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (file.parent / "ran").read_text().split() == ["first", "second", "second", "third"]
    assert "3 ok (1 of them in an earlier session)" in answer.stdout
    assert journal_of(state) == path


def test_the_journal_of_another_workflow(bursar, flow, tmp_path):
    file = flow(BREAKABLE)
    assert bursar("run", file, "--journal", "mine.db").returncode == 1
    (file.parent / "ok").touch()
    flow(BREAKABLE.replace("breakable", "other"))
    answer = bursar("run", file, "--journal", "mine.db", "--resume")
    assert refused(answer, "this is the journal of workflow 'breakable', not of 'other'; name another file")
    flow(BREAKABLE)
    moved = file.rename(file.with_name("moved.toml"))
    assert bursar("run", moved, "--journal", "mine.db", "--resume").returncode == 0
    assert bursar("resume", "mine.db").returncode == 0  # the workflow file has moved, and is found


def test_nothing_to_resume(bursar, flow):
    assert refused(bursar("resume"), "there is no unfinished run to resume")
    assert refused(bursar("resume", "nothing"), "nothing: there is no such workflow file, journal or id")
    file = flow(SMALL, STEPS)
    assert bursar("run", file, "--resume").returncode == 0  # without an unfinished run, this starts one
    assert refused(bursar("resume"), "there is no unfinished run to resume")
    assert bursar("resume", file).returncode == 0


def test_again(bursar, flow):
    file = flow(BREAKABLE)
    (file.parent / "ok").touch()
    assert bursar("run", file).returncode == 0
    answer = bursar("resume", file, "--again", "second")
    assert answer.returncode == 0
    assert "second runs again: it was asked for" in answer.stdout
    assert "third runs again: task 'second', which it depends on, runs again" in answer.stdout
    assert (file.parent / "ran").read_text().split() == ["first", "second", "third", "second", "third"]
    assert refused(bursar("resume", file, "--again", "secnd"), "there is no task 'secnd'", "did you mean 'second'?")


def test_a_changed_workflow_is_said(bursar, flow):
    file = flow(BREAKABLE)
    (file.parent / "ok").touch()
    assert bursar("run", file).returncode == 0
    flow(BREAKABLE.replace("echo second", "echo SECOND"))
    answer = bursar("resume", file)
    assert "second runs again: its definition has changed" in answer.stdout
    assert (file.parent / "ran").read_text().split() == ["first", "second", "third", "SECOND", "third"]


def test_a_workflow_that_is_gone(bursar, flow):
    file = flow(BREAKABLE)
    bursar("run", file)
    file.unlink()
    assert refused(bursar("resume"), "workflow.toml: the workflow cannot be read: No such file")


# ---- signals

STOPPABLE = '''
    name = "stoppable"
    [authority]
    resources = { cpu = 3 }
    [task.quick]
    shell = "echo quick >> ran"
    priority = "high"
    [task.command]
    shell = """
    trap 'echo cleaned >> ran; exit 1' TERM
    test -e ok || { echo ready; while :; do sleep 1000 & wait $!; done; }
    """
    after = ["quick"]
    [task.thread]
    run = "steps:turn"
    after = ["quick"]
    [task.coroutine]
    run = "steps:nap"
    after = ["quick"]
    [task.later]
    shell = "echo later >> ran"
    after = ["command", "thread", "coroutine"]
'''

TURNING = """
    import os

    import bursar


    def turn(checkpoint: bursar.Checkpoint):
        while not os.path.exists("ok"):
            checkpoint()


    async def nap():
        await bursar.sleep(0 if os.path.exists("ok") else 1000)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_drains(started, flow, state, number, code):
    file = flow(STOPPABLE, TURNING)
    run = started("run", file)
    waiting = {"command", "thread", "coroutine"}
    while waiting:
        waiting.discard(run.until("started")["task"])
    run.until("output", "command")
    run.signal(number)
    returned, last = run.end()
    assert returned == code
    assert last["stopped"] == number.name
    assert last["counts"] == {"ok": 1, "cancelled": 4}
    assert (file.parent / "ran").read_text().split() == ["quick", "cleaned"]
    assert states(state) == {
        "quick": "ok",
        "command": "cancelled",
        "thread": "cancelled",
        "coroutine": "cancelled",
        "later": "cancelled",
    }
    assert rows(journal_of(state), "SELECT ending FROM session") == [(number.name,)]
    (file.parent / "ok").touch()
    returned, last = started("resume").end()
    assert (returned, last["counts"], last["earlier"]) == (0, {"ok": 5}, 1)
    assert (file.parent / "ran").read_text().split() == ["quick", "cleaned", "later"]


def test_a_second_interrupt_does_not_wait(started, flow, state):
    """The function has no checkpoint, so it cannot be stopped."""
    file = flow(
        """
        [task.stuck]
        run = "steps:stuck"
        [task.other]
        run = "steps:nap"
        """,
        """
        import threading

        import bursar

        def stuck():
            threading.Event().wait()

        async def nap():
            await bursar.sleep(1000)
        """,
    )
    run = started("run", file)
    waiting = {"stuck", "other"}
    while waiting:
        waiting.discard(run.until("started")["task"])
    run.signal(signal.SIGINT)
    run.until("cancelled", "other")
    run.signal(signal.SIGINT)
    returned, last = run.end()
    assert returned == 130
    assert last["counts"] == {"cancelled": 1, "pending": 1}
    assert states(state) == {"stuck": "running", "other": "cancelled"}


def test_killed_with_a_command_under_way(started, bursar, flow, state):
    """The command outlives its run. The resume kills it, before it starts the command again."""
    file = flow(
        """
        [task.a]
        shell = "echo a >> ran"
        [task.b]
        shell = "echo $$ >> pids; echo ready; test -e ok || exec sleep 1000"
        after = ["a"]
        """
    )
    run = started("run", file)
    run.until("output", "b")
    run.signal(signal.SIGKILL)
    assert run.end()[0] == -signal.SIGKILL
    orphan = int((file.parent / "pids").read_text())
    assert lives(orphan)
    assert states(state) == {"a": "ok", "b": "running"}
    said = bursar("explain", file, "b").stdout
    assert "task 'b' was running when its process was killed; a resume runs it again" in said
    (file.parent / "ok").touch()
    again = bursar("resume")
    assert again.returncode == 0
    assert "b was running when the run was killed" in again.stdout
    assert "processes that the killed run had left running" in again.stdout
    assert not lives(orphan)
    assert (file.parent / "ran").read_text() == "a\n"
    assert rows(journal_of(state), "SELECT task, n, ending FROM attempt ORDER BY task, n") == [
        ("a", 1, "ok"),
        ("b", 1, "lost"),
        ("b", 2, "ok"),
    ]


def test_two_cannot_run_one_journal(started, bursar, flow, state):
    file = flow(STOPPABLE, TURNING)
    run = started("run", file)
    run.until("output", "command")
    assert refused(bursar("resume", file), "another process runs this journal")
    assert refused(bursar("resume"), "there is no unfinished run to resume")


# ---- explaining


def test_explain_while_it_runs(started, bursar, flow):
    file = flow(
        """
        [authority.resources]
        cpu = 1
        [task.running]
        shell = "echo ready; sleep 1000"
        [task.short]
        shell = "true"
        [task.behind]
        shell = "true"
        after = ["running"]
        """
    )
    run = started("run", file)
    run.until("output", "running")
    assert "task 'running' has been running for" in bursar("explain", file, "running").stdout
    short = bursar("explain", file, "short").stdout
    assert "needs 1 of cpu, of which 1 of 1 are taken by: 'running'" in short
    behind = bursar("explain", file, "behind").stdout
    assert "waits for task 'running', which is running" in behind
    found = json.loads(bursar("explain", file, "behind", "--json").stdout)
    assert behind.splitlines()[-1] == f"  in the run {found['run']}"  # there may be other runs of this workflow
    assert found["state"] == "pending"
    assert found["running"]
    assert found["blockers"] == [["running", "running"]]


def test_explain_afterwards(bursar, flow):
    file = flow(BREAKABLE)
    bursar("run", file)
    said = bursar("explain", file, "second")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("task 'second' failed: ")
    assert "  attempt 1: failed after " in said.stdout
    assert "'second'" in bursar("explain", file, "third").stdout
    assert refused(bursar("explain", file, "thirt"), "there is no task 'thirt' in this run; did you mean 'third'?")
    assert refused(bursar("explain", "none.toml", "x"), "there is no journal of this workflow")
