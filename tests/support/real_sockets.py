"""Runs on the native host, with real sockets: after each one the law holds, nobody is waited for, no file is left open.

Nothing here sleeps. To let another task come to its wait, a task gives way a few times: `settled()`.
"""

from __future__ import annotations

import gc
import os

import bursar
from support.drive import checked, over
from support.hosts import BURST_MAX


def open_files() -> dict[str, str]:
    """Every open file of the process: number and what it is."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue  # the listing itself
    return found


class Real:
    """`real(fn, *args, **keywords)`: like `bursar.run`; `real.runtime` is the last one."""

    runtime: bursar.Runtime

    def __call__(self, fn, *args, **keywords):
        gc.collect()
        before = open_files()
        self.runtime = checked(bursar.Runtime(**keywords))
        try:
            return self.runtime.run(fn, *args)
        finally:
            over(self.runtime)
            pump = self.runtime.pump
            assert pump.sources == pump.listeners == 0, "something outside is still waited for"
            assert not pump.expected, "a wait was not taken back"
            assert open_files() == before, "a file was left open"

    @property
    def reports(self):
        return [report.kind for report in self.runtime.reports]


real = Real()


async def settled() -> None:
    """Everybody else who could run has done so, and waits; the host has had its turn, and what came in is taken in."""
    for _ in range(2 * BURST_MAX):
        await bursar.checkpoint()
