"""The decision: slots, order, resources, the reservation, limits of the queue. Each run is checked after every poll
(`support.gated`), so limits that were exceeded and wakes that were lost fail any of these tests."""

import pytest
from support.gated import Log, kinds, nap, run

import bursar
from bursar import Aging, Authority, InfeasibleDemand, Priority, Soft, Strict, TaskDropped


def test_never_more_than_max_concurrent():
    most = now = 0

    async def counts():
        nonlocal most, now
        now += 1
        most = max(most, now)
        await bursar.sleep(1)
        now -= 1

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=3)) as n:
            for _ in range(10):
                n.spawn(counts)
        return await bursar.now()

    assert run(main) == 4.0
    assert most == 3


def test_what_waits_has_not_begun_and_says_pending():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(log.work, "first")
            waits = n.spawn(log.work, "second")
            await bursar.sleep(0.5)
            assert waits.state.name == "PENDING"
            assert log.order == "first"

    run(main)


def test_without_a_gate_nobody_asks():
    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(nap)
            assert task.state.name == "READY"
            assert task.explain().admission is None

    run(main)


def test_a_gate_of_the_whole_runtime():
    log = Log()

    async def main():
        async with bursar.nursery() as outer, bursar.nursery() as inner:
            for name in "ab":
                outer.spawn(log.work, name)
                inner.spawn(log.work, name.upper())
        return await bursar.now()

    assert run(main, admission=Authority(max_concurrent=1)) == 4.0
    assert log.order == "a A b B"


def test_strict_classes_first_come_first_served_inside():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(log.work, "now")
            for name, priority in [("l1", 10), ("n1", 50), ("h1", 100), ("l2", 10), ("h2", 100), ("n2", 50)]:
                n.spawn(log.work, name, priority=priority)

    run(main)
    assert log.order == "now h1 h2 n1 n2 l1 l2"


def test_strict_lets_a_low_task_starve_and_shows_it():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(order=Strict(), max_concurrent=1)) as n:
            n.spawn(log.work, "now", priority=Priority.HIGH)
            low = n.spawn(log.work, "low", priority=Priority.LOW)
            for i in range(20):
                n.spawn(log.work, f"h{i}", priority=Priority.HIGH)
            await bursar.sleep(10.5)
            assert low.explain().admission.starved == pytest.approx(9.5)
        return low.explain().admission

    told = run(main)
    assert log.order.endswith("low")
    assert told.starved == pytest.approx(20.0)
    assert told.waited == pytest.approx(21.0)


def test_aging_prevents_starvation_by_a_flood():
    log = Log()

    async def flood(n):
        for i in range(60):
            n.spawn(log.work, f"h{i}", 0.1, priority=100)
            await bursar.sleep(0.1)

    async def main():
        async with bursar.nursery(admission=Authority(order=Aging(0.01, 5), max_concurrent=1)) as n:
            n.spawn(log.work, "now", 0.1, priority=100)
            n.spawn(log.work, "low", priority=0)
            async with bursar.nursery() as other:
                other.spawn(flood, n)

    run(main)
    assert log.at("low") <= 0.5  # 20 intervals of 0.01 s, each worth 5, make up for 100


def test_who_is_freed_by_the_same_end_comes_in_by_priority():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            first = n.spawn(log.work, "first")
            n.spawn(log.work, "low", priority=10, after=[first])
            n.spawn(log.work, "high", priority=100, after=[first])

    run(main)
    assert log.order == "first high low"


def test_a_newly_ready_task_of_higher_priority_is_not_overlooked():
    """The end that frees the slot also frees the successor, which comes before who has waited longer."""
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            first = n.spawn(log.work, "first")
            n.spawn(log.work, "waits")
            n.spawn(log.work, "urgent", priority=100, after=[first])

    run(main)
    assert log.order == "first urgent waits"


# ---- resources


def test_processors_limit_how_many_run():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(resources={"cpu": 2})) as n:
            for name in "abcd":
                n.spawn(log.work, name, needs={"cpu": 1})
        return await bursar.now()

    assert run(main) == 2.0
    assert [log.at(name) for name in "abcd"] == [0, 0, 1, 1]


def test_memory_queues_and_one_that_is_too_big_runs_alone():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(resources={"cpu": 4, "ram": "100MB"})) as n:
            n.spawn(log.work, "a", needs={"cpu": 1, "ram": "80MB"})
            n.spawn(log.work, "b", needs={"cpu": 1, "ram": "80MB"})
            n.spawn(log.work, "big", needs={"cpu": 1, "ram": "150MB"})
            n.spawn(log.work, "other", needs={"cpu": 1})

    run(main)
    assert [log.at(name) for name in ("a", "other", "b", "big")] == [0, 0, 1, 2]


