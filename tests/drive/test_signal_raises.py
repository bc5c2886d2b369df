"""A signal handler of the program raises, anywhere in Bursar's own code: no file and no handler is left behind.

CPython runs a signal handler when a function in Python begins, or when a function in C has returned. A profile function
is called at the same places, and may raise there. So a test can raise at every place, one after the other. It
leaves out the law and the driver: in Python, their records may be half written there, and then anything may follow.
"""

import gc
import itertools
import signal
import sys

import pytest
from support.real_sockets import open_files

import bursar

INSIDE = ("/bursar/law/", "/bursar/ops/", "/bursar/drive/coroutine.py")


class Raised(Exception):
    pass


def is_inside(frame):
    while frame.f_code is not struck_run.__code__:
        if any(part in frame.f_code.co_filename for part in INSIDE):
            return True
        frame = frame.f_back
    return False


class Strike:
    """A profile function that raises at the nth place."""

    def __init__(self, nth):
        self.left = nth
        self.place = ""

    def __call__(self, frame, event, argument):
        if self.left <= 0 or event not in ("call", "c_return") or is_inside(frame):
            return
        self.left -= 1
        if self.left == 0:
            self.place = f"{event} in {frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise Raised


def struck_run(nth, keywords):
    """Run a program, raise at the nth place, and return which place that was, and what is left behind."""

    async def child(send):
        await send.send(1)

    async def main():
        send, receive = bursar.channel(1)
        async with bursar.nursery() as n:
            n.spawn(child, send)
            await receive.receive()
            await bursar.sleep(0.0001)

    runtime, strike = bursar.Runtime(**keywords), Strike(nth)
    sys.setprofile(strike)
    try:
        runtime.run(main)
    except (Raised, BaseExceptionGroup):
        pass
    finally:
        strike.left = 0
        sys.setprofile(None)
    return strike.place


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("keywords", [{}, {"dump_signal": signal.SIGUSR1}], ids=str)
def test_an_error_at_any_place_leaves_no_file_and_no_handler_behind(keywords):
    struck_run(0, keywords)
    gc.collect()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1)]
    files, hooks = open_files(), sys.get_asyncgen_hooks()
    for nth in itertools.count(1):
        place = struck_run(nth, keywords)
        gc.collect(0)
        assert open_files() == files, place
        assert signal.set_wakeup_fd(-1) == -1, place
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1)] == handlers, place
        assert sys.get_asyncgen_hooks() == hooks, place
        if not place:
            break
    assert nth > 50
