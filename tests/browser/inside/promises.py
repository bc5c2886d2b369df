"""`from_promise`: a task waits for the page. Real promises, the real page."""

import asyncio

from pyodide.code import run_js
from pyodide.ffi import to_js
from support.hosts import MICROTASKS_MAX, BrowserHost, from_promise

import bursar
from bursar import (
    Budget,
    BudgetExceeded,
    CapabilityDenied,
    CapabilityRevoked,
    CapIO,
    CapSpawn,
    CapTimer,
    PromiseRejected,
    Runtime,
)
from bursar.browser import guest, run
from inside.host import raises

# A promise whose `resolve` and `reject` a test can call, and an AbortController that notes when it was used.
deferred = run_js(
    "() => { const d = {}; d.promise = new Promise((yes, no) => { d.resolve = yes; d.reject = no; }); return d; }"
)
controller = run_js(
    "() => { const c = new AbortController(); c.heard = 0; c.signal.onabort = () => { c.heard += 1; }; return c; }"
)
later = run_js("(value, turns) => { let p = Promise.resolve(value);"
               " for (let i = 0; i < turns; i++) p = p.then(x => x); return p; }")  # fmt: skip


def caught(kind, error):
    """The error of this class, alone or in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, kind), repr(error)
    return error


async def failure(kind, awaitable):
    try:
        await awaitable
    except BaseException as error:
        return caught(kind, error)
    raise AssertionError(f"{kind.__name__} was not raised")


async def test_a_task_gets_what_a_promise_gives():
    async def main():
        plain = [await from_promise(later(value, 3)) for value in (1, "two", None)]
        thing = await from_promise(run_js("({promise: Promise.resolve({x: 7})})").promise)
        return plain, thing.x

    assert await run(main) == ([1, "two", None], 7)


async def test_promises_that_are_kept_at_once_leave_the_page_its_turns():
    """Each wait ends with a microtask, and microtasks alone would delay every timer and frame of the page."""
    ticks = run_js(
        "() => { const t = {n: 0, stop: false};"
        " const c = new MessageChannel(); c.port1.onmessage = () => {"
        " if (t.stop) { c.port1.close(); return; } t.n += 1; c.port2.postMessage(0); };"
        " c.port2.postMessage(0); return t; }"
    )()
    kept = run_js("({promise: Promise.resolve(0)})")  # as an attribute: what a call returns goes through asyncio's loop
    hops = 40 * MICROTASKS_MAX

    async def main():
        for _ in range(hops):
            await from_promise(kept.promise)
        return ticks.n

    seen = await run(main)
    ticks.stop = True
    assert seen > 0


async def test_any_thenable_will_do_and_nothing_else():
    async def main():
        return await from_promise(run_js("({then(yes) { yes(5); }})"))  # resolves inside the call of `then`

    assert await run(main) == 5
    for thing in (run_js("({})"), 5, len):
        raises(TypeError, lambda thing=thing: from_promise(thing), "then")


async def test_a_thenable_that_throws_is_a_rejection_and_leaves_no_source_behind():
    rude = run_js("({rude: {then() { throw new RangeError('no'); }}})").rude
    assert "PyodideFuture" not in repr(rude), "this is to be the object itself"

    async def main():
        await bursar.select(from_promise(deferred().promise), from_promise(rude))

    runtime = Runtime(host=BrowserHost.of_page())
    assert "RangeError: no" in str(await failure(PromiseRejected, guest(runtime, main)))
    assert runtime.pump.sources == 0


async def test_a_thenable_that_settles_twice_counts_once():
    twice = run_js("({p: {then(yes, no) { yes(1); try { no(2); } catch (e) { this.threw = String(e); } }}})").p

    async def main():
        return await from_promise(twice)

    assert await run(main) == 1
    assert "destroyed" in twice.threw


async def test_a_rejection_names_the_error_and_the_task():
    async def main():
        await from_promise(run_js("Promise.reject(new TypeError('not today'))"))

    error = await failure(PromiseRejected, run(main))
    assert "TypeError: not today" in str(error)
    assert "main" in str(error)
    assert error.reason.name == "TypeError"


async def test_a_rejection_need_not_be_an_error():
    waiting = deferred()

    async def main():
        waiting.reject("just words")
        await from_promise(waiting.promise)

    assert "just words" in str(await failure(PromiseRejected, run(main)))


async def test_a_future_that_was_cancelled_is_a_rejection():
    future = asyncio.get_running_loop().create_future()
    future.cancel()

    async def main():
        await from_promise(future)

    assert "cancelled" in str(await failure(PromiseRejected, run(main)))


async def test_others_run_while_a_task_waits_for_a_promise():
    waiting, order = deferred(), []

    async def main():
        async with bursar.nursery() as n:
            n.spawn(waiter)
            n.spawn(resolver)

    async def waiter():
        order.append(await from_promise(waiting.promise))

    async def resolver():
        for i in range(100):
            order.append(i)
            await bursar.checkpoint()
        waiting.resolve("settled")

    await run(main)
    assert order == [*range(100), "settled"]


async def test_a_program_that_waits_for_a_promise_is_not_deadlocked():
    waiting = deferred()

    async def main():
        return await from_promise(waiting.promise)

    runtime = Runtime(host=BrowserHost.of_page())
    running = guest(runtime, main)
    await later(None, 50)
    while not runtime.pump.sources:
        await later(None, 1)
    (line,) = [line for line in str(runtime.snapshot()).splitlines() if "promise" in line]
    assert "waits for a promise of the page" in line
    waiting.resolve(1)
    assert await running == 1
    assert runtime.pump.sources == 0


async def test_cancellation_aborts_what_the_promise_stands_for_and_leaves():
    abort, waiting = controller(), deferred()

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(waiter)
            await bursar.checkpoint()
            task.cancel("enough")
        return task.outcome.kind.name

    async def waiter():
        await from_promise(waiting.promise, abort=abort)

    runtime = Runtime(host=BrowserHost.of_page())
    assert await guest(runtime, main) == "CANCELLED"
    assert (abort.heard, abort.signal.aborted) == (1, True)
    assert runtime.pump.sources == 0
    waiting.resolve("too late")  # this has no effect
    await later(None, 5)


async def test_a_promise_that_settles_after_the_cancellation_is_an_event_and_no_more():
    waiting, labels = deferred(), []

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(waiter)
            await bursar.checkpoint()
            task.cancel()
            await bursar.checkpoint()
            waiting.resolve("late")
            while not any("promise" in label for label in labels):
                await bursar.sleep(0.001)
        return "done"

    async def waiter():
        await from_promise(waiting.promise)

    runtime = Runtime(host=BrowserHost.of_page())
    runtime.kernel.observe(lambda name, task, detail: labels.append(detail) if name == "outside" else None)
    assert await guest(runtime, main) == "done"


async def test_a_settled_promise_aborts_nothing():
    abort = controller()

    async def main():
        return await from_promise(later(3, 2), abort=abort)

    assert await run(main) == 3
    assert abort.heard == 0


async def test_a_select_takes_the_first_promise_and_aborts_the_other():
    abort = controller()

    async def main():
        never = from_promise(deferred().promise, abort=abort)
        return tuple(await bursar.select(never, from_promise(later("first", 2))))

    assert await run(main) == (1, "first")
    assert abort.heard == 1


async def test_a_timeout_ends_the_wait():
    abort = controller()

    async def main():
        try:
            async with bursar.timeout(0.005):
                await from_promise(deferred().promise, abort=abort)
        except TimeoutError:
            return "timed out"

    assert await run(main) == "timed out"
    assert abort.heard == 1


async def test_without_CapIO_no_promise_is_awaited():
    async def main():
        await from_promise(later(1, 1))

    error = await failure(CapabilityDenied, run(main, capabilities=[CapTimer()]))
    assert "CapIO" in str(error)
    assert "await a promise" in str(error)


async def test_what_arrives_after_the_revocation_is_not_handed_over():
    waiting = deferred()

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(waiter)
            await bursar.checkpoint()
            runtime.revoke(granted)
            waiting.resolve("secret")
        return task

    async def waiter():
        await from_promise(waiting.promise)

    granted = None
    runtime = Runtime(host=BrowserHost.of_page(), capabilities=[CapSpawn(), CapTimer()])
    granted = runtime.grant(CapIO())
    runtime.kernel.root.capabilities = {**runtime.kernel.root.capabilities, CapIO: granted}
    noted = []
    runtime.kernel.observe(lambda name, task, detail: noted.append(name))
    error = await failure(CapabilityRevoked, guest(runtime, main))
    assert "take the result of a promise" in str(error)
    assert "capability_denied" in noted


async def test_waiting_costs_a_syscall():
    async def main():
        for _ in range(3):
            await from_promise(later(1, 1))

    error = await failure(BudgetExceeded, run(main, budget=Budget(ops=1000, syscalls=2)))
    assert error.component == "syscalls"


async def test_a_promise_enters_at_the_beginning_of_a_batch_and_is_on_record():
    noted = []

    async def main():
        await from_promise(later(1, 1))

    runtime = Runtime(host=BrowserHost.of_page())
    runtime.kernel.observe(lambda name, task, detail: noted.append((name, detail)))
    await guest(runtime, main)
    names = [name for name, _ in noted]
    at = names.index("outside")
    task, generation = noted[at][1].split()[1:]
    assert noted[at][1].startswith("promise ")
    assert (int(task), int(generation)) == (runtime.kernel.root.id + 1, 1)
    assert names[at - 1] == "host_turn"


async def test_bytes_of_javascript_arrive_as_they_are():
    async def main():
        return (await from_promise(later(to_js(b"abc"), 1))).to_bytes().decode()

    assert await run(main) == "abc"
