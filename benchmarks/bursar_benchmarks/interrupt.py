"""Ctrl-C during a measurement: the current sample is finished, and the samples so far are kept.

The measured runtimes have their own handlers for Ctrl-C, each of which would end in another error. A runtime leaves
this handler alone, because it is not Python's default. The handler only sets a flag, which is checked between samples.
A second Ctrl-C has Python's own handler and stops at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible(tell: Callable[[str], None]) -> Generator[Callable[[], None]]:
    """Yields a function to call between samples. It raises KeyboardInterrupt after a Ctrl-C."""
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
