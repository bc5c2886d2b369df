"""`run` and `guest`: the page awaits a program, cancels it, and gets its result."""

import asyncio
from random import Random

from js import performance
from pyodide.code import run_js
from pyodide.ffi import to_js
from support import programs
from support.hosts import SLICE_MS_MAX, BrowserHost

import bursar
from bursar import Deadlock, Runtime, TaskCancelled
from bursar.browser import guest, run
from inside.host import raises
from inside.promises import failure


async def double(x):
    await bursar.checkpoint()
    return 2 * x


async def test_a_program_gives_its_result_to_whoever_awaits_it():
    assert await run(double, 21) == 42


async def test_real_time_passes_in_real_timeouts():
    async def main():
        before = await bursar.now()
        await bursar.sleep(0.02)
        return await bursar.now() - before

    assert 0.02 <= await run(main) < 10


async def test_a_batch_that_takes_too_long_goes_on_in_the_next_turn_of_the_page():
    runtime, turns = Runtime(host=BrowserHost.of_page()), []

    async def main():
        for _ in range(4):
            until_ms = performance.now() + SLICE_MS_MAX
            while performance.now() < until_ms:
                pass  # a long poll
            turns.append((runtime.pump.turn, runtime.pump.batch))
            await bursar.checkpoint()

    await guest(runtime, main)
    first, batch = turns[0]
    assert turns == [(first + i, batch) for i in range(4)]


async def test_what_the_program_raises_is_raised():
    async def main():
        raise LookupError("gone")

    assert str(await failure(LookupError, run(main))) == "gone"


async def test_mistakes_are_raised_at_once():
    for mistake in (lambda: run(double, 1, clock="sundial"), lambda: run(double, 1, host=object())):
        try:
            mistake()
        except (ValueError, AttributeError):
            pass
        else:
            raise AssertionError("a mistake went unnoticed")
    assert "missing 1 required positional argument" in str(await failure(TypeError, run(double)))


async def test_a_program_that_can_never_go_on_is_a_deadlock():
    async def main():
        await bursar.Event().wait()

    assert "waits for an event" in str(await failure(Deadlock, run(main)))


async def test_javascript_awaits_a_program_like_a_promise():
    call = run_js("async (run, double) => (await run(double, 4)) + 1")
    assert await call(run, double) == 9


async def test_javascript_hears_of_failures():
    async def main():
        raise LookupError("gone")

    call = run_js("async (run, main) => { try { await run(main); } catch (e) { return String(e); } }")
    assert "LookupError: gone" in await call(run, main)


async def test_javascript_can_say_keywords_and_cancel():
    begun, tidied = [], []

    async def main():
        try:
            begun.append(True)
            await bursar.sleep(60)
        finally:
            async with bursar.shield():
                await bursar.checkpoint()
            tidied.append(True)

    call = run_js(
        """async (run, main, begun) => {
            const running = run.callKwargs(main, {seed: 3});
            while (!begun.length) await new Promise(go => setTimeout(go, 0));
            running.cancel();
            try { await running; } catch (e) { return String(e); }
            return "not cancelled";
        }"""
    )
    assert "CancelledError" in await call(run, main, begun)
    assert tidied == [True]


async def test_cancellation_from_outside_waits_for_the_cleanup():
    order = []

    async def main():
        try:
            await bursar.sleep(60)
        except bursar.Cancelled as cancelled:
            order.append(str(cancelled.reason))
            await bursar.sleep(0.002)
            order.append("tidied up")
            raise

    runtime = Runtime(host=BrowserHost.of_page())
    running = guest(runtime, main)
    while not runtime.kernel.decisions:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()  # a second request changes nothing
    await failure(asyncio.CancelledError, running)
    assert len(order) == 2
    assert "cancelled from outside" in order[0]
    assert order[1] == "tidied up"


async def test_what_goes_wrong_in_the_cleanup_is_raised_instead():
    async def main():
        try:
            await bursar.sleep(60)
        finally:
            raise LookupError("gone")

    runtime = Runtime(host=BrowserHost.of_page())
    running = guest(runtime, main)
    while not runtime.kernel.decisions:
        await asyncio.sleep(0)
    running.cancel()
    await failure(LookupError, running)


async def test_a_program_that_cancels_itself_is_no_cancellation_from_outside():
    async def main():
        (await bursar.current_task()).cancel("I give up")
        await bursar.checkpoint()

    assert "I give up" in str(await failure(TaskCancelled, run(main)))


async def test_several_programs_share_the_page():
    assert await asyncio.gather(*(run(double, i) for i in range(20))) == [2 * i for i in range(20)]


async def test_a_virtual_clock_on_this_host_gives_the_schedules_of_the_virtual_host():
    for number in range(20):
        program = programs.make(Random(number))
        alone = programs.runtime_for(number, 1 + number % 4)
        ending = programs.run(alone, program)
        runtime = programs.runtime_for(number, 1 + number % 4, host=BrowserHost.of_page())
        interpreter = programs.Interpreter(program, runtime.profile.name)
        try:
            await guest(runtime, interpreter.main)
            here = "ok"
        except (bursar.BursarError, programs.Boom, programs.Crash, TimeoutError, BaseExceptionGroup) as error:
            here = type(error).__name__
        assert (here, runtime.fingerprint) == (ending, alone.fingerprint), number


async def test_the_virtual_host_needs_no_page():
    async def main():
        await bursar.sleep(3600)
        return await bursar.now()

    assert bursar.run(main, clock="virtual") == 3600


async def test_a_loop_of_our_own_is_refused_here_with_a_word_about_what_to_do():
    raises(bursar.HostMisuse, lambda: bursar.run(double, 1), "bursar.browser.run", "clock='virtual'")


async def test_a_javascript_array_survives_the_way_through_a_task():
    async def main(numbers):
        await bursar.checkpoint()
        return sum(numbers)

    assert await run(main, to_js([1, 2, 3])) == 6


def halves(n, checkpoint: bursar.Checkpoint):
    for i in range(n):
        checkpoint(progress=i / n)
    return n // 2


async def test_plain_functions_run_without_threads_also_with_a_checkpoint():
    async def main():
        async with bursar.nursery() as n:
            one = n.spawn(halves, 84)
            two = n.spawn(halves, one)
            total = n.spawn(sum, [one, two])
        return total.result

    runtime = Runtime(host=BrowserHost.of_page())
    assert runtime.settings.scheduler == "solo"
    assert await guest(runtime, main) == 63
