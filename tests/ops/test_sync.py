"""Events, locks and semaphores: first come, first served, handed over directly, and never lost by a task that ends."""

import inspect

import pytest

import bursar
from bursar import Event, Lock, ScopeMisuse, Semaphore, nursery, sleep

# ---- Event


def test_an_event_lets_everyone_go_on_who_waits_before_or_after(run):
    log = []

    async def waiter(i, event):
        await event.wait()
        log.append((i, await bursar.now()))

    async def main():
        event = Event()
        async with nursery() as n:
            for i in range(3):
                n.spawn(waiter, i, event)
            await sleep(2)
            assert not event.is_set()
            event.set()
            event.set()
            assert event.is_set()
            n.spawn(waiter, 3, event)
        await event.wait()

    run(main)
    assert log == [(0, 2.0), (1, 2.0), (2, 2.0), (3, 2.0)]


def test_an_event_that_happened_before_the_run_is_remembered(run):
    event = Event()
    event.set()

    async def main():
        await event.wait()

    run(main)


def test_a_cancelled_waiter_leaves_the_event(run):
    async def waiter(event):
        await event.wait()

    async def main():
        event = Event()
        async with nursery() as n:
            task = n.spawn(waiter, event)
            await sleep(1)
            assert task.explain().reason == "waits for an event"
            task.cancel()
            await sleep(1)
            assert not event._waiters
            event.set()
        return task.outcome.kind

    assert run(main) is bursar.OutcomeKind.CANCELLED


# ---- Lock


def test_a_lock_admits_one_task_at_a_time_in_order(run):
    inside, order = 0, []

    async def worker(i, lock):
        nonlocal inside
        async with lock:
            inside += 1
            assert inside == 1
            order.append(i)
            await sleep(1)
            inside -= 1

    async def main():
        lock = Lock()
        async with nursery() as n:
            for i in range(5):
                n.spawn(worker, i, lock)
            await bursar.checkpoint()
            assert lock.locked()
        assert not lock.locked()
        return await bursar.now()

    assert run(main) == 5.0
    assert order == list(range(5))


def test_a_lock_goes_straight_to_who_waits_longest_so_that_nobody_barges_in(run):
    order = []

    async def waiter(lock):
        async with lock:
            order.append("waiter")

    async def main():
        lock = Lock()
        await lock.acquire()
        async with nursery() as n:
            n.spawn(waiter, lock)
            await sleep(1)
            lock.release()
            async with lock:
                order.append("barger")

    run(main)
    assert order == ["waiter", "barger"]


def test_who_waits_for_a_lock_is_explained_by_who_holds_it(run):
    async def holder(lock):
        async with lock:
            await sleep(5)

    async def waiter(lock):
        async with lock:
            pass

    async def main():
        lock = Lock()
        async with nursery() as n:
            n.spawn(holder, lock, name="the holder")
            task = n.spawn(waiter, lock)
            await sleep(1)
            return task.explain()

    explanation = run(main)
    assert explanation.reason == "waits for a lock held by 'the holder'"
    assert explanation.blockers == ("the holder",)
    assert explanation.seconds == 1.0


def test_a_lock_is_not_reentrant_and_says_so_instead_of_waiting_for_ever(run):
    async def main():
        lock = Lock()
        async with lock:
            with pytest.raises(ScopeMisuse, match=r"task 'main' holds this lock already"):
                await lock.acquire()
        assert not lock.locked()

    async def outer():
        async with nursery() as n:
            n.spawn(main, name="main")

    run(outer)


def test_only_the_holder_may_release(run):
    async def stranger(lock):
        with pytest.raises(ScopeMisuse, match="task 'stranger' released a lock that it does not hold"):
            lock.release()

    async def main():
        lock = Lock()
        async with lock, nursery() as n:
            n.spawn(stranger, lock, name="stranger")
        with pytest.raises(ScopeMisuse, match="does not hold"):
            lock.release()

    run(main)


def test_a_lock_that_nobody_ever_took_cannot_be_released():
    with pytest.raises(ScopeMisuse, match="code outside any task"):
        Lock().release()


def test_a_lock_is_released_on_the_way_out_of_a_failure(run):
    async def main():
        lock = Lock()
        with pytest.raises(ZeroDivisionError):
            async with lock:
                raise ZeroDivisionError
        return lock.locked()

    assert run(main) is False


def test_a_waiter_that_is_cancelled_leaves_the_queue_of_the_lock(run):
    order = []

    async def worker(i, lock):
        async with lock:
            order.append(i)
            await sleep(1)

    async def main():
        lock = Lock()
        async with nursery() as n:
            tasks = [n.spawn(worker, i, lock) for i in range(3)]
            await sleep(0.5)
            tasks[1].cancel()

    run(main)
    assert order == [0, 2]


