"""Requests: descriptions that a coroutine awaits and a kernel performs, with nothing ambient in between."""

import pytest

import bursar
from bursar.request import SUSPENDED, Operation, Request


class Number(Request[int]):
    """Answers at once."""

    def __init__(self, number):
        self.number = number
        self.asked = []

    def perform(self, kernel, task):
        self.asked.append((kernel, task.name))
        return self.number


class Refused(Request[None]):
    """Cannot be."""

    def perform(self, kernel, task):
        raise LookupError("no")


class Never(Operation[None]):
    """Waits for ever, and knows how to leave."""

    reason = "waits for the end of days"

    def __init__(self):
        self.queue = []

    def ready(self, kernel, task):
        return False

    def enlist(self, kernel, entry):
        self.queue.append(entry)

    def delist(self, kernel, entry):
        if entry in self.queue:
            self.queue.remove(entry)


def test_a_request_is_performed_by_the_kernel_that_drives_the_task(run):
    number = Number(7)

    async def main():
        return await number, await number

    assert run(main) == (7, 7)
    assert [kernel for kernel, _ in number.asked] == [run.runtime.kernel] * 2


def test_awaiting_yields_the_request_itself():
    number = Number(7)
    waiting = number.__await__()
    assert next(waiting) is number
    with pytest.raises(StopIteration) as stop:
        waiting.send("answer")
    assert stop.value.value == "answer"


def stepped(request):
    yield from request


def looped(request):
    for _ in request:
        raise AssertionError("a step of the loop")


FORGOTTEN = [list, tuple, iter, next, looped, lambda r: list(stepped(r)), lambda r: [*r], lambda r: dict.fromkeys(r)]


@pytest.mark.parametrize("forgotten", FORGOTTEN)
@pytest.mark.parametrize("awaited_before", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_request_cannot_be_iterated_by_mistake(run, forgotten, awaited_before, full):
    async def main():
        send, receive = bursar.channel(4)
        for value in range(2):
            await send.send(value)
        request = receive.receive()
        if awaited_before:
            await request
            await send.send(2)
        if not full:
            await receive.receive(), await receive.receive()
        with pytest.raises(TypeError, match=r"Receive.*cannot be iterated; write `await` before it"):
            forgotten(request)
        return len(receive), awaited_before and full and await request

    assert run(main) == (2 if full else 0, 1 if awaited_before and full else False)


@pytest.mark.parametrize("make", [lambda: bursar.sleep(1), bursar.checkpoint, bursar.now, lambda: Number(1)])
@pytest.mark.parametrize("forgotten", FORGOTTEN)
def test_no_kind_of_request_can_be_iterated(make, forgotten):
    request = make()
    with pytest.raises(TypeError, match="write `await` before it"):
        forgotten(request)


def test_a_generator_may_step_what_await_returns(run):
    class Wrapped:
        def __init__(self, request):
            self.request = request

        def __await__(self):
            return (yield from self.request.__await__())

    async def main():
        send, receive = bursar.channel(1)
        await Wrapped(send.send(5))
        await Wrapped(bursar.checkpoint())
        return await Wrapped(receive.receive())

    assert run(main) == 5


def test_a_refusal_is_raised_at_the_await(run):
    async def main():
        with pytest.raises(LookupError, match="no"):
            await Refused()
        return "went on"

    assert run(main) == "went on"


def test_a_request_costs_one_op_unless_it_says_otherwise(run):
    class Dear(Number):
        def bill(self):
            return ((0, 5), (4, 2))

    async def main():
        me = await bursar.current_task()
        before = me.spent
        await Number(1)
        middle = me.spent
        await Dear(1)
        after = me.spent
        return middle.ops - before.ops, after.ops - middle.ops, after.syscalls

    assert run(main) == (1, 5, 2)


def test_a_request_that_cannot_be_paid_is_not_performed(run):
    number = Number(1)

    async def child():
        await number
        await number

    async def main():
        async with bursar.nursery() as n:
            n.spawn(child, budget=bursar.Budget(ops=1))

    with pytest.raises(ExceptionGroup):
        run(main)
    assert len(number.asked) == 1


def test_an_operation_that_waits_leaves_its_queue_when_its_task_is_cancelled(run):
    never = Never()

    async def child():
        await never

    async def main():
        async with bursar.nursery() as n:
            task = n.spawn(child)
            await bursar.sleep(1)
            assert len(never.queue) == 1
            assert task.explain().reason == "waits for the end of days"
            assert list(never.queue[0].blockers()) == []
            n.cancel()
        return never.queue

    assert run(main) == []


@pytest.mark.parametrize("step", [next, list, lambda leaving: leaving.__next__()])
def test_the_end_of_a_block_cannot_be_iterated(run, step):
    async def main():
        block = bursar.nursery()
        n = await block.__aenter__()
        child = n.spawn(bursar.sleep, 1)
        leaving = block.__aexit__(None, None, None)
        with pytest.raises((TypeError, AttributeError)):
            step(leaving)
        await leaving
        with pytest.raises(RuntimeError, match="await"):
            await leaving
        return child.outcome is not None, await bursar.now()

    assert run(main) == (True, 1.0)


def test_the_bare_classes_do_nothing():
    request, operation = Request(), Operation()
    for made in (request, operation):
        made.mark_used()
    with pytest.raises(NotImplementedError):
        request.perform(None, None)
    for method in ("ready", "take", "enlist", "delist"):
        with pytest.raises(NotImplementedError):
            getattr(operation, method)(None, None)
    assert type(SUSPENDED).__doc__
