"""Why a task waits: structured, printable, and true at that moment."""

import pytest
from support.gated import fails, nap, run

import bursar
from bursar import Aging, Authority, Deadlock, Hard, Retry, Soft


def one(**rules):
    return Authority(max_concurrent=1, **rules)


def asked(spawn, **rules):
    """What a task says about itself after half a second."""

    async def main():
        async with bursar.nursery(admission=Authority(**rules), cancel_on_failure=False) as n:
            task = spawn(n)
            await bursar.sleep(0.5)
            told = task.explain()
            n.cancel()
        return told

    return run(main)


def test_it_waits_for_those_that_it_follows():
    def spawn(n):
        return n.spawn(nap, after=[n.spawn(nap, name="a"), n.spawn(nap, name="b"), n.spawn(nap, 0.1, name="c")])

    told = asked(spawn)
    (blocker,) = told.admission.blockers
    assert (blocker.what, blocker.tasks) == ("task", ("a", "b"))
    assert told.admission.state == "waiting"
    assert "waits for 2 tasks: 'a', 'b'" in str(told)


def test_it_waits_for_a_slot_and_who_has_it():
    def spawn(n):
        n.spawn(nap, name="holder")
        return n.spawn(nap)

    told = asked(spawn, max_concurrent=1)
    (blocker,) = told.admission.blockers
    assert (blocker.what, blocker.tasks, blocker.free) == ("slot", ("holder",), 0)
    assert (told.admission.place, told.admission.queue) == (1, 1)
    assert told.blockers == ("holder",)


def test_it_waits_for_a_resource_how_much_is_free_and_who_has_the_rest():
    def spawn(n):
        n.spawn(nap, name="holder", needs={"ram": 6, "cpu": 1})
        n.spawn(nap, name="innocent", needs={"cpu": 1})
        return n.spawn(nap, needs={"ram": 7, "cpu": 1})

    told = asked(spawn, resources={"ram": 10, "cpu": 4})
    (blocker,) = told.admission.blockers
    assert (blocker.what, blocker.resource, blocker.needed, blocker.free) == ("resource", "ram", 7, 4)
    assert blocker.tasks == ("holder",)


def test_it_comes_after_others():
    def spawn(n):
        for name, priority in [("holder", 50), ("high", 100), ("earlier", 50)]:
            n.spawn(nap, name=name, priority=priority)
        task = n.spawn(nap)
        n.spawn(nap, name="low", priority=10)
        return task

    told = asked(spawn, max_concurrent=1)
    slot, priority, order = told.admission.blockers
    assert slot.what == "slot"
    assert (priority.what, priority.tasks) == ("priority", ("high",))
    assert (order.what, order.tasks) == ("order", ("earlier",))
    assert {blocker.since for blocker in told.admission.blockers} == {0.0}
    assert (told.admission.place, told.admission.queue, told.admission.queue_name) == (3, 4, "NORMAL")
    assert (told.admission.ahead_higher, told.admission.ahead_equal) == (1, 1)
    assert "comes after 1 of higher priority: 'high'; comes after 1 of the same priority: 'earlier'" in str(told)
    assert "(place 3 of 4, priority NORMAL)" in str(told)


@pytest.mark.parametrize(("priority", "name"), [(100, "HIGH"), (10, "LOW"), (70, "70")])
def test_a_queue_has_the_name_of_its_priority(priority, name):
    def spawn(n):
        n.spawn(nap, priority=1000)
        return n.spawn(nap, priority=priority)

    assert asked(spawn, max_concurrent=1).admission.queue_name == name


def test_aging_makes_a_task_of_another_priority_equal():
    def spawn(n):
        for name, priority in [("holder", 50), ("high", 60), ("equal", 50)]:
            n.spawn(nap, name=name, priority=priority)
        return n.spawn(nap, priority=50)

    told = asked(spawn, max_concurrent=1, order=Aging(0.1, 1)).admission
    assert (told.effective, told.ahead_higher, told.ahead_equal) == (55, 1, 1)


def test_after_its_end_a_task_is_not_admitted_any_more():
    async def main():
        async with bursar.nursery(admission=one(max_queue=1), on_drop="record") as n:
            tasks = [n.spawn(nap) for _ in range(3)]
            tasks[1].cancel()
            running = str(tasks[0].explain().admission)
        return running, [(str(t.explain().admission), t.explain().admission.state) for t in tasks]

    assert run(main) == ("is admitted", [("has ended", "done")] * 3)


def test_a_task_that_lends_its_slot_says_so():
    async def parent():
        async with bursar.nursery() as n:
            n.spawn(nap)

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(parent)
            await bursar.sleep(0.5)
            return str(task.explain().admission)

    told = bursar.Runtime(clock="virtual", admission=Authority(max_concurrent=2)).run(main)
    assert told == "is admitted, and lends its slot while it waits for its children"


def test_it_leaves_what_is_reserved_for_another():
    def spawn(n):
        n.spawn(nap, needs={"cpu": 1})
        n.spawn(nap, name="wide", needs={"cpu": 2}, priority=100)
        return n.spawn(nap, needs={"cpu": 1})

    told = asked(spawn, resources={"cpu": 2}, reserve_after=0)
    assert [(b.what, b.tasks) for b in told.admission.blockers] == [("reservation", ("wide",)), ("priority", ("wide",))]


def test_it_waits_for_the_time_of_an_attempt():
    def spawn(n):
        return n.spawn(fails, retry=Retry(1, backoff=2.0))

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            task = spawn(n)
            await bursar.sleep(0.5)
            told = task.retried_by.explain()
            n.cancel()
        return told

    (blocker,) = run(main).admission.blockers
    assert (blocker.what, blocker.text) == ("time", "waits 1.5 s more before attempt 2")


