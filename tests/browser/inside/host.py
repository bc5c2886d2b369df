"""The browser host on a simulated page: what it asks for, in which order, and what it gives back."""

from pyodide.code import run_js
from pyodide.ffi import JsException
from support.hosts import BURST_MAX, DELAY_MS_MAX, MICROTASKS_MAX, NEEDED, BrowserHost, PumpState

import bursar
from bursar import HostMisuse, Runtime
from inside.page import Page


def run(page, main, **keywords):
    """Run a program in a page until the page has nothing left to do."""
    runtime = Runtime(host=BrowserHost(page), **keywords)
    runtime.start(main)
    page.run()
    return runtime


async def yielding(times):
    for _ in range(times):
        await bursar.checkpoint()
    return "done"


def many_yields(times=2 * BURST_MAX + 10):
    async def main():
        return await yielding(times)

    return main


def raises(kind, call, *words):
    """Do what pytest.raises does. Pyodide has no pytest."""
    message = None
    try:
        call()
    except kind as error:
        message = str(error)
    assert message is not None, f"{kind.__name__} was not raised"
    assert all(word in message for word in words), message


async def test_microtask_first_then_a_handoff_after_each_full_batch():
    page = Page()
    runtime = run(page, many_yields())
    handoff = ["handoff asked", "handoff"]
    assert page.log == ["microtask asked", "microtask", *handoff, *handoff], page.log
    assert runtime.result() == "done"
    assert (runtime.pump.turn, runtime.pump.batch) == (3, 3)


async def test_the_page_gets_its_turn_at_every_handoff():
    page, seen = Page(), []
    for i in range(2):
        page.tasks.append(lambda i=i: seen.append(i))
    runtime = Runtime(host=BrowserHost(page))
    runtime.start(many_yields())
    page.turn()  # the microtask
    assert runtime.kernel.decisions == BURST_MAX
    while len(seen) < 2:
        page.turn()
    assert runtime.kernel.decisions == BURST_MAX, "what was queued before the handoff comes before it"
    page.run()
    assert runtime.result() == "done"


async def test_a_call_from_inside_a_task_is_deferred_and_lost_is_nothing():
    page, noted, depth = Page(), [], []
    runtime = Runtime(host=BrowserHost(page))
    runtime.kernel.observe(lambda name, task, detail: noted.append(name))

    async def main():
        depth.append(runtime.kernel.decisions)
        again = page.given
        again()
        depth.append(runtime.kernel.decisions)
        await bursar.checkpoint()
        return "done"

    queue = page.queueMicrotask

    def remember(function):
        page.given = function
        queue(function)

    page.queueMicrotask = remember
    runtime.start(main)
    page.run()
    assert runtime.result() == "done"
    assert depth == [1, 1], "a decision was made inside a poll"
    assert noted.count("scheduler_reentrancy_deferred") == 1


async def test_without_a_message_channel_a_handoff_is_a_timeout_of_nothing():
    page = Page(channel=False)
    host = BrowserHost(page)
    assert (host.name, host.handoff_by) == ("browser, without MessageChannel", "setTimeout")
    runtime = Runtime(host=host)
    runtime.start(many_yields())
    page.run()
    assert runtime.result() == "done"
    assert page.log == ["microtask asked", "microtask", "timeout 0", "timeout", "timeout 0", "timeout"], page.log
    assert BrowserHost(Page()).name == "browser"


async def test_a_handoff_that_is_still_queued_at_the_end_is_taken_back():
    page = Page(channel=False)
    runtime = Runtime(host=BrowserHost(page))
    runtime.start(many_yields())
    page.turn()
    assert len(page.timeouts) == 1
    runtime.pump.stop(KeyboardInterrupt())
    assert not page.timeouts


async def test_an_api_that_lacks_something_is_refused_by_name():
    for name in NEEDED:
        page = Page()
        setattr(page, name, None)
        raises(HostMisuse, lambda page=page: BrowserHost(page), name)
    raises(HostMisuse, lambda: BrowserHost(object()), "queueMicrotask")


async def test_an_api_may_be_an_object_of_javascript():
    api = run_js("""({
        queueMicrotask: f => queueMicrotask(f), setTimeout: (f, ms) => setTimeout(f, ms),
        clearTimeout: id => clearTimeout(id), now: () => performance.now(),
        getRandomValues: a => crypto.getRandomValues(a), MessageChannel: null})""")
    assert BrowserHost(api).handoff_by == "setTimeout"
    raises(HostMisuse, lambda: BrowserHost(run_js("({setTimeout})")), "queueMicrotask")


