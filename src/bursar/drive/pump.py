"""The pump: turns the calls of a host into steps of the kernel, a bounded number at a time.

    IDLE ──something to do──► SCHEDULED ──the host calls──► RUNNING ──► IDLE

One call of `drain` is a *batch*: look at the clock and fire what is due, take in what happened outside, then make
at most `burst_limit` decisions. If work is left after that, the host gets its turn first (a *handoff*); a backlog of
timers after a suspension is worked off in the same bounded way. If nothing is left, the pump asks for one alarm, at the
earliest deadline, and rests.

A host whose loop cannot wait for a whole batch (a page has frames to draw) says so with `overdue`, which is asked after
every step. The batch is then cut: the host gets its turn, and the next call of `drain` goes on with the same batch,
where nothing new enters. So how fast the machine is decides when the host gets its turn, but never what a task does.

A worker of the pool that has ended a function while the loop sleeps makes the next batch itself (`drive_from_thread`):
it takes in such ends and nothing else, and polls only what runs no code of the program's. As soon as the law's choice
falls on anything else the batch is cut there, and the loop is woken and goes on with it.

PUMP-1  `drain` never runs inside `drain`: a call that comes while RUNNING is noted, recorded and carried out afterwards
PUMP-2  everything from outside enters at the beginning of a batch, in the order of its arrival, and only there; what
    comes while others enter does so with the next batch, or a function that takes turns with the loop would take them
    all
PUMP-3  between two handoffs at most `burst_limit` decisions are made, and as many things enter
PUMP-4  coroutines of the program, and whatever else may wait, fail or look at its thread, run in the loop's thread
    only; not so what the interpreter calls by itself: destructors, a `__hash__`, the `__signature__` of a function

PUMP-2 is what makes a run repeatable: a batch is a function of the state before it, the time, and what came in.

Rejected: letting host callbacks wake tasks as they come. It is one hop faster, and then the schedule depends on when a
callback ran in relation to every single step, which nobody can write down or play back.
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

# Fired timers per batch; decisions and messages from outside, each, per turn of the host. So many polls of no length
# are a tenth of a millisecond on the native kernel, and beside them what the batch itself costs is small; a host with
# neighbours that cannot wait for so many long ones says so with `overdue`.
BURST_MAX: Final = 256

# How long others stand in for a loop that sleeps: it is woken at least so often, because only its own thread hears of
# signals, and Python may leave one unheard that comes while it is about to sleep. A hundredth of a second is soon for
# whoever presses Ctrl-C, and long beside what it costs to wake a thread.
THREAD_DRIVE_NS_MAX: Final = 10_000_000

T = TypeVar("T")


class PumpState(Enum):
    """What the pump is doing."""

    IDLE = "idle"  # nothing is queued with the host, except perhaps the alarm
    SCHEDULED = "scheduled"  # one call is queued with the host
    RUNNING = "running"


class Outside(NamedTuple):
    """Something that happened outside the law: what it is called in the evidence, and what it does.

    The first word of the label says what kind of thing it is: `evidence.replay` knows which of these a record can
    bring about by itself, and which only the program can. Without a label it is about several, which tell their own.
    """

    label: str
    deliver: Callable[[], int | None]  # returns how many things came in by it, if that is not one


class Cut(NamedTuple):
    """What is left of a batch that was cut: whether a limit was reached before, and how many decisions remain."""

    full: bool
    left: int


class Outpost(Protocol):
    """A part of the runtime that deals with the outside, and that nobody outside tells everything."""

    def resting(self) -> None:
        """Nothing is runnable: look whether something has gone away unseen, and post that."""
        ...

    def stopped(self) -> None:
        """No batch runs any more: tell whoever outside still waits for one."""
        ...


class PumpOwner(Protocol):
    """Whose tasks are pumped: the runtime."""

    @property
    def driver(self) -> Driver:
        """Who polls its tasks."""
        ...

    def batch_begins(self) -> None: ...

    def batch_ends(self) -> None: ...

    def stuck(self) -> None:
        """Every task waits, and nothing can wake one: make something runnable."""
        ...

    def ending(self) -> bool:
        """No task is left. True: there is more to do after all."""
        ...

    def ended(self) -> None:
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
        self.error: BaseException | None = None  # what stopped the pump before the program was over
        self.turn = 0  # host turns that reached the pump
        self.batch = 0
        self.sources = 0  # things outside that may yet wake a task: watched files, open portals, foreign awaits
        self.listeners = 0  # waits for what may never come, a signal: no deadlock, but virtual time goes on without it
        self.live = True  # False: a replay; the trace answers, and the host is asked for nothing
        self.expected: dict[str, Callable[[], None]] = {}  # what tasks wait for outside, by the label that it will have
        self.outposts: dict[object, Outpost] = {}
        self.room: int = burst_limit  # how much more comes in in this turn (PUMP-3)
        self._inbox: deque[Outside] = deque()  # appended to from anywhere
        self._here = 0  # how many of these enter with this batch (PUMP-2)
        self._pending = False  # a call was deferred (PUMP-1)
        self._in_turn = False  # the call that is queued belongs to the same turn of the host
        self._left: int = burst_limit  # decisions that may still be made in this turn (PUMP-3)
        self._cut: Cut | None = None  # the rest of a batch in parts
        self._overdue: Callable[[], bool] | None = getattr(host, "overdue", None)
        self._lend: Callable[[Callable[[], bool]], bool] | None = getattr(host, "drive_from_thread", None)
        self.take_in_ends: Callable[[], None] = lambda: None  # of functions that ended well; the pool's
        self._looked_ns = 0  # when the loop last began a batch itself
        self._thread_error: BaseException | None = None  # what ended a batch that another thread made
        self._alarm: tuple[int, int] | None = None  # the timer that the alarm stands for: (id, generation)

    # ---- what happens outside

    def start(self) -> None:
        """Take the host, and ask for the first call."""
        self.host.open(self)
        self.started = True
        self.nudge()

    def nudge(self) -> None:
        """There is something to do. Only from the host's thread; others `post`."""
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
        """The time, asked of the host in the middle of a batch."""
        now_ns = self.host.now_ns()
        if now_ns > self.kernel.now_ns:
            self.kernel.now_ns = now_ns
            self.kernel.note("clock", self.kernel.current, now_ns)
        return self.kernel.now_ns

    def ask(self, task: Task, what: str, call: Callable[[], T]) -> T:
        """Ask something of the host on behalf of a task, so that the answer is on record."""
        try:
            answer = call()
        except OSError as error:
            self.kernel.note("host_answer", task, (what, error))
            raise
        self.kernel.note("host_answer", task, (what, answer))
        return answer

    def until(self, ready: Callable[[], bool], what: str) -> None:
        """A replay waits here until the threads of the program have done what they had done when it was recorded."""

    def recorded_responses(self, label: str) -> dict[int, str]:
        """In a replay: at which of its checkpoints the function of this label heeds what it was asked."""
        return {}

    # ---- the calls of the host

    def rang(self) -> None:
        """The host's alarm. It may be late: then the timer that it was set for may be gone."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None and self.kernel.timers.find(*alarm) is None:
            id, generation = alarm
            self._inbox.append(Outside(f"alarm {id} {generation}", lambda: self._stale_alarm(id, generation)))
        self.drain()

    def _stale_alarm(self, id: int, generation: int) -> None:
        self.kernel.timer_fired(id, generation)

    def drain(self) -> None:
        """One batch. Called by the host, and by nobody else."""
        if threading.get_ident() != self.thread:
            if not self.over:
                self.host.wake()  # nothing is lost: the batch is asked for again, in the right thread
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
        if self._cut is None:
            self.batch += 1
            self.turn += not self._in_turn
            if not self._in_turn:
                self._left = self.room = self.burst_limit
        self._in_turn = False
        try:
            full = self._run_batch()
            self.state = PumpState.IDLE
            self._go_on(full)
        except BaseException as error:  # a loop that is not ours would only log it, and the run would hang
            self.state = PumpState.IDLE
            self.stop(error)

    # ---- in a thread that stands in for the loop

    def drive_from_thread(self) -> bool:
        """Another thread has ended functions while the loop sleeps: make the batch that begins with these ends.

        False: the loop must do it, because it is awake, or because there is more to do than may be done here (PUMP-4).
        """
        try:
            return self._lend is not None and self._lend(self._drive_from_thread)
        except BaseException:  # the thread was struck: what it has left undone, the loop finds
            self.host.wake()
            raise

    def _drive_from_thread(self) -> bool:
        kernel, driver, now_ns = self.kernel, self.program.driver, self.host.now_ns()
        deadline_ns: int | None = kernel.timers.next_deadline_ns()
        if self.state is not PumpState.IDLE or self._inbox or kernel.runnable or self.over or self.host.virtual:
            return False
        if kernel.observer is not None or driver.meter is not None:
            return False  # evidence may be the program's own code, and memory is metered in the loop's thread
        if now_ns - self._looked_ns >= THREAD_DRIVE_NS_MAX or (deadline_ns is not None and deadline_ns <= now_ns):
            return False
        self.state, self._pending = PumpState.RUNNING, False
        self.batch += 1
        self.turn += 1
        driver.anywhere = True
        try:
            kernel.advance(now_ns, self.burst_limit)
            self.take_in_ends()
            left, cut = driver.run(self.burst_limit, None)
            self._cut = Cut(False, left) if cut else None
        except BaseException as error:  # as if it had struck the loop
            self._thread_error = error
        finally:
            driver.anywhere = False
            self.state = PumpState.IDLE
        if self._cut or self._inbox or self._pending or kernel.runnable or self._thread_error or self._alarm_is_wrong():
            self.host.wake()
        return True

    def _alarm_is_wrong(self) -> bool:
        """Whether the loop sleeps for another timer than the next one; or without any, and nothing would wake it."""
        timer = self.kernel.timers.next()
        return self._alarm != (timer.id, timer.generation) if timer is not None else not self._may_be_woken()

    def _may_be_woken(self) -> bool:
        return self.sources > 0 or self.listeners > 0

    # ---- one batch

    @calls_program
    def _run_batch(self) -> bool:
        """Time, then what came from outside, then steps. True: a limit was reached."""
        if self._thread_error is not None:
            raise self._thread_error
        program = self.program
        program.batch_begins()
        try:
            full, left = self._cut or (self._take_in(), self._left)
            self._cut = None
            left, cut = program.driver.run(left, self._overdue)
            if cut:
                self._cut = Cut(full, left)
            self._left = left
            return full or not left
        finally:
            program.batch_ends()

    def _take_in(self) -> bool:
        """PUMP-2. True: more came than one batch takes."""
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
        if not self._here or not self._inbox:  # one of them may stop the pump, and then there are none left
            return None
        self._here -= 1
        return self._inbox.popleft()

    def _has_mail(self) -> bool:
        return bool(self._inbox)

    def _go_on(self, full: bool) -> None:
        """Ask the host for the next call, if there is to be one."""
        kernel = self.kernel
        if self.over:
            return  # stopped by what ran in the batch
        if self._cut is not None:
            kernel.note("scheduler_host_handoff", None)
            self.state = PumpState.SCHEDULED
            self.host.handoff()
            return
        if not kernel.live and not self._has_mail() and not self.program.ending():
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
        """Nothing is runnable: until the next timer, or until something happens outside."""
        for outpost in list(self.outposts.values()):
            outpost.resting()
        if self._inbox:
            self.nudge()
            return
        timer = self.kernel.timers.next()
        if timer is None and not self._may_be_woken():
            self.program.stuck()
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
        """Once: no batch runs after this."""
        if self.over:
            return
        self.over, self.error = True, error
        self.program.driver.stopped = True
        try:
            self._end()
        except BaseException as failed:
            self.error = self.error or failed

    def _end(self) -> None:
        """Whatever fails or interrupts here, the rest of it still happens."""
        try:
            if self.error is not None:
                self.kernel.note("run_torn_down", None)
            self._deliver_rest()
        finally:
            try:
                self.program.ended()
            finally:
                with ExitStack() as last:
                    for outpost in self.outposts.values():
                        last.callback(outpost.stopped)

    def _deliver_rest(self) -> None:
        """What came too late still learns that it did, all of it. Several threads may be at it."""
        failed: BaseException | None = None
        while self._inbox:
            try:
                outside = self._inbox.popleft()
            except IndexError:
                break  # another was faster
            try:
                outside.deliver()
            except BaseException as error:
                failed = failed or error
        if failed is not None:
            raise failed
