"""`Task`: what a handle shows, how it is awaited and cancelled, and what contexts and endings come to."""

import contextvars

import pytest

import bursar
from bursar import Budget, OutcomeKind, State, nursery, sleep


async def give(value, after=0.0):
    await sleep(after)
    return value


async def fail(error, after=0.0):
    await sleep(after)
    raise error


def test_awaiting_gives_the_value(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, "x", 3)
            return await task, await task, await bursar.now()

    assert run(main) == ("x", "x", 3.0)


def test_many_may_wait_for_one(run):
    async def waiter(box):
        return await box[0]

    async def main():
        async with nursery() as n:
            task = n.spawn(give, "x", 3)
            waiters = [n.spawn(waiter, [task]) for _ in range(5)]
        return [w.result for w in waiters]

    assert run(main) == ["x"] * 5


def test_awaiting_a_failed_task_raises_the_error_itself(run):
    error = ValueError("mine")

    async def waiter(box):
        with pytest.raises(ValueError, match="mine") as caught:
            await box[0]
        assert caught.value is error

    async def main():
        try:
            async with nursery(cancel_on_failure=False) as n:
                task = n.spawn(fail, error, 1)
                n.spawn(waiter, [task])
        except* ValueError:
            pass
        with pytest.raises(ValueError, match="mine"):
            _ = task.result
        assert task.outcome.kind is OutcomeKind.FAILED
        assert task.outcome.error is error

    run(main)


def test_awaiting_a_cancelled_task_raises_task_cancelled_which_is_an_ordinary_exception(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, 1, 100, name="victim")
            await sleep(1)
            task.cancel("enough")
            with pytest.raises(bursar.TaskCancelled, match=r"task 'victim' was cancelled \(user: enough\)"):
                await task
        with pytest.raises(bursar.TaskCancelled):
            _ = task.result
        assert isinstance(bursar.TaskCancelled("x"), Exception)
        return task.outcome.reason.by

    assert run(main) == 2


def test_awaiting_a_panicked_task_raises_task_panicked(run):
    async def waiter(box):
        with pytest.raises(bursar.TaskPanicked, match=r"task 'bad' panicked: SystemExit"):
            await box[0]

    async def main():
        try:
            async with nursery(cancel_on_failure=False) as n:
                task = n.spawn(fail, SystemExit(3), 1, name="bad")
                n.spawn(waiter, [task])
        except* SystemExit:
            pass
        return task.outcome.kind

    assert run(main) is OutcomeKind.PANICKED


def test_wait_gives_the_outcome_without_raising(run):
    kinds = []

    async def main():
        async with nursery(cancel_on_failure=False) as n:
            kinds.append((await n.spawn(give, 1).wait()).kind)
            kinds.append((await n.spawn(fail, ValueError("x")).wait()).kind)

    with pytest.raises(ExceptionGroup):
        run(main)
    assert kinds == [OutcomeKind.OK, OutcomeKind.FAILED]


def test_a_result_before_the_end_is_an_error_that_says_what_to_do(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, 1, 5, name="slow")
            assert task.outcome is None
            with pytest.raises(bursar.ResultNotReady, match=r"task 'slow' is READY and has no result yet; await it"):
                _ = task.result
            await sleep(1)
            with pytest.raises(bursar.ResultNotReady, match="BLOCKED"):
                _ = task.result

    run(main)


def test_a_handle_shows_the_state_as_it_changes(run):
    seen = []

    async def child(event):
        seen.append((await bursar.current_task()).state)
        await event.wait()

    async def main():
        event = bursar.Event()
        async with nursery() as n:
            task = n.spawn(child, event)
            seen.append(task.state)
            await sleep(1)
            seen.append(task.state)
            event.set()
            seen.append(task.state)
        seen.append(task.state)

    run(main)
    assert seen == [State.READY, State.RUNNING, State.BLOCKED, State.READY, State.DONE]


def test_a_handle_shows_what_was_spent_and_what_is_left(run):
    async def child():
        await bursar.charge(ops=7, memory=100)
        await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            own = n.spawn(child, budget=Budget(ops=50))
            drawn = n.spawn(child)
            assert own.budget == Budget(ops=50)
            assert drawn.budget == Budget()
        return own.spent, drawn.spent

    own, drawn = run(main)
    assert own == drawn == Budget(8, 100, 0, 0, 0)


def test_two_handles_of_one_task_are_equal(run):
    async def child():
        return await bursar.current_task()

    async def main():
        async with nursery() as n:
            task = n.spawn(child, name="me")
        assert task.result == task
        assert {task.result: 1}[task] == 1
        assert task != "me"
        assert repr(task) == f"<Task {task.id} 'me' DONE ok>"

    run(main)


