"""A task leaves nothing behind when it ends: no objects, no references, no memory.

Each kind of life is a program, which runs many times. After some runs to fill caches and free lists, the test counts
the objects of the kernel by type, and the references to what every task uses (None, the types, the law's constants).
After many more runs both counts must be the same. Other tests put each type of record into a cycle through each of its
references: the collector must find the cycle.
"""

from __future__ import annotations

import contextvars
import gc
import os
import resource
import sys
import types
import weakref
from collections import Counter

import pytest
from support.kernel import NATIVE, Gate, Ticket
from support.law import UNSTATED
from support.metered import require_meter
from support.requests import SUSPENDED, OnThread, Request, ThreadJob, start

import bursar
from bursar import Cancelled, OutcomeKind

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)

from bursar import _native

BATCH = 100  # tasks of one run
QUICK = 10_000  # lives of each kind in `make test`
LONG = 500_000  # in `make test-all`: with 26 kinds, thirteen million
GROWTH_MAX = 4_000_000  # bytes by which the process may grow, because arenas may be half full
if "asan" in os.environ.get("LD_PRELOAD", ""):
    GROWTH_MAX = 1 << 29  # a sanitizer does not reuse freed memory for a while
SLACK = 60  # references by which a count may differ, because the interpreter keeps or drops some; less than one a run


def run(main, *args):
    return bursar.Runtime(clock="virtual").run(main, *args)


# ---- lives that end by themselves


async def ok():
    return object()


async def failed():
    raise ValueError("on purpose")


async def returns_itself_in_a_ring():
    ring = []
    ring.append(ring)
    return ring


async def raises_a_held_traceback():
    try:
        raise KeyError("held")
    except KeyError as error:
        held = error  # a cycle: the frame holds the error, whose traceback holds the frame
        raise RuntimeError("from it") from held


def plain():
    return object()


async def spends():
    while True:
        await bursar.checkpoint()


async def out_of_budget():
    async with bursar.nursery(cancel_on_failure=False) as nursery:
        for _ in range(BATCH):
            nursery.spawn(spends, budget=bursar.Budget(ops=5))


async def many(life):
    async with bursar.nursery(cancel_on_failure=False) as nursery:
        for _ in range(BATCH):
            nursery.spawn(life)


# ---- lives that are cancelled where they wait


async def in_sleep():
    await bursar.sleep(100)


async def in_send():
    tx, _rx = bursar.channel(0)
    await tx.send(object())


async def in_receive():
    _tx, rx = bursar.channel(0)
    await rx.receive()


async def in_event():
    await bursar.Event().wait()


async def in_join():
    async with bursar.nursery() as inner:
        inner.spawn(in_sleep)


async def in_await_of_a_task():
    async with bursar.nursery() as inner:
        await inner.spawn(in_sleep)


async def in_select():
    _tx, rx = bursar.channel(0)
    await bursar.select(rx.receive(), bursar.Event().wait(), bursar.sleep(50))


async def in_timeout():
    async with bursar.timeout(50):
        await bursar.sleep(100)


async def in_shield():
    async with bursar.shield():
        await bursar.sleep(2)
    await bursar.checkpoint()


async def in_checkpoint():
    while True:
        await bursar.checkpoint()


async def in_lock():
    lock = bursar.Lock()
    async with lock, bursar.nursery() as inner:
        inner.spawn(takes, lock)
        await bursar.sleep(100)


async def takes(lock):
    async with lock:
        pass


async def in_reserve():
    tx, _rx = bursar.channel(0)
    await tx.reserve()


async def cancelled(life):
    async with bursar.nursery() as nursery:
        for _ in range(BATCH):
            nursery.spawn(life)
        for _ in range(3):  # until all wait
            await bursar.checkpoint()
        nursery.cancel("enough")


async def cancelled_at_the_gate():
    """One task runs and the others wait for permission. Some are cancelled one by one, then the rest together."""
    async with bursar.nursery(admission=bursar.Authority(max_concurrent=1)) as nursery:
        nursery.spawn(in_sleep)
        tasks = [nursery.spawn(in_sleep) for _ in range(BATCH)]
        await bursar.checkpoint()
        for task in tasks[::2]:
            task.cancel()
        await bursar.checkpoint()
        nursery.cancel("enough")