async def test_a_page_that_calls_everything_twice_does_no_harm():
    class Stutter(Page):
        def queueMicrotask(self, function):
            super().queueMicrotask(function)
            self.microtasks.append(function)

    page = Stutter()
    runtime = Runtime(host=BrowserHost(page))
    runtime.start(many_yields(BURST_MAX + 5))
    while page.turn():
        pass
    plain = run(Page(), many_yields(BURST_MAX + 5))
    assert runtime.result() == plain.result() == "done"
    assert runtime.fingerprint == plain.fingerprint


async def test_a_call_that_comes_after_the_end_finds_nobody():
    page = Page()
    runtime = Runtime(host=BrowserHost(page))
    runtime.start(many_yields(3))
    late = page.microtasks[0]
    runtime.pump.host.wake()  # a second microtask, which runs when the run is over
    page.run()
    assert runtime.result() == "done"
    assert page.log.count("microtask") == 2
    raises(JsException, late, "destroyed")


async def test_a_page_that_forgets_a_call_loses_time_but_no_work():
    page = Page()
    runtime = Runtime(host=BrowserHost(page))
    runtime.start(many_yields(3))
    forgotten = page.microtasks.popleft()
    page.run()
    assert not runtime.pump.over
    runtime.cancel("nobody calls")
    assert not page.microtasks, "one call is queued as far as the pump knows: it asks for no second one"
    forgotten()
    assert runtime.pump.over


async def test_everything_is_given_back_at_the_end():
    page = Page()

    async def main():
        async with bursar.nursery() as n:
            n.spawn(bursar_sleeper)
            await bursar.sleep(0.001)
            n.cancel()

    async def bursar_sleeper():
        await bursar.sleep(60)

    runtime = run(page, main)
    runtime.result()
    (channel,) = page.MessageChannel.made
    assert channel.closed
    assert channel.onmessage is None
    assert not page.timeouts
    host = runtime.pump.host
    host.close()  # a second call changes nothing
    host.wake()
    assert not page.microtasks
    for function in (host._soon, host._later, host._ring):
        raises(JsException, function, "destroyed")  # BROWSER-1


async def test_microtasks_in_a_row_are_limited():
    """BROWSER-4: a pump that asks for a microtask in every microtask still leaves the page its turns."""

    class Pump:
        state = PumpState.IDLE
        left = 5 * MICROTASKS_MAX

        def drain(self):
            self.left -= 1
            if self.left:
                host.microtask()

    page, pump = Page(), Pump()
    host = BrowserHost(page)
    host.open(pump)
    host.microtask()
    page.run()
    host.close()
    assert pump.left == 0
    turns = " ".join(done for done in page.log if done in ("microtask", "handoff")).split("handoff")
    assert max(turn.count("microtask") for turn in turns) == MICROTASKS_MAX


async def test_a_host_drives_one_run():
    page = Page()
    host = BrowserHost(page)
    first = Runtime(host=host)
    first.start(many_yields(1))
    page.run()
    raises(HostMisuse, lambda: Runtime(host=host).start(many_yields(1)), "already")


async def test_a_guest_cannot_be_run_like_a_loop():
    raises(HostMisuse, lambda: Runtime(host=BrowserHost(Page())).run(many_yields(1)), "guest")


# ---- time


async def test_alarms_are_rounded_up_and_replaced():
    page = Page()

    async def main():
        async with bursar.nursery() as n:
            n.spawn(sleeper, 0.5)
            n.spawn(sleeper, 0.0015)
        return await bursar.now()

    async def sleeper(seconds):
        await bursar.sleep(seconds)

    runtime = run(page, main)
    assert runtime.result() == 0.5
    assert [entry for entry in page.log if entry.startswith("timeout ")] == [
        "timeout 2",
        "timeout 498",
    ], page.log


async def test_there_is_one_alarm_and_an_earlier_one_takes_its_place():
    page, event = Page(), bursar.Event()

    async def main():
        async with bursar.nursery() as n:
            n.spawn(sleeper, 5)
            await event.wait()
            await bursar.sleep(0.003)
            n.cancel()

    async def sleeper(seconds):
        await bursar.sleep(seconds)

    runtime = Runtime(host=BrowserHost(page))
    runtime.start(main)
    page.turn()
    assert [due for due, _ in page.timeouts.values()] == [page.ms + 5000]
    runtime.pump.post("a test", event.set)
    page.turn()
    assert [due for due, _ in page.timeouts.values()] == [page.ms + 3]
    page.run()
    assert runtime.result() is None
    assert page.ms == 1003


async def test_an_alarm_that_rings_early_is_set_again_and_not_in_a_circle():
    page = Page()

    async def main():
        await bursar.sleep(0.010)
        return "slept"

    runtime = Runtime(host=BrowserHost(page))
    runtime.start(main)
    page.turn()
    ((id, (due, ring)),) = page.timeouts.items()
    page.ms = due - 0.4
    page.timeouts.pop(id)
    ring()
    assert page.log[-1] == "timeout 1"
    assert not runtime.pump.over
    page.run()
    assert runtime.result() == "slept"


