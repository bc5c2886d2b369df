"""A gate of the native kernel has a fast path, which it takes while no observer is attached. The fast path decides as
the slow path does.

Each program runs twice, once with an observer that does nothing, and both runs must take the same decisions. The run
without an observer is also checked after every poll. The kernel in Python has only one path.
"""

from __future__ import annotations

import gc
from random import Random

import pytest
from support.admission import AMOUNT_MAX, invariants
from support.drive import checked

import bursar
from bursar import Aging, Authority, BadDependency, Priority, Runtime, Soft, State, Strict, TaskDropped

GATES = [
    None,
    Authority(),
    Authority(resources={"cpu": 2}),
    Authority(max_concurrent=1),
    Authority(max_concurrent=3, order=Aging(0.25, 7)),
    Authority(max_concurrent=2, order=Aging(0.5, 20), resources={"ram": 4, "gpu": 2}, reserve_after=2.0),
    Authority(max_concurrent=1, order=Aging(1e-9, 10**9)),  # soon more than a number in C holds
    Authority(max_concurrent=2, max_queue=9, order=Strict()),
    Authority(max_concurrent=2, max_wait=3.0, resources={"ram": 4}),
    Authority(max_concurrent=3, resources={"ram": 4, "gpu": 2}, reserve_after=0.5),
    Authority(resources={"ram": 2, "gpu": 3}, reserve_after=0),
]
TASKS = 60
COUNTED = (
    *("entered", "admitted", "passed_over", "dropped", "paused", "retried"),
    *("wait_ns", "wait_max_ns", "starved", "starved_ns", "starved_max_ns"),
)


async def plain(i, random, log):
    log.append(i)
    what = random.random()
    if what < 0.3:
        await bursar.sleep(random.randrange(4) / 4)
    elif what < 0.5:
        await bursar.checkpoint()
    elif what < 0.55:
        raise ValueError(i)
    return i


async def given(first, second, i, random, log):
    assert not isinstance(first, bursar.Task)
    log.append((first, second))
    return await plain(i, random, log)


async def owner(i, random, log):
    async with bursar.nursery(cancel_on_failure=False) as n:
        inner = [n.spawn(plain, i, random, log) for _ in range(2)]
        n.spawn(plain, i, random, log, after=inner)


def meddle(random, tasks):
    task = random.choice(tasks)
    match random.randrange(8):
        case 0:
            task.cancel("on a whim")
        case 1 if task.state in (State.PENDING, State.READY, State.BLOCKED):
            task.pause()
        case 2:
            task.resume()
        case _:
            pass


async def program(random, gate, log):
    async with bursar.nursery(admission=gate, cancel_on_failure=False) as n:
        tasks = []
        for i in range(TASKS):
            keywords = {}
            if random.random() < 0.7:
                keywords["after"] = random.sample(tasks, min(len(tasks), random.choice((0, 1, 2, 3, 30))))
            if random.random() < 0.3:
                keywords["priority"] = random.choice([*Priority, 50, 57, -3])
            if random.random() < 0.2:
                keywords["name"] = f"t{i}"
            if random.random() < 0.1:
                keywords["retry"] = bursar.Retry(1)
            if gate is not None and random.random() < 0.6:
                keywords["needs"] = {name: random.randrange(3) for name in gate.resources if name != "cpu"}
            if tasks and random.random() < 0.2:
                tasks.append(n.spawn(given, *random.choices(tasks, k=2), i, random, log, **keywords))
            else:
                tasks.append(n.spawn(owner if random.random() < 0.1 else plain, i, random, log, **keywords))
            if random.random() < 0.3:
                meddle(random, tasks)
            if random.random() < 0.3:
                await bursar.sleep(random.randrange(3) / 8)
        while any(task.outcome is None for task in tasks):
            await bursar.sleep(1)
            for task in tasks:
                task.resume()
        log.append([(task.outcome.kind, task.history) for task in tasks])


def run(number, observed):
    random, log = Random(number), []
    gate = GATES[number % len(GATES)]
    runtime = checked(Runtime(clock="virtual", seed=number, admission=gate if number % 2 else None))
    if observed:
        runtime.kernel.observe(lambda *_: None)
    poll = runtime.driver.poll

    def and_check(task):
        poll(task)
        invariants.check(runtime.kernel)

    runtime.driver.poll = and_check
    try:
        runtime.run(program, random, gate, log)
    except BaseExceptionGroup as group:
        wrong = group.split(AssertionError)[0]
        assert wrong is None, wrong
    totals = runtime.kernel.gate.totals
    told = {name: getattr(totals, name) for name in COUNTED}
    return log, runtime.fingerprint, told, runtime.kernel.gate.resources.peak


