"""What `dir()` shows of every public class: only what a program may use, and the same on both kernels.

A name that serves the package itself begins with an underscore, in C types too. A new public name belongs into the
table below, into a docstring and into the reference.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec

import pytest

import bursar

PUBLIC = {
    "Actor": "ask close send send_nowait task",
    "Aging": "boost interval",
    "Authority": "max_concurrent max_queue max_wait order pause_timeout reserve_after resources",
    "Budget": "as_tuple channel_ops child clamp cluster limits memory named none ops service spawns syscalls within",
    "BudgetExceeded": "code",
    "Call": "answered fail payload reply",
    "CancelKind": "BUDGET DEPENDENCY DROP PARENT SHUTDOWN SIBLING TIMEOUT USER",
    "CancelReason": "by detail kind",
    "Cancelled": "reason",
    "CapBudget": "ancestors attenuate covers delegable limits minted",
    "CapChannel": "ancestors attenuate covers delegable max_buffer max_channels minted",
    "CapClock": "ancestors attenuate covers delegable minted",
    "CapEntropy": "ancestors attenuate covers delegable minted",
    "CapExecutor": "ancestors attenuate backends covers delegable minted",
    "CapIO": "ancestors attenuate covers delegable minted",
    "CapSpawn": "ancestors attenuate covers delegable max_tasks minted task_budget",
    "CapTimer": "ancestors attenuate covers delegable minted",
    "Capability": "ancestors attenuate covers delegable minted",
    "Checkpoint": "charge",
    "Child": "name restart restarts task",
    "Cleanup": "ops seconds",
    "Event": "is_set set wait",
    "Explanation": "admission blockers cancelling id more_blockers name reason seconds spent state",
    "Hard": "amount",
    "Listener": "accept address close name port",
    "Lock": "acquire locked release",
    "Mailbox": "receive",
    "MemoryBudgetExceeded": "code",
    "NativeFunction": "address name stack",
    "Nursery": "budget cancel close name recharge result_kind spawn state tasks wait_exhausted",
    "NurseryState": "CANCELLED CANCELLING CLOSED CLOSING OPEN",
    "Outcome": "error kind reason traceback value",
    "OutcomeKind": "CANCELLED DROPPED FAILED OK PANICKED",
    "Portal": "call close spawn",
    "Priority": "HIGH LOW NORMAL",
    "ReceiveEnd": "clone close closed receive receive_nowait",
    "Report": "detail kind task",
    "Reservation": "abort send",
    "Retry": "backoff backoff_max factor on times",
    "Runtime": "cancel fingerprint grant header live reports result revoke run snapshot start statistics",
    "Selected": "value",
    "Semaphore": "acquire value",
    "SendEnd": "clone close closed reserve send send_nowait",
    "Snapshot": "decisions rows seconds tasks",
    "Soft": "amount",
    "SpawnBudgetExceeded": "code",
    "State": "BLOCKED DONE EXHAUSTED PAUSED PENDING READY RUNNING",
    "Statistics": "admission by_lane counters decisions done live seconds spawned steals steals_failed",
    "Stream": "close name peer receive receive_exactly receive_until send send_eof",
    "Supervisor": "children start stop",
    "Task": (
        "attempt budget cancel drop explain history id name outcome pause priority progress result resume "
        "retried_by retry_of spent state wait"
    ),
    "asyncio.AsyncioHost": "alarm close entropy handoff microtask name now_ns open unwatch virtual wake watch",
    "evidence.replay.Replayed": "error events fingerprint value",
    "evidence.verify.Verdict": "decisions events fingerprint",
    "workflow.Step": (
        "after cwd definition digest env grace kwargs name needs output priority retry timeout uses work"
    ),
    "workflow.Workflow": "authority check graph load needs run task",
}

# Prints the public attributes of every public class as JSON: of an object where one is easily made, so that what only
# objects have is seen too, otherwise of the class.
PROBE = """
import json
from importlib import import_module

import bursar

BASIC = {name for base in (int, str, tuple, Exception, OSError) for name in dir(base)}
found = {}


def see(thing, name=None):
    found[name or type(thing).__name__] = sorted(n for n in dir(thing) if not n.startswith("_"))


async def child():
    await bursar.sleep(1)


async def reader(mailbox):
    async for message in mailbox:
        see(mailbox, "Mailbox")
        see(message, "Call")
        message.reply(1)


