"""Virtual time: on its own loop, and on the loops of other hosts."""

import signal
import sys
import threading

import pytest
from support.hosts import SelectorHost, make_host
from support.script import Await

import bursar
from bursar import Runtime
from bursar.hosts.virtual import VirtualClock, VirtualHost

YEAR = 365 * 86400


def in_a_thread(arrive) -> None:
    threading.Thread(target=arrive).start()


@pytest.fixture(params=["its own loop", "the loop of a selector host"])
def host(request):
    return VirtualHost() if request.param == "its own loop" else VirtualClock(SelectorHost())


# ---- time


def test_it_starts_at_nothing(host):
    assert (host.now_ns(), host.virtual) == (0, True)


def test_a_year_passes_in_no_time(host):
    async def main():
        await bursar.sleep(YEAR)
        return await bursar.now()

    assert bursar.run(main, host=host) == YEAR


def test_time_does_not_pass_while_something_is_runnable(host):
    async def main():
        for _ in range(1000):
            await bursar.checkpoint()
        return await bursar.now()

    assert bursar.run(main, host=host) == 0.0


def test_it_jumps_from_deadline_to_deadline_and_stops_at_each(host):
    seen = []

    async def sleeper(seconds):
        await bursar.sleep(seconds)
        seen.append((seconds, await bursar.now()))

    async def main():
        async with bursar.nursery() as n:
            for seconds in (3, 1, 2, 1):
                n.spawn(sleeper, seconds)

    bursar.run(main, host=host)
    assert seen == [(1, 1.0), (1, 1.0), (2, 2.0), (3, 3.0)]


def test_it_never_goes_back():
    host = VirtualClock(SelectorHost())

    async def main():
        await bursar.sleep(5)
        host.alarm(3_000)
        return await bursar.now()

    assert bursar.run(main, host=host) == 5.0


def test_it_stands_still_while_something_outside_is_awaited(host):
    """It is unknown how long that takes, so it takes no virtual time, and no deadline comes during it."""

    async def main():
        async with bursar.timeout(1):
            await Await(in_a_thread)
        before = await bursar.now()
        await bursar.sleep(1)
        return before, await bursar.now()

    assert bursar.run(main, host=host) == (0.0, 1.0)


def test_another_thread_can_cancel_a_run_that_waits_for_something_outside(host):
    runtime = Runtime(host=host)

    async def main():
        await Await(lambda arrive: in_a_thread(lambda: runtime.cancel("enough")))

    with pytest.raises(bursar.TaskCancelled, match="enough"):
        runtime.run(main)


def test_a_signal_ends_a_wait_for_something_outside(host):
    loop = threading.get_ident()

    async def main():
        await Await(lambda arrive: in_a_thread(lambda: signal.pthread_kill(loop, signal.SIGINT)))

    with pytest.raises(KeyboardInterrupt):
        bursar.run(main, host=host)


def test_the_schedule_is_the_same_on_either_loop():
    async def child(i):
        for _ in range(i % 4):
            await bursar.sleep(i % 3)

    async def main():
        async with bursar.nursery() as n:
            for i in range(40):
                n.spawn(child, i)

    def fingerprint(host) -> str:
        runtime = Runtime(host=host, seed=3, workers=2)
        runtime.run(main)
        return runtime.fingerprint

    assert fingerprint(VirtualHost()) == fingerprint(VirtualClock(SelectorHost()))


# ---- waking


def test_a_wake_may_come_between_any_two_lines_even_inside_another_wait():
    """From a signal handler or the garbage collector: with a lock, the thread would wait for itself."""
    host = VirtualHost()
    wakes = 0
    before = sys.gettrace()

    def disturb(frame, event, arg):
        nonlocal wakes
        if event == "line" and wakes < 5000:
            wakes += 1
            host.wake()
        return disturb

    async def main():
        sys.settrace(disturb)
        sys._getframe(8)  # the frames below are traced from here on
        for _ in range(50):
            await bursar.sleep(1)
        return await bursar.now()

    try:
        assert bursar.run(main, host=host) == 50.0
    finally:
        sys.settrace(before)
    assert wakes == 5000


def test_a_wake_that_nobody_needs_does_no_harm(host):
    async def main():
        host.wake()
        host.wake()
        await bursar.sleep(1)
        return "done"

    assert bursar.run(main, host=host) == "done"
    host.wake()


# ---- which host has which clock


def test_a_virtual_clock_is_put_only_on_a_host_with_a_real_one():
    virtual, selector = VirtualHost(), SelectorHost()
    assert make_host(virtual, "virtual") is virtual
    assert make_host(selector, "real") is selector
    assert isinstance(make_host(selector, "virtual"), VirtualClock)
    assert isinstance(make_host(None, "virtual"), VirtualHost)
    assert isinstance(make_host(None, "real"), SelectorHost)


def test_a_virtual_clock_changes_nothing_but_the_time():
    host = VirtualClock(SelectorHost())
    assert host.name == "native, virtual clock"
    assert all(hasattr(host, name) for name in ("run_until", "watch", "unwatch"))
    assert len(host.entropy(16)) == 16
    assert not hasattr(VirtualClock(VirtualHost()), "watch")


def test_what_a_host_does_not_have_its_virtual_clock_does_not_have_either():
    with pytest.raises(AttributeError, match="watch"):
        _ = VirtualClock(VirtualHost()).watch


@pytest.mark.parametrize("make", [SelectorHost, VirtualHost])
def test_a_host_drives_one_run_at_a_time_and_each_from_the_beginning(make):
    host = make()

    async def inner():
        begun = await bursar.now()
        await bursar.sleep(0.001)
        return begun

    async def outer():
        with pytest.raises(bursar.HostMisuse, match="drives another run already; give each run a host of its own"):
            bursar.run(inner, host=host)
        await bursar.sleep(0.5 if host.virtual else 0)
        return "went on"

    assert bursar.run(outer, host=host) == "went on"
    assert bursar.run(inner, host=host) < 0.5
