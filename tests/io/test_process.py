"""One command: its output, its end, and that no process is left, however it was stopped. With real processes."""

import contextlib
import os
import select
import signal
import sys
import time

import pytest
from support.workflow import VARIABLE, processes_with

import bursar
from bursar import CommandFailed, WorkflowError
from bursar.io import process

KEY = "0123test-process"


@pytest.fixture(autouse=True)
def nothing_is_left():
    """PROCESS-1, for every test here: each process that a command started has the key in its environment."""
    yield
    for pid in processes_with(KEY):
        with contextlib.suppress(ProcessLookupError):
            dying = os.pidfd_open(pid)  # it got SIGKILL, which takes effect in a moment
            assert select.select([dying], [], [], 30)[0], f"process {pid} is left"
            os.close(dying)


def run(*argv, lines=None, **keywords):
    given = {"grace": 5.0, "env": os.environ | {VARIABLE: KEY}} | keywords
    on_line = None if lines is None else lambda stream, line: lines.append((stream, line))

    async def main():
        return await process.execute(argv, on_line=on_line, **given)

    return bursar.run(main)


def shell(line, lines=None, **keywords):
    return run(line, lines=lines, shell=True, **keywords)


# ---- output


def test_lines_as_they_come():
    lines = []
    assert shell("echo one; echo two; printf three", lines) is None
    assert lines == [("out", "one"), ("out", "two"), ("out", "three")]


def test_two_streams():
    lines = []
    shell("echo out; echo err >&2", lines)
    assert sorted(lines) == [("err", "err"), ("out", "out")]


def test_captured_output_is_the_result():
    lines = []
    assert shell("echo one; echo two; echo; echo aside >&2", lines, capture=True) == "one\ntwo"
    assert lines == [("err", "aside")]


def test_no_shell_reads_a_command():
    assert run("printf", "%s", "$HOME; *", capture=True) == "$HOME; *"


def test_more_than_a_pipe_holds():
    code = "import sys; sys.stdout.write('x' * 300_000)"
    assert run(sys.executable, "-c", code, capture=True) == "x" * 300_000


def test_output_that_was_not_read_before_the_exit_is_delivered(monkeypatch):
    """PROCESS-3."""

    async def wait_for_the_exit_only(running, left):
        await bursar.wait_readable(running._pidfd)

    monkeypatch.setattr(process._Running, "_wait_once", wait_for_the_exit_only)
    lines = []
    shell("seq 3; echo err >&2", lines)
    assert lines == [("out", "1"), ("out", "2"), ("out", "3"), ("err", "err")]
    assert shell("printf all", capture=True) == "all"


@pytest.mark.parametrize("child", ["yes", "setsid yes"])
def test_children_that_keep_writing_do_not_delay_the_end(child):
    """PROCESS-4. The group is killed; a child in another session gets SIGPIPE, because the pipe is closed."""
    shell(f"{child} & {child} & yes | head -c 1000000")


def test_the_end_reads_only_what_a_pipe_holds():
    """PROCESS-4, with a child that has written more after each read."""

    class Refilled:
        def __init__(self):
            self.data = []

        def keep_output(self, name, data):
            self.data.append(data)
            os.write(writing, b"more")

        def line(self, name, line):
            pass

    reading, writing = os.pipe()
    running = Refilled()
    with open(reading, "rb", buffering=0) as file, contextlib.closing(process._Pipe(file, "out", running)) as pipe:
        os.write(writing, b"first")
        bursar.run(pipe.read_rest)
        assert running.data == [b"first"]
        os.close(writing)


def test_other_tasks_have_turns_between_very_many_lines(monkeypatch):
    """PROCESS-5."""

    async def wait_for_the_exit_only(running, left):
        await bursar.wait_readable(running._pidfd)

    monkeypatch.setattr(process._Running, "_wait_once", wait_for_the_exit_only)
    turns, seen = 0, []

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await bursar.sleep(0)

    async def main():
        async with bursar.nursery() as n:
            counting = n.spawn(count_turns)
            line = "head -c 60000 /dev/zero | tr '\\0' '\\n'"
            await process.execute([line], shell=True, grace=5.0, on_line=lambda stream, text: seen.append(turns))
            counting.cancel("done")

    bursar.run(main)
    assert len(seen) == 60_000
    assert max(seen.count(turn) for turn in set(seen)) <= process.READ_BYTES


def test_too_much_for_a_result(monkeypatch):
    monkeypatch.setattr(process, "CAPTURE_MAX", 10)
    with pytest.raises(CommandFailed, match="wrote more than 10 bytes, which is too much for a result"):
        shell("echo 12345678901", capture=True)


def test_a_line_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(process, "LINE_MAX", 10)
    lines = []
    shell("printf 1234567890123456789012345", lines)
    assert lines == [("out", "1234567890"), ("out", "1234567890"), ("out", "12345")]


def test_what_is_no_text_is_shown_all_the_same():
    lines = []
    shell(r"printf 'a\377b\303\251\r99%%\r'", lines)
    assert lines == [("out", "a\ufffdbé"), ("out", "99%")]


def test_nothing_to_read_from():
    assert shell("cat", capture=True) == ""


# ---- folder and environment


def test_folder_and_environment(tmp_path):
    env = os.environ | {VARIABLE: KEY, "WORD": "x y"}
    assert shell('echo "$WORD"; pwd', env=env, cwd=str(tmp_path), capture=True) == f"x y\n{tmp_path}"