async def main():
    for thing in (bursar.Event(), bursar.Lock(), bursar.Semaphore(1)):
        see(thing)
    send, receive = bursar.channel(1)
    see(send, "SendEnd")
    see(receive, "ReceiveEnd")
    with await send.reserve() as reservation:
        see(reservation, "Reservation")
        reservation.send(1)
    async with bursar.nursery() as n:
        see(n, "Nursery")
        task = n.spawn(child)
        see(task, "Task")
        see(task.explain(), "Explanation")
        with bursar.portal(n) as portal:
            see(portal, "Portal")
        actor = bursar.actor(n, reader)
        see(actor, "Actor")
        await actor.ask(1)
        actor.close()
    async with bursar.supervisor() as s:
        see(s, "Supervisor")
        see(s.start(child, restart="temporary"), "Child")
    see(task.outcome, "Outcome")


runtime = bursar.Runtime(clock="virtual", profile="cluster")
runtime.run(main)
see(runtime, "Runtime")
see(runtime.statistics(), "Statistics")
see(runtime.snapshot(), "Snapshot")
for module in ("", "asyncio.", "browser.", "evidence.replay.", "evidence.verify.", "workflow."):
    package = import_module(f"bursar.{module}".rstrip("."))
    for name in package.__all__:
        thing = getattr(package, name)
        if isinstance(thing, type) and module + name not in found:
            found[module + name] = sorted(n for n in dir(thing) if not n.startswith("_") and n not in BASIC)
print(json.dumps(found))
"""


def shown(kernel: str) -> dict[str, set[str]]:
    environment = {**os.environ, "BURSAR_KERNEL": kernel}
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return {name: set(found) for name, found in json.loads(done.stdout).items()}


@pytest.mark.parametrize(
    "kernel",
    [
        "python",
        pytest.param(
            "native", marks=pytest.mark.skipif(find_spec("bursar._native") is None, reason="there is no native kernel")
        ),
    ],
)
def test_dir_shows_what_a_program_may_use(kernel):
    pinned = {name: set(names.split()) for name, names in PUBLIC.items()}
    assert {name: names for name, names in shown(kernel).items() if names} == pinned


def test_a_helper_without_an_underscore_is_found():
    class Planted(bursar.Lock):
        def helper(self) -> None: ...

    names = {name for name in dir(Planted()) if not name.startswith("_")}
    assert names - set(PUBLIC["Lock"].split()) == {"helper"}


# ---- printing by name


@pytest.mark.parametrize("kind", [bursar.State, bursar.OutcomeKind, bursar.NurseryState, bursar.Priority])
def test_states_and_kinds_print_by_name(kind):
    assert [str(member) for member in kind] == [f"{member}" for member in kind] == [member.name for member in kind]
    first = next(iter(kind))
    assert f"{first:>12}" == first.name.rjust(12)
    # They are numbers all the same.
    assert first == int(first)
    assert json.dumps(first) == str(int(first))
    assert pickle.loads(pickle.dumps(first)) is first


def test_the_kinds_of_cancellation_print_as_reasons_do():
    assert str(bursar.CancelKind.USER) == "user"
    assert str(bursar.CancelReason(bursar.CancelKind.USER, "enough")) == "user: enough"


USER = bursar.CancelReason(bursar.CancelKind.USER, "enough", 3)


@pytest.mark.parametrize(
    ("thing", "printed"),
    [
        (USER, "CancelReason(USER, 'enough', by=3)"),
        (bursar.CancelReason(bursar.CancelKind.SHUTDOWN), "CancelReason(SHUTDOWN)"),
        (bursar.Outcome(bursar.OutcomeKind.OK, [1]), "Outcome(OK, value=[1])"),
        (bursar.Outcome(bursar.OutcomeKind.FAILED, error=ValueError("no")), "Outcome(FAILED, error=ValueError('no'))"),
        (
            bursar.Outcome(bursar.OutcomeKind.CANCELLED, reason=USER),
            "Outcome(CANCELLED, reason=CancelReason(USER, 'enough', by=3))",
        ),
    ],
)
def test_outcomes_and_reasons_are_short(thing, printed):
    assert repr(thing) == printed


def test_handles_name_their_state():
    async def work():
        await bursar.sleep(1)

    async def main():
        async with bursar.nursery(name="crew") as n:
            task = n.spawn(work)
            before = repr(task), repr(n)
        return *before, repr(task), repr(n)

    assert bursar.run(main, clock="virtual") == HANDLES


HANDLES = (
    "<Task 4 'test_handles_name_their_state.<locals>.work' READY>",
    "<Nursery nursery 'crew' OPEN, 1 live>",
    "<Task 4 'test_handles_name_their_state.<locals>.work' DONE ok>",
    "<Nursery nursery 'crew' CLOSED, 0 live>",
)
