"""Programs that must end in a stated way, each in its own process: what ends a task, and what ends the process."""

import signal
import subprocess
from pathlib import Path

import pytest
from support.building import plain_project
from support.time_limits import WAIT_S


@pytest.fixture(scope="module")
def die() -> Path:
    """The program, built."""
    return plain_project("die") / "die" / "die"


def ended(program: Path, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, what], capture_output=True, text=True, check=False, timeout=WAIT_S)


def test_an_overflow_ends_the_task_and_not_the_process(die: Path):
    done = ended(die, "overflow")
    assert (done.returncode, done.stdout) == (0, "awaited -2\nawaited -2\n")


def test_a_wild_pointer_in_a_task_kills(die: Path):
    assert ended(die, "wild").returncode == -signal.SIGSEGV


def test_an_abort_in_a_task_kills(die: Path):
    assert ended(die, "abort").returncode == -signal.SIGABRT


def test_a_task_may_end_the_process(die: Path):
    assert ended(die, "exit").returncode == 23


def test_returning_from_main_with_tasks_alive_is_clean(die: Path):
    done = ended(die, "return")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_task_may_end_the_process_in_order(die: Path):
    assert ended(die, "exit_in_order").returncode == 24


def test_stopping_at_exit_ends_tasks_that_wait(die: Path):
    done = ended(die, "stop_at_exit")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_task_that_never_stops_does_not_keep_the_process(die: Path):
    assert ended(die, "compute").returncode == 0


def test_a_fork_can_end_while_tasks_wait(die: Path):
    assert ended(die, "fork").returncode == 25


def test_an_overflow_in_a_callback_of_a_worker_kills(die: Path):
    assert ended(die, "done_overflow").returncode == -signal.SIGSEGV


def test_an_overflow_in_a_callback_of_a_task_ends_the_task(die: Path):
    done = ended(die, "callback_overflow")
    assert (done.returncode, done.stdout) == (0, "awaited -2\n")


def test_without_a_runtime_every_function_returns(die: Path):
    done = ended(die, "no_runtime")
    assert (done.returncode, done.stdout) == (0, "-4 -5 -5 0\n" * 2)


def test_an_overflow_outside_tasks_kills(die: Path):
    assert ended(die, "thread").returncode == -signal.SIGSEGV


@pytest.mark.parametrize("way", ["alone", "beside", "above"])
def test_a_task_that_ends_its_thread_ends_the_process_and_is_named(die: Path, way: str):
    done = ended(die, f"pthread_exit_{way}")  # one worker; two; above the frames of its owner
    assert done.returncode == -signal.SIGABRT
    assert "ended the thread that it ran on" in done.stderr
    assert ("quitter" in done.stderr) == (way != "above")


def test_a_broken_rule_stops_the_process_and_says_which(die: Path):
    done = ended(die, "rule")
    assert done.returncode == -signal.SIGABRT
    assert "rule CHILDREN-2 of the law" in done.stderr
