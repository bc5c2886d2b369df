"""Metered memory: who pays for which bytes, when they come back, and how a task hears that it took too many.

The blocks are real ones. Figures are compared with a slack where the interpreter rounds: it is never larger than what
one arena of small objects, or one header, explains.
"""

import gc
import operator
import os
import subprocess
import sys
import threading
import tracemalloc
import zlib
from functools import partial

import pytest
from support.evidence import Memory
from support.law import MEMORY, check

import bursar
from bursar import Budget, MemoryBudgetExceeded, nursery

_native = pytest.importorskip("bursar._native")
if not hasattr(_native, "MemoryAccountSet"):
    pytest.skip("this build has no meter", allow_module_level=True)

KB, MB = 1_000, 1_000_000
ARENA = 1 << 20


@pytest.fixture
def meter(run):
    """Like `run`, with metered memory; afterwards the hooks are out and no block has an owner.

    The collector rests: what is said to be freed must not wait for it.
    """

    def metered(fn, *args, **keywords):
        try:
            return run(fn, *args, meter_memory=True, **keywords)
        finally:
            check(run.runtime.kernel)

    gc.collect()
    gc.disable()
    yield metered
    gc.enable()
    assert _native.memory_hooks() == (False, 0)


async def held():
    """What the task that asks is charged for now."""
    await bursar.checkpoint()
    return (await bursar.current_task()).spent.memory


async def in_child(fn, *args, memory):
    """The result of `fn` in a task with so much memory."""
    async with nursery() as n:
        task = n.spawn(fn, *args, budget=Budget(memory=memory))
    return task.result


def failure(group):
    """The one error at the bottom of groups of one."""
    while isinstance(group, BaseExceptionGroup):
        (group,) = group.exceptions
    return group


# ---- what is charged, and comes back


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(3 * MB),
        lambda: bytes(3 * MB),
        lambda: "é" * (3 * MB),
        lambda: [None] * 400_000,
        lambda: dict.fromkeys(range(100_000)),
        lambda: set(range(120_000)),
        lambda: 1 << (24 * MB),
        lambda: [bytes(600) for _ in range(5_000)],  # just above what is a small object
    ],
    ids=["bytearray", "bytes", "str", "list", "dict", "set", "int", "many blocks"],
)
def test_a_block_is_charged_while_it_lives(meter, make):
    async def main():
        before = await held()
        thing = make()
        taken = await held() - before
        del thing
        return taken, await held() - before

    taken, kept = meter(main)
    assert taken >= 3 * MB
    assert kept <= taken - 2_900 * KB


def test_the_charge_is_exact_for_one_block(meter):
    async def main():
        before = await held()
        thing = bytes(MB)
        return sys.getsizeof(thing), await held() - before

    size, taken = meter(main)
    assert taken == size


def test_what_is_given_up_before_the_next_await_costs_nothing(meter):
    async def main():
        for _ in range(100):
            bytearray(MB)
        return await held()

    assert meter(main, budget=Budget(memory=2 * MB)) < MB


def test_a_block_that_grows_and_shrinks_in_place(meter):
    async def main():
        figures = []
        block = bytearray(100 * KB)
        for size in (2 * MB, 4 * MB, 500 * KB, 600, 10, 3 * MB):
            if size > len(block):
                block.extend(bytes(size - len(block)))
            else:
                del block[size:]
            figures.append((size, await held()))
        return figures

    for size, taken in meter(main):
        assert size <= taken <= size * 9 // 8 + 2 * KB


def test_small_objects_are_charged_by_the_arena(meter):
    async def main():
        before = await held()
        chain = None
        for i in range(200_000):  # nothing of more than 512 bytes
            chain = (chain, i)
        taken = await held() - before
        while chain is not None:  # a chain that is dropped at once would be freed by recursion
            chain = chain[0]
        return taken, await held() - before

    taken, kept = meter(main)
    assert taken >= 8 * ARENA
    assert kept < taken / 2


