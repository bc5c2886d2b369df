"""Every handle from another thread: what changes something refuses and names the remedy, what reads works."""

import threading

import pytest
from support.time_limits import WAIT_S

import bursar
from bursar import Budget, ScopeMisuse

HANDLES = ("Actor", "Call", "Child", "Listener", "Lock", "Nursery", "Portal", "ReceiveEnd", "Reservation", "Runtime")
HANDLES += ("Semaphore", "SendEnd", "Stream", "Supervisor", "Task", "Event")

# What any thread may call: it reads, makes a request that only a task can await, or is made for other threads.
ANYWHERE = {
    "Actor": {"ask", "send"},
    "Event": {"is_set", "wait"},
    "Listener": {"accept"},
    "Lock": {"acquire", "locked"},
    "Nursery": {"wait_exhausted"},
    "Portal": {"call", "spawn"},
    "ReceiveEnd": {"receive"},
    "Runtime": {"cancel", "header", "result", "run", "snapshot", "start", "statistics"},
    "Semaphore": {"acquire"},
    "SendEnd": {"reserve", "send"},
    "Stream": {"receive", "receive_exactly", "receive_until", "send", "send_eof", "wait_closed"},
    "Task": {"explain", "wait"},
}


def in_thread(call):
    """What `call` raises in another thread, or None."""
    raised = []

    def work():
        try:
            call()
        except BaseException as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WAIT_S)
    return raised[0]


def caught(call):
    try:
        call()
    except BaseException as error:
        return error


async def nap():
    await bursar.sleep(1000)


async def answer(mailbox, calls):
    async for message in mailbox:
        if isinstance(message, bursar.Call):
            calls.append(message)


async def changes(runtime, n, s):
    """Every method that changes something without an await: (class, method) → a call of it."""
    task, event, lock = n.spawn(nap), bursar.Event(), bursar.Lock()
    n.spawn(event.wait)
    await lock.acquire()
    hold = await bursar.Semaphore(1).acquire()
    send, receive = await bursar.channel(4)
    place = await send.reserve()
    calls = []
    actor = bursar.actor(n, answer, calls)
    n.spawn(actor.ask, "anything")
    while not calls:
        await bursar.checkpoint()
    listener = await bursar.listen_tcp("127.0.0.1", 0)
    host, port = listener.address.rsplit(":", 1)
    stream = await bursar.open_tcp(host, int(port))
    portal = bursar.portal(n)
    portal.__enter__()
    minted = runtime.grant(bursar.CapTimer())
    return {
        ("Actor", "close"): actor.close,
        ("Actor", "send_nowait"): lambda: actor.send_nowait(1),
        ("Call", "fail"): lambda: calls[0].fail(ValueError()),
        ("Call", "reply"): lambda: calls[0].reply(1),
        ("Event", "set"): event.set,
        ("Hold", "release"): hold.release,
        ("Listener", "close"): listener.close,
        ("Lock", "release"): lock.release,
        ("Nursery", "cancel"): n.cancel,
        ("Nursery", "close"): n.close,
        ("Nursery", "recharge"): lambda: n.recharge(task, Budget(ops=1)),
        ("Nursery", "spawn"): lambda: n.spawn(nap),
        ("Portal", "close"): portal.close,
        ("ReceiveEnd", "clone"): receive.clone,
        ("ReceiveEnd", "close"): receive.close,
        ("ReceiveEnd", "receive_nowait"): receive.receive_nowait,
        ("Reservation", "abort"): place.abort,
        ("Reservation", "send"): lambda: place.send(1),
        ("Runtime", "grant"): lambda: runtime.grant(bursar.CapTimer()),
        ("Runtime", "revoke"): lambda: runtime.revoke(minted),
        ("SendEnd", "clone"): send.clone,
        ("SendEnd", "close"): send.close,
        ("SendEnd", "send_nowait"): lambda: send.send_nowait(1),
        ("Stream", "close"): stream.close,
        ("Supervisor", "start"): lambda: s.start(nap),
        ("Supervisor", "stop"): s.stop,
        ("Task", "cancel"): task.cancel,
        ("Task", "drop"): task.drop,
        ("Task", "pause"): task.pause,
        ("Task", "resume"): task.resume,
    }


def test_what_changes_something_refuses_and_names_the_remedy():
    runtime = bursar.Runtime(profile="cluster")
    found = {}

    async def main():
        async with bursar.supervisor() as s, bursar.nursery() as n:
            calls = await changes(runtime, n, s)
            for name, call in calls.items():
                found[name] = in_thread(call)
                found["plain function", *name] = await n.spawn(caught, call)
            calls["Lock", "release"]()
            calls["Hold", "release"]()
            calls["Reservation", "abort"]()
            calls["Stream", "close"]()
            calls["Listener", "close"]()
            n.cancel()
            s.stop()

    runtime.run(main)
    for name, error in found.items():
        assert isinstance(error, ScopeMisuse), (name, error)
        assert "from another thread" in str(error), name
        assert "portal.call" in str(error), name
    listed = {name for name in found if len(name) == 2}
    for kind in HANDLES:
        methods = {m for m in dir(getattr(bursar, kind)) if not m.startswith("_")}
        functions = {m for m in methods if callable(getattr(getattr(bursar, kind), m))}
        known = {method for of, method in listed if of == kind} | ANYWHERE.get(kind, set())
        assert functions - known == set(), f"{kind}: say here what these do in another thread"


def test_a_call_through_a_portal_takes_effect_at_once():
    async def main():
        event = bursar.Event()
        async with bursar.nursery() as n:
            with bursar.portal(n) as portal:
                n.spawn(in_thread, lambda: portal.call(event.set))
                await event.wait()

    bursar.run(main)


def test_before_and_after_the_run_every_thread_may_change_its_objects():
    event, left = bursar.Event(), []

    async def main():
        left.append(bursar.Event())
        async with bursar.nursery() as n:
            left.append(n.spawn(left[0].wait))
            await bursar.checkpoint()
            n.cancel()
        await event.wait()

    assert in_thread(event.set) is None
    bursar.run(main)
    assert [in_thread(left[0].set), in_thread(left[1].cancel)] == [None, None]


@pytest.mark.parametrize("use", ["spawn", "cancel"])
def test_a_thread_is_refused_while_the_loop_sleeps(use):
    async def main():
        async with bursar.nursery() as n:
            raised = await n.spawn(in_thread, lambda: n.spawn(nap) if use == "spawn" else n.cancel())
            assert isinstance(raised, ScopeMisuse)
            assert "another thread" in str(raised)

    bursar.run(main)
