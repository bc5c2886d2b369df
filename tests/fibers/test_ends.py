"""Forks, Ctrl-C and the end of the process while native functions run: each test in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.native import built
from support.time_limits import WAIT_S

PRELUDE = """
import ctypes, os, sys
import bursar
from bursar import Budget, native
from bursar import nursery

lib = ctypes.CDLL(sys.argv[1])

class Meeting(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int32), ("go", ctypes.c_int32), ("ended", ctypes.c_int32))

reader, writer = os.pipe()
there = Meeting(fd=writer)

def say(*words):
    print(*words, flush=True)
"""


class Child:
    """A program in its own process. `line()` is the next line of its output."""

    def __init__(self, program: str) -> None:
        source = PRELUDE + textwrap.dedent(program)
        tests, given = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")
        path = os.pathsep.join([given, tests] if given else [tests])  # the same library as the function is linked with
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, str(built())],  # of fork with threads
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        out, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, out, errors


@pytest.fixture
def child():
    made: list[Child] = []

    def start(program: str) -> Child:
        made.append(Child(program))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


# ---- Ctrl-C


def test_ctrl_c_cancels_a_function_that_listens(child):
    program = child(
        """
        async def main():
            async with nursery() as n:
                n.spawn(native(lib.park), there)
                n.spawn(native(lib.spin))
                await bursar.wait_readable(reader)
                say("ready")
        try:
            bursar.run(main)
        except KeyboardInterrupt:
            say("interrupted", there.ended)
        """
    )
    assert program.line() == "ready"
    program.interrupt()
    assert program.line() == "interrupted -1"
    assert program.end() == (0, "", "")


def test_a_second_ctrl_c_does_not_wait_for_one_that_is_deaf(child):
    program = child(
        """
        import threading

        async def main():
            async with nursery() as n:
                n.spawn(native(lib.deaf), there)
                await bursar.wait_readable(reader)
                say("ready")
                try:
                    await bursar.sleep(1e9)
                finally:
                    say("told")
        try:
            bursar.run(main)
        except KeyboardInterrupt:
            from bursar.fibers import mailbox
            say("interrupted", there.ended, len(mailbox._abandoned_mailboxes))
        there.go = 1
        """
    )
    assert program.line() == "ready"
    program.interrupt()
    assert program.line() == "told"
    program.interrupt()
    assert program.line() == "interrupted 0 1"
    assert program.end() == (0, "", "")


# ---- the end of the process


def test_an_interpreter_that_ends_asks_strays_to_stop_and_waits(child):
    program = child(
        """
        import atexit, threading
        atexit.register(lambda: say("ended", there.ended))  # registered first, called last

        async def main():
            async with nursery() as n:
                n.spawn(native(lib.park), there)
                await bursar.sleep(1e9)

        threading.Thread(target=bursar.run, args=(main,), daemon=True).start()
        os.read(reader, 1)
        """
    )
    code, out, errors = program.end()
    assert (code, out, errors) == (0, "ended -1\n", "")


def test_one_that_never_stops_does_not_keep_the_process(child):
    """The function still writes to its argument while the interpreter is torn down."""
    program = child(
        """
        import threading
        from bursar.fibers import mailbox
        mailbox.EXIT_S_MAX = 0.05

        def start():
            async def main(there):
                async with nursery() as n:
                    n.spawn(native(lib.deaf), there)
                    del there
                    await bursar.sleep(1e9)

            threading.Thread(target=bursar.run, args=(main, Meeting(fd=writer)), daemon=True).start()

        start()
        os.read(reader, 1)
        """
    )
    assert program.end() == (0, "", "")


def test_exit_right_after_a_run_is_clean(child):
    program = child(
        """
        async def main():
            async with nursery() as n:
                tasks = [n.spawn(native(lib.ticks), 1000) for _ in range(100)]
            return sum(task.result for task in tasks)
        say(bursar.run(main))
        sys.exit(3)
        """
    )
    assert program.end() == (3, "100000\n", "")


def test_a_run_that_is_torn_down_leaves_nothing_behind(child):
    program = child(
        """
        from bursar.fibers import mailbox

        class Crash(BaseException):
            pass

        class Host(bursar.hosts.selector.SelectorHost):
            def run_until(self, over):
                super().run_until(lambda: over() or crashed)
                raise Crash

        crashed = []

        async def main():
            async with nursery() as n:
                n.spawn(native(lib.park), there)
                await bursar.wait_readable(reader)
                crashed.append(True)
                await bursar.sleep(1e9)

        files = len(os.listdir("/proc/self/fd"))
        try:
            bursar.run(main, host=Host())
        except Crash:
            say("crashed")
        while mailbox._abandoned_mailboxes:  # it was told, and needs a moment to leave
            mailbox.sweep()
        say(there.ended, len(os.listdir("/proc/self/fd")) - files)
        """
    )
    assert program.end() == (0, "crashed\n-1 0\n", "")


# ---- forks


def test_a_child_of_a_fork_is_refused_and_ends(child):
    program = child(
        """
        say(bursar.run(native(lib.echo), 1))
        pid = os.fork()
        if pid == 0:
            try:
                bursar.run(native(lib.echo), 2)
            except bursar.NativeUnavailable as error:
                say(error)
            try:
                native(lib.echo)
            except bursar.NativeUnavailable as error:
                say("again")
            sys.exit(0)
        _, status = os.waitpid(pid, 0)
        say(status, bursar.run(native(lib.echo), 3))
        """
    )
    code, out, errors = program.end()
    assert (code, errors) == (0, "")
    first, refusal, again, last = out.splitlines()
    assert (first, again, last) == ("1", "again", "0 3")
    assert "forked while native workers ran" in refusal


def test_a_fork_before_the_first_function_may_have_its_own(child):
    program = child(
        """
        f = native(lib.echo)
        pid = os.fork()
        if pid == 0:
            say(bursar.run(f, 2))
            sys.exit(0)
        _, status = os.waitpid(pid, 0)
        say(status, bursar.run(f, 3))
        """
    )
    assert program.end() == (0, "2\n0 3\n", "")


@pytest.mark.parametrize("host", ["SelectorHost()", "VirtualHost()"])
def test_a_fork_in_the_middle_fails_the_childs_tasks_and_not_the_parents(child, host):
    program = child(
        f"""
        from bursar.hosts.selector import SelectorHost
        from bursar.hosts.virtual import VirtualHost

        async def main():
            async with nursery(cancel_on_failure=False) as n:
                task = n.spawn(native(lib.deaf), there)
                await bursar.checkpoint()  # it begins
                os.read(reader, 1)
                pid = os.fork()
                if pid == 0:
                    try:
                        await task
                    except bursar.NativeUnavailable as error:
                        say(error)
                    os._exit(0)
                os.waitpid(pid, 0)
                there.go = 1
            return task.result

        say(bursar.run(main, host={host}))
        """
    )
    code, out, errors = program.end()
    assert (code, errors) == (0, "")
    assert out.splitlines() == [
        "task 'deaf': native function deaf runs in the parent of this forked process; get its result there",
        "5",
    ]
