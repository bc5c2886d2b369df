"""The turn: never two threads drive at once, and the loop has it back when it wants it."""

import itertools
import sys
import threading

import pytest
from support.hosts import NativeHost
from support.time_limits import WAIT_S

import bursar
from bursar.drive.loop_ownership import Turn


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


def taken_from(turn):
    return lambda: turn.free and turn.take(False)


def test_while_the_loop_is_awake_no_thread_drives_it():
    assert not elsewhere(taken_from(Turn()))


def test_one_at_a_time_while_it_sleeps():
    turn = Turn()
    turn.give()

    def take_and_ask_others():
        return taken_from(turn)(), elsewhere(taken_from(turn)), turn.leave()

    assert elsewhere(take_and_ask_others) == (True, False, None)
    assert elsewhere(take_and_ask_others) == (True, False, None), "it was left"


def test_the_loop_waits_for_the_thread_that_drives_it():
    turn, asked, order = Turn(), threading.Event(), []
    turn.give()
    assert taken_from(turn)()

    def loop():
        asked.set()
        turn.take_back()
        order.append("loop")

    thread = threading.Thread(target=loop)
    thread.start()
    assert asked.wait(WAIT_S)
    while turn.free:
        pass
    order.append("stands in")
    turn.leave()
    refused = not taken_from(turn)()
    thread.join(WAIT_S)
    assert order == ["stands in", "loop"]
    assert refused


def test_what_was_not_given_is_not_waited_for():
    turn = Turn()
    turn.take_back()
    assert not elsewhere(taken_from(turn))
    turn.give()
    turn.take_back()
    assert not elsewhere(taken_from(turn))


# ---- errors out of the blue


def struck_at(place, call):
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
    host = NativeHost()
    host.open(None)
    yield host
    host.close()


def test_a_loop_that_is_struck_while_it_goes_to_sleep_has_its_turn_again():
    """Else it would wait for itself, or another thread would drive a run that is torn down."""

    class Pump:
        listeners = 0

        def rang(self):
            rung.append(True)

    def loop(place):
        rung.clear()
        host = NativeHost()
        host.open(Pump())
        host.alarm(0)
        struck = struck_at(place, lambda: host.run_until(lambda: rung))
        return struck, elsewhere(taken_from(host._turn)), host.close()

    rung = []

    for place in itertools.count():
        struck, taken, _ = elsewhere(lambda place=place: loop(place))
        assert not taken
        if not struck:
            break
    assert place > 3


def test_a_thread_that_is_struck_while_it_stands_in_leaves_the_turn(host):
    host._turn.give()
    for place in itertools.count():
        struck = elsewhere(lambda place=place: struck_at(place, lambda: host.drive_from_thread(lambda: True)))
        assert elsewhere(lambda: host.drive_from_thread(lambda: True)), "nobody has it"
        if not struck:
            break
    assert place > 2


def test_a_thread_that_is_struck_while_it_wakes_the_loop_does_not_keep_others_from_it(host):
    host._asleep = True
    host._by_bell = False  # but by a byte, which is more than one call
    for place in itertools.count():
        struck = elsewhere(lambda place=place: struck_at(place, host.wake))
        host.wake()
        assert host._reader.recv(10)
        host._waking = False
        if not struck:
            break
    assert place > 2


def test_a_run_ends_wherever_a_worker_is_struck_that_stands_in(monkeypatch):
    """It may fail; it does not hang."""
    monkeypatch.setenv("BURSAR_SCHEDULER", "threadpool")

    class Hit(NativeHost):
        struck = False

        def drive_from_thread(self, drive):
            if self.place is None:
                return super().drive_from_thread(drive)
            place, self.place = self.place, None
            done = []
            self.struck = struck_at(place, lambda: done.append(super(Hit, self).drive_from_thread(drive)))
            if self.struck:
                raise Struck
            return done[0]

        def asleep(self):
            while not self._turn.free:
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
            """That is up to where it was struck."""
        return True

    for place in itertools.count():
        host = Hit()
        host.place = place
        assert elsewhere(lambda host=host: run(host)), f"it hangs when struck at {place}"
        if not host.struck:
            break
    assert place > 5
