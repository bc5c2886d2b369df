"""The worker pool: the threads on which plain functions run. An outpost of the pump; each run has its own.

There are never fewer workers than jobs: one is made when a job comes and all are at work, and used again afterwards.
The gate bounds how many functions are admitted, and so how many workers there are; a function never waits here for
another one to end, or to be resumed.

Waking a thread costs more than a short function. So a job wakes nobody while a worker is already on its way to look for
one. Who finds one and sees more wakes the next, and who is done looks for another before it rests: many short functions
are run by one thread, and long ones soon have a thread each.

The same goes for waking the loop. A worker that has ended a function, and finds the loop asleep, stands in for it
(`Pump.drive_from_thread`): it takes in what has ended, the gate lets in who is next, and the worker runs that.

Workers never end before the run, and functions never outlive their tasks; so when a run ends all workers are idle, and
are dismissed and waited for. Only a run that is torn down leaves threads behind that still run functions: these are
asked to stop, and are daemons.

THREADPOOL-1  jobs ≤ workers; a job counts from the moment when the loop hands it over until the loop has taken in its
    end
THREADPOOL-2  a job that nobody has begun is in the queue, and then a worker is on its way or looks again before it
    rests
THREADPOOL-3  a worker whose thread died gets another thread: a job that had not begun begins, one that had has failed
THREADPOOL-4  the thread of the loop never waits for a function, except in `Alternation`, where that is the point
THREADPOOL-5  of an end that the loop has not taken in it was told; or a worker is on its way, or sees to it before
    anything else

Rejected: a bell for each worker. The loop would know who does what, at the price of a switch of threads for each job.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from bursar.law.cancel import CancelKind, CancelReason
from bursar.settings import SOLO
from bursar.threads.checkpoint import ThreadControl

if TYPE_CHECKING:
    from bursar.backend import Kernel
    from bursar.drive.pump import Pump

TORN_DOWN: Final = CancelReason(CancelKind.SHUTDOWN, "the run was torn down")


class ThreadJob(Protocol):
    """One function to be run."""

    control: ThreadControl | None  # by which it can be asked to stop or to pause, if it can
    begun: bool
    posted: bool  # it is over, and the loop will hear of it

    @property
    def label(self) -> str:
        """The task and its poll."""
        ...

    @property
    def end_label(self) -> str:
        """What its end is called in the evidence."""
        ...

    def deliver_if_plain(self, kernel: Kernel) -> bool:
        """Take in its end, if that makes nothing happen but that its task goes on. Also in place of the loop."""
        ...

    def deliver(self) -> None:
        """In the loop: the thread has left it."""
        ...

    def work_here(self) -> None:
        """Run it in the loop, which hears at once what came of it."""
        ...

    def work(self) -> None:
        """Run it, in this thread, and tell the pool when it is over. Raises only what struck the thread itself."""
        ...

    def lost(self, error: BaseException) -> None:
        """Its thread died. Post that."""
        ...


class PoolThread:
    """One worker: a thread at a time, and the job that it is at."""

    __slots__ = ("_hiring", "_pool", "job", "number", "thread")

    def __init__(self, pool: ThreadPool, number: int) -> None:
        self._pool = pool
        self._hiring = threading.Lock()
        self.number = number
        self.job: ThreadJob | None = None
        self.thread: threading.Thread
        self._employ()

    def _employ(self) -> None:
        thread = threading.Thread(target=self._live, name=f"bursar worker {self.number}", daemon=True)
        with self._hiring:  # the new one may die, and hire in its turn, before it is noted here
            thread.start()
            self.thread = thread

    def join(self) -> None:
        """Wait until it has no thread any more: one that died may have got another in the last moment."""
        joined = None
        while joined is not self.thread:
            joined = self.thread
            joined.join()

    def _live(self) -> None:
        """The whole life of a thread."""
        try:
            self._serve()
        except BaseException as error:  # not from a job: the thread itself was struck
            self._replace(error)

    def _serve(self) -> None:
        pool = self._pool
        while (job := pool.next_job()) is not None:
            self.job = job
            job.begun = True
            job.work()
            pool.worked()
            self.job = job = None

    def _replace(self, error: BaseException) -> None:
        """THREADPOOL-3."""
        job, self.job = self.job, None
        if job is not None and job.begun:
            if not job.posted:
                job.lost(error)
            self._pool.worked()
        if self._pool.lost_thread():
            self._employ()


class ThreadPool:
    """The workers of one run."""

    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        pump.take_in_ends = self._take_in_plain
        self._workers: list[PoolThread] = []
        self._jobs: set[ThreadJob] = set()  # THREADPOOL-1
        self._queue: deque[ThreadJob] = deque()  # those that nobody has begun
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._search_token: deque[None] = deque([None])  # empty: somebody is on the way to look for a job
        self._searches = False  # a worker stands in for the loop, and looks for a job itself afterwards (THREADPOOL-2)
        self._over = False
        self._counting = threading.Lock()
        self._ended: deque[ThreadJob] = deque()  # which the loop has not taken in
        self._posted = False  # that there are such
        # A job is over, in its thread. The worker sees to that before it rests, or whoever is on the way does
        # (THREADPOOL-5).
        self.post: Callable[[ThreadJob], None] = self._ended.append if pump.live else self._post_by_name
        self.cap: object = None  # the last capability that was found to allow threads

    @classmethod
    def of(cls, pump: Pump) -> ThreadPool:
        """That of a run, as its settings want it."""
        found = pump.outposts.get(ThreadPool)
        if found is None:
            found = pump.outposts[ThreadPool] = KINDS[pump.kernel.runtime.settings.scheduler](pump)
        assert isinstance(found, ThreadPool), "it is there under its own name"
        return found

    # ---- in the loop

    def start(self, job: ThreadJob) -> None:
        """Have a job done. Until its end is taken in it is a source of the pump."""
        self._hand_out(job)
        self.pump.sources += 1

    def _hand_out(self, job: ThreadJob) -> None:
        if len(self._jobs) >= len(self._workers):  # THREADPOOL-1
            self._workers.append(
                PoolThread(self, len(self._workers) + 1)
            )  # the system may refuse: then nothing is changed
        self._jobs.add(job)
        self._queue.append(job)
        if not self._searches:
            self._send()

    def end(self, job: ThreadJob) -> None:
        """The loop has taken in the end of a job."""
        self._jobs.discard(job)

    def _take_in(self) -> int:
        """The ends of jobs, each under its own name, as many as a batch lets in. Returns how many."""
        pump, ended = self.pump, self._ended
        self._posted = False  # first: who comes after this tells by himself
        if pump.over:
            ended.clear()  # too late is also in another thread
        n = min(len(ended), pump.room)
        for _ in range(n):
            job = ended.popleft()
            if pump.kernel.observer is not None:
                pump.kernel.observer("outside", None, job.end_label)
            if job.deliver_if_plain(pump.kernel):
                self._jobs.discard(job)
                pump.sources -= 1
            else:
                job.deliver()
        if ended:
            self._post_ends()
        return n

    @property
    def threads(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    def ring(self, control: ThreadControl) -> None:
        control.bell.put(None)

    def resting(self) -> None:
        """Nothing goes away unseen: a worker sees to its own death."""

    def stopped(self) -> None:
        """The run is over: let everybody go."""
        self._over = True
        for job in self._jobs:  # then the run was torn down
            if job.control is not None:
                job.control.stop(TORN_DOWN)
        for _ in self._workers:
            self._bell.put(None)
        if not self._jobs:
            for worker in self._workers:
                worker.join()

    # ---- in any thread

    def _send(self) -> None:
        """There is a job: have somebody look for it, unless somebody is about to (THREADPOOL-2)."""
        if self._search_token:
            try:
                self._search_token.pop()
            except IndexError:
                return  # another was faster
            self._bell.put(None)

    # ---- in a worker's thread

    def _post_by_name(self, job: ThreadJob) -> None:
        """A replay takes in each end by its name."""
        self.pump.post(job.end_label, job.deliver)

    def _post_ends(self) -> None:
        """One message is about all that end before the loop looks."""
        if not self._posted:
            self._posted = True
            self.pump.post("", self._take_in)

    def _take_in_ended(self) -> None:
        """Take in what has ended in place of the loop, if that sleeps; else it hears of it."""
        try:
            if not self._posted and not self.pump.drive_from_thread():
                self._post_ends()
        finally:
            self._searches = False

    def _take_in_plain(self) -> None:
        """In place of the loop."""
        self._searches = True
        ended, jobs, kernel, done = self._ended, self._jobs, self.pump.kernel, 0
        while ended and done < self.pump.burst_limit and ended[0].deliver_if_plain(kernel):
            jobs.discard(ended.popleft())
            done += 1
        self.pump.sources -= done
        if ended:
            self._post_ends()

    def _take(self) -> ThreadJob | None:
        try:
            return self._queue.popleft()
        except IndexError:
            return None  # another was faster

    def next_job(self) -> ThreadJob | None:
        """The next job, once there is one; None: the worker is dismissed."""
        waiting, ended = self._queue, self._ended
        while True:
            job = self._take() if waiting else None
            if job is None:
                if ended:
                    self._take_in_ended()
                    if waiting:
                        continue
                self._bell.get()
                if self._over:
                    return None
                job = self._take() if waiting else None
                # Whoever comes from here on sends somebody else (THREADPOOL-2), or sees to it (THREADPOOL-5).
                self._search_token.append(None)
                if ended:
                    self._take_in_ended()
            elif ended and not waiting:
                self._take_in_ended()  # nobody is on the way who would
            if waiting:
                self._send()
            if job is not None:
                return job

    def rest(self, control: ThreadControl) -> None:
        control.bell.get()

    def give_way(self, control: ThreadControl) -> None:
        """The loop has a thread of its own."""

    def ask(self, label: str, answer: Callable[[], None]) -> None:
        self.pump.post(label, answer)

    def worked(self) -> None:
        """A worker has posted the end of its job."""

    def lost_thread(self) -> bool:
        """A thread died, perhaps on its way, or with a job in its hands. True: it is to be replaced."""
        with self._counting:
            self.pump.kernel.counters["workers_replaced"] += 1
        found = [job for job in list(self._jobs) if not job.begun and job not in self._queue]
        self._queue.extend(found)
        self._search_token.append(None)  # at worst two will be on the way one day
        self._send()
        return not self._over


class Alternation(ThreadPool):
    """`simple`: never two functions at once, and none while the loop works.

    A function without a checkpoint runs in the loop's own thread. One with a checkpoint has a worker, which takes turns
    with the loop: each works only while the other waits, and at every checkpoint the turn passes over. So all that a
    program can observe of a pool it can observe here, one thing after the other.
    """

    def __init__(self, pump: Pump) -> None:
        super().__init__(pump)
        self._back: queue.SimpleQueue[None] = queue.SimpleQueue()  # the turn comes back to the loop
        self._due: set[ThreadControl] = set()  # whose turn is posted
        self._resting: set[ThreadControl] = set()  # at whose end a thread waits for its turn
        self.post = self._post_in_turn if pump.live else self._post_by_name

    # ---- in the loop

    def start(self, job: ThreadJob) -> None:
        if job.control is None:
            self.pump.post(f"thread {job.label}", job.work_here)
        else:
            self.pump.post(f"turn {job.label}", partial(self._begin, job))
        self.pump.sources += 1

    def _begin(self, job: ThreadJob) -> None:
        if self.pump.over:
            return
        try:
            self._await_turn(partial(self._hand_out, job))
        except RuntimeError as refused:  # the system has no thread for it
            job.lost(refused)

    def _await_turn(self, hand_over: Callable[[], None]) -> None:
        """Let a thread work, and wait until it gives the turn back (THREADPOOL-4)."""
        while not self._back.empty():
            self._back.get()  # of a worker that died, and may have given it back twice
        hand_over()
        if not self.pump.over:
            self._back.get()

    def ring(self, control: ThreadControl) -> None:
        """Also in a thread, for itself."""
        if control not in self._due:
            self._due.add(control)
            self.pump.post(f"turn {control.label}", partial(self._turn, control))

    def _turn(self, control: ThreadControl) -> None:
        self._due.discard(control)
        if control in self._resting or self.pump.over:  # else it was asked to stop before it began: nobody is there
            self._resting.discard(control)
            self._await_turn(partial(control.bell.put, None))

    # ---- in a thread

    def rest(self, control: ThreadControl) -> None:
        self._resting.add(control)
        self._back.put(None)
        control.bell.get()

    def give_way(self, control: ThreadControl) -> None:
        self.ring(control)
        self.rest(control)

    def _post_in_turn(self, job: ThreadJob) -> None:
        self._ended.append(job)
        self._post_ends()  # while it is the worker's turn

    def worked(self) -> None:
        self._back.put(None)


class Solo(ThreadPool):
    """`simple` where there are no threads: every function runs in the loop, and to its end.

    Nothing else happens meanwhile, so nobody can ask it anything then. What is asked to pause before it begins stands
    there, and begins when it is resumed.
    """

    def __init__(self, pump: Pump) -> None:
        super().__init__(pump)
        self._standing: dict[ThreadControl, ThreadJob] = {}

    def _hand_out(self, job: ThreadJob) -> None:
        self.pump.post(f"thread {job.label}", partial(self._run, job))

    def _run(self, job: ThreadJob) -> None:
        control = job.control
        if control is not None and control.pausing and not self.pump.over:
            self._standing[control] = job
            control.report_paused()
        else:
            job.work_here()

    def ring(self, control: ThreadControl) -> None:
        job = self._standing.pop(control, None)
        if job is not None:
            self._hand_out(job)

    def ask(self, label: str, answer: Callable[[], None]) -> None:
        answer()

    def rest(self, control: ThreadControl) -> None:
        raise AssertionError("what is asked in the loop is answered at once")


KINDS: Final[dict[str, type[ThreadPool]]] = {"threadpool": ThreadPool, "simple": Alternation, SOLO: Solo}
