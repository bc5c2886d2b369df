"""The selector host: its clock, its alarm, wakes from threads and signals, registered files, and a clean end."""

import os
import socket
import threading
import time

import pytest
from support.real_sockets import open_files, real
from support.time_limits import WAIT_S

import bursar
from bursar.hosts.selector import SelectorHost

LONG_S = WAIT_S  # a loop that takes this long was not woken
LONG_NS = 2 * WAIT_S * 1_000_000_000


class Pump:
    """Counts the calls of a host, and ends the host's loop after a given number of them."""

    listeners = 0

    def __init__(self, host, calls):
        self.host = host
        self.left = calls
        self.log = []
        self.on_drain = None
        host.open(self)

    def drain(self):
        self.log.append("drain")
        self.left -= 1
        if self.on_drain is not None:
            self.on_drain()

    def rang(self):
        self.log.append("rang")
        self.left -= 1

    def run(self):
        before = time.monotonic()
        self.host.run_until(lambda: self.left <= 0)
        assert time.monotonic() - before < LONG_S, "it waited for the alarm"
        return self.log


@pytest.fixture
def host():
    made = SelectorHost()
    yield made
    made.close()


@pytest.fixture
def pair():
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


def test_it_is_a_loop_and_knows_files():
    assert all(hasattr(SelectorHost(), name) for name in ("run_until", "watch", "unwatch"))


def test_the_clock_starts_near_nothing_and_moves(host):
    Pump(host, 0)
    first = host.now_ns()
    assert 0 <= first < 1_000_000_000
    assert host.now_ns() >= first


def test_entropy_has_the_length_that_was_asked_for(host):
    Pump(host, 0)
    assert len(host.entropy(32)) == 32
    assert host.entropy(32) != host.entropy(32)


def test_an_alarm_rings_at_its_time_and_once(host):
    pump = Pump(host, 1)
    deadline_ns = host.now_ns() + 5_000_000
    host.alarm(deadline_ns)
    assert pump.run() == ["rang"]
    assert host.now_ns() >= deadline_ns
    pump.left = 1
    host.wake()
    assert pump.run() == ["rang", "drain"]


def test_an_alarm_replaces_the_one_before(host):
    pump = Pump(host, 1)
    host.alarm(host.now_ns() + LONG_NS)
    host.alarm(0)
    assert pump.run() == ["rang"]


def test_a_microtask_comes_before_an_alarm_that_is_due(host):
    pump = Pump(host, 2)
    host.alarm(0)
    host.microtask()
    assert pump.run() == ["drain", "rang"]


def test_a_handoff_lets_files_have_their_turn_first(host, pair):
    pump = Pump(host, 1)
    pair[1].send(b"x")
    host.watch(pair[0].fileno(), False, lambda: pump.log.append("ready"))
    host.handoff()
    assert pump.run() == ["ready", "drain"]


def test_wakes_before_the_wait_are_one_wake(host):
    pump = Pump(host, 1)
    host.alarm(host.now_ns() + LONG_NS)
    for _ in range(100_000):
        host.wake()
    assert pump.run() == ["drain"]
    pump.left = 1
    host.alarm(host.now_ns() + 2_000_000)
    assert pump.run() == ["drain", "rang"]


def test_a_wake_from_another_thread_ends_a_wait(host):
    pump = Pump(host, 1)
    host.alarm(host.now_ns() + LONG_NS)
    thread = threading.Timer(0.02, host.wake)
    thread.start()
    assert pump.run() == ["drain"]
    thread.join()


def test_no_wake_is_lost_however_it_falls(host):
    """Each wake comes while the loop is at another point, and each must be followed by a call."""
    pump = Pump(host, 2000)
    host.alarm(host.now_ns() + LONG_NS)
    answered = threading.Semaphore(0)
    pump.on_drain = answered.release

    def wake():
        for _ in range(2000):
            host.wake()
            assert answered.acquire(timeout=LONG_S)

    thread = threading.Thread(target=wake)
    thread.start()
    assert pump.run() == ["drain"] * 2000
    thread.join()


def test_a_watch_calls_once(host, pair):
    pump = Pump(host, 3)
    calls = []
    pair[1].send(b"xx")
    host.watch(pair[0].fileno(), False, lambda: calls.append("ready"))
    pump.on_drain = host.handoff
    host.handoff()
    pump.run()
    assert calls == ["ready"]


def test_a_file_stays_with_the_selector_until_it_is_ready_for_nobody(host, pair):
    pump = Pump(host, 1)
    fd = pair[0].fileno()
    pair[1].send(b"x")
    host.watch(fd, False, lambda: None)
    host.handoff()
    pump.run()
    assert fd in host._selector.get_map()
    pump.left = 1
    host.handoff()
    pump.run()
    assert fd not in host._selector.get_map()
    called = []
    host.watch(fd, False, lambda: called.append(1))
    pump.left = 1
    host.handoff()
    pump.run()
    assert called == [1]


def test_both_directions_of_a_file_are_watched_apart(host, pair):
    pump = Pump(host, 1)
    fd, calls = pair[0].fileno(), []
    host.watch(fd, False, lambda: calls.append("read"))
    host.watch(fd, True, lambda: calls.append("write"))
    host.handoff()
    pump.run()
    assert calls == ["write"]
    host.unwatch(fd, True)
    pair[1].send(b"x")
    pump.left = 1
    host.handoff()
    pump.run()
    assert calls == ["write", "read"]


def test_an_unwatched_file_calls_nobody_and_unwatching_is_idempotent(host, pair):
    pump = Pump(host, 1)
    fd, calls = pair[0].fileno(), []
    pair[1].send(b"x")
    host.watch(fd, False, lambda: calls.append("ready"))
    for _ in range(3):
        host.unwatch(fd, False)
        host.unwatch(fd, True)
    host.handoff()
    pump.run()
    assert calls == []


def test_unwatching_a_file_that_was_closed_is_no_error(host):
    Pump(host, 0)
    reader, writer = os.pipe()
    host.watch(reader, False, lambda: None)
    host.watch(writer, True, lambda: None)
    os.close(reader)
    os.close(writer)
    host.unwatch(reader, False)
    host.unwatch(writer, True)


def test_a_wake_after_the_end_does_nothing():
    before = open_files()
    host = SelectorHost()
    Pump(host, 0)
    host.close()
    host.wake()
    assert open_files() == before


def test_a_run_closes_its_host():
    host = SelectorHost()

    async def main():
        return await bursar.now()

    assert real(main, host=host) >= 0
    assert host._reader.fileno() == -1
    assert host._writer.fileno() == -1


def test_a_failed_run_closes_its_host():
    host = SelectorHost()

    async def main():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        real(main, host=host)
    assert host._reader.fileno() == -1
