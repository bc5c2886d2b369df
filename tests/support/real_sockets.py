"""Runs with real sockets. After each run the law holds, the pump waits for nothing, and no file is left open.

Nothing here sleeps. To let another task reach its wait, a task yields a few times: `settled()`.
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
    """Yield until all other tasks wait, and the host has delivered what came in."""
    for _ in range(2 * BURST_MAX):
        await bursar.checkpoint()
