"""The pump: drives the kernel from the calls of a host, in batches of limited length.

    IDLE ──something to do──► SCHEDULED ──the host calls──► RUNNING ──► IDLE

One call of `drain` is a *batch*: read the clock and fire the due timers, take in what was posted, then make at most
`burst_limit` decisions. If work is left after that, the host first does its other work (a *handoff*). Many timers that
are due at once, after the machine slept, are limited in the same way. If no work is left, the pump sets one alarm, for
the earliest deadline, and rests.

A host whose loop cannot wait for a whole batch (a page must draw frames) has a method `overdue`, which is called after
every step. If it returns True, the batch is cut: the host does its other work, and the next call of `drain` continues
the same batch, in a new turn of the host. Nothing new enters. So the speed of the machine decides when the host runs,
but never what a task does.

A pool thread whose function ended while the loop sleeps makes the next batch itself (`drive_from_thread`). It takes in
only the ends of functions, and polls only coroutines that run no user code. When the law chooses another task, the
batch is cut, and the loop is woken to continue it.

PUMP-1  `drain` never runs inside `drain`: a call that comes while RUNNING is noted, recorded, and made afterwards
PUMP-2  posts enter only at the beginning of a batch, in the order of their arrival; a post that arrives while others
    enter waits for the next batch: otherwise posts that cause further posts could keep tasks from running
PUMP-3  between two handoffs at most `burst_limit` decisions are made, and at most `burst_limit` posts enter
PUMP-4  coroutines of the program, and all other code that may wait, fail or depend on its thread, run only in the
    loop's thread; code that the interpreter calls by itself may run elsewhere: destructors, a `__hash__`, the
    `__signature__` of a function

Because of PUMP-2 a run is repeatable: a batch depends only on the state before it, the time, and the posts.

Rejected: letting host callbacks wake tasks at once. It saves one hop, but then the schedule depends on when each
callback ran relative to every single step. A trace could not record this, and a replay could not repeat it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeVar

from bursar.backend import Kernel, Task
from bursar.drive.coroutine import Driver
from bursar.drive.host import Host
from bursar.drive.program_calls import calls_program
from bursar.errors import HostMisuse

# The limit of fired timers per batch, of decisions per handoff, and of posts per handoff. So many empty polls take a
# tenth of a millisecond on the native kernel, and the cost of the batch itself is small beside them. A host that cannot
# wait for so many long polls has `overdue`.
BURST_MAX: Final = 256

# How long pool threads may drive in place of a sleeping loop. Then the loop is woken, because Python handles signals
# only in the loop's thread, and may miss one that comes just before it sleeps. A hundredth of a second is short for a
# user who presses Ctrl-C, and long compared with the cost of waking a thread.
THREAD_DRIVE_NS_MAX: Final = 10_000_000

T = TypeVar("T")


class PumpState(Enum):
    """The state of the pump."""

    IDLE = "idle"  # nothing is queued with the host, except perhaps the alarm
    SCHEDULED = "scheduled"  # one call is queued with the host
    RUNNING = "running"


class Outside(NamedTuple):
    """A post: its label in the trace, and the function that takes it in.

    The first word of the label is the kind of the post. `evidence.replay` knows which kinds a trace record can cause by
    itself, and which only the program can. A post without a label contains several posts, each with its own label.
    """

    label: str
    deliver: Callable[[], int | None]  # returns how many posts it contained, if that is not one


class Cut(NamedTuple):
    """The rest of a batch that was cut: whether a limit was reached before, and how many decisions are left."""

    full: bool
    left: int


class Outpost(Protocol):
    """A part of the runtime that deals with the outside, and must look for some changes there by itself."""

    def resting(self) -> None:
        """No task is runnable: look whether something outside has ended unnoticed, and post that."""
        ...

    def stopped(self) -> None:
        """No batch runs any more: answer all threads outside that still wait."""
        ...


class PumpOwner(Protocol):
    """The runtime, as the pump sees it."""

    @property
    def driver(self) -> Driver:
        """The driver, which polls the tasks."""
        ...

    def _batch_begins(self) -> None: ...

    def _batch_ends(self) -> None: ...

    def _stuck(self) -> None:
        """Every task waits, and nothing can wake a task: make a task runnable."""
        ...

    def _ending(self) -> bool:
        """No task is left. Returns True if there are new tasks after all."""
        ...

    def _ended(self) -> None:
        """The pump has stopped for good."""
        ...


class Pump:
    """Drives one kernel from one host."""

    def __init__(self, kernel: Kernel, program: PumpOwner, host: Host, burst_limit: int = BURST_MAX) -> None:
        self.kernel = kernel
        self.program = program
        self.host = host
        self.burst_limit = burst_limit
        self.thread = threading.get_ident()
        self.state = PumpState.IDLE
        self.started = False
        self.over = False
        self.error: BaseException | None = None  # the error that stopped the pump before the program ended
        self.turn = 0  # how many turns of the host have reached the pump
        self.batch = 0
        self.sources = 0  # things outside that may still wake a task: watched files, open portals, foreign awaits
        self.listeners = 0  # waits for a signal, which may never come: no deadlock, and virtual time goes on
        self.live = True  # False in a replay: the trace answers instead of the host
        self.expected: dict[str, Callable[[], None]] = {}  # what tasks wait for outside, by the label of its post
        self.outposts: dict[object, Outpost] = {}
        self.room: int = burst_limit  # how many more posts may enter before the next handoff (PUMP-3)
        self._inbox: deque[Outside] = deque()  # any thread may append
        self._here = 0  # how many of the posts enter with this batch (PUMP-2)
        self._pending = False  # a call was deferred (PUMP-1)
        self._in_turn = False  # the queued call belongs to the same turn of the host
        self._left: int = burst_limit  # how many decisions may be made before the next handoff (PUMP-3)
        self._cut: Cut | None = None  # the rest of a batch that was cut
        self._overdue: Callable[[], bool] | None = getattr(host, "overdue", None)
        self._lend: Callable[[Callable[[], bool]], bool] | None = getattr(host, "drive_from_thread", None)
        self.take_in_ends: Callable[[], None] = lambda: None  # set by the thread pool, for `drive_from_thread`
        self._looked_ns = 0  # when the loop last began a batch itself
        self._thread_error: BaseException | None = None  # the error that ended a batch in another thread
        self._alarm: tuple[int, int] | None = None  # the timer for which the alarm is set: (id, generation)

    # ---- what happens outside

    def start(self) -> None:
        """Open the host, and ask for the first call."""
        self.host.open(self)
        self.started = True
        self.nudge()

    def nudge(self) -> None:
        """There is something to do: ask the host for a call. Only in the host's thread; other threads `post`."""
        if self.state is PumpState.RUNNING:
            self._pending = True
        elif self.state is PumpState.IDLE and self.started and not self.over:
            self.state = PumpState.SCHEDULED
            self.host.microtask()

    def post(self, label: str, deliver: Callable[[], int | None]) -> None:
        """Something happened outside: `deliver` is called at the beginning of the next batch. Safe from anywhere."""
        self._inbox.append(Outside(label, deliver))
        if self.over:
            self._deliver_rest()
        elif threading.get_ident() == self.thread:
            self.nudge()
        elif self.started:
            self.host.wake()

    def now_ns(self) -> int:
        """Read the host's clock in the middle of a batch."""
        now_ns = self.host.now_ns()
        if now_ns > self.kernel.now_ns:
            self.kernel.now_ns = now_ns
            self.kernel.note("clock", self.kernel.current, now_ns)
        return self.kernel.now_ns

    def ask(self, task: Task, what: str, call: Callable[[], T]) -> T:
        """Ask the host something for a task. The trace records the answer."""
        try:
            answer = call()
        except OSError as error:
            self.kernel.note("host_answer", task, (what, error))
            raise
        self.kernel.note("host_answer", task, (what, answer))
        return answer

    def until(self, ready: Callable[[], bool], what: str) -> None:
        """In a replay: wait until the threads of the program have done what they had done in the recorded run."""

    def recorded_responses(self, label: str) -> dict[int, str]:
        """In a replay: at which checkpoints the function with this label responded to requests."""
        return {}

    # ---- the calls of the host

    def rang(self) -> None:
        """The host's alarm rang. It may be late, and its timer may no longer be armed."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None and self.kernel.timers.find(*alarm) is None:
            id, generation = alarm
            self._inbox.append(Outside(f"alarm {id} {generation}", lambda: self._stale_alarm(id, generation)))
        self.drain()

    def _stale_alarm(self, id: int, generation: int) -> None:
        self.kernel.timer_fired(id, generation)

    def drain(self) -> None:
        """Make one batch. Only the host calls this."""
        if threading.get_ident() != self.thread:
            if not self.over:
                self.host.wake()  # ask for the batch again, in the right thread, so that nothing is lost
            raise HostMisuse(
                f"host {self.host.name!r} called the pump from another thread than the one that opened it; "
                "call Host.wake from there, and drain in the thread of the loop"
            )
        if self.state is PumpState.RUNNING:  # PUMP-1
            self._pending = True
            self.kernel.note("scheduler_reentrancy_deferred", self.kernel.current)
            return
        if self.over:
            self.kernel.counters["late_host_calls"] += 1
            return
        self.state, self._pending = PumpState.RUNNING, False
        self.turn += not self._in_turn
        if self._cut is None:
            self.batch += 1
            if not self._in_turn:
                self._left = self.room = self.burst_limit
        self._in_turn = False
        try:
            full = self._run_batch()
            self.state = PumpState.IDLE
            self._go_on(full)
        except BaseException as error:  # another library's loop would only log the error, and the run would hang
            self.state = PumpState.IDLE
            self.stop(error)

    # ---- in a pool thread that drives in place of the loop

    def drive_from_thread(self) -> bool:
        """In a pool thread: make the batch that begins with the ends of functions, while the loop sleeps.

        Returns False if the loop must do it: it is awake, or there is work that only its thread may do (PUMP-4).
        """
        try:
            return self._lend is not None and self._lend(self._drive_from_thread)
        except BaseException:  # an asynchronous exception hit the thread: the loop does the rest
            self.host.wake()
            raise

    def _drive_from_thread(self) -> bool:
        kernel, driver, now_ns = self.kernel, self.program.driver, self.host.now_ns()
        deadline_ns: int | None = kernel.timers.next_deadline_ns()
        if self.state is not PumpState.IDLE or self._inbox or kernel.runnable or self.over or self.host.virtual:
            return False
        if kernel.observer is not None or driver.meter is not None:
            return False  # an observer may be user code, and memory is metered in the loop's thread
        if now_ns - self._looked_ns >= THREAD_DRIVE_NS_MAX or (deadline_ns is not None and deadline_ns <= now_ns):
            return False
        self.state, self._pending = PumpState.RUNNING, False
        self.batch += 1
        self.turn += 1
        driver.anywhere = True
        try:
            kernel.thread = threading.get_ident()
            kernel.advance(now_ns, self.burst_limit)
            self.take_in_ends()
            left, cut = driver.run(self.burst_limit, None)
            self._cut = Cut(False, left) if cut else None
        except BaseException as error:  # treated as if it had been raised in the loop
            self._thread_error = error
        finally:
            driver.anywhere = False
            kernel.thread = self.thread
            self.state = PumpState.IDLE
        if self._cut or self._inbox or self._pending or kernel.runnable or self._thread_error or self._alarm_is_wrong():
            self.host.wake()
        return True

    def _alarm_is_wrong(self) -> bool:
        """Whether the loop sleeps until another timer than the next one; or without an alarm, and nothing would wake
        it."""
        timer = self.kernel.timers.next()
        return self._alarm != (timer.id, timer.generation) if timer is not None else not self._may_be_woken()

    def _may_be_woken(self) -> bool:
        return self.sources > 0 or self.listeners > 0

    # ---- one batch

    @calls_program
    def _run_batch(self) -> bool:
        """Fire timers, take in posts, make steps. Returns True if a limit was reached."""
        if self._thread_error is not None:
            raise self._thread_error
        program = self.program
        program._batch_begins()
        try:
            full, left = self._cut or (self._take_in(), self._left)
            self._cut = None
            left, cut = program.driver.run(left, self._overdue)
            if cut:
                self._cut = Cut(full, left)
            self._left = left
            return full or not left
        finally:
            program._batch_ends()

    def _take_in(self) -> bool:
        """Take in the posts (PUMP-2). Returns True if more came than one batch may take."""
        now_ns = self._looked_ns = self.host.now_ns()
        kernel = self.kernel
        if kernel.observer is not None:
            kernel.observer("host_turn", None, (self.turn, self.batch, now_ns))
        fired = kernel.advance(now_ns, self.burst_limit)
        self._here = len(self._inbox)
        while self.room > 0 and (outside := self._next_outside()) is not None:
            if outside.label:
                kernel.note("outside", None, outside.label)
            self.room -= outside.deliver() or 1
        return fired == self.burst_limit or self.room <= 0

    # a replay takes both of these from its trace

    def _next_outside(self) -> Outside | None:
        if not self._here or not self._inbox:  # a post may stop the pump, which empties the inbox
            return None
        self._here -= 1
        return self._inbox.popleft()

    def _has_mail(self) -> bool:
        return bool(self._inbox)

    def _go_on(self, full: bool) -> None:
        """Ask the host for the next call, if one is needed."""
        kernel = self.kernel
        if self.over:
            return  # something in the batch stopped the pump
        if self._cut is not None:
            kernel.note("scheduler_host_handoff", None)
            self.state = PumpState.SCHEDULED
            self.host.handoff()
            return
        if not kernel.live and not self._has_mail() and not self.program._ending():
            self.stop(None)
            return
        if kernel.runnable or self._has_mail() or self._pending or self._due():
            self.state = PumpState.SCHEDULED
            self._in_turn = not full
            if not full:
                self.host.microtask()
                return
            if kernel.observer is not None:  # PUMP-3
                kernel.observer("scheduler_burst_limit_reached", None, None)
                kernel.observer("scheduler_host_handoff", None, None)
            self.host.handoff()
            return
        self._rest()

    def _due(self) -> bool:
        deadline_ns = self.kernel.timers.next_deadline_ns()
        return deadline_ns is not None and deadline_ns <= self.kernel.now_ns

    def _rest(self) -> None:
        """No task is runnable: rest until the next timer, or until something happens outside."""
        for outpost in list(self.outposts.values()):
            outpost.resting()
        if self._inbox:
            self.nudge()
            return
        timer = self.kernel.timers.next()
        if timer is None and not self._may_be_woken():
            self.program._stuck()
            self.nudge()
            return
        if timer is None or (self.host.virtual and self.sources):
            self._alarm = None
            self.host.alarm(None)
            return
        self._alarm = (timer.id, timer.generation)
        self.host.alarm(timer.deadline_ns)

    # ---- the end

    def stop(self, error: BaseException | None) -> None:
        """Stop the pump, once: no batch runs after this."""
        if self.over:
            return
        self.over, self.error = True, error
        self.kernel.thread = 0
        self.program.driver.stopped = True
        try:
            self._end()
        except BaseException as failed:
            self.error = self.error or failed

    def _end(self) -> None:
        """End the run. Every step happens, even if an earlier one fails or is interrupted."""
        try:
            if self.error is not None:
                self.kernel.note("run_torn_down", None)
            self._deliver_rest()
        finally:
            try:
                self.program._ended()
            finally:
                with ExitStack() as last:
                    for outpost in self.outposts.values():
                        last.callback(outpost.stopped)

    def _deliver_rest(self) -> None:
        """Deliver the posts that came too late, so that their senders get an answer. Several threads may do this at
        once."""
        failed: BaseException | None = None
        while self._inbox:
            try:
                outside = self._inbox.popleft()
            except IndexError:
                break  # another thread was faster
            try:
                outside.deliver()
            except BaseException as error:
                failed = failed or error
        if failed is not None:
            raise failed