@pytest.mark.parametrize("number", range(6 * len(GATES)))
def test_it_comes_to_the_same(number):
    assert run(number, False) == run(number, True)


def test_chains_fans_and_layers_in_their_order():
    async def note(i, log):
        log.append(i)

    async def main(gate):
        log = []
        async with bursar.nursery(admission=gate) as n:
            first = n.spawn(note, 0, log)
            many = [n.spawn(note, i, log, after=[first]) for i in range(1, 20)]
            last = n.spawn(note, 20, log, after=many)
            n.spawn(note, 21, log, after=(last, first))
        return log

    for gate in GATES[:4]:
        assert Runtime(clock="virtual").run(main, gate) == list(range(22))


def test_those_who_are_free_at_once_go_by_priority():
    async def note(i, log):
        log.append(i)

    async def main():
        log = []
        async with bursar.nursery(admission=Authority()) as n:
            first = n.spawn(note, "first", log)
            for priority in (10, 57, 100, 57):
                n.spawn(note, priority, log, after=[first], priority=priority)
        return log

    assert Runtime(clock="virtual").run(main) == ["first", 100, 57, 57, 10]


def test_what_is_refused_is_refused_on_the_short_way_too():
    async def nothing():
        """Nothing."""

    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            task = n.spawn(nothing)
            for wrong in ([task, task], [nothing], [await bursar.current_task()]):
                with pytest.raises(BadDependency):
                    n.spawn(nothing, after=wrong)
            with pytest.raises(TypeError):
                n.spawn(nothing, after=task)
            with pytest.raises(TypeError):
                n.spawn(nothing, priority=True)
            with pytest.raises(ValueError, match="between"):
                n.spawn(nothing, priority=10**10)
            with pytest.raises(TypeError, match="unexpected"):
                n.spawn(nothing, colour="red")
            assert n._inside()[1].spawned == 1
        with pytest.raises(bursar.NurseryClosed):
            n.spawn(nothing, after=[task])

    Runtime(clock="virtual").run(main)


def test_who_follows_a_task_that_has_ended_well_waits_for_nothing_and_one_that_failed_ends_it():
    async def well():
        """Nothing."""

    async def badly():
        raise ValueError("no")

    async def main():
        async with bursar.nursery(admission=Authority(), cancel_on_failure=False) as n:
            good, bad = n.spawn(well), n.spawn(badly)
            await bursar.sleep(1)
            after_good, after_bad = n.spawn(well, after=[good]), n.spawn(well, after=[good, bad])
            await bursar.sleep(1)
            assert after_good.outcome.kind.name == "OK"
            assert "'no'" in str(after_bad.outcome.reason)

    with pytest.raises(BaseExceptionGroup):
        Runtime(clock="virtual").run(main)


def test_plain_functions_ask_for_a_processor_on_the_short_way_too():
    def plain(i, log):
        log.append(i)
        return i

    async def main():
        log = []
        async with bursar.nursery(admission=Authority(resources={"cpu": 1})) as n:
            first = n.spawn(plain, 0, log)
            others = [n.spawn(plain, i, log, after=[first], priority=i) for i in range(1, 6)]
            last = n.spawn(plain, 6, log, after=others, name="last")
            asked = [task._inside(n._inside()[0]).ticket for task in (first, last)]
            told = str(last.explain())
        return log, told, last.result, [(ticket.demand, dict(ticket.needs)) for ticket in asked]

    def run(observed):
        runtime = Runtime(clock="virtual")
        if observed:
            runtime.kernel.observe(lambda *_: None)
        return *runtime.run(main), runtime.fingerprint

    log, told, result, asked, _ = run(False)
    assert (log, result) == ([0, 5, 4, 3, 2, 1, 6], 6)
    assert "waits for 5 tasks" in told
    assert asked == [(((1, 1),), {"cpu": 1})] * 2
    assert run(False) == run(True)


def test_who_joins_others_of_its_class_changes_nothing_for_anybody():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            for _ in range(4):
                n.spawn(nap)
            totals = n._inside()[1].gate.totals
            return totals.passed_over

    async def nap():
        await bursar.sleep(1)

    assert Runtime(clock="virtual").run(main) == 1  # the second; the third and the fourth stand behind it


def test_the_words_for_what_a_task_waits_for_and_waited_for_are_the_same():
    async def nap():
        await bursar.sleep(1)

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            first = n.spawn(nap)
            second = n.spawn(nap, name="second", after=[first])
            third = n.spawn(nap, priority=Priority.LOW)
            told = [str(task.explain()) for task in (first, second, third)]
        return told, [[str(past) for past in task.history] for task in (first, second, third)]

    def told(observed):
        runtime = Runtime(clock="virtual")
        if observed:
            runtime.kernel.observe(lambda *_: None)
        return runtime.run(main)

    assert told(False) == told(True)
    assert "waits for 1 task: 'test_" in told(False)[0][1]


