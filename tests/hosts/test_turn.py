"""The turn: never two threads drive at once, and the loop has it back when it wants it."""

import threading

from bursar.hosts.turn import Turn

WAIT_S = 20  # for what must come


def elsewhere(call):
    """What another thread gets for it."""
    got = []
    thread = threading.Thread(target=lambda: got.append(call()))
    thread.start()
    thread.join(WAIT_S)
    return got[0]


def taken_from(turn):
    return lambda: turn.free and turn.take(False)


def test_while_the_loop_is_awake_nobody_stands_in():
    assert not elsewhere(taken_from(Turn()))


def test_one_at_a_time_while_it_sleeps():
    turn = Turn()
    turn.give()
    assert elsewhere(taken_from(turn))
    assert not elsewhere(taken_from(turn))
    elsewhere(turn.leave)
    assert elsewhere(taken_from(turn))


def test_the_loop_waits_for_who_stands_in_and_nobody_begins_meanwhile():
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
