"""From a spawn to the gate, and what a handle does there: dropping."""

import pytest
from support.admission import invariants
from support.gated import Log, kinds, nap, run

import bursar
from bursar import Authority, Runtime, ScopeMisuse, TaskDropped


def one(**rules):
    return Authority(max_concurrent=1, **rules)


def events_of(main, **keywords):
    """What the law told, by task: names of events about admission and the end."""
    runtime = Runtime(clock="virtual", **keywords)
    told: dict[str, list[str]] = {}

    def hear(kind, task, detail):
        if task is not None and kind in KINDS:
            told.setdefault(str(task.name), []).append(kind)

    runtime.kernel.observe(hear)
    runtime.run(main)
    return told


KINDS = {
    "task_spawned",
    "task_submitted",
    "task_admitted",
    "task_dropped",
    "cancel_requested",
    "cancel_delivered",
    "task_done",
    "scheduler_step_decision",
}


def test_a_drop_is_an_event_and_an_error_and_the_function_is_never_called():
    log = Log()

    async def main():
        async with bursar.nursery(admission=one()) as n:
            n.spawn(nap, name="first")
            task = n.spawn(log.work, "it", name="second")
            task.drop("no longer wanted")
            assert task.state.name == "DONE"
            with pytest.raises(TaskDropped, match="no longer wanted"):
                _ = task.result
            with pytest.raises(TaskDropped):
                await task

    told = events_of(main)
    assert told["second"] == ["task_spawned", "task_submitted", "task_dropped", "task_done"]
    assert not log.entries


def test_events_of_one_task_come_in_order():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            tasks = [n.spawn(nap, name=f"t{i}") for i in range(200)]
            tasks[50].cancel()
            tasks[60].drop()

    told = events_of(main)
    usual = [
        "task_spawned",
        "task_submitted",
        "task_admitted",
        "scheduler_step_decision",
        "scheduler_step_decision",
        "task_done",
    ]
    for i in range(200):
        events = told[f"t{i}"]
        if i == 50:
            assert events == [
                *usual[:2],
                "cancel_requested",
                "scheduler_step_decision",
                "cancel_delivered",
                "task_done",
            ]
        elif i == 60:
            assert events == [*usual[:2], "task_dropped", "task_done"]
        else:
            assert events == usual


def test_everybody_hears_of_every_end_before_the_block_ends():
    heard = []

    async def listens(hold):
        heard.append((await hold[0].wait()).kind.name)

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=2)) as n:
            tasks = [n.spawn(nap) for _ in range(20)]
            async with bursar.nursery() as others:
                for task in tasks:
                    others.spawn(listens, [task])
                await bursar.checkpoint()
                tasks[-1].drop()
        assert len(heard) == 20

    run(main)
    assert heard[0] == "DROPPED"


@pytest.mark.parametrize("when", ["running", "over", "free"])
def test_only_what_waits_for_permission_is_dropped(when):
    async def main():
        async with bursar.nursery(admission=None if when == "free" else one()) as n:
            task = n.spawn(nap)
            await bursar.sleep(0.5 if when == "running" else 2 if when == "over" else 0)
            with pytest.raises(ScopeMisuse, match="only a task that has not started can be dropped"):
                task.drop()

    run(main)


def test_what_is_being_cancelled_cannot_be_dropped_any_more():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            n.spawn(nap)
            task = n.spawn(nap)
            task.cancel()
            with pytest.raises(ScopeMisuse):
                task.drop()
        return kinds(task)

    assert run(main) == ["cancelled"]


def test_what_was_paused_before_it_started_can_be_dropped():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            n.spawn(nap)
            task = n.spawn(nap)
            await task.pause()
            task.drop()
            task.resume()
            assert await task.pause() is False
        return kinds(task)

    assert run(main) == ["dropped"]


def test_a_dropped_task_gives_back_its_money():
    async def main():
        async with bursar.nursery(admission=one(), budget=bursar.Budget(ops=1000)) as n:
            n.spawn(nap)
            before = n.budget.ops
            task = n.spawn(nap, budget=bursar.Budget(ops=500))
            assert n.budget.ops == before - 501
            task.drop()
            assert n.budget.ops == before - 1

    run(main)


def test_a_drop_does_not_fail_the_nursery():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            first, second, third = (n.spawn(nap) for _ in range(3))
            second.drop()
        return kinds(first, second, third), n.result_kind.name

    assert run(main) == (["ok", "dropped", "ok"], "OK")


def test_a_refused_spawn_leaves_no_ticket():
    async def main():
        async with bursar.nursery(admission=one()) as n:
            kernel, record = n._inside()
            for wrong in ({"priority": "high"}, {"needs": {"cpu": 1}}, {"retry": 1}, {"after": [None]}):
                with pytest.raises((TypeError, bursar.BursarError)):
                    n.spawn(nap, **wrong)
            invariants.check(kernel)
            return record.gate.totals.entered, len(record.children)

    assert run(main) == (0, 0)


def test_whoever_asked_for_nothing_is_known_at_the_runtime_s_gate_when_it_is_followed():
    async def main():
        async with bursar.nursery() as n:
            free = n.spawn(nap)
            follower = n.spawn(nap, after=[free])
        return kinds(free, follower), await bursar.now()

    assert run(main) == (["ok", "ok"], 2.0)


class Luggage:
    """What a task was given; when it is let go it does something."""

    def __init__(self, act):
        self._act = act

    def __del__(self):
        self._act()


@pytest.mark.parametrize("what", ["spawn", "cancel", "pause", "drop"])
def test_what_a_dropped_task_was_given_may_call_whatever_it_likes_when_it_goes(what):
    """It comes in the middle of a spawn; but the decision to drop is over by then, and all is on record as it was."""
    acted = []

    async def main():
        tasks = []

        def act():
            if what == "spawn":
                n.spawn(nap, priority=99)
            elif tasks and tasks[-1].state is bursar.State.PENDING:
                getattr(tasks[-1], what)()
            acted.append(what)

        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=2)) as n:
            n.spawn(nap)
            for i in range(6):
                tasks.append(n.spawn(naps, Luggage(act), priority=10 * i))
            await bursar.sleep(0.5)
            n.cancel()

    async def naps(luggage):
        await nap()

    run(main)
    assert len(acted) == 6