# ---- lives that are dropped in the middle


def half_run(main, *args):
    """Drop a runtime after some steps, whatever its tasks do at that moment."""
    runtime = bursar.Runtime(clock="virtual")
    kernel = runtime.kernel
    kernel.thread = runtime.pump.thread
    start(kernel.spawn(kernel.root, name="main", pinned=True), main, args)
    for _ in range(BATCH + BATCH // 2):
        task = kernel.step()
        if task is None:
            break
        runtime.driver.poll(task)
        kernel.step_over(task)


async def mixture():
    """At the end of `half_run` some of these wait, some are queued and some have never started."""
    event = bursar.Event()
    tx, rx = bursar.channel(1)

    async def waits():
        await event.wait()

    async def sends():
        for i in range(3):
            await tx.send(i)

    async with bursar.nursery() as nursery:
        for life in (in_sleep, in_receive, in_event, in_join, in_timeout, in_shield, in_select, waits, sends):
            for _ in range(BATCH // 10):
                nursery.spawn(life)
        await rx.receive()
        await bursar.sleep(5)


def never_started():
    kernel = bursar.Runtime(clock="virtual").kernel
    for _ in range(BATCH):
        start(kernel.spawn(kernel.root), ok, ())
    for task in kernel.root.children.values():
        task.work.close()


def in_a_ring_with_its_handle():
    async def main():
        box = []

        async def holds():
            own = box  # a cycle: the frame holds the list, the list the handle, the handle the task, the task the frame
            await bursar.sleep(100)
            del own

        async with bursar.nursery() as nursery:
            for _ in range(BATCH):
                box.append(nursery.spawn(holds))
            await bursar.sleep(50)

    half_run(main)


def held(request):
    """A request that is only held in a cycle: no warning that it was never awaited."""
    request.mark_used()
    return request


def ring_through_frames():
    async def main():
        async with bursar.nursery() as nursery:
            for _ in range(BATCH):
                nursery.spawn(raises_a_held_traceback)

    with pytest.raises(BaseExceptionGroup):
        run(main)


def torn_down():
    async def main():
        async with bursar.nursery() as nursery:
            for life in (in_sleep, in_send, in_event, in_join):
                for _ in range(BATCH // 4):
                    nursery.spawn(life)
            await bursar.sleep(1)
            raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup):
        run(main)


def fails_as(main, *args):
    with pytest.raises(BaseExceptionGroup):
        run(main, *args)


def fails(life):
    fails_as(many, life)


ENDING = [ok, returns_itself_in_a_ring]
FAILING = [failed, raises_a_held_traceback]
WAITING = [
    in_sleep,
    in_send,
    in_receive,
    in_event,
    in_join,
    in_await_of_a_task,
    in_select,
    in_timeout,
    in_shield,
    in_checkpoint,
    in_lock,
    in_reserve,
]


async def waits_in_a_graph():
    """At the end of `half_run` some of these run, some wait for a slot and some for their dependencies."""
    async with bursar.nursery(admission=bursar.Authority(max_concurrent=3)) as nursery:
        tasks = [nursery.spawn(in_sleep)]
        for _ in range(BATCH // 2):
            tasks.append(nursery.spawn(in_sleep, after=tasks[-2:]))
            nursery.spawn(in_sleep)
        await bursar.sleep(5)


async def in_a_graph():
    """Some tasks follow others, some wait for a slot, and one fails, which cancels its successors."""
    async with bursar.nursery(
        admission=bursar.Authority(max_concurrent=BATCH // 2), cancel_on_failure=False
    ) as nursery:
        tasks = [nursery.spawn(ok), nursery.spawn(failed)]
        for _ in range(BATCH):
            tasks.append(nursery.spawn(ok, after=[tasks[-2]]))


KINDS = {life.__name__: lambda life=life: run(many, life) for life in ENDING}
KINDS["out of budget"] = lambda: fails_as(out_of_budget)
KINDS["cancelled at the gate"] = lambda: run(cancelled_at_the_gate)
KINDS["in a graph"] = lambda: fails_as(in_a_graph)
KINDS["a graph that is dropped in the middle"] = lambda: half_run(waits_in_a_graph)
KINDS |= {life.__name__: lambda life=life: fails(life) for life in FAILING}
KINDS |= {f"cancelled {life.__name__}": lambda life=life: run(cancelled, life) for life in WAITING}
KINDS |= {
    "dropped in the middle": lambda: half_run(mixture),
    "never started": never_started,
    "on a thread": lambda: run(many, plain),
    "in a ring with its handle": in_a_ring_with_its_handle,
    "a ring through frames": ring_through_frames,
    "torn down": torn_down,
}


# ---- counting

TOUCHED = [
    None,
    True,
    False,
    (),
    UNSTATED,
    SUSPENDED,
    OutcomeKind.OK,
    OutcomeKind.FAILED,
    OutcomeKind.CANCELLED,
    Cancelled,
]
OF_LIVES = {
    types.CoroutineType,
    types.TracebackType,
    contextvars.Context,
    ValueError,
    KeyError,
    RuntimeError,
    Cancelled,
}
TYPES = [kind for kind in vars(_native).values() if isinstance(kind, type)]


def objects():
    """How many objects exist, by type: those of Bursar, and those that a coroutine makes."""
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    return dict(
        Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("bursar") or kind in OF_LIVES)
    )


def references():
    """How many references there are to what every task uses: immortal objects and types."""
    gc.collect()
    return [sys.getrefcount(thing) for thing in [*TOUCHED, *TYPES]]


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def live(kind, times):
    for _ in range(times):
        KINDS[kind]()


def flat(kind, lives):
    live(kind, max(5, lives // BATCH // 10))  # until the caches of the interpreter are full
    was, had, size = objects(), references(), resident()
    live(kind, lives // BATCH)
    now, have, grown = objects(), references(), resident() - size
    left = {name: n - was.get(name, 0) for name, n in now.items() if n > was.get(name, 0)}
    assert not left, "objects were left behind"
    more = {str(thing)[:60]: b - a for thing, a, b in zip([*TOUCHED, *TYPES], had, have, strict=True) if b - a > SLACK}
    less = {str(thing)[:60]: b - a for thing, a, b in zip([*TOUCHED, *TYPES], had, have, strict=True) if a - b > SLACK}
    assert not more, f"references were left behind: {more}"
    assert not less, f"references were released that were not owned: {less}"
    assert grown < GROWTH_MAX, f"{grown} bytes more"


# ---- what the collector visits


class Mark:
    """An object with attributes, to which a weak reference can be made."""


async def idle():
    await bursar.sleep(1)


def a_kernel():
    runtime = bursar.Runtime(clock="virtual")
    return runtime.kernel


def a_task(kernel):
    task = kernel.spawn(kernel.root, name="t")
    start(task, ok, ())
    task.work.close()
    return task


def ring_kernel(mark):
    kernel = a_kernel()
    mark.holds = kernel
    fields = {name: lambda name=name: setattr(kernel, name, mark) for name in ("driver", "gate")}
    return {"observer": lambda: kernel.observe(lambda *_: mark)} | fields


def ring_task(mark):
    kernel = a_kernel()
    task = a_task(kernel)
    mark.holds = (kernel, task)
    names = ("context", "unpaid_request", "inbox", "error", "reason", "waiters", "obligations", "ending", "work")
    return {name: lambda name=name: setattr(task, name, mark) for name in names}


def ring_arguments(mark):
    runtime = bursar.Runtime(clock="virtual")

    async def main():
        async with bursar.nursery() as nursery:
            mark.holds = nursery.spawn(waits, mark)

    async def waits(_mark):
        await bursar.sleep(100)

    def spawned_and_not_begun():
        kernel = runtime.kernel
        kernel.thread = runtime.pump.thread
        start(kernel.spawn(kernel.root, name="main", pinned=True), main, ())
        runtime.driver.poll(kernel.step())

    return {"of a task that has not begun": spawned_and_not_begun}


def ring_done_task(mark):
    runtime = bursar.Runtime(clock="virtual")

    async def main():
        async with bursar.nursery() as nursery:
            mark.holds = nursery.spawn(gives, mark)

    async def gives(value):
        return value

    return {"outcome": lambda: runtime.run(main)}


def ring_nursery(mark):
    kernel = a_kernel()
    mark.holds = kernel
    names = ("reason", "ends", "ends_waiter", "exhausted_waiter", "capabilities")
    fields = {name: lambda name=name: setattr(kernel.root, name, mark) for name in names}
    lists = {
        "failures": lambda: kernel.root.failures.append(mark),
        "failed": lambda: kernel.root.failed.add(mark),
        "exhausted": lambda: kernel.root.exhausted.update({1: mark}),
    }
    return fields | lists


def ring_block(mark):
    kernel = a_kernel()
    block = _native.CancelScope(a_task(kernel))
    mark.holds = block
    return {"reason": lambda: setattr(block, "reason", mark)}


def ring_timer(mark):
    kernel = a_kernel()
    task = a_task(kernel)
    mark.holds = (kernel, kernel.timers.arm(5, 0, task, mark))
    return {"scope": lambda: None}


def ring_timers(mark):
    timers = _native.Timers()
    mark.holds = timers
    return {"observer": lambda: setattr(timers, "observer", mark)}


def ring_entry(mark):
    kernel = a_kernel()
    entry = _native.Entry(a_task(kernel), mark)
    mark.holds = (kernel, entry)
    return {"operation": lambda: None, "token": lambda: setattr(entry, "token", mark)}


def ring_job(mark):
    kernel = a_kernel()
    job = ThreadJob(types.SimpleNamespace(post=len), a_task(kernel), len, ())
    mark.holds = (kernel, job)
    names = ("fn", "args", "value", "error", "stop")
    other = {
        "pool": lambda: job.__init__(types.SimpleNamespace(post=len, mark=mark), job.task, len, ()),
    }
    return other | {name: lambda name=name: setattr(job, name, mark) for name in names}


def ring_on_thread(mark):
    fields = {"fn": (lambda: mark, ()), "args": (len, (mark,))}
    return {name: lambda given=given: setattr(mark, "holds", held(OnThread(*given))) for name, given in fields.items()}


def ring_wait_list(mark):
    class Waits(_native.Wait):
        pass

    kernel = a_kernel()
    waits, wait = _native.WaitList(), Waits(a_task(kernel))
    wait.mark, mark.holds = mark, waits
    return {"a wait": lambda: waits.join(wait)}


def ring_channel(mark):
    tx, rx = bursar.channel(5)
    mark.holds = (tx, rx)

    async def main():
        await tx.send(mark)

    return {"a buffered value": lambda: run(main)}


def ring_send(mark):
    tx, _rx = bursar.channel(0)
    mark.holds = held(tx.send(mark))
    return {"value": lambda: None}


def ring_end(mark):
    class End(_native.SendCore):
        pass

    end = End(_native.ChannelCore(1))
    end.mark, mark.holds = mark, end
    return {"a subclass": lambda: None}


def ring_event(mark):
    class Event(bursar.Event):
        pass

    event = Event()
    event.mark, mark.holds = mark, held(event.wait())
    return {"its request": lambda: None}


def ring_request(mark):
    class Asks(Request):
        pass

    asks = held(Asks())
    asks.mark, mark.holds = mark, asks
    return {"a subclass": lambda: None}


def ring_handles(mark):
    kernel = a_kernel()
    mark.holds = (bursar.Task(kernel, a_task(kernel)), bursar.Nursery(kernel, kernel.root))
    return {"a task's record": lambda: kernel.observe(lambda *_: mark)}


def ring_view(mark):
    kernel = a_kernel()
    mark.holds = (kernel.injector, kernel.workers[0].pinned, kernel.root.children)
    return {"its owner": lambda: kernel.observe(lambda *_: mark)}


def ring_terms(mark):
    kernel = a_kernel()
    task = a_task(kernel)
    mark.holds = (kernel, task)
    return {"capabilities": lambda: setattr(task, "capabilities", {Mark: mark})}


def ring_pool(mark):
    kernel = a_kernel()
    mark.holds = (kernel, kernel.root.pools)
    return {"parent": lambda: kernel.observe(lambda *_: mark)}


def ring_ticket(mark):
    gate = Gate(1, bursar.Authority())
    ticket, follower = Ticket(gate, 50, ()), Ticket(gate, 50, ())
    follower.task = mark
    mark.holds = ticket
    fields = {name: lambda name=name: setattr(ticket, name, mark) for name in ("task", "needs", "reasons", "timer")}
    return fields | {
        "demand": lambda: setattr(ticket, "demand", (mark,)),
        "successors": lambda: setattr(ticket, "successors", [follower]),
        "gate": lambda: setattr(gate, "authority", mark),
    }


def ring_gate(mark):
    gate = Gate(1, bursar.Authority())
    mark.holds = gate
    fields = {name: lambda name=name: setattr(getattr(gate, name), "mark", mark) for name in ("totals", "queues")}
    return fields | {
        "held": lambda: gate.held.update({mark: None}),
        "returning": lambda: gate.returning.update({mark: None}),
        "resources": lambda: setattr(gate.resources, "mark", mark),
        "taken": lambda: gate.resources.taken.append(mark),
        "kept": lambda: gate.resources.kept.append(mark),
        "reserved": lambda: setattr(gate, "reserved", mark),
    }


def ring_rows(mark):
    gate = Gate(1, bursar.Authority())
    ticket = Ticket(gate, 50, ())
    gate.queues.enter(ticket)
    mark.holds = gate
    (row,) = gate.queues.classes.values()
    return {
        "members": lambda: setattr(ticket, "task", mark),
        "overtaken": lambda: row.overtaken.append(mark),
        "key": lambda: gate.queues.enter(Ticket(gate, 50, (mark,))),
    }


def ring_driver(mark):
    runtime = bursar.Runtime(clock="virtual")
    driver = runtime.driver
    mark.holds = runtime
    return {
        "clock": lambda: setattr(driver, "clock", lambda: mark),
        "meter": lambda: setattr(driver, "meter", mark),
        "collected": lambda: setattr(driver, "collected", mark),
        "ours": lambda: setattr(driver, "ours", [mark]),
    }


def ring_memory(mark):
    def book():
        require_meter()
        mark.holds = _native.MemoryAccountSet(lambda _tag: mark)

    def account():
        book()
        mark.holds = _native.MemoryAccount(mark.holds, 1)

    return {"tell": book, "book of an account": account}


def ring_calls(mark):
    def told(**callbacks):
        by = {"tell": list, "refuse": list, "failed": list} | callbacks
        mark.holds = _native.PortalCalls(9, **by)
        mark.holds.open = True

    def queued(fn, *args):
        told()
        for _ in range(2):
            mark.holds.call(fn, *args)

    return {
        "tell": lambda: told(tell=lambda: mark),
        "refuse": lambda: told(refuse=lambda: mark),
        "failed": lambda: told(failed=lambda *_: mark),
        "a function": lambda: queued(lambda: mark),
        "an argument": lambda: queued(len, 1, 2, mark),
        "one of many arguments": lambda: queued(len, 1, 2, 3, 4, mark),
    }


RINGS = [make for name, make in sorted(globals().items()) if name.startswith("ring_") and name != "ring_through_frames"]
CASES = [(make, field) for make in RINGS for field in make(Mark())]


@pytest.mark.parametrize(("make", "field"), CASES, ids=lambda thing: getattr(thing, "__name__", thing))
def test_the_collector_sees_every_reference(make, field):
    gc.collect()
    mark = Mark()
    make(mark)[field]()
    seen = weakref.ref(mark)
    del mark
    for _ in range(3):  # a destructor may make more garbage, which the next collection finds
        gc.collect()
    assert seen() is None


def test_every_type_is_in_a_list():
    """For a new type of record, add a cycle through it to this file, or list it here as a type without references."""
    in_rings = (
        "Arguments CancelScope PortalCalls Channel ChannelCore Children Driver EndCore Entry Event EventWait ThreadJob "
        "Kernel MemoryAccount MemoryAccountSet Nursery OnThread Operation Ticket Pool Receive ReceiveCore Request "
        "WaitClass QueuesCore Send SendCore Task SpawnTerms Timer Timers GateCore QueueView Wait WaitList Worker"
    )
    in_lives = "Next NurseryBlock NurseryBase Resume TaskBase _Ended _Join"
    without_references = "Checkpoint GateTotalsCore TraceWriter TraceRing _Sleep"
    known = set(f"{in_rings} {in_lives} {without_references}".split())
    assert {kind.__name__ for kind in TYPES} <= known


# ---- the tests


@pytest.mark.parametrize("kind", KINDS)
def test_lives_leave_nothing_behind(kind):
    flat(kind, QUICK)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_millions_of_lives_leave_nothing_behind(kind):
    flat(kind, LONG)