def test_one_scarce_resource_does_not_hold_up_those_who_do_not_need_it():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(resources={"cpu": 4, "licences": 1})) as n:
            for name in "ab":
                n.spawn(log.work, name, needs={"licences": 1}, priority=100)
            n.spawn(log.work, "free", needs={"cpu": 1}, priority=10)

    run(main)
    assert log.at("free") == 0


@pytest.mark.parametrize("needs", [{"cpu": 3}, {"gpu": 1}, {"licences": "2"}])
def test_what_can_never_be_is_refused_at_the_spawn_and_leaves_nothing(needs):
    async def main():
        authority = Authority(max_concurrent=1, resources={"cpu": 2, "licences": 1})
        async with bursar.nursery(admission=authority, budget=bursar.Budget(spawns=3)) as n:
            first = n.spawn(nap)
            left, successors = n.budget, first._inside(n._inside()[0]).ticket.successors
            with pytest.raises(InfeasibleDemand):
                n.spawn(nap, needs=needs, after=[first])
            assert n.budget == left
            assert n.tasks == [first]
            assert first._inside(n._inside()[0]).ticket.successors == successors
            n.spawn(nap, after=[first])
        gate = n._inside()[1].gate
        return gate.totals.entered, gate.resources.taken, gate.waiting

    assert run(main) == (2, [0, 0, 0], 0)


# ---- the reservation

NARROW, WIDE = {"cpu": 1}, {"cpu": 4}


def floods(wide_needs, resources, narrow_needs, order, wide_priority, **rules):
    """Narrow tasks of one second come without end, staggered, so that there is never a moment with nothing taken."""
    log = Log()

    async def flood(n):
        for i in range(60):
            n.spawn(log.work, f"n{i}", 1.0, needs=narrow_needs, priority=0)
            await bursar.sleep(0.25)

    async def main():
        authority = Authority(order=order, resources=resources, **rules)
        async with bursar.nursery(admission=authority) as n, bursar.nursery() as other:
            other.spawn(flood, n)
            await bursar.sleep(2.1)
            n.spawn(log.work, "wide", 1.0, needs=wide_needs, priority=wide_priority)
            asked = await bursar.now()
        return log.at("wide") - asked

    return run(main)


@pytest.mark.parametrize("order", [Strict(), Aging(0.5, 1000)])
def test_a_wide_task_does_not_starve_behind_narrow_ones(order):
    waited = floods(WIDE, {"cpu": 4}, NARROW, order, 1000)
    assert waited <= 3 * 0.5 + 1.0 + 1e-9  # three intervals, and the longest that runs


def test_without_the_reservation_it_would():
    """What the test before is about: while there is no reservation, the narrow ones come in past it."""
    assert floods(WIDE, {"cpu": 4}, NARROW, Strict(), 1000, reserve_after=1000.0) > 10


def test_a_task_over_a_soft_limit_does_not_starve_either():
    waited = floods({"ram": 150}, {"ram": 100}, {"ram": 25}, Aging(0.5, 1), 1000)
    assert waited <= 3 * 0.5 + 1.0 + 1e-9


def test_a_reservation_leaves_what_it_does_not_need():
    log = Log()

    async def main():
        authority = Authority(resources={"cpu": 2, "licences": 1}, reserve_after=0)
        async with bursar.nursery(admission=authority) as n:
            n.spawn(log.work, "a", 2.0, needs={"cpu": 1})
            n.spawn(log.work, "wide", needs={"cpu": 2}, priority=100)
            n.spawn(log.work, "small", needs={"cpu": 1})
            n.spawn(log.work, "other", needs={"licences": 1})

    run(main)
    assert [log.at(name) for name in ("other", "wide", "small")] == [0, 2, 3]


def test_who_could_not_fit_even_if_all_that_runs_had_ended_reserves_nothing():
    """A paused task keeps its memory. Nobody knows for how long, so nobody is held up for it."""
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(resources={"ram": Soft(10)}, reserve_after=0)) as n:
            keeps = n.spawn(nap, needs={"ram": 5})
            await bursar.checkpoint()
            await keeps.pause()
            n.spawn(log.work, "big", needs={"ram": 8}, priority=100)
            n.spawn(log.work, "small", needs={"ram": 2})
            await bursar.sleep(5)
            keeps.resume()

    run(main)
    assert log.at("small") == 0
    assert log.at("big") == 5


def test_who_gives_up_its_reservation_holds_nobody_up():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(resources={"cpu": 2}, reserve_after=0)) as n:
            n.spawn(log.work, "a", 5.0, needs={"cpu": 1})
            wide = n.spawn(log.work, "wide", needs={"cpu": 2}, priority=100)
            n.spawn(log.work, "small", needs={"cpu": 1})
            await bursar.sleep(1)
            wide.cancel()

    run(main)
    assert log.at("small") == 1


