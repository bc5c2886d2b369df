"""A request that no task awaited: the program forgot `await`, and gets a warning that names the line."""

import gc
import socket
import sys
import warnings

import pytest
from support.requests import OnThread, Request

import bursar

# Each row makes something that must be awaited or entered. `it` has the objects of `using`.
FORGOTTEN = {
    "acquire": lambda it: it.semaphore.acquire(),
    "capabilities": lambda it: bursar.capabilities(),
    "charge": lambda it: bursar.charge(ops=1),
    "current_task": lambda it: bursar.current_task(),
    "entropy": lambda it: bursar.entropy(),
    "event": lambda it: it.event.wait(),
    "exhausted": lambda it: it.nursery.wait_exhausted(),
    "host_entropy": lambda it: bursar.host_entropy(8),
    "lock": lambda it: bursar.Lock().acquire(),
    "next": lambda it: it.receive.__anext__(),
    "now": lambda it: bursar.now(),
    "nursery": lambda it: bursar.nursery(),
    "nursery, gated": lambda it: bursar.nursery(admission=bursar.Authority()),
    "nursery, stated": lambda it: bursar.nursery(name="a", budget=bursar.Budget(ops=1)),
    "on_thread": lambda it: OnThread(len, ("",)),
    "readable": lambda it: bursar.wait_readable(it.socket),
    "receive": lambda it: it.receive.receive(),
    "recharge": lambda it: bursar.recharge(bursar.Budget(ops=1)),
    "reserve": lambda it: it.send.reserve(),
    "revoke": lambda it: bursar.revoke(None),
    "select": lambda it: bursar.select(it.receive.receive(), bursar.sleep(1)),
    "send": lambda it: it.send.send(1),
    "shield": lambda it: bursar.shield(),
    "signal": lambda it: bursar.wait_signal(15),
    "sleep": lambda it: bursar.sleep(5),
    "sleep, named": lambda it: bursar.sleep(seconds=5),
    "sleep_until": lambda it: bursar.sleep_until(5),
    "supervisor": lambda it: bursar.supervisor(),
    "timeout": lambda it: bursar.timeout(5),
    "wait": lambda it: it.task.wait(),
    "writable": lambda it: bursar.wait_writable(it.socket),
}

# Calls with wrong arguments: the error is enough.
REFUSED = {
    "charge": lambda: bursar.charge(ops=-1),
    "host_entropy": lambda: bursar.host_entropy(-1),
    "nursery": lambda: bursar.nursery(admission=5),
    "nursery, hold": lambda: bursar.nursery(on_exhausted="never"),
    "select": lambda: bursar.select(bursar.sleep(1), 5),
    "select, now": lambda: bursar.select(bursar.now()),
    "signal": lambda: bursar.wait_signal(-1),
    "sleep": lambda: bursar.sleep(-1),
    "sleep, words": lambda: bursar.sleep("a while"),
    "supervisor": lambda: bursar.supervisor(strategy="none"),
    "timeout": lambda: bursar.timeout(-1),
    "iterated": lambda: list(bursar.sleep(1)),
}


class Using:
    """Objects that can be asked for something."""


async def nothing():
    pass


@pytest.fixture
def within(run):
    """Calls a function inside a task, with the objects of the table, and returns the warnings."""

    def call(act):
        async def main():
            it = Using()
            it.send, it.receive = bursar.channel(1)
            it.event, it.semaphore = bursar.Event(), bursar.Semaphore(1)
            it.socket, other = socket.socketpair()
            with it.socket, other, warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                async with bursar.nursery() as it.nursery:
                    it.task = it.nursery.spawn(nothing)
                    await act(it)
                    gc.collect()
            return said

        return run(main)

    return call


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_forgotten_await_warns_with_its_line(within, name):
    make, lines = FORGOTTEN[name], []

    async def act(it):
        lines.append(sys._getframe().f_lineno + 1)
        make(it)

    (said,) = within(act)
    assert said.category is RuntimeWarning
    assert "was never awaited" in str(said.message)
    assert (said.filename, said.lineno) == (__file__, lines[0])