def test_a_program_that_is_not_there():
    with pytest.raises(WorkflowError, match=r"the command 'no-such-program' cannot be started: .*is it installed"):
        run("no-such-program")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(WorkflowError, match=r"cwd .* is not a folder"):
        shell("true", cwd=str(tmp_path / "none"))


# ---- how it ends


def test_an_exit_code():
    with pytest.raises(CommandFailed, match="the command 'echo no >&2; exit 3' exited with code 3:\nno") as caught:
        shell("echo no >&2; exit 3")
    assert (caught.value.code, caught.value.tail) == (3, "no")


def test_only_the_last_lines_are_in_the_error():
    with pytest.raises(CommandFailed) as caught:
        shell("seq 100; false")
    assert caught.value.tail.splitlines() == [str(n) for n in range(81, 101)]


def test_a_signal():
    with pytest.raises(CommandFailed, match="was ended by SIGUSR1") as caught:
        shell("kill -USR1 $$")
    assert caught.value.code == -signal.SIGUSR1


def test_it_ends_with_its_exit_and_not_with_its_output():
    lines = []
    shell("sleep 1000 & echo left", lines)  # the sleep keeps the pipes open, and is killed when its leader has exited
    assert lines == [("out", "left")]


def test_it_may_close_its_output_and_go_on(tmp_path):
    shell("exec >&- 2>&-; echo done > file", cwd=str(tmp_path))
    assert (tmp_path / "file").read_text() == "done\n"


# ---- how it is stopped


def stop_when_ready(line, grace, **runtime):
    """Run a line of shell, stop it as soon as it prints `ready`, and return its other lines."""
    lines = []

    async def main():
        ready = bursar.Event()

        def heard(stream, text):
            ready.set() if text == "ready" else lines.append(text)

        async def work():
            env = os.environ | {VARIABLE: KEY}
            await process.execute([line], shell=True, env=env, grace=grace, on_line=heard)

        async with bursar.nursery() as n:
            task = n.spawn(work)
            await ready.wait()
            task.cancel("enough")
        return task.outcome.kind

    assert bursar.run(main, **runtime) is bursar.OutcomeKind.CANCELLED
    return lines


def test_it_is_asked_to_end_first():
    line = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 1000 & wait $!; done"
    assert "asked" in stop_when_ready(line, grace=60)


def test_all_that_it_started_is_asked():
    inner = "trap 'echo inner asked; exit' TERM; echo ready; while :; do sleep 1000 & wait $!; done"
    assert "inner asked" in stop_when_ready(
        f'trap : TERM; sh -c "{inner.replace("$", chr(92) + "$")}" & wait; wait', 60
    )


def test_it_is_killed_if_it_does_not_end():
    """It is killed after its grace, and not before."""
    began = time.monotonic()
    stop_when_ready("trap '' TERM; echo ready; sleep 1000", grace=0.2)
    assert time.monotonic() - began >= 0.2


def test_no_grace():
    line = "trap '' TERM; echo ready; sleep 1000"
    stop_when_ready(line, grace=0)


def test_a_timeout_stops_it():
    async def main():
        async with bursar.timeout(0.05):
            await process.execute(["sleep", "1000"], env=os.environ | {VARIABLE: KEY}, grace=60)

    with pytest.raises(TimeoutError):
        bursar.run(main)


def test_a_coroutine_that_is_closed_leaves_nothing():
    """The coroutine is cut during the grace, as when a run is torn down."""
    stop_when_ready("trap '' TERM; echo ready; sleep 1000", 60, cleanup=bursar.Cleanup(seconds=0.05))


def test_without_a_pidfd(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    lines = []
    shell("exec >&-; sleep 0.01; echo err >&2", lines)
    assert lines == [("err", "err")]
    stop_when_ready("echo ready; sleep 1000", grace=60)


def test_without_waitid(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.delattr(os, "waitid")
    assert shell("echo x", capture=True) == "x"
    stop_when_ready("echo ready; sleep 1000", grace=60)


# ---- no signal reaches another group


@pytest.fixture
def late_signals(monkeypatch):
    """The signals that were sent to a group whose leader was reaped already. Such a signal is not really sent."""
    late, sent, killpg, waitid = [], [], os.killpg, os.waitid

    def checked(group, number):
        sent.append(number)
        try:
            waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            late.append(number)
        else:
            killpg(group, number)

    monkeypatch.setattr(os, "killpg", checked)
    yield late
    assert sent


def end_in_every_way(monkeypatch):
    shell("sleep 1000 & true")
    stop_when_ready("trap exit TERM; echo ready; while :; do sleep 1000 & wait $!; done", grace=60)
    stop_when_ready("trap '' TERM; echo ready; sleep 1000", grace=0.05)
    twice = process._Running(process._start(["true"], False, None, None), False, None)
    twice.end()
    twice.end()
    monkeypatch.delattr(os, "waitid")
    shell("true")


def test_the_group_gets_signals_only_until_its_leader_is_reaped(late_signals, monkeypatch):
    """PROCESS-2."""
    end_in_every_way(monkeypatch)
    assert late_signals == []


def test_a_signal_after_the_leader_was_reaped_is_found(late_signals, monkeypatch):
    monkeypatch.setattr(process._Running, "signal", lambda self, number: os.killpg(self._process.pid, number))
    end_in_every_way(monkeypatch)
    assert late_signals == [signal.SIGKILL, signal.SIGKILL]