async def test_a_delay_that_setTimeout_cannot_take_is_worked_off_in_parts():
    page = Page()
    seconds = 3 * DELAY_MS_MAX / 1000

    async def main():
        await bursar.sleep(seconds)
        return await bursar.now()

    runtime = run(page, main)
    assert runtime.result() == seconds
    assert page.log.count(f"timeout {DELAY_MS_MAX}") == 3
    assert max(int(entry.split()[1]) for entry in page.log if entry.startswith("timeout ")) == DELAY_MS_MAX


async def test_after_a_gap_the_backlog_is_worked_off_in_bounded_batches_with_the_page_in_between():
    page, noted, woken = Page(), [], []
    tasks = 500

    async def main():
        async with bursar.nursery() as n:
            for i in range(tasks):
                n.spawn(sleeper, i)

    async def sleeper(i):
        await bursar.sleep(1 + (tasks - i) * 0.001)
        woken.append(i)

    runtime = Runtime(host=BrowserHost(page))
    runtime.kernel.observe(lambda name, task, detail: noted.append(name))
    runtime.start(main)
    while page.turn():
        pass
    del noted[:]
    asleep = page.log.count("handoff")
    page.ms += 3600_000  # the machine slept
    page.run()
    runtime.result()
    assert woken == list(range(tasks))[::-1], "in the order of their deadlines"
    batches = " ".join(noted).split("host_turn")[1:]
    for batch in batches:
        assert batch.count("timer_fired") <= BURST_MAX
        assert batch.count("scheduler_step_decision") <= BURST_MAX
    assert page.log.count("handoff") - asleep >= tasks // BURST_MAX


# ---- a slow machine


class SlowPage(Page):
    """A page on which 3 ms pass between two looks at the clock."""

    def now(self):
        self.ms += 3
        return self.ms


def crowd(order, tasks=3 * BURST_MAX):
    """More timers that are due at once than one batch fires, and work for the tasks that they wake."""

    async def main():
        async with bursar.nursery() as n:
            for i in range(tasks):
                n.spawn(sleeper, i)

    async def sleeper(i):
        await bursar.sleep(1)
        for _ in range(i % 5):
            order.append(i)
            await bursar.checkpoint()

    return main


async def test_a_batch_that_takes_too_long_is_cut_for_the_page():
    page = SlowPage()
    runtime = Runtime(host=BrowserHost(page), clock="virtual")
    runtime.start(many_yields(BURST_MAX - 1))
    page.run_microtasks()
    assert 1 <= runtime.kernel.decisions <= 3
    assert page.log[-1] == "handoff asked"
    page.run()
    assert runtime.result() == "done"
    handoffs = page.log.count("handoff")
    assert handoffs >= BURST_MAX // 3
    assert (runtime.pump.batch, runtime.pump.turn) == (1, 1 + handoffs), (
        "one batch, in parts, each in a turn of its own"
    )


async def test_how_fast_the_machine_is_does_not_show_in_the_schedule():
    seen, told = [], []
    for page in (Page(), SlowPage()):
        order, noted = [], []
        runtime = Runtime(host=BrowserHost(page), clock="virtual", workers=3)
        runtime.kernel.observe(lambda name, task, detail, noted=noted: noted.append((name, task and task.id)))
        runtime.start(crowd(order))
        page.run()
        runtime.result()
        handoff = ("scheduler_host_handoff", None)
        told.append(noted.count(handoff))
        seen.append((runtime.fingerprint, order, [note for note in noted if note != handoff]))
        assert page.log.count("handoff") > 10
    assert seen[0] == seen[1]
    assert told[1] > 2 * told[0] > 0, "where a batch is cut, that is told"
    alone, order = Runtime(clock="virtual", workers=3), []
    alone.run(crowd(order))
    assert (alone.fingerprint, order) == seen[0][:2]


async def test_what_arrives_in_the_middle_of_a_cut_batch_enters_with_the_next_one():
    page, noted = SlowPage(), []
    runtime = Runtime(host=BrowserHost(page), clock="virtual")
    runtime.kernel.observe(lambda name, task, detail: noted.append((name, runtime.kernel.decisions)))
    runtime.start(many_yields())
    page.run_microtasks()
    runtime.pump.post("a test", lambda: None)
    page.run()
    runtime.result()
    assert ("outside", BURST_MAX) in noted


# ---- entropy


async def test_entropy_is_the_pages_own_and_of_any_size():
    host = BrowserHost(Page())
    for size in (0, 1, 65_536, 65_537, 200_000):
        assert host.entropy(size) == b"\7" * size
    real = BrowserHost.of_page()
    assert len({real.entropy(16) for _ in range(8)}) == 8
