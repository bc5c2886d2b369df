"""Who follows whom: values, wakes, failures and what is refused."""

import pytest
from support.gated import Log, fails, kinds, nap, run

import bursar
from bursar import Authority, BadDependency, CancelKind, Runtime, TaskCancelled, TaskDropped

GATES = [None, Authority(), Authority(max_concurrent=1)]


async def add(*numbers):
    return sum(numbers)


@pytest.mark.parametrize("gate", GATES)
def test_values_are_passed_on(gate):
    async def main():
        async with bursar.nursery(admission=gate) as n:
            a = n.spawn(add, 1, 2)
            b = n.spawn(add, a, 10)
            c = n.spawn(add, a, b, 100)
        return c.result

    assert run(main) == 116


def test_for_a_plain_function_also_inside_of_containers():
    def plain(items, table, pair, chosen):
        return sum(items) + sum(table.values()) + sum(pair) + sum(chosen)

    async def main():
        async with bursar.nursery() as n:
            a, b = n.spawn(add, 1), n.spawn(add, 2)
            return n.spawn(plain, [a, b, 3], {"a": a, "x": 10}, (b, 1), {a, b})

    async def outer():
        return (await main()).result

    assert run(outer) == 6 + 11 + 3 + 3


def test_a_coroutine_gets_the_handles_that_are_inside_of_its_arguments():
    async def later(tasks):
        return [await task for task in tasks]

    async def main():
        async with bursar.nursery() as n:
            return n.spawn(later, [n.spawn(add, 1), n.spawn(add, 2)])

    async def outer():
        return (await main()).result

    assert run(outer) == [1, 2]


def test_success_wakes_direct_successors_when_the_last_of_their_dependencies_is_there():
    log = Log()

    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            a = n.spawn(log.work, "a", 1.0)
            b = n.spawn(log.work, "b", 2.0, after=[a])
            c = n.spawn(log.work, "c", 3.0, after=[a])
            d = n.spawn(log.work, "d", 1.0, after=[b, c])
            await bursar.sleep(3.5)
            assert d._inside(n._inside()[0]).ticket.unmet == 1

    run(main)
    assert [log.at(name) for name in "abcd"] == [0, 1, 1, 4]


def test_an_end_looks_at_nobody_but_direct_successors():
    """In a chain of a thousand each knows of one, and so its end can touch no more."""

    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            task = first = n.spawn(nap)
            for _ in range(1000):
                task = n.spawn(add, after=[task])
            ticket = first._inside(n._inside()[0]).ticket
            assert len(ticket.successors) == 1
        return task.result

    assert bursar.Runtime(clock="virtual").run(main) == 0


@pytest.mark.parametrize("gate", GATES)
def test_failure_cancels_the_descendants_with_the_root_cause_and_nobody_else(gate):
    async def main():
        try:
            async with bursar.nursery(admission=gate, cancel_on_failure=False) as n:
                root = n.spawn(fails, name="root")
                child = n.spawn(nap, after=[root], name="child")
                grandchild = n.spawn(nap, after=[child])
                sibling, stranger = n.spawn(nap), n.spawn(nap)
                behind = n.spawn(nap, after=[sibling])
        except* ValueError:
            pass
        return root, child, grandchild, sibling, stranger, behind

    root, child, grandchild, *others = run(main)
    assert kinds(root, child, grandchild, *others) == ["failed", "cancelled", "cancelled", "ok", "ok", "ok"]
    for task in (child, grandchild):
        assert task.outcome.reason.kind is CancelKind.DEPENDENCY
        assert task.outcome.reason.by == root.id
        with pytest.raises(TaskCancelled, match="task 'root', which it was to follow, failed"):
            _ = task.result


def test_one_failing_sibling_does_not_cancel_the_others_of_its_nursery_if_that_is_said():
    async def main():
        try:
            async with bursar.nursery(admission=Authority(max_concurrent=2), cancel_on_failure=False) as n:
                tasks = [n.spawn(fails), n.spawn(nap), n.spawn(nap)]
        except ExceptionGroup:
            return kinds(*tasks)

    assert run(main) == ["failed", "ok", "ok"]


@pytest.mark.parametrize("how", ["cancel", "drop"])
def test_cancelling_and_dropping_do_the_same_to_descendants(how):
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            first = n.spawn(nap)
            second = n.spawn(nap, name="second")
            third = n.spawn(nap, after=[second])
            fourth = n.spawn(nap, after=[third])
            getattr(second, how)("not needed")
        return first, second, third, fourth

    first, second, third, fourth = run(main)
    ended = "cancelled" if how == "cancel" else "dropped"
    assert kinds(first, second, third, fourth) == ["ok", ended, "cancelled", "cancelled"]
    assert "'second'" in str(fourth.outcome)
    assert "not needed" in str(fourth.outcome)


def test_who_follows_several_is_cancelled_by_the_first_that_fails_and_once():
    async def main():
        try:
            async with bursar.nursery(admission=Authority(), cancel_on_failure=False) as n:
                a, b, c = n.spawn(fails, 1.0, name="a"), n.spawn(fails, 2.0, name="b"), n.spawn(nap, 3.0)
                last = n.spawn(nap, after=[a, b, c])
                await bursar.sleep(1.5)
                assert last.outcome is not None
        except ExceptionGroup:
            return last

    assert "task 'a'" in str(run(main).outcome)


def test_following_one_that_has_failed_already_is_cancelled_at_once():
    async def main():
        try:
            async with bursar.nursery(cancel_on_failure=False) as n:
                early = n.spawn(fails, name="early")
                await bursar.sleep(1)
                late = n.spawn(nap, after=[early])
                assert late.outcome is None
                await late.wait()
        except ExceptionGroup:
            return late, await bursar.now()

    late, now = run(main)
    assert kinds(late) == ["cancelled"]
    assert "'early'" in str(late.outcome)
    assert now == 1.0


