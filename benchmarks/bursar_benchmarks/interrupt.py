"""Ctrl-C during a measurement: the sample under way is finished, and what was measured so far is kept.

The runtimes that are measured have handlers of their own for Ctrl-C, which would end in as many different errors. They
leave ours alone, for it is not Python's default, so the request only sets a flag that is looked at between samples. A
second Ctrl-C is for whoever cannot wait, and is Python's own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible(tell: Callable[[str], None]) -> Generator[Callable[[], None]]:
    """Gives a function to be called between samples, which raises KeyboardInterrupt if somebody asked to stop."""
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tell("stopping after this sample; Ctrl-C again stops at once")

    def between() -> None:
        if asked:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield between  # only the main thread hears signals
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield between
    finally:
        signal.signal(signal.SIGINT, before)
