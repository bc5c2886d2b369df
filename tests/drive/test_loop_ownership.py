"""Loop ownership: two threads never drive at once, and the loop gets the ownership back when it asks."""

import itertools
import sys
import threading

import pytest
from support.hosts import SelectorHost
from support.time_limits import WAIT_S

import bursar
from bursar.drive.loop_ownership import LoopOwnership


class Struck(BaseException):
    """An error out of the blue."""


def elsewhere(call):
    """What another thread gets for it."""
    got = []
    thread = threading.Thread(target=lambda: got.append(call()), daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "it waits for ever"
    return got[0]


def taken_from(ownership):
    return lambda: ownership.free and ownership.take(False)


def test_while_the_loop_is_awake_no_thread_drives_it():
    assert not elsewhere(taken_from(LoopOwnership()))


def test_one_at_a_time_while_it_sleeps():
    ownership = LoopOwnership()
    ownership.give()

    def take_and_ask_others():
        return taken_from(ownership)(), elsewhere(taken_from(ownership)), ownership.leave()

    assert elsewhere(take_and_ask_others) == (True, False, None)
    assert elsewhere(take_and_ask_others) == (True, False, None), "it was left"


def test_the_loop_waits_for_the_thread_that_drives_it():
    ownership, asked, order = LoopOwnership(), threading.Event(), []
    ownership.give()
    assert taken_from(ownership)()

    def loop():
        asked.set()
        ownership.take_back()
        order.append("loop")

    thread = threading.Thread(target=loop)
    thread.start()
    assert asked.wait(WAIT_S)
    while ownership.free:
        pass
    order.append("stands in")
    ownership.leave()
    refused = not taken_from(ownership)()
    thread.join(WAIT_S)
    assert order == ["stands in", "loop"]
    assert refused


def test_what_was_not_given_is_not_waited_for():
    ownership = LoopOwnership()
    ownership.take_back()
    assert not elsewhere(taken_from(ownership))
    ownership.give()
    ownership.take_back()
    assert not elsewhere(taken_from(ownership))


# ---- errors out of the blue


def interrupted_at(place, call):
    """Call it, and strike at the so many-th place where the interpreter looks for signals: where a function begins, and
    after every call of one in C. False: it has no such place."""
    places = itertools.count()
    here = threading.get_ident()

    def strike(frame, event, arg):
        ours = any(one.f_globals["__name__"].startswith("bursar.") for one in (frame, frame.f_back))
        if ours and event in ("call", "c_return") and threading.get_ident() == here and next(places) == place:
            raise Struck

    sys.setprofile(strike)
    try:
        call()
    except Struck:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.fixture
def host():
    host = SelectorHost()
    host.open(None)
    yield host
    host.close()


def test_a_loop_that_is_interrupted_before_its_sleep_has_the_ownership():
    """Else it would wait for itself, or another thread would drive a run that is torn down."""

    class Pump:
        listeners = 0

        def rang(self):
            rung.append(True)

    def loop(place):
        rung.clear()
        host = SelectorHost()
        host.open(Pump())
        host.alarm(0)
        interrupted = interrupted_at(place, lambda: host.run_until(lambda: rung))
        return interrupted, elsewhere(taken_from(host._ownership)), host.close()

    rung = []

    for place in itertools.count():
        interrupted, taken, _ = elsewhere(lambda place=place: loop(place))
        assert not taken
        if not interrupted:
            break
    assert place > 3


def test_a_thread_that_is_interrupted_while_it_drives_returns_the_ownership(host):
    host._ownership.give()
    for place in itertools.count():
        interrupted = elsewhere(lambda place=place: interrupted_at(place, lambda: host.drive_from_thread(lambda: True)))
        assert elsewhere(lambda: host.drive_from_thread(lambda: True)), "nobody has it"
        if not interrupted:
            break
    assert place > 2


def test_a_thread_that_is_interrupted_while_it_wakes_the_loop_does_not_keep_others_from_it(host):
    host._asleep = True
    host._sleeps_on_queue = False  # but by a byte, which is more than one call
    for place in itertools.count():
        interrupted = elsewhere(lambda place=place: interrupted_at(place, host.wake))
        host.wake()
        assert host._reader.recv(10)
        host._waking = False
        if not interrupted:
            break
    assert place > 2


def test_a_run_ends_wherever_a_worker_is_struck_that_stands_in(monkeypatch):
    """It may fail; it does not hang."""
    monkeypatch.setenv("BURSAR_SCHEDULER", "threadpool")

    class Hit(SelectorHost):
        interrupted = False

        def drive_from_thread(self, drive):
            if self.place is None:
                return super().drive_from_thread(drive)
            place, self.place = self.place, None
            done = []
            self.interrupted = interrupted_at(place, lambda: done.append(super(Hit, self).drive_from_thread(drive)))
            if self.interrupted:
                raise Struck
            return done[0]

        def asleep(self):
            while not self._ownership.free:
                pass

    async def main(host):
        async with bursar.nursery() as n:
            task = n.spawn(host.asleep)
            for _ in range(3):
                task = n.spawn(len, "abc", after=[task])

    def run(host):
        try:
            bursar.run(main, host, host=host)
        except (Struck, ExceptionGroup):
            """That is up to where it was interrupted."""
        return True

    for place in itertools.count():
        host = Hit()
        host.place = place
        assert elsewhere(lambda host=host: run(host)), f"it hangs when interrupted at {place}"
        if not host.interrupted:
            break
    assert place > 5
