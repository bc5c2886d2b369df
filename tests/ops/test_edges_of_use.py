"""What a program sees at the edges: messages of checkpoints, the clock of a snapshot, cases of select, refusals."""

import inspect
import stat
import threading

import pytest
from support.hosts import SelectorHost
from support.time_limits import WAIT_S

import bursar
import bursar.asyncio


def test_an_explanation_shows_the_message_the_progress_and_the_ops_of_a_function():
    reported, leave = threading.Event(), threading.Event()

    def work(checkpoint: bursar.Checkpoint):
        for i in range(5):
            checkpoint(i / 10, f"page {i}")
        reported.set()
        assert leave.wait(WAIT_S)

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(work)
            await n.spawn(reported.wait, WAIT_S)
            found = task.explain()
            leave.set()
        return found

    found = bursar.run(main)
    assert found.reason == "runs on a thread: 40%, page 4"
    assert found.spent.ops >= 5


def test_a_snapshot_from_outside_reads_the_clock_of_the_host():
    class Late(SelectorHost):
        late_ns = 0

        def now_ns(self):
            return super().now_ns() + self.late_ns

    host, found = Late(), []
    runtime = bursar.Runtime(host=host)

    async def main():
        host.late_ns = 10**15
        found.append(runtime.snapshot().seconds)
        found.append(runtime._dump().seconds)

    runtime.run(main)
    assert found[0] < 10**6 <= found[1]


def test_a_lock_is_a_case_of_select():
    async def main():
        lock = bursar.Lock()
        async with bursar.nursery() as n:
            await lock.acquire()

            async def other():
                index, _ = await bursar.select(bursar.sleep(1), lock.acquire())
                assert index == 1
                lock.release()

            task = n.spawn(other)
            await bursar.sleep(0.5)
            lock.release()
        return task.outcome.kind.name, lock.locked()

    assert bursar.run(main, clock="virtual") == ("OK", False)


def test_select_of_a_task_names_its_wait():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(bursar.checkpoint)
            with pytest.raises(TypeError, match=r"task\.wait\(\)"):
                bursar.select(task)

    bursar.run(main)


def test_asyncio_takes_every_keyword_of_run_but_the_host():
    ours, theirs = (inspect.signature(run).parameters.keys() for run in (bursar.run, bursar.asyncio.run))
    assert ours - theirs == {"host"}


def test_only_the_user_may_read_a_new_trace(tmp_path):
    path = tmp_path / "run.trace"

    async def main():
        await bursar.checkpoint()

    bursar.run(main, record=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
