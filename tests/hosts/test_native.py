"""The native host: the monotonic clock, a wait that ends early when it is woken, and sockets that are given back."""

import threading
import time

import pytest

import bursar
from bursar.hosts.native import NativeHost

LONG_NS = 60_000_000_000


@pytest.fixture
def host():
    made = NativeHost()
    yield made
    made.close()


def test_the_clock_starts_near_nothing_and_moves(host):
    first = host.now_ns()
    assert 0 <= first < 1_000_000_000
    assert host.now_ns() >= first


def test_a_wait_ends_at_its_deadline(host):
    deadline_ns = host.now_ns() + 5_000_000
    host.wait_until(deadline_ns)
    assert host.now_ns() >= deadline_ns


def test_a_deadline_that_is_past_is_no_wait(host):
    before = time.monotonic()
    host.wait_until(0)
    assert time.monotonic() - before < 1


def test_a_wake_before_the_wait_ends_it_at_once_and_once(host):
    for _ in range(10):
        host.wake()
    before = time.monotonic()
    host.wait_until(host.now_ns() + LONG_NS)
    assert time.monotonic() - before < 5
    deadline_ns = host.now_ns() + 2_000_000
    host.wait_until(deadline_ns)  # all ten wakes were one
    assert host.now_ns() >= deadline_ns


def test_a_wake_from_another_thread_ends_a_wait(host):
    thread = threading.Timer(0.02, host.wake)
    thread.start()
    before = time.monotonic()
    host.wait_until(host.now_ns() + LONG_NS)
    assert time.monotonic() - before < 5
    thread.join()


def test_more_wakes_than_the_pipe_holds_are_one_wake(host):
    for _ in range(100_000):
        host.wake()
    host.wait_until(host.now_ns() + LONG_NS)


def test_a_run_closes_its_host():
    host = NativeHost()

    async def main():
        return await bursar.now()

    assert bursar.run(main, host=host) >= 0
    assert host._reader.fileno() == -1
    assert host._writer.fileno() == -1


def test_a_failed_run_closes_its_host():
    host = NativeHost()

    async def main():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        bursar.run(main, host=host)
    assert host._reader.fileno() == -1