def test_a_little_of_small_objects_is_not_held_against_a_task(meter):
    async def small(shelf):
        chain = None
        for i in range(5_000):  # half an arena
            chain = (chain, i)
        shelf.append(chain)
        return await held()

    async def main():
        shelf, taken = [], []
        for _ in range(20):  # so half of them need a new one
            taken.append(await in_child(small, shelf, memory=10 * KB))
        for i, chain in enumerate(shelf):
            shelf[i] = None
            while chain is not None:
                chain = chain[0]
        return taken

    assert max(meter(main)) < 5 * KB


def test_cyclic_garbage_comes_back_when_it_is_collected(meter):
    async def main():
        before = await held()
        cycle = [bytearray(2 * MB)]
        cycle.append(cycle)
        del cycle
        kept = await held() - before
        gc.collect()
        return kept, await held() - before

    kept, after = meter(main)
    assert kept >= 2 * MB
    assert after < 100 * KB


# ---- who pays


def test_what_another_task_frees_is_refunded_to_the_one_who_allocated_it(meter):
    async def owner(shelf, put, taken):
        shelf.append(bytearray(4 * MB))
        put.set()
        await taken.wait()
        return await held()

    async def main():
        shelf, put, taken = [], bursar.Event(), bursar.Event()
        async with nursery() as n:
            task = n.spawn(owner, shelf, put, taken)
            await put.wait()
            mine, before = await held(), task.spent.memory
            shelf.clear()
            mine -= await held()
            after = task.spent.memory
            taken.set()
        return before, after, mine, task.result

    before, after, mine, end = meter(main)
    assert before >= 4 * MB
    assert after < 100 * KB
    assert end < 100 * KB
    assert abs(mine) < 100 * KB


def test_who_makes_a_block_larger_owns_it_from_then_on(meter):
    async def owner(shelf, put, grown):
        shelf.append(bytearray(2 * MB))
        put.set()
        await grown.wait()

    async def main():
        shelf, put, grown = [], bursar.Event(), bursar.Event()
        async with nursery() as n:
            task = n.spawn(owner, shelf, put, grown)
            await put.wait()
            before = await held()
            shelf[0].extend(bytes(MB))
            mine = await held() - before
            theirs = task.spent.memory
            grown.set()
        return theirs, mine

    theirs, mine = meter(main)
    assert theirs < 100 * KB
    assert mine >= 3 * MB


def test_what_a_task_leaves_behind_stays_charged_to_its_nursery_until_it_is_freed(meter):
    async def make():
        return bytearray(5 * MB)

    async def main():
        async with nursery(budget=Budget(memory=8 * MB)) as n:
            first = n.spawn(make)
            await first
            second = n.spawn(refused)
            assert await second
            del first
            await bursar.checkpoint()
            third = n.spawn(make, budget=Budget(memory=6 * MB))
            return len(await third)

    async def refused():
        with pytest.raises(MemoryError):
            bytearray(5 * MB)
        return True

    assert meter(main) == 5 * MB


