"""The virtual host: a clock that jumps to the next deadline and never back."""

import time

import bursar
from bursar.hosts.virtual import VirtualHost


def test_it_starts_at_nothing_and_jumps():
    host = VirtualHost()
    assert host.now_ns() == 0
    host.wait_until(5_000)
    assert host.now_ns() == 5_000


def test_it_never_goes_back():
    host = VirtualHost()
    host.wait_until(5_000)
    host.wait_until(3_000)
    assert host.now_ns() == 5_000


def test_waking_and_closing_do_nothing():
    host = VirtualHost()
    host.wake()
    host.close()
    assert host.now_ns() == 0


def test_a_year_passes_in_no_time():
    async def main():
        await bursar.sleep(365 * 86400)
        return await bursar.now()

    before = time.monotonic()
    assert bursar.run(main, host=VirtualHost()) == 365 * 86400
    assert time.monotonic() - before < 5


def test_time_does_not_pass_while_something_is_runnable():
    async def main():
        for _ in range(1000):
            await bursar.checkpoint()
        return await bursar.now()

    assert bursar.run(main, clock="virtual") == 0.0
