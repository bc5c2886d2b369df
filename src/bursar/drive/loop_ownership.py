"""Loop ownership: the right to drive the pump, which one thread has at a time. The loop's thread has it while awake.

A pool thread that has something for a sleeping loop may drive the pump itself. It takes the ownership, makes the batch
that the loop would have made, and returns the ownership. The loop sleeps on. This saves two thread switches, which cost
more than a batch. The pump decides what such a batch may contain. This file only ensures that two threads never drive
at once.

    the loop    gives the ownership away before it sleeps, and takes it back before it does anything else
    others      take it only if it is free; they never wait for it

No asynchronous exception may be raised in the loop while it waits for the ownership (`drive.interrupt` looks at the
name of this module). The exception would tear down the run while another thread drives it.

A third Ctrl-C may still raise after any call. So only the lock, which knows its owner, says which thread has the
ownership. If the loop was interrupted while it gave the ownership away, it takes the ownership back. Then the loop has
it, whether or not it had given it away. If a thread was interrupted while it took the ownership, it releases the lock.
That fails harmlessly if the thread does not hold the lock.

Rejected: a plain lock, and a variable that names its owner. An exception can always come between the two.

Rejected: waking the loop and waiting for it. Only one of the two threads can run Python code at a time anyway.
"""

from __future__ import annotations

import threading


class LoopOwnership:
    """The ownership of one loop. Made in the loop's thread, which has it at first."""

    __slots__ = ("_lock", "free", "leave", "take")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lock.acquire()
        self.free = False  # the loop sleeps, and has not asked for the ownership again
        # Other threads take it only if it is free, and without waiting: `ownership.free and ownership.take(False)`.
        self.take = self._lock.acquire
        self.leave = self._lock.release  # raises `RuntimeError` if this thread does not have it

    def give(self) -> None:
        """In the loop's thread, before it sleeps: give the ownership away."""
        self.free = True
        self._lock.release()

    def take_back(self) -> None:
        """In the loop's thread: take the ownership back. Waits for a thread that drives now; no other thread may begin.
        Does nothing if the ownership was not given away."""
        if self.free:
            self.free = False
            self._lock.acquire()