def test_a_dropped_task_is_told_apart():
    async def nap():
        await bursar.sleep(1)

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=1), on_drop="record") as n:
            tasks = [n.spawn(nap) for _ in range(4)]
        for task in tasks[2:]:
            with pytest.raises(TaskDropped):
                _ = task.result
        return [task.outcome.kind.name for task in tasks]

    assert Runtime(clock="virtual").run(main) == ["OK", "OK", "DROPPED", "DROPPED"]


def test_who_has_waited_long_keeps_others_from_what_it_needs():
    """Three classes queue for one resource; the first does not fit, and after a while nobody passes it by any more."""

    async def nap(i, log):
        log.append(i)
        await bursar.sleep(1)

    async def main():
        log = []
        authority = Authority(resources={"ram": bursar.Hard(4), "gpu": 1}, reserve_after=2)
        async with bursar.nursery(admission=authority) as n:
            for i in range(12):
                n.spawn(nap, i, log, needs={"ram": 2})
                await bursar.sleep(0.5)
                if i == 1:
                    big = n.spawn(nap, "big", log, needs={"ram": 4}, name="big", priority=60)
                    other = n.spawn(nap, "gpu", log, needs={"gpu": 1, "ram": 0}, name="other", priority=55)
            told = n._inside()[1].gate.totals
        return log, told.passed_over, told.starved, [str(past) for task in (big, other) for past in task.history]

    def run(observed):
        runtime = Runtime(clock="virtual")
        if observed:
            runtime.kernel.observe(lambda *_: None)
        return *runtime.run(main), runtime.fingerprint

    log, passed_over, _, told, _ = run(False)
    assert log.index("big") < log.index(11), "it waits for ever"
    assert log.index(2) < log.index("big"), "nobody passed it by"
    assert log.index("gpu") < log.index("big"), "who needs nothing of it waits for it"
    assert passed_over > 3
    assert "ram (needs 4" in told[0]
    assert run(False) == run(True)


def test_more_classes_than_c_puts_in_order_go_the_long_way():
    async def nap(i, log):
        log.append(i)
        await bursar.sleep(1)

    async def main():
        log = []
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            for i in range(80):
                n.spawn(nap, i, log, priority=i % 40)
            totals = n._inside()[1].gate.totals
        return log, totals.passed_over, totals.starved, totals.starved_ns

    def run(observed):
        runtime = Runtime(clock="virtual")
        if observed:
            runtime.kernel.observe(lambda *_: None)
        return *runtime.run(main), runtime.fingerprint

    log = run(False)[0]
    assert log[0] == 0
    assert log[1:] == sorted(range(1, 80), key=lambda i: (-(i % 40), i))
    assert run(False) == run(True)


def test_a_destructor_that_stops_those_who_wait_while_one_is_chosen():
    """Notes are objects, so the collector may run in the middle of a choice, and with it what a program left behind."""

    class Left:
        def __init__(self, stop):
            self.ring, self.stop = self, stop

        def __del__(self):
            self.stop()

    async def nap():
        await bursar.sleep(1)

    async def main():
        authority = Authority(max_concurrent=2, resources={"ram": bursar.Hard(4)})
        async with bursar.nursery(admission=authority, cancel_on_failure=False) as n:
            tasks = [n.spawn(nap, priority=i % 5, needs={"ram": i % 4}) for i in range(60)]
            for one in tasks[::7]:
                Left(one.cancel)
        return [task.outcome.kind.name for task in tasks]

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        runtime = checked(Runtime(clock="virtual"))
        ended = runtime.run(main)
    finally:
        gc.set_threshold(*before)
    assert set(ended) <= {"OK", "CANCELLED"}
    assert "OK" in ended
    invariants.check(runtime.kernel)


def test_amounts_as_large_as_they_may_be_are_still_counted():
    async def takes(i):
        log.append(i)
        await bursar.sleep(1)
        log.append(i)

    async def main():
        async with bursar.nursery() as n:
            for i in range(4):
                n.spawn(takes, i, needs={"ram": AMOUNT_MAX, "gpu": AMOUNT_MAX})
            n.spawn(takes, 4, needs={"ram": 1})

    log = []
    resources = {"ram": Soft(AMOUNT_MAX - 1), "gpu": AMOUNT_MAX}
    bursar.run(main, clock="virtual", admission=Authority(resources=resources, reserve_after=0))
    assert log == [i for i in range(5) for _ in range(2)]