# ---- limits of the queue


def test_more_than_max_queue_are_dropped_the_last_of_the_order_first():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=2), on_drop="record") as n:
            runs = n.spawn(nap, name="runs")
            low = n.spawn(nap, priority=10)
            normal = n.spawn(nap)
            high = n.spawn(nap, priority=100)
        return runs, low, normal, high

    runs, low, normal, high = run(main)
    assert kinds(runs, low, normal, high) == ["ok", "dropped", "ok", "ok"]
    with pytest.raises(TaskDropped, match="more than 2 were waiting"):
        _ = low.result


def test_a_queue_of_nobody_takes_those_who_need_not_wait():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0), on_drop="record") as n:
            first, second = n.spawn(nap), n.spawn(nap)
            await bursar.sleep(2)
            third = n.spawn(nap)
        return kinds(first, second, third)

    assert run(main) == ["ok", "dropped", "ok"]


def test_waiting_for_others_is_no_waiting_in_the_queue():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=0, max_wait=0.5)) as n:
            first = n.spawn(nap)
            after = n.spawn(nap, after=[first])
        return kinds(first, after)

    assert run(main) == ["ok", "ok"]


def test_who_waits_too_long_is_dropped_and_its_followers_hear_why():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_wait=0.5)) as n:
            runs = n.spawn(nap)
            late = n.spawn(nap, name="late")
            follower = n.spawn(nap, after=[late])
            await bursar.sleep(0.75)
            assert kinds(late, follower) == ["dropped", "cancelled"]
            assert await bursar.now() == 0.75
        return runs, late, follower

    runs, late, follower = run(main)
    assert runs.result == 1.0
    assert "waited for more than 0.5 s" in str(late.outcome)
    assert "'late'" in str(follower.outcome)


def test_a_low_task_that_is_dropped_wakes_who_awaits_it():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1, max_wait=0.5)) as n:
            n.spawn(nap)
            late = n.spawn(nap)
            with pytest.raises(TaskDropped):
                await late
        return await bursar.now()

    assert run(main) == 1.0


# ---- asked to stop


def test_who_is_asked_to_stop_while_it_waits_never_begins_and_holds_nobody_up():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            first = n.spawn(log.work, "first")
            second = n.spawn(log.work, "second")
            n.spawn(log.work, "third")
            await bursar.checkpoint()
            second.cancel()
            await first.pause()  # frees the slot before the second has ended
            await bursar.sleep(3)
            first.resume()

    run(main)
    assert log.order == "first third"


def test_the_end_of_a_nursery_takes_everybody_off_its_gate():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            tasks = [n.spawn(nap) for _ in range(5)]
            tasks.append(n.spawn(nap, after=[tasks[0]]))
            await bursar.checkpoint()
            await tasks[0].pause()
            n.cancel("enough")
        gate = n._inside()[1].gate
        return kinds(*tasks), len(gate.queues), gate.waiting, gate.resources.taken, list(gate.held)

    assert run(main) == (["cancelled"] * 6, 0, 0, [0], [])


# ---- lending


def test_who_waits_for_its_own_children_lends_them_its_place():
    async def parent(depth):
        if depth:
            async with bursar.nursery() as n:
                n.spawn(parent, depth - 1)
                n.spawn(parent, depth - 1)
        return depth

    assert run(parent, 3, admission=Authority(max_concurrent=1)) == 3


def test_also_at_the_gate_that_everybody_has():
    """A nursery without a gate of its own asks at the runtime's, where the parent holds the only processor."""

    async def parent():
        async with bursar.nursery() as n:
            return n.spawn(nap, needs={"cpu": 1})

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(parent, needs={"cpu": n._inside()[0].gate.resources.limits[1].amount})
        return task.result.result

    assert run(main) == 1.0


# ---- the same again


def test_the_same_seed_gives_the_same_decisions():
    from support import admission_programs

    logs = []
    for _ in range(2):
        _, runtime, judge = admission_programs.run_checked(7)
        logs.append((judge.log, runtime.fingerprint))
    assert logs[0] == logs[1]
    assert len(logs[0][0]) > 5


def test_admissions_are_links_of_the_chain():
    async def main(priority):
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            for i in range(3):
                n.spawn(nap, priority=(priority if i == 2 else 50))

    def fingerprint(priority):
        runtime = bursar.Runtime(clock="virtual")
        runtime.run(main, priority)
        return runtime.fingerprint

    assert fingerprint(50) == fingerprint(50)
    assert fingerprint(50) != fingerprint(100)