def test_names_come_from_the_function_or_from_the_spawner(run):
    async def main():
        async with nursery() as n:
            return n.spawn(give, 1).name, n.spawn(give, 1, name="mine").name

    assert run(main) == ("give", "mine")


# ---- cancelling


def test_cancelled_is_delivered_once_at_the_await(run):
    log = []

    async def child():
        try:
            await sleep(100)
        except bursar.Cancelled as cancelled:
            log.append(cancelled.reason.detail)
            await sleep(1)  # cleanup may await
            log.append("tidied")
            raise

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel("first")
            task.cancel("second")
            await sleep(0.5)
            task.cancel("third")
        return task.outcome.reason.detail, await bursar.now()

    assert run(main) == ("first", 2.0)
    assert log == ["first", "tidied"]


def test_cancelled_passes_through_except_exception(run):
    async def child():
        try:
            await sleep(100)
        except Exception:
            pytest.fail("Cancelled is no Exception")

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()
        return task.outcome.kind

    assert run(main) is OutcomeKind.CANCELLED


def test_a_task_that_is_cancelled_before_its_first_poll_never_runs(run):
    async def child():
        pytest.fail("it ran")

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
            task.cancel("at once")
        return task.outcome.kind, task.spent.ops

    assert run(main) == (OutcomeKind.CANCELLED, 0)


def test_cancelling_oneself_strikes_at_the_next_await(run):
    log = []

    async def child():
        (await bursar.current_task()).cancel("myself")
        log.append("still here")
        await bursar.checkpoint()
        log.append("not reached")

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
        return task.outcome.reason.detail

    assert run(main) == "myself"
    assert log == ["still here"]


def test_an_operation_does_not_happen_when_the_cancel_came_first(run):
    async def child(send):
        (await bursar.current_task()).cancel()
        await send.send("never")

    async def main():
        send, receive = bursar.channel(1)
        async with nursery() as n:
            n.spawn(child, send)
        return len(receive)

    assert run(main) == 0


def test_a_task_that_returns_before_any_await_has_returned(run):
    async def child():
        (await bursar.current_task()).cancel()
        return "returned"

    async def main():
        async with nursery() as n:
            task = n.spawn(child)
        return task.result

    assert run(main) == "returned"


def test_cancelling_a_task_that_is_over_changes_nothing(run):
    async def main():
        async with nursery() as n:
            task = n.spawn(give, 1)
            await task
            task.cancel("too late")
        assert task.explain().cancelling == ""
        return task.result

    assert run(main) == 1


# ---- contexts


def test_the_context_is_copied_at_spawn(run):
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    async def child(name):
        seen.append((name, variable.get()))
        variable.set(name)
        await bursar.checkpoint()
        seen.append((name, variable.get()))

    async def main():
        variable.set("main")
        async with nursery() as n:
            n.spawn(child, "a")
            variable.set("changed")
            n.spawn(child, "b")
        return variable.get()

    assert run(main) == "changed"
    assert seen == [("a", "main"), ("b", "changed"), ("a", "a"), ("b", "b")]
    assert variable.get() == "unset"


def test_the_context_is_that_of_the_task_while_it_is_cancelled_and_closed(run):
    variable = contextvars.ContextVar("variable")
    seen = []

    async def child():
        variable.set("mine")
        try:
            while True:
                await sleep(100)
        finally:
            seen.append(variable.get())

    async def main():
        variable.set("main")
        async with nursery() as n:
            task = n.spawn(child)
            await sleep(1)
            task.cancel()

    run(main)
    assert seen == ["mine"]


# ---- giving way


def test_a_checkpoint_goes_to_the_back(run):
    order = []

    async def child(name):
        for i in range(3):
            order.append(f"{name}{i}")
            await bursar.checkpoint()

    async def main():
        async with nursery() as n:
            n.spawn(child, "a")
            n.spawn(child, "b")

    run(main)
    assert order == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_loop_without_checkpoints_still_gives_way_when_its_turn_is_over(run):
    order = []

    async def greedy(name):
        for _ in range(30):
            order.append(name)
            await bursar.now()

    async def main():
        async with nursery() as n:
            n.spawn(greedy, "a")
            n.spawn(greedy, "b")

    run(main, yield_interval=10)
    assert "".join(order).startswith("a" * 10)
    assert "b" in order[:12]
    assert run.runtime.statistics().counters["turns_over"] >= 4


def test_a_task_cannot_pause_itself(run):
    async def main():
        task = await bursar.current_task()
        with pytest.raises(bursar.ScopeMisuse, match=r"cannot pause itself"):
            task.pause()
        task.resume()  # which it does anyway

    run(main)
