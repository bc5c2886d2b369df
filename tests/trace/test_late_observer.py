"""An observer that is attached in the middle of a run gets events about tasks that ended before."""

import pytest
from support.evidence import Memory

from bursar import Runtime, nursery


async def quick():
    return 1


@pytest.mark.parametrize("written", [True, False], ids=["by the recorder", "by a function"])
def test_a_stale_wake_of_a_task_that_ended_unobserved_is_told(written):
    runtime = Runtime(clock="virtual")
    kernel, memory, heard = runtime.kernel, Memory(), []

    async def main():
        async with nursery() as n:
            task = n.spawn(quick)
        record = task._inside(kernel)
        if written:
            memory.attach(kernel)
        else:
            kernel.observer = lambda what, task, detail: heard.append(what)
        kernel.wake(record, record.generation)

    runtime.run(main)
    told = [event.name for event in memory.events()] if written else heard
    assert "stale_wake" in told
    assert runtime.kernel.counters["stale_wake"] == 1
