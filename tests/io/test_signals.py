"""`wait_signal`: a signal wakes the tasks that wait for it, also if the loop sleeps. The old handler is restored."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from textwrap import dedent

import pytest
from support.hosts import PumpState, SelectorHost
from support.real_sockets import real, settled
from support.time_limits import WAIT_S

import bursar
from bursar import Budget, CapSpawn, HostMisuse, now, nursery, select, sleep, timeout, wait_signal
from bursar.asyncio import run as run_in_asyncio


async def wait_for(number):
    await wait_signal(number)
    return number


def test_a_signal_wakes_everyone_who_waits_for_it_and_nobody_else():
    async def main():
        async with nursery() as n:
            tasks = [n.spawn(wait_for, number) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1)]
            await settled()
            assert tasks[0].explain().reason == "waits for SIGUSR1"
            os.kill(os.getpid(), signal.SIGUSR1)
            await tasks[0]
            await tasks[2]
            assert tasks[1].outcome is None
            os.kill(os.getpid(), signal.SIGUSR2)
        return [task.result for task in tasks]

    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)
    assert real(main) == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1]
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)) == before


def test_the_old_handler_is_back_when_nobody_waits_any_more():
    def mine(number, frame):
        """The program's own handler."""

    async def main():
        during = []
        async with nursery() as n:
            tasks = [n.spawn(wait_for, signal.SIGUSR1) for _ in range(2)]
            await settled()
            for task in tasks:
                during.append(signal.getsignal(signal.SIGUSR1) is mine)
                task.cancel()
                await task.wait()
        return during, signal.getsignal(signal.SIGUSR1) is mine

    before = signal.signal(signal.SIGUSR1, mine)
    try:
        assert real(main) == ([False, False], True)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_can_be_a_case_of_a_select():
    async def main():
        assert (await select(wait_signal(signal.SIGUSR1), sleep(0.001))).index == 1
        async with nursery() as n:
            task = n.spawn(first)
            await settled()
            os.kill(os.getpid(), signal.SIGUSR1)
        return task.result

    async def first():
        return (await select(sleep(60), wait_signal(signal.SIGUSR1))).index

    assert real(main) == 1


@pytest.mark.parametrize("host", [None, SelectorHost])
def test_virtual_time_does_not_stand_still_for_a_signal(host):
    async def main():
        with pytest.raises(TimeoutError):
            async with timeout(3600):
                await wait_signal(signal.SIGUSR1)
        async with nursery() as n:
            n.spawn(wait_for, signal.SIGUSR1)
            await sleep(60)
            os.kill(os.getpid(), signal.SIGUSR1)
        return await now()

    assert real(main, clock="virtual", host=host and host()) == 3660


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_with_nothing_but_a_signal_to_wait_for_it_is_waited_for(clock):
    """This is not a deadlock, with either clock: the signal may still come."""

    over = threading.Event()

    def send():
        while real.runtime.pump.state is not PumpState.IDLE:
            pass
        while not over.wait(0.01):  # Python may miss a signal that comes just before its thread sleeps
            os.kill(os.getpid(), signal.SIGUSR1)

    async def main():
        async with nursery() as n:
            n.spawn(wait_for, signal.SIGUSR1)
            await settled()
            sender.start()

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)  # for signals that come when the run is over
    try:
        real(main, clock=clock)
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_another_thread_catches_wakes_the_loop():
    """The system may deliver a signal to any thread. Python runs the handler in the main thread, which sleeps."""
    host = SelectorHost()

    def catch():
        while not host._asleep:
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    async def main():
        async with nursery() as n:
            n.spawn(wait_for, signal.SIGUSR1)
            await settled()
            thread.start()

    thread = threading.Thread(target=catch)
    real(main, host=host)
    thread.join()
    assert signal.set_wakeup_fd(-1) == -1


def test_a_sleeping_loop_is_woken_by_a_signal_from_outside():
    """In a separate process: SIGTERM shuts a server down, which then prints a last line."""
    program = """
        import signal
        import bursar

        async def main():
            async with bursar.nursery() as n, await bursar.listen_tcp() as listener:
                n.spawn(bursar.serve, listener, print_it, n)
                n.spawn(announce)
                await bursar.wait_signal(signal.SIGTERM)
                print("shutting down", flush=True)
                n.cancel()
            print("goodbye", flush=True)

        async def announce():
            await bursar.sleep(0.01)
            print("started", flush=True)

        async def print_it(stream):
            print(await stream.receive())

        bursar.run(main)
    """
    child = subprocess.Popen([sys.executable, "-u", "-c", dedent(program)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout.readline() == "started\n"
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=WAIT_S)
    assert out == "shutting down\ngoodbye\n"
    assert child.returncode == 0


def test_ctrl_c_can_be_waited_for_like_any_other():
    async def main():
        async with nursery() as n:
            task = n.spawn(wait_for, signal.SIGINT)
            await settled()
            os.kill(os.getpid(), signal.SIGINT)
        return task.result

    assert real(main) == signal.SIGINT


def test_it_costs_a_syscall_and_needs_the_capability():
    async def main():
        async with nursery() as n:
            task = n.spawn(wait_for, signal.SIGUSR1)
            await settled()
            os.kill(os.getpid(), signal.SIGUSR1)
        return task.spent

    async def denied():
        with pytest.raises(bursar.CapabilityDenied, match="may not wait for SIGUSR1: it holds no CapIO"):
            await wait_signal(signal.SIGUSR1)

    assert real(main) == Budget(1, 0, 0, 0, 1)
    real(denied, capabilities=[CapSpawn()])


def test_only_the_main_thread_hears_of_signals():
    async def main():
        with pytest.raises(HostMisuse, match="only the main thread of a process receives signals"):
            await wait_signal(signal.SIGUSR1)
        return "told"

    told = []
    thread = threading.Thread(target=lambda: told.append(bursar.run(main)))
    thread.start()
    thread.join()
    assert told == ["told"]


@pytest.mark.parametrize(("number", "message"), [(signal.SIGKILL, "cannot be caught"), (4711, "no such signal")])
def test_what_cannot_come_is_refused(number, message):
    with pytest.raises(ValueError, match=message):
        wait_signal(number)


def test_a_signal_wakes_every_runtime_that_waits_for_it():
    async def both():
        guests = [asyncio.create_task(run_in_asyncio(wait_for, signal.SIGUSR1)) for _ in range(2)]
        await waiting(2)
        os.kill(os.getpid(), signal.SIGUSR1)
        return await asyncio.gather(*guests)

    before = signal.getsignal(signal.SIGUSR1)
    assert asyncio.run(both()) == [signal.SIGUSR1, signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is before


@pytest.mark.parametrize("first", [0, 1], ids=["the older one", "the younger one"])
def test_a_runtime_that_waits_no_more_leaves_the_signal_to_the_others(first):
    async def both():
        guests = [asyncio.create_task(run_in_asyncio(wait_for, signal.SIGUSR1)) for _ in range(2)]
        await waiting(2)
        guests.pop(first).cancel()
        await waiting(1)
        os.kill(os.getpid(), signal.SIGUSR1)
        return await guests[0]

    before = signal.getsignal(signal.SIGUSR1)
    assert asyncio.run(both()) == signal.SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) is before


async def waiting(number):
    """Wait until the given number of runtimes wait for the signal."""
    while True:
        handler, found = getattr(signal.getsignal(signal.SIGUSR1), "__self__", None), 0
        while handler is not None:
            handler, found = getattr(handler._previous, "__self__", None), found + 1
        if found == number:
            return
        await asyncio.sleep(0)