def test_a_lock_that_was_handed_over_before_the_cancel_is_held_and_released(run):
    log = []

    async def waiter(lock):
        async with lock:
            log.append("got it")
            await bursar.checkpoint()
            log.append("not reached")

    async def main():
        lock = Lock()
        await lock.acquire()
        async with nursery() as n:
            task = n.spawn(waiter, lock)
            await sleep(1)
            lock.release()
            task.cancel()
        return lock.locked()

    assert run(main) is False
    assert log == ["got it"]
    assert run.reports == []


def test_a_lock_held_at_the_end_of_a_task_is_reported_with_its_line_and_goes_to_the_next(run):
    line = 0

    async def leaker(lock):
        nonlocal line
        line = inspect.currentframe().f_lineno + 1
        await lock.acquire()
        await sleep(1)

    async def main():
        lock = Lock()
        async with nursery() as n:
            n.spawn(leaker, lock, name="the leaker")
            await sleep(0.5)
            async with lock:
                return await bursar.now()

    assert run(main) == 1.0
    (report,) = run.runtime.reports
    assert (report.kind, report.task) == ("obligation_leaked", "the leaker")
    assert f"test_sync.py:{line} in" in report.detail


# ---- Semaphore


def test_a_semaphore_lets_so_many_in_at_once(run):
    inside, most = 0, 0

    async def worker(semaphore):
        nonlocal inside, most
        async with semaphore:
            inside += 1
            most = max(most, inside)
            await sleep(1)
            inside -= 1

    async def main():
        semaphore = Semaphore(3)
        async with nursery() as n:
            for _ in range(9):
                n.spawn(worker, semaphore)
            await sleep(0.5)
            assert semaphore.value == 0
        assert semaphore.value == 3
        return await bursar.now()

    assert run(main) == 3.0
    assert most == 3


def test_permits_are_given_in_order(run):
    order = []

    async def worker(i, semaphore):
        async with semaphore:
            order.append(i)
            await bursar.checkpoint()

    async def main():
        semaphore = Semaphore(2)
        async with nursery() as n:
            for i in range(7):
                n.spawn(worker, i, semaphore)

    run(main)
    assert order == list(range(7))


def test_a_permit_is_released_once(run):
    async def main():
        semaphore = Semaphore(1)
        hold = await semaphore.acquire()
        hold.release()
        with pytest.raises(bursar.BursarError, match="already"):
            hold.release()
        with await semaphore.acquire():
            assert semaphore.value == 0
        return semaphore.value

    assert run(main) == 1


def test_a_permit_may_be_released_by_another_task(run):
    async def releaser(hold):
        hold.release()

    async def main():
        semaphore = Semaphore(1)
        hold = await semaphore.acquire()
        async with nursery() as n:
            n.spawn(releaser, hold)
        return semaphore.value

    assert run(main) == 1
    assert run.reports == []


def test_a_leaked_permit_is_reported_and_comes_back(run):
    async def leaker(semaphore):
        await semaphore.acquire()

    async def main():
        semaphore = Semaphore(2)
        async with nursery() as n:
            n.spawn(leaker, semaphore)
        return semaphore.value

    assert run(main) == 2
    assert run.reports == ["obligation_leaked"]


def test_one_task_may_hold_several_permits_in_nested_blocks(run):
    async def main():
        semaphore = Semaphore(2)
        async with semaphore:
            async with semaphore:
                assert semaphore.value == 0
            assert semaphore.value == 1
        return semaphore.value

    assert run(main) == 2


def test_a_block_is_left_by_the_task_that_entered_it(run):
    async def stranger(semaphore):
        with pytest.raises(ScopeMisuse, match="left by another task"):
            await semaphore.__aexit__(None, None, None)

    async def main():
        semaphore = Semaphore(1)
        async with semaphore, nursery() as n:
            n.spawn(stranger, semaphore)

    run(main)


def test_a_semaphore_of_nothing_admits_nobody(run):
    async def main():
        async with Semaphore(0):
            pass

    with pytest.raises(bursar.Deadlock, match="waits for a permit of a semaphore"):
        run(main)


@pytest.mark.parametrize("value", [-1, 1.0, "1", None, True])
def test_the_number_of_permits_is_a_whole_number(value):
    with pytest.raises(ValueError, match="whole number"):
        Semaphore(value)


def test_a_permit_for_which_there_is_no_memory_goes_to_whoever_waits_with_the_next(run):
    class Poor(Semaphore):
        def _give(self, kernel, task):
            if short and task.name == "first":
                short.pop()
                raise MemoryError
            return super()._give(kernel, task)

    short, got = [], []

    async def taker(semaphore):
        async with semaphore:
            got.append("first")

    async def main():
        semaphore = Poor(2)
        one, two = await semaphore.acquire(), await semaphore.acquire()
        async with nursery() as n:
            first = n.spawn(taker, semaphore, name="first")
            await sleep(1)
            short.append("memory")
            with pytest.raises(MemoryError):
                one.release()
            assert (semaphore.value, got) == (1, [])
            two.release()
            await first
        return semaphore.value

    assert run(main) == 2
    assert got == ["first"]