@pytest.mark.parametrize("name", ["nursery", "nursery, gated", "shield", "timeout"])
def test_a_block_is_entered_instead_of_awaited(within, name):
    async def act(it):
        FORGOTTEN[name](it)

    (said,) = within(act)
    assert str(said.message).endswith("write `async with` before it")


@pytest.mark.parametrize("name", FORGOTTEN)
def test_code_outside_any_runtime_is_warned_too(name):
    if name in ("exhausted", "wait"):
        pytest.skip("needs a task")
    it = Using()
    it.send, it.receive = bursar.channel(1)
    it.event, it.semaphore = bursar.Event(), bursar.Semaphore(1)
    it.socket = 0
    with pytest.warns(RuntimeWarning, match="was never awaited"):
        FORGOTTEN[name](it)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_is_not_a_forgotten_await(name):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises((TypeError, ValueError)):
            REFUSED[name]()
        gc.collect()
    assert said == []


def test_what_is_used_does_not_warn(within):
    async def act(it):
        kept = bursar.sleep(0)
        await kept
        await kept
        async with bursar.timeout(1), bursar.shield(), bursar.nursery(admission=bursar.Authority()):
            await bursar.select(it.receive.receive(), it.event.wait(), it.send.send(1))
        await it.task.wait()
        it.nursery.spawn(bursar.sleep, 0)
        it.task.pause()
        await it.send.send(2) if not len(it.receive) else None
        it.receive.receive_nowait()
        with pytest.raises(bursar.WouldBlock):
            it.receive.receive_nowait()

    assert within(act) == []


def test_a_request_that_a_generator_yields_by_itself_is_used(within):
    class ByHand:
        def __await__(self):
            yield bursar.sleep(1)
            yield bursar.now()

    async def act(it):
        await ByHand()

    assert within(act) == []


@pytest.mark.parametrize("make", [lambda: bursar.sleep(9), lambda: bursar.channel(1)[0].send(1), bursar.now])
def test_a_cancelled_wait_was_awaited(run, make):
    async def child():
        await make()
        await bursar.sleep(9)

    async def main():
        async with bursar.nursery() as n:
            n.spawn(child)
            await bursar.sleep(1)
            n.cancel()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(main)
    assert said == []


def test_a_checkpoint_is_one_object_so_a_forgotten_one_is_silent():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert bursar.checkpoint() is bursar.checkpoint()
    assert said == []


def test_a_warning_that_is_an_error_is_not_raised_where_the_request_is_dropped(monkeypatch):
    """A destructor cannot raise: Python prints the error, and the program continues, with its own exception."""
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: printed.append(raised.exc_value))

    def fails(_request):
        raise LookupError("its own")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bursar.sleep(5)
        with pytest.raises(LookupError, match="its own"):
            fails(bursar.charge(ops=1))
    gc.collect()
    assert [type(error) for error in printed] == [RuntimeWarning] * 2


def test_the_code_that_a_warning_runs_may_use_what_is_freed(monkeypatch):
    """A hook of the program asks the same event again, while its request is being freed."""
    event, again = bursar.Event(), []

    def show(*_args, **_keywords):
        if not again:
            again.append(event.wait())

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        event.wait()
    again.pop().mark_used()
    assert not event.is_set()


def kinds(base=Request):
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


# Requests that only code of Bursar makes, which awaits them where it makes them; and bases of others.
INTERNAL_NAMES = """
    Accept AskKernel Await Bind Call Connect FileOperation Foreign FromAsyncio Handshake Join LockAcquire Next NextEnd
    Operation Queued Receive Regain RequireProfile Resolve Room Run Send SendSide SocketOperation Supervise
"""
# A checkpoint is one object for all; a pause happens whether or not the program awaits its end.
NOT_WARNED = {"Checkpoint", "Pausing"}


def test_the_table_has_every_request(within):
    async def act(it):
        for make in FORGOTTEN.values():
            make(it)

    warned = {str(said.message).partition("(")[2].partition(")")[0] for said in within(act)}
    ours = {kind.__name__.lstrip("_") for kind in kinds() if kind.__module__.startswith("bursar.")}
    assert ours - warned - set(INTERNAL_NAMES.split()) - NOT_WARNED == set()
