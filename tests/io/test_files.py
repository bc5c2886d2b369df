"""Waiting for files: readiness is reported once, the capability is checked then, and no task waits for ever."""

import contextlib
import os
import socket
import threading

import pytest
from support.evidence import Memory, Trace, replay
from support.hosts import SelectorHost
from support.real_sockets import real, settled

import bursar
from bursar import Budget, CapIO, CapSpawn, HostMisuse, nursery, select, sleep, wait_readable, wait_writable


@pytest.fixture
def pair():
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


async def read(file):
    await wait_readable(file)
    return file.recv(100)


def test_a_task_waits_until_there_is_something_to_read(pair):
    async def main():
        async with nursery() as n:
            task = n.spawn(read, pair[0])
            await settled()
            assert task.explain().reason == "waits until a file is readable"
            pair[1].send(b"hello")
        return task.result

    assert real(main) == b"hello"


def test_a_number_does_as_well_as_an_object():
    async def main():
        reader, writer = os.pipe()
        await wait_writable(writer)
        os.write(writer, b"x")
        await wait_readable(reader)
        os.close(reader)
        os.close(writer)

    real(main)


def test_a_wait_ends_when_there_is_room_to_write(pair):
    async def main():
        with contextlib.suppress(BlockingIOError):
            while True:
                pair[0].send(b"x" * 100_000)
        async with nursery() as n:
            task = n.spawn(wait_for_room)
            await settled()
            assert task.outcome is None
            while True:
                try:
                    pair[1].recv(1_000_000)
                except BlockingIOError:
                    break
        return task.result

    async def wait_for_room():
        await wait_writable(pair[0])
        return pair[0].send(b"x")

    assert real(main) == 1


def test_a_part_that_is_left_unread_is_ready_again(pair):
    async def main():
        pair[1].send(b"abc")
        got = []
        for _ in range(3):
            await wait_readable(pair[0])
            got.append(pair[0].recv(1))
        return b"".join(got)

    assert real(main) == b"abc"


def test_both_directions_may_be_waited_for_at_once(pair):
    async def main():
        async with nursery() as n:
            task = n.spawn(read, pair[0])
            await settled()
            await wait_writable(pair[0])
            pair[1].send(b"x")
        return task.result

    assert real(main) == b"x"


def test_select_takes_the_file_that_is_ready(pair):
    async def main():
        async with nursery() as n:
            task = n.spawn(choose)
            await settled()
            assert "waits until a file is readable; waits until a file is readable" in task.explain().reason
            other[1].send(b"x")
        return task.result

    async def choose():
        index, value = await select(wait_readable(pair[0]), wait_readable(other[0]), sleep(60))
        return index, value

    other = socket.socketpair()
    try:
        assert real(main) == (1, None)
    finally:
        for end in other:
            end.close()


def test_select_may_name_the_same_file_twice(pair):
    async def main():
        pair[1].send(b"x")
        return (await select(wait_readable(pair[0]), wait_readable(pair[0]))).index

    assert real(main) == 0


def test_a_timeout_ends_a_wait_and_the_file_can_be_waited_for_again(pair):
    async def main():
        assert (await select(wait_readable(pair[0]), sleep(0.001))).index == 1
        pair[1].send(b"again")
        return await read(pair[0])

    assert real(main) == b"again"


def test_readiness_that_comes_for_a_cancelled_task_is_harmless(pair):
    """The readiness is posted, and the task ends before the post enters a batch."""

    async def main():
        async with nursery() as n:
            task = n.spawn(read, pair[0])
            await settled()
            ((_, deliver),) = real.runtime.pump.expected.items()
            task.cancel()
            await settled()
            assert task.outcome is not None
            real.runtime.kernel.observe(lambda kind, task, detail: events.append(kind))
            deliver()
            real.runtime.kernel.observe(None)
            pair[1].send(b"x")
            return await read(pair[0])

    events = []
    assert real(main) == b"x"
    assert events == [], "FILES-2"


def test_waiting_for_a_file_is_no_deadlock_and_virtual_time_stands_still(pair):
    async def main():
        async with nursery() as n:
            task = n.spawn(read, pair[0])
            thread.start()
            await task
            return await bursar.now()

    thread = threading.Timer(0.01, pair[1].send, [b"x"])
    assert real(main, host=SelectorHost(), clock="virtual") == 0.0
    thread.join()


def test_waiting_costs_one_syscall(pair):
    async def main():
        pair[1].send(b"x")
        async with nursery() as n:
            task = n.spawn(read, pair[0])
        return task.spent

    assert real(main) == Budget(1, 0, 0, 0, 1)