def test_following_one_that_has_succeeded_already_starts_at_once():
    async def main():
        async with bursar.nursery(admission=Authority()) as n:
            early = n.spawn(add, 5)
            await bursar.sleep(1)
            late = n.spawn(add, early, 1)
        return late.result, await bursar.now()

    assert run(main) == (6, 1.0)


def test_dependencies_across_gates():
    log = Log()

    async def main():
        single = Authority(max_concurrent=1)
        async with bursar.nursery(admission=single) as one, bursar.nursery(admission=single) as two:
            a = one.spawn(log.work, "a")
            b = two.spawn(log.work, "b", after=[a])
            one.spawn(log.work, "c", after=[b])

    run(main)
    assert [log.at(name) for name in "abc"] == [0, 1, 2]


def test_a_thousand_follow_one():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=10)) as n:
            first = n.spawn(nap)
            rest = [n.spawn(add, first, i) for i in range(1000)]
        return sum(task.result for task in rest)

    assert bursar.Runtime(clock="virtual").run(main) == 1000 + sum(range(1000))


# ---- what is refused, and leaves nothing behind


async def refused(n, match, **keywords):
    """A spawn that is refused: nothing is counted, paid, listed or linked."""
    kernel, record = n._inside()
    gate = record.gate
    before = (list(record.children), n.budget, kernel.spawned, gate.totals.entered, gate.waiting, list(gate.held))
    edges = {task: list(task.ticket.successors or ()) for task in record.children.values() if task.ticket is not None}
    with pytest.raises(BadDependency, match=match):
        n.spawn(nap, **keywords)
    assert (
        list(record.children),
        n.budget,
        kernel.spawned,
        gate.totals.entered,
        gate.waiting,
        list(gate.held),
    ) == before
    assert edges == {
        task: list(task.ticket.successors or ()) for task in record.children.values() if task.ticket is not None
    }


def gated(body):
    async def main():
        budget = bursar.Budget(spawns=20)
        async with bursar.nursery(admission=Authority(max_concurrent=2), budget=budget) as n:
            await body(n)

    run(main)


def test_a_dependency_that_is_none_is_refused_and_the_good_ones_before_it_are_forgotten():
    async def body(n):
        a = n.spawn(nap)
        await refused(n, "which is not a task", after=[a, "missing"])
        b = n.spawn(nap)
        n.spawn(nap, after=[a, b])  # no cycle, and no edge of before

    gated(body)


def test_a_task_twice_is_refused():
    async def body(n):
        a = n.spawn(nap)
        await refused(n, "twice", after=[a, a])

    gated(body)


def test_as_argument_and_by_name_is_once():
    async def main():
        async with bursar.nursery() as n:
            a = n.spawn(add, 1)
            b = n.spawn(add, a, a, after=[a])
        return b.result

    assert run(main) == 2


def test_a_task_of_another_runtime_is_refused():
    async def foreign():
        async with bursar.nursery() as n:
            return n.spawn(nap, name="theirs")

    theirs = Runtime(clock="virtual").run(foreign)

    async def body(n):
        await refused(n, "task 'theirs' of another runtime", after=[theirs])

    gated(body)


def test_a_single_task_instead_of_a_list_is_a_mistake():
    async def body(n):
        a = n.spawn(nap)
        with pytest.raises(TypeError, match="a list of tasks"):
            n.spawn(nap, after=a)

    gated(body)


def test_who_waits_for_the_nursery_cannot_be_followed_in_it():
    async def owner(n, me):
        async with bursar.nursery(admission=Authority()) as inner:
            await refused(inner, "which waits for it", after=[me[0]])
            async with bursar.nursery(admission=Authority()) as innermost:
                await refused(innermost, "which waits for it", after=[me[0]])

    async def body(n):
        me = []
        me.append(n.spawn(owner, n, me))

    gated(body)


def test_nor_can_who_follows_it_however_far_behind():
    async def owner(tasks):
        async with bursar.nursery(admission=Authority()) as inner:
            await refused(inner, "which waits for it", after=[tasks[2]])
            inner.spawn(nap, after=[tasks[3]])

    async def body(n):
        tasks = []
        tasks.append(n.spawn(owner, tasks))
        tasks.append(n.spawn(nap, after=[tasks[0]]))
        tasks.append(n.spawn(nap, after=[tasks[1]]))
        tasks.append(n.spawn(nap))

    gated(body)


def test_a_closed_nursery_links_nothing():
    async def main():
        async with bursar.nursery() as outer:
            first = outer.spawn(nap)
            async with bursar.nursery(admission=Authority()) as inner:
                pass
            with pytest.raises(bursar.NurseryClosed):
                inner.spawn(nap, after=[first])
            ticket = first._inside(inner._inside()[0]).ticket
            assert ticket is None or not ticket.successors

    run(main)


def test_a_spawn_that_nobody_pays_for_links_nothing():
    async def main():
        async with bursar.nursery(admission=Authority(), budget=bursar.Budget(spawns=1)) as n:
            first = n.spawn(nap)
            with pytest.raises(bursar.SpawnBudgetExceeded):
                n.spawn(nap, after=[first])
            assert not first._inside(n._inside()[0]).ticket.successors
            assert n._inside()[1].gate.totals.entered == 1

    run(main)


def test_the_handle_of_a_dropped_task_raises_what_happened_to_it():
    async def main():
        async with bursar.nursery(admission=Authority(max_concurrent=1)) as n:
            n.spawn(nap)
            task = n.spawn(nap, name="mine")
            task.drop("changed my mind")
            with pytest.raises(TaskDropped, match=r"'mine' was dropped.*changed my mind"):
                await task

    run(main)
