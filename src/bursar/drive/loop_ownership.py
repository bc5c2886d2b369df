"""The turn: whose it is to drive the pump. The loop's own thread has it, except while it sleeps.

A thread that has something for a loop that sleeps may *stand in*: take the turn, make the batch that the loop would
have made, and give the turn back. The loop sleeps on, and two switches of threads are saved, which cost more than a
batch does. What such a batch may contain is the pump's affair; here is only that never two threads drive at once.

    the loop    gives before it sleeps, and takes back before it does anything else
    others      take it if it is free and nobody else has it, or do without; they never wait for it

While the loop waits for its turn nothing may strike it (`drive.interrupt` looks at the name of the module): it would
tear down a run in which another thread is at work.

An error out of the blue (a third Ctrl-C, which waits for nothing) may strike after any call. So nothing but the lock,
which knows its owner, tells who has the turn. A loop that was struck while it gave it away does not know how far it
came: it takes it back, and has it in either case. A thread that was struck while it took it leaves it in either case:
what it does not have it cannot leave.

Rejected: a plain lock, and beside it a note of who has it. Between the two there is always a gap.

Rejected: waking the loop and waiting for it. On one interpreter only one of the two can run anyway.
"""

from __future__ import annotations

import threading


class Turn:
    """Made in the thread of the loop, which has it."""

    __slots__ = ("_lock", "free", "leave", "take")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lock.acquire()
        self.free = False  # the loop sleeps, and has not yet asked for it back
        # in other threads: only if it is free, and without waiting, so `turn.free and turn.take(False)`
        self.take = self._lock.acquire
        self.leave = self._lock.release  # `RuntimeError`: it was not taken

    def give(self) -> None:
        """In the loop, which is about to sleep."""
        self.free = True
        self._lock.release()

    def take_back(self) -> None:
        """In the loop: waits for whoever stands in, and nobody new begins to. If it was not given, nothing happens."""
        if self.free:
            self.free = False
            self._lock.acquire()