def test_the_books_balance_whatever_is_freed_when(meter, run):
    async def leaf(shelf, size):
        shelf.append(bytearray(size))
        await bursar.checkpoint()
        return bytes(size // 2)

    async def branch(shelf, depth):
        check(run.runtime.kernel)
        async with nursery(budget=Budget(memory=8 * MB * (depth + 1))) as n:
            for i in range(3):
                n.spawn(leaf, shelf, 100 * KB * (i + 1), budget=Budget(memory=MB) if i % 2 else None)
            if depth:
                n.spawn(branch, shelf, depth - 1)
            await bursar.checkpoint()
            check(run.runtime.kernel)
            del shelf[: len(shelf) // 2]
        check(run.runtime.kernel)

    async def main():
        shelf = []
        for _ in range(4):
            await branch(shelf, 3)
        shelf.clear()
        await bursar.checkpoint()
        check(run.runtime.kernel)
        pool = run.runtime.kernel.root.pools[MEMORY]
        return pool.left, pool.granted

    left, granted = meter(main, budget=Budget(memory=64 * MB))
    assert granted - left < 4 * ARENA


def test_other_threads_are_not_charged(meter):
    async def main():
        kept = []
        before = await held()
        thread = threading.Thread(target=lambda: kept.append(bytearray(20 * MB)))
        thread.start()
        thread.join()
        taken = await held() - before
        kept.clear()  # and what they allocated is refunded to nobody
        return taken, await held() - before

    taken, after = meter(main, budget=Budget(memory=4 * MB))
    assert taken < MB
    assert abs(after) < MB


def test_threads_may_free_what_a_task_allocated(meter):
    async def main():
        blocks = [bytes(2 * KB) for _ in range(2_000)]
        before = await held()

        def free():
            while blocks:
                try:
                    blocks.pop()
                except IndexError:
                    return

        threads = [threading.Thread(target=free) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await bursar.checkpoint()
        return before - await held()

    assert meter(main) >= 4 * MB


def test_blocks_taken_without_the_gil_are_charged_and_refunded(meter):
    packed = zlib.compress(bytes(i * i * 7 % 251 for i in range(200 * KB)), 0)
    window = 32 << 10  # which zlib takes in the midst of its work, when others may run
    over = threading.Event()

    def unpack():
        while not over.is_set():
            zlib.decompress(packed)

    async def main():
        streams = []
        before = await held()
        for _ in range(100):
            stream = zlib.decompressobj()
            stream.decompress(packed[: 100 * KB])
            streams.append(stream)
        taken = await held() - before
        streams.clear()
        return taken, await held() - before

    others = [threading.Thread(target=unpack) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        taken, after = meter(main)
    finally:
        over.set()
        for thread in others:
            thread.join()
    assert taken >= 100 * window
    assert abs(after) < MB


# ---- too much


def test_a_task_that_grows_too_large_is_told_where_it_allocates(meter):
    async def grow():
        kept = []
        try:
            while True:
                kept.append(bytes(10 * KB))
        except MemoryBudgetExceeded as error:
            return len(kept), str(error), error.component

    async def main():
        return await in_child(grow, memory=5 * MB)

    count, message, component = meter(main)
    assert 480 <= count <= 500
    assert "task 'test_a_task_that_grows" in message
    assert "is out of memory" in message
    assert component == "memory"


def test_small_objects_alone_are_told_too(meter):
    async def grow():
        chain, count = None, 0
        try:
            while True:
                chain, count = (chain, count), count + 1
        except MemoryBudgetExceeded:
            while chain is not None:
                chain = chain[0]
            return count

    async def main():
        return await in_child(grow, memory=8 * MB)

    assert 50_000 < meter(main) < 1_000_000


@pytest.mark.parametrize("size", [10 << 30, 20 * MB])
def test_a_request_far_over_the_limit_is_refused_where_it_is_made(meter, size):
    async def ask():
        with pytest.raises(MemoryError) as refusal:
            bytearray(size)
        return type(refusal.value), await held()

    async def main():
        return await in_child(ask, memory=5 * MB)

    kind, taken = meter(main)
    assert kind is MemoryError  # all that an allocator can say
    assert taken < MB


def test_a_refusal_that_leaves_the_task_is_its_budget_error(meter):
    async def ask():
        bytearray(10 << 30)

    async def main():
        await in_child(ask, memory=5 * MB)

    with pytest.raises(ExceptionGroup) as group:
        meter(main)
    error = failure(group.value)
    assert type(error) is MemoryBudgetExceeded
    assert type(error.__cause__) is MemoryError
    assert "needs 10,737,418,241" in str(error)
    assert "has 5,000,000 left" in str(error)


def test_a_refused_growth_leaves_the_block_as_it_was(meter):
    async def grow():
        block = bytearray(b"x" * MB)
        with pytest.raises(MemoryError):
            block *= 100
        return len(block), block[-1:], await held()

    async def main():
        return await in_child(grow, memory=3 * MB)

    length, end, taken = meter(main)
    assert (length, end) == (MB, b"x")
    assert MB <= taken < MB + 200 * KB


def test_a_memory_error_of_the_program_itself_is_left_alone(meter):
    async def fail():
        raise MemoryError("mine")

    async def main():
        await in_child(fail, memory=5 * MB)

    with pytest.raises(ExceptionGroup) as group:
        meter(main)
    assert type(failure(group.value)) is MemoryError


def test_only_the_task_that_takes_too_much_is_hit(meter):
    async def worker(rounds):
        kept, errors = [], 0
        for _ in range(rounds):
            try:
                kept.append(bytes(100 * KB))
                await bursar.checkpoint()
            except MemoryBudgetExceeded:
                errors += 1
                kept = []
        return errors

    async def main():
        async with nursery() as n:
            large = n.spawn(worker, 50, budget=Budget(memory=20 * MB))
            small = n.spawn(worker, 50, budget=Budget(memory=2 * MB))
        return large.result, small.result

    large, small = meter(main)
    assert large == 0
    assert small >= 1


def test_who_was_told_may_tidy_up_and_go_on(meter):
    async def worker():
        kept, told = [], 0
        for _ in range(3):
            try:
                while True:
                    kept.append(bytes(10 * KB))
            except MemoryBudgetExceeded:
                told += 1
                await bursar.checkpoint()  # over its limit still, and not told twice
                str(list(range(500)))
                kept.clear()
                await bursar.checkpoint()
        return told

    async def main():
        return await in_child(worker, memory=3 * MB)

    assert meter(main) == 3


def test_who_comes_below_its_limit_is_told_again_without_an_await(meter):
    async def worker():
        told = 0
        for _ in range(3):
            kept = []
            try:
                while True:
                    kept.append(bytes(10 * KB))
            except MemoryBudgetExceeded:
                told += 1
                kept.clear()
        return told

    async def main():
        return await in_child(worker, memory=3 * MB)

    assert meter(main) == 3


def test_no_memory_granted_is_no_memory(meter):
    async def worker():
        with pytest.raises(MemoryError):
            bytearray(2 * MB)
        with pytest.raises(MemoryBudgetExceeded):
            [bytes(KB) for _ in range(3)].clear()
        return True

    async def main():
        return await in_child(worker, memory=0)

    assert meter(main)


def test_a_recharge_makes_room(meter):
    async def worker():
        with pytest.raises(MemoryError):
            bytearray(4 * MB)
        await bursar.recharge(Budget(memory=8 * MB))
        return len(bytearray(4 * MB))

    async def main():
        async with nursery() as n:
            task = n.spawn(
                worker,
                budget=Budget(memory=MB),
                capabilities=[*(await bursar.capabilities()).values()],
            )
        return task.result

    given = [bursar.CapSpawn(), bursar.CapBudget(limits=Budget(memory=10 * MB), delegable=True)]
    assert meter(main, capabilities=given) == 4 * MB


def test_a_cancelled_task_can_tidy_up_with_a_dry_purse(meter):
    tidied = []

    async def worker(ready):
        kept = bytearray(2 * MB - 60 * KB)
        ready.set()
        try:
            await bursar.sleep(1_000)
        finally:
            tidied.append(len(bytes(500 * KB)) + len(kept))

    async def main():
        ready = bursar.Event()
        async with nursery() as n:
            task = n.spawn(worker, ready, budget=Budget(memory=2 * MB))
            await ready.wait()
            task.cancel("enough")

    meter(main)
    assert tidied == [2 * MB - 60 * KB + 500 * KB]


def test_the_kernel_itself_is_never_refused_memory(meter):
    """A task that has used up its overdraft too spawns, and the tables of the kernel grow in the middle of that."""

    async def nap():
        await bursar.sleep(1)

    async def spawner(n):
        kept = []
        with pytest.raises(MemoryBudgetExceeded):
            kept.extend(map(bytes, [900 * KB]))  # no bytecode before it is kept
        with pytest.raises(MemoryError):
            bytes(300 * KB)
        for _ in range(600):  # with 10,923 tasks the kernel's table takes half a megabyte more
            n.spawn(nap)
        return len(kept[0])

    async def main():
        async with nursery() as n:
            for _ in range(10_500):
                n.spawn(nap)
            return await in_child(spawner, n, memory=10 * KB)

    assert meter(main) == 900 * KB


def test_a_task_is_not_struck_in_the_middle_of_bursars_own_work(meter, run):
    """What takes it over its limit is allocated by a call into Bursar: it hears of it at its next await."""

    async def nap():
        await bursar.sleep(1)

    async def looker():
        text = str(run.runtime.snapshot())
        reached = len(text)
        with pytest.raises(MemoryBudgetExceeded):
            await bursar.checkpoint()
        return reached

    async def main():
        async with nursery() as n:
            for _ in range(500):
                n.spawn(nap)
            return await in_child(looker, memory=10 * KB)

    assert meter(main) > 10 * KB


# ---- where it cannot be told at once


def test_in_another_thread_a_task_is_told_at_its_next_await():
    async def grow():
        kept = []
        for _ in range(30):
            kept.append(bytes(100 * KB))
        reached = len(kept)
        with pytest.raises(MemoryBudgetExceeded):
            await bursar.checkpoint()
        return reached

    async def main():
        return await in_child(grow, memory=2_500 * KB)

    results = []
    thread = threading.Thread(target=lambda: results.append(bursar.run(main, meter_memory=True)))
    thread.start()
    thread.join()
    assert results == [30]


def test_a_strike_that_comes_after_the_poll_hits_nobody():
    told = []
    accounts = _native.MemoryAccountSet(told.append)
    try:
        account = _native.MemoryAccount(accounts, 1)
        account.enter(100 * KB)
        block, due = map(operator.call, [partial(bytearray, 500 * KB), account.leave])  # no bytecode in between
        assert due >= 500 * KB
        assert account.notify_once()
        assert not account.notify_once()
        del block
        assert accounts.changed() == [1]
        assert (account.due, account.held) == (0, 0)
    finally:
        accounts.close()
    assert not told


# ---- several runs, and none


def test_closing_the_account_set_leaves_whatever_is_entered():
    outer, inner = (_native.MemoryAccountSet(lambda tag: None) for _ in range(2))
    first, second, third = (_native.MemoryAccount(accounts, 1) for accounts in (outer, inner, inner))
    for account in (first, second, third):
        account.enter(10 * MB)
    inner.close()
    kept = bytes(MB)
    assert (first.held // MB, second.held, third.held) == (1, 0, 0)
    assert third.leave() == 0  # late, and of no effect
    assert first.leave() >= MB
    outer.close()
    assert len(kept) == MB
    assert _native.memory_hooks() == (False, 0)


def test_a_book_that_another_thread_closes_is_left_all_the_same():
    accounts = _native.MemoryAccountSet(lambda tag: None)
    account = _native.MemoryAccount(accounts, 1)
    account.enter(10 * MB)
    kept = bytes(MB)
    closer = threading.Thread(target=accounts.close)
    closer.start()
    closer.join()
    account.leave()
    del account
    again = _native.MemoryAccountSet(lambda tag: None)  # nobody is entered any more, so nobody is charged
    kept = bytes(2 * MB)
    assert _native.memory_hooks() == (True, 0)
    again.close()
    assert len(kept) == 2 * MB
    assert _native.memory_hooks() == (False, 0)


def test_without_the_option_the_hooks_are_not_there(run):
    async def main():
        return _native.memory_hooks()

    assert run(main) == (False, 0)


def test_the_hooks_stay_until_the_last_run_is_over(meter):
    async def inner():
        kept = bytes(3 * MB)
        return await held(), _native.memory_hooks()[0], len(kept)

    async def main():
        before = await held()
        taken, hooked, _ = bursar.run(inner, meter_memory=True, clock="virtual")
        kept = bytes(2 * MB)
        return taken, hooked, _native.memory_hooks()[0], await held() - before - len(kept)

    taken, inside, outside, mine = meter(main)
    assert taken >= 3 * MB
    assert inside
    assert outside
    assert 0 <= mine < ARENA


def test_runs_in_several_threads_keep_their_accounts_apart():
    async def main(size):
        kept = []
        for _ in range(20):
            kept.append(bytes(size))
            await bursar.checkpoint()
        return (await held()) // size

    results = {}

    def work(size):
        results[size] = bursar.run(main, size, meter_memory=True)

    threads = [threading.Thread(target=work, args=(size,)) for size in (100 * KB, 300 * KB, 700 * KB)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {100 * KB, 300 * KB, 700 * KB}
    assert all(20 <= count <= 20 + 3 * ARENA // size for size, count in results.items())
    assert _native.memory_hooks() == (False, 0)


def test_what_outlives_its_run_is_nobodys(meter):
    kept = []

    async def main():
        kept.append(bytearray(3 * MB))
        return await held()

    assert meter(main) >= 3 * MB
    assert _native.memory_hooks() == (False, 0)
    kept.clear()
    assert meter(main) >= 3 * MB


def test_a_run_that_is_torn_down_takes_the_hooks_out():
    async def main():
        kept = bytes(MB)
        raise KeyboardInterrupt(len(kept))

    with pytest.raises(KeyboardInterrupt):
        bursar.run(main, meter_memory=True)
    assert _native.memory_hooks() == (False, 0)


def accounts():
    gc.collect()
    return sum(type(thing) is _native.MemoryAccount for thing in gc.get_objects())


def torn_down(goes_on):
    runtime = bursar.Runtime(meter_memory=True, clock="virtual")

    async def main():
        runtime.pump.stop(bursar.HostLost("torn down"))
        if goes_on:
            await bursar.checkpoint()

    with pytest.raises(bursar.HostLost):
        runtime.run(main)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_run_that_is_torn_down_while_code_runs_leaves_no_account(goes_on):
    before = accounts()
    torn_down(goes_on)
    assert accounts() == before
    assert _native.memory_hooks() == (False, 0)


def test_after_the_run_no_account_is_settled():
    runtime = bursar.Runtime(meter_memory=True, clock="virtual")

    async def main():
        return runtime.driver.meter, runtime.kernel.current, bytearray(3 * MB)

    meter, task, _ = runtime.run(main)
    assert meter.ended(task, None) is None
    with pytest.raises(AssertionError, match="METER-3"):
        meter.enter(task)


def test_tracemalloc_may_come_and_go(meter):
    async def main():
        tracemalloc.start()
        kept = bytes(3 * MB)
        return await held(), len(kept)

    try:
        assert meter_left_hooked(main) >= 3 * MB
        assert _native.memory_hooks()[0]  # it is on top of us: we cannot leave
        tracemalloc.stop()
    finally:
        tracemalloc.stop()

    async def again():
        kept = bytes(3 * MB)
        return await held(), len(kept)

    assert meter(again)[0] >= 3 * MB


def meter_left_hooked(main):
    return bursar.run(main, meter_memory=True, clock="virtual")[0]


def test_tracemalloc_may_have_been_there_before_and_end_first():
    async def main():
        tracemalloc.stop()  # and takes our hooks with it
        kept = bytes(3 * MB)
        return await held(), len(kept)

    tracemalloc.start()
    try:
        bursar.run(main, meter_memory=True, clock="virtual")
    finally:
        tracemalloc.stop()

    async def again():
        kept = bytes(3 * MB)
        return await held(), len(kept)

    assert bursar.run(again, meter_memory=True, clock="virtual")[0] >= 3 * MB
    assert _native.memory_hooks() == (False, 0)


# ---- refused


@pytest.mark.parametrize("record", [Memory(10), "run.trace"])
def test_it_is_not_recorded(record):
    with pytest.raises(ValueError, match="choose one of the two"):
        bursar.Runtime(meter_memory=True, record=record)


def in_a_process(*options, **environment):
    program = "import bursar\nasync def main(): return 7\nprint(bursar.run(main, meter_memory=True))"
    return subprocess.run(
        [sys.executable, "-c", "".join(f"{option}\n" for option in options) + program],
        env={**os.environ, "BURSAR_KERNEL": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_without_the_native_extension_it_is_refused():
    done = in_a_process("import sys; sys.modules['bursar._native'] = None")
    assert "BursarError: meter_memory=True needs the native extension" in done.stderr


def test_where_objects_do_not_come_from_pythons_allocator_it_is_refused():
    done = in_a_process(PYTHONMALLOC="malloc")
    assert "BursarError: meter_memory=True: Python does not use its own allocator for objects" in done.stderr


def test_with_debug_hooks_it_works():
    done = in_a_process(PYTHONMALLOC="debug")
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
