"""The thread pool: the threads on which plain functions run. Each run has its own pool, an `Outpost`.

There are never fewer workers than jobs. If a job comes and all workers are busy, a new worker is made; it is used again
afterwards. The gate limits how many functions are admitted, and so how many workers there are. In the pool, a function
never waits for another one to end or to be resumed.

Waking a thread costs more than a short function. So a new job wakes no worker while another worker is already about to
look for a job. A worker that finds a job and sees more jobs wakes the next worker. A worker that has finished a job
looks for another one before it rests. So one thread runs many short functions, and long functions soon have a thread
each.

Waking the loop is expensive too. A worker whose function has ended while the loop sleeps drives in place of the loop
(`Pump.drive_from_thread`). It takes in the ended functions, the gate admits the next task, and the worker runs it.

Workers never end before the run, and functions never outlive their tasks. So at the end of a run all workers are idle;
they are dismissed, and the loop waits until they have ended. Only a run that is torn down leaves threads that still run
functions. These functions are asked to stop, and the threads are daemons.

THREADPOOL-1  jobs ≤ workers; a job counts from the moment when the loop hands it over until the loop has taken in its
    end
THREADPOOL-2  a job that has not begun is in the queue, and a worker is about to look there, or looks again before it
    rests
THREADPOOL-3  a worker whose thread died gets another thread: a job that had not begun begins, one that had has failed
THREADPOOL-4  the thread of the loop never waits for a function, except in `Alternation`, where that is the purpose
THREADPOOL-5  an end that the loop has not taken in is posted, or a worker takes it in or posts it before that worker
    runs another job or rests

Rejected: a lock per worker, with which the loop wakes the worker that it chooses for a job. The loop would know what
each worker does, but each job would cost a thread switch.
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

    control: ThreadControl | None  # asks it to stop or to pause; None: it has no checkpoint
    begun: bool
    posted: bool  # it has ended, and its end is posted

    @property
    def label(self) -> str:
        """The task and its poll."""
        ...

    @property
    def end_label(self) -> str:
        """The label of its end in the trace."""
        ...

    def deliver_if_plain(self, kernel: Kernel) -> bool:
        """Take in the end of the job, if it only makes its task continue. A pool thread may call this too."""
        ...

    def deliver(self) -> None:
        """In the loop: the thread has left the function."""
        ...

    def work_here(self) -> None:
        """Run the function in the loop, and take in its end at once."""
        ...

    def work(self) -> None:
        """Run the function in this thread, and tell the pool when it has ended. Raises only asynchronous exceptions
        of the thread itself."""
        ...

    def lost(self, error: BaseException) -> None:
        """The thread of the job died: post this as its end."""
        ...


class PoolThread:
    """One worker: its present thread, and the job that it runs."""

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
        with self._hiring:  # the new thread may die and be replaced before it is noted here
            thread.start()
            self.thread = thread

    def join(self) -> None:
        """Wait until the worker has no thread any more. A thread that died may have been replaced at the last
        moment."""
        joined = None
        while joined is not self.thread:
            joined = self.thread
            joined.join()

    def _live(self) -> None:
        """The whole life of a thread."""
        try:
            self._serve()
        except BaseException as error:  # not from a job: an asynchronous exception of the thread
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
        self._queue: deque[ThreadJob] = deque()  # the jobs that have not begun
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._search_token: deque[None] = deque([None])  # empty while a worker is about to look for a job
        self._searches = False  # a worker drives in place of the loop, and looks for a job afterwards (THREADPOOL-2)
        self._over = False
        self._counting = threading.Lock()
        self._ended: deque[ThreadJob] = deque()  # ended jobs that the loop has not taken in
        self._posted = False  # a post about these ends is on its way
        # Called in the thread of a job that has ended. The worker takes in the end before it rests, or the worker that
        # is about to look for a job does (THREADPOOL-5).
        self.post: Callable[[ThreadJob], None] = self._ended.append if pump.live else self._post_by_name
        self.cap: object = None  # the last capability that was found to allow threads

    @classmethod
    def of(cls, pump: Pump) -> ThreadPool:
        """The pool of a run, of the kind that its settings name."""
        found = pump.outposts.get(ThreadPool)
        if found is None:
            found = pump.outposts[ThreadPool] = KINDS[pump.kernel.runtime.settings.scheduler](pump)
        assert isinstance(found, ThreadPool), "the pool has this name for itself"
        return found

    # ---- in the loop

    def start(self, job: ThreadJob) -> None:
        """Start a job. It is a source of the pump until its end is taken in."""
        self._hand_out(job)
        self.pump.sources += 1

    def _hand_out(self, job: ThreadJob) -> None:
        if len(self._jobs) >= len(self._workers):  # THREADPOOL-1
            self._workers.append(
                PoolThread(self, len(self._workers) + 1)
            )  # the operating system may refuse a thread: then nothing is changed
        self._jobs.add(job)
        self._queue.append(job)
        if not self._searches:
            self._send()

    def end(self, job: ThreadJob) -> None:
        """The loop has taken in the end of a job."""
        self._jobs.discard(job)

    def _take_in(self) -> int:
        """Take in the ends of jobs, each under its own label, as many as a batch may take. Returns how many."""
        pump, ended = self.pump, self._ended
        self._posted = False  # first, so that a job that ends after this posts again
        if pump.over:
            ended.clear()  # the run is over, so these ends come too late
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
        """The number of workers."""
        return len(self._workers)

    def ring(self, control: ThreadControl) -> None:
        control.bell.put(None)

    def resting(self) -> None:
        """Nothing to look for: a worker whose thread dies reports it by itself."""

    def stopped(self) -> None:
        """The run is over: dismiss all workers."""
        self._over = True
        for job in self._jobs:  # there are jobs only if the run was torn down
            if job.control is not None:
                job.control.stop(TORN_DOWN)
        for _ in self._workers:
            self._bell.put(None)
        if not self._jobs:
            for worker in self._workers:
                worker.join()

    # ---- in any thread

    def _send(self) -> None:
        """There is a job: wake a worker, unless one is already about to look (THREADPOOL-2)."""
        if self._search_token:
            try:
                self._search_token.pop()
            except IndexError:
                return  # another thread was faster
            self._bell.put(None)

    # ---- in a worker's thread

    def _post_by_name(self, job: ThreadJob) -> None:
        """Post the end under its own label: a replay takes in each end by its label."""
        self.pump.post(job.end_label, job.deliver)

    def _post_ends(self) -> None:
        """Post one message for all jobs that end before the loop takes them in."""
        if not self._posted:
            self._posted = True
            self.pump.post("", self._take_in)

    def _take_in_ended(self) -> None:
        """Take in the ended jobs in place of the loop if it sleeps; otherwise post them to the loop."""
        try:
            if not self._posted and not self.pump.drive_from_thread():
                self._post_ends()
        finally:
            self._searches = False

    def _take_in_plain(self) -> None:
        """Take in the ends that only make their tasks continue, in place of the loop."""
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
            return None  # another thread was faster

    def next_job(self) -> ThreadJob | None:
        """Wait for the next job and return it; None: the worker is dismissed."""
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
                # From here on a new job wakes another worker (THREADPOOL-2), and the worker of an ended job takes it in
                # (THREADPOOL-5).
                self._search_token.append(None)
                if ended:
                    self._take_in_ended()
            elif ended and not waiting:
                self._take_in_ended()  # no other worker is about to do it
            if waiting:
                self._send()
            if job is not None:
                return job

    def rest(self, control: ThreadControl) -> None:
        control.bell.get()

    def give_way(self, control: ThreadControl) -> None:
        """Nothing to do: the loop runs in a thread of its own."""

    def ask(self, label: str, answer: Callable[[], None]) -> None:
        self.pump.post(label, answer)

    def worked(self) -> None:
        """A worker has posted the end of its job."""

    def lost_thread(self) -> bool:
        """A thread died, perhaps while it looked for a job or ran one. Returns True if it must be replaced."""
        with self._counting:
            self.pump.kernel.counters["workers_replaced"] += 1
        found = [job for job in list(self._jobs) if not job.begun and job not in self._queue]
        self._queue.extend(found)
        self._search_token.append(None)  # at worst two workers will look for a job at once
        self._send()
        return not self._over


class Alternation(ThreadPool):
    """The pool of `simple`: never two functions at once, and none while the loop works.

    A function without a checkpoint runs in the loop's own thread. A function with a checkpoint has a worker, which
    alternates with the loop: each works only while the other waits, and every checkpoint switches to the other. So a
    program sees everything that it sees with a real pool, but one thing after the other.
    """

    def __init__(self, pump: Pump) -> None:
        super().__init__(pump)
        self._back: queue.SimpleQueue[None] = queue.SimpleQueue()  # through it a worker lets the loop continue
        self._due: set[ThreadControl] = set()  # the controls whose turn is posted
        self._resting: set[ThreadControl] = set()  # the controls whose thread waits for its turn
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
        except RuntimeError as refused:  # the operating system refused a thread
            job.lost(refused)

    def _await_turn(self, hand_over: Callable[[], None]) -> None:
        """Let a thread work, and wait until it lets the loop continue (THREADPOOL-4)."""
        while not self._back.empty():
            self._back.get()  # left by a worker that died, and may have let the loop continue twice
        hand_over()
        if not self.pump.over:
            self._back.get()

    def ring(self, control: ThreadControl) -> None:
        """Post the turn of the thread. The thread itself may call this too."""
        if control not in self._due:
            self._due.add(control)
            self.pump.post(f"turn {control.label}", partial(self._turn, control))

    def _turn(self, control: ThreadControl) -> None:
        self._due.discard(control)
        if control in self._resting or self.pump.over:  # otherwise it was stopped before it began, and no thread waits
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
    """The pool of `solo`, for platforms without threads: every function runs in the loop, to its end.

    Nothing else runs during that time, so a running function cannot be asked to pause or stop. A function that is asked
    to pause before it begins does not begin until it is resumed.
    """

    def __init__(self, pump: Pump) -> None:
        super().__init__(pump)
        self._paused: dict[ThreadControl, ThreadJob] = {}

    def _hand_out(self, job: ThreadJob) -> None:
        self.pump.post(f"thread {job.label}", partial(self._run, job))

    def _run(self, job: ThreadJob) -> None:
        control = job.control
        if control is not None and control.pausing and not self.pump.over:
            self._paused[control] = job
            control.report_paused()
        else:
            job.work_here()

    def ring(self, control: ThreadControl) -> None:
        job = self._paused.pop(control, None)
        if job is not None:
            self._hand_out(job)

    def ask(self, label: str, answer: Callable[[], None]) -> None:
        answer()

    def rest(self, control: ThreadControl) -> None:
        raise AssertionError("a question in the loop is answered at once")


KINDS: Final[dict[str, type[ThreadPool]]] = {"threadpool": ThreadPool, "simple": Alternation, SOLO: Solo}