def test_a_task_without_syscalls_does_not_wait(pair):
    async def main():
        async with nursery() as n:
            n.spawn(read, pair[0], budget=Budget(syscalls=0))

    with pytest.raises(ExceptionGroup) as caught:
        real(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, bursar.BudgetExceeded)
    assert error.component == "syscalls"


def test_a_task_without_the_capability_does_not_wait(pair):
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"task 'main' .* may not wait for a file: it holds no CapIO"):
            await wait_readable(pair[0])

    main.__qualname__ = "main"
    real(main, capabilities=[CapSpawn()])


def test_a_capability_that_is_revoked_while_a_task_waits_fails_closed(pair):
    async def main():
        mine = (await bursar.capabilities())[CapIO].attenuate()
        async with nursery(cancel_on_failure=False) as n:
            task = n.spawn(read, pair[0], capabilities=[mine])
            await settled()
            await bursar.revoke(mine)
            pair[1].send(b"secret")

            with pytest.raises(bursar.CapabilityRevoked, match="its CapIO has been revoked"):
                await task

    with pytest.raises(ExceptionGroup):
        real(main)
    assert pair[0].recv(100) == b"secret"


def test_a_second_task_is_refused_and_the_first_is_not_disturbed(pair):
    async def main():
        async with nursery() as n:
            task = n.spawn(read, pair[0], name="first")
            await settled()
            with pytest.raises(HostMisuse, match=r"is readable: task 'first' already waits for that; let one task"):
                await wait_readable(pair[0])
            pair[1].send(b"mine")
        return task.result

    assert real(main) == b"mine"


@pytest.mark.parametrize("number", [False, True], ids=["a socket", "a number"])
def test_a_file_that_is_closed_while_it_is_waited_for_is_an_error(number):
    async def main():
        ends = socket.socketpair()
        async with nursery(cancel_on_failure=False) as n:
            n.spawn(wait_for, ends[0].fileno() if number else ends[0], name="waits")
            await settled()
            for end in ends:
                end.close()

    async def wait_for(file):
        await wait_readable(file)

    with pytest.raises(ExceptionGroup) as caught:
        real(main)
    (error,) = caught.value.exceptions
    assert isinstance(error, HostMisuse)
    assert "task 'waits' cannot wait until file" in str(error)
    assert "it was closed during the wait" in str(error)


def test_a_number_that_was_closed_and_given_away_again_belongs_to_the_new_file():
    async def main():
        ends = socket.socketpair()
        number = ends[0].fileno()
        async with nursery(cancel_on_failure=False) as n:
            n.spawn(wait_for, number, name="old")
            await settled()
            for end in ends:
                end.close()
            new = socket.socketpair()
            with new[0], new[1]:
                assert new[0].fileno() == number
                await wait_writable(new[0])
                new[1].send(b"x")
                await wait_readable(number)

    async def wait_for(number):
        await wait_readable(number)

    with pytest.raises(ExceptionGroup) as caught:
        real(main)
    assert ["it was closed during the wait" in str(error) for error in caught.value.exceptions] == [True]


def test_a_refusal_is_played_back(pair, tmp_path):
    async def main():
        async with nursery() as n:
            task = n.spawn(read, pair[0], name="first")
            await settled()
            with pytest.raises(HostMisuse, match="task 'first' already waits for that"):
                await wait_readable(pair[0])
            task.cancel()

    trace = tmp_path / "refused.trace"
    real(main, record=str(trace))
    assert replay(Trace(trace), main).error is None


def test_a_file_that_is_ready_when_the_run_is_torn_down_wakes_nobody(pair):
    async def main():
        async with nursery() as n:
            n.spawn(read, pair[0])
            await settled()
            runtime.pump.post("cancel", stop)
            await bursar.Event().wait()

    def stop():
        (deliver,) = runtime.pump.expected.values()
        runtime.pump.post("ready", deliver)
        raise KeyboardInterrupt

    memory = Memory()
    runtime = bursar.Runtime(record=memory)
    with pytest.raises(KeyboardInterrupt):
        runtime.run(main)
    assert [event.name for event in memory.events()][-1] == "run_torn_down"


def test_a_closed_file_and_a_file_on_disk_are_refused_at_once(tmp_path):
    async def main():
        ends = socket.socketpair()
        for end in ends:
            end.close()
        with pytest.raises(HostMisuse, match="it is closed"):
            await wait_readable(ends[0])
        with pytest.raises(HostMisuse, match=r"Bad file descriptor; it must be open"):
            await wait_readable(1_000_000)
        with (tmp_path / "file").open("w") as file, pytest.raises(HostMisuse, match="and not a file on disk"):
            await wait_writable(file)

    real(main)


def test_a_host_without_files_says_so(run, pair):
    async def main():
        with pytest.raises(HostMisuse, match=r"task .* host 'virtual' has none; call run\(main\), or"):
            await wait_readable(pair[0])

    run(main)