def test_an_attempt_waits_for_the_one_before():
    """Which has failed, and has not ended while a child that it left running has not."""

    async def stubborn():
        async with bursar.shield():
            await bursar.sleep(3)

    async def leaves_a_child():
        opened = opens()
        await anext(opened)
        kept.append(opened)
        raise ValueError

    async def opens():
        async with bursar.nursery() as n:
            n.spawn(stubborn)
            await bursar.checkpoint()
            yield

    kept = []

    async def main():
        async with bursar.nursery(cancel_on_failure=False) as n:
            task = n.spawn(leaves_a_child, retry=Retry(1), name="flaky")
            await bursar.sleep(1)
            assert task.outcome is None
            told = task.retried_by.explain()
            n.cancel()
        return told

    (blocker,) = run(main).admission.blockers
    assert blocker.tasks == ("flaky",)


def test_it_is_paused():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            task = n.spawn(nap)
            await bursar.checkpoint()
            await task.pause()
            told = task.explain()
            task.resume()
        return told

    told = run(main)
    assert told.state.name == "PAUSED"
    assert [b.what for b in told.admission.blockers] == ["pause"]
    assert "is paused" in str(told)


def test_what_is_admitted_is_held_up_by_nothing():
    told = asked(lambda n: n.spawn(nap), max_concurrent=1)
    assert told.admission.blockers == ()
    assert told.admission.state == "admitted"


def test_the_priority_that_counts_by_now():
    def spawn(n):
        n.spawn(nap)
        return n.spawn(nap, priority=10)

    told = asked(spawn, max_concurrent=1, order=Aging(0.25, 7))
    assert (told.admission.priority, told.admission.effective) == (10, 24)
    assert "priority LOW, by now 24" in str(told)


def test_no_more_than_a_few_are_named():
    def spawn(n):
        return n.spawn(nap, after=[n.spawn(nap, name=f"t{i}") for i in range(30)])

    (blocker,) = asked(spawn).admission.blockers
    assert len(blocker.tasks) == 8
    assert blocker.more
    assert str(blocker).endswith("and more")


def test_the_reasons_can_be_asked_afterwards():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            first = n.spawn(nap)
            second = n.spawn(nap, after=[first], priority=10)
            n.spawn(nap)
            third = n.spawn(nap, priority=5)
            await bursar.sleep(1.25)
            await second.pause()
            await bursar.sleep(1)
            second.resume()
        return second.history, third.history, second.explain(), third.explain()

    second, third, told, other = run(main)
    slot = "waits for permission, because it lacked slot (needs 1, 1 of 1 taken)"
    assert second == [(0.0, "waits for 1 task that it depends on"), (1.0, slot), (1.25, "is paused"), (2.25, slot)]
    assert third == [(0.0, slot)]
    assert told.admission.state == other.admission.state == "done"


def test_who_was_merely_behind_others_says_so_afterwards():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            tasks = [n.spawn(nap) for _ in range(3)]
        return tasks[2].history, tasks[0].history

    slot = "waits for permission, because it lacked slot (needs 1, 1 of 1 taken)"
    assert run(main) == ([(0.0, "comes after others in the queue"), (1.0, slot)], [])


@pytest.mark.parametrize("kind", ["drop", "cancel"])
def test_how_long_it_waited_in_vain(kind):
    async def main():
        async with bursar.nursery(admission=one()) as n:
            n.spawn(nap, 5.0)
            task = n.spawn(nap)
            await bursar.sleep(2)
            getattr(task, kind)()
        return task.explain().admission.waited

    assert run(main) == 2.0


# ---- a parent that keeps what its children need


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize(("limit", "kept", "needed"), [(Soft(10), 8, 4), (Hard(10), 8, 4), (Soft(10), 3, 15)])
def test_a_parent_that_keeps_what_its_child_needs_is_named_and_so_is_the_remedy(limit, kept, needed, awaits):
    """Also if the parent only waits at the end of its block: its slot is lent to the child, its memory is in use."""

    async def main():
        async with bursar.nursery() as n:
            n.spawn(waits_for_a_child, awaits, name="parent", needs={"ram": kept})

    async def waits_for_a_child(awaits):
        async with bursar.nursery() as n:
            child = n.spawn(nap, name="child", needs={"ram": needed})
            if awaits:
                await child

    def attempt(limit):
        run(main, admission=Authority(max_concurrent=2, resources={"ram": limit}))

    with pytest.raises(Deadlock) as raised:
        attempt(limit)
    told = str(raised.value)
    assert f"remedy: task 'parent' keeps {kept} of ram while it waits for task 'child', which needs {needed}" in told
    assert f"Authority(resources={{'ram': {kept + needed}}})" in told
    attempt(type(limit)(kept + needed))  # which is enough


def test_a_parent_that_awaits_a_child_which_has_no_slot():
    async def main():
        async with bursar.nursery() as n:
            n.spawn(parent, name="parent")

    async def parent():
        async with bursar.nursery() as n:
            await n.spawn(nap, name="child")

    with pytest.raises(Deadlock, match=r"remedy: task 'parent' has one of the slots .*max_concurrent=2"):
        run(main, admission=Authority(max_concurrent=1))
    run(main, admission=Authority(max_concurrent=2))


def test_who_is_held_up_by_strangers_gets_no_such_advice():
    """It waits for a slot, and who has that waits for nothing that could have it."""

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(stuck)
            n.spawn(nap, name="behind")

    async def stuck():
        await bursar.Event().wait()

    with pytest.raises(Deadlock) as raised:
        run(main)
    assert "'behind'" in str(raised.value)
    assert "remedy" not in str(raised.value)
