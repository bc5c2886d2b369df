"""What has been got wrong before, one thing a class; each overrides as little as needed of `support.toy_scheduler`.

The letters and numbers are those of docs/internals/admission-checklist.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import SystemRandom

from support.toy_scheduler import Job, Refused, Toy

Steps = Mapping[str, tuple[Sequence[str], int, str]]  # name: what it follows, how much it needs, how it ends


class CallsTheCancelled(Toy):
    """A-1: who is cancelled in the queue stays in it."""

    def cancel(self, name: str) -> None:
        if self.job(name).state == "queued":
            self.job(name).state = "cancelled"
        else:
            super().cancel(name)


class RunsInTheQueue(Toy):
    """A-2: the state is set before the queue is asked."""

    def state(self, name: str) -> str:
        return "runs" if super().state(name) == "queued" else super().state(name)


class ClosesWhatWasUsed(Toy):
    """A-3: there is no way from the first state to the end."""

    def close(self) -> None:
        if self.jobs or self._past:
            super().close()


class PausesInName(Toy):
    """A-4: a flag that only the state reads."""

    def pause(self, name: str) -> list[bool]:
        self.job(name).paused = True
        return [True]

    def stand(self, job: Job) -> None:
        job.passed += 1


class SwallowsFailures(Toy):
    """A-5: whoever fails is done."""

    def fails(self, job: Job) -> None:
        self.end(job, "ok")


class NeverForgets(Toy):
    """A-6: what is over stays registered, under its name."""

    def forget(self, job: Job) -> None:
        """It might be asked for."""

    def idle(self) -> bool:
        return all(job.over for job in self.jobs.values())


class DrawsItsNumbers(Toy):
    """A-7: identities that are not the same twice."""

    def new_id(self) -> int:
        return SystemRandom().randrange(2**60)


class LosesAWake(Toy):
    """B-1: who is paused is not counted down."""

    def settle(self, successor: Job, how: str) -> None:
        if not successor.paused or how != "ok":
            super().settle(successor, how)


class LinksBeforeItChecks(Toy):
    """B-2: the edges of a submission that is refused stay."""

    def check(self, name: str, after: Sequence[str], cpu: int) -> None:
        ghost = Job(name, 0, 0, cpu, 0, after=1000)
        for other in after:
            if other not in self.jobs:
                raise Refused(name)
            for successor in self.jobs[other].successors:
                if successor.name == name:
                    raise Refused(f"{name} follows itself")
            self.follow(ghost, self.jobs[other])
        for other in after:
            self.jobs[other].successors.remove(ghost)
        super().check(name, after, cpu)


class FitsBeforeItScores(Toy):
    """B-3: nobody waits for who does not fit."""

    def choose(self) -> Job | None:
        return next((job for job in sorted(self.queue, key=self.rank) if self.fits(job)), None)


class EscapesWhenNothingRuns(FitsBeforeItScores):
    """B-4: one over a soft limit needs a moment with nothing running at all."""

    def fits(self, job: Job) -> bool:
        within = self.taken("ram") + job.ram <= self.limits["ram"]
        return (within or not self.running) and self.taken("cpu") + job.cpu <= self.limits["cpu"]


class StandsOnItsSlot(Toy):
    """B-5: who stands keeps everything."""

    def taken(self, what: str) -> int:
        return sum(getattr(job, what) for job in self.running)


class SaysThatItStood(Toy):
    """B-6: whoever waits for a pause is told yes when the waiting is over."""

    def answer(self, job: Job, stands: bool) -> None:
        super().answer(job, True)


class LetsErrorsOut(Toy):
    """B-7: nobody stands between a function and the loop."""

    def fails(self, job: Job) -> None:
        raise SystemError(f"the function of {job.name} raised, and so does the scheduler")


class CallsUnderItsLock(Toy):
    """B-8: what is called back while the lock is held cannot call."""

    def __init__(self, cpu: int = 2, ram: int = 100) -> None:
        super().__init__(cpu, ram)
        self._lock = threading.Lock()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise SystemError("it waits for the lock that it holds, for ever")
        try:
            yield
        finally:
            self._lock.release()

    def cancel(self, name: str) -> None:
        with self._locked():
            super().cancel(name)

    def tell(self, name: str, word: str) -> None:
        with self._locked():
            super().tell(name, word)


class TellsLater(Toy):
    """B-9: events are passed on after the lock is released, by whoever comes to it."""

    def __init__(self, cpu: int = 2, ram: int = 100) -> None:
        super().__init__(cpu, ram)
        self._late: list[tuple[str, str]] = []

    def tell_event(self, job: Job, what: str) -> None:
        self._late.insert(0, (job.name, what))
        if len(self._late) > 2:
            self.events.append(self._late.pop(0))


class IdleWhileItRuns(Toy):
    """B-10: who was cancelled does not count any more, though its function goes on."""

    def idle(self) -> bool:
        return all(job.state == "stops" for job in self.jobs.values())

    def state(self, name: str) -> str:
        return "cancelled" if super().state(name) == "stops" else super().state(name)


class ResumesAtTheEnd(Toy):
    """B-11: to get rid of a thread that stands, let it go on."""

    def close(self) -> None:
        for job in list(self.jobs.values()):
            if job.state == "stands":
                job.passed += 1
                self.end(job, "ok")
        super().close()


class WalksDescendants(Toy):
    """COST-2: a search for cycles where there can be none."""

    def follow(self, job: Job, other: Job) -> None:
        found, seen = [other], set[str]()
        while found:
            at = found.pop()
            seen.add(at.name)
            found.extend(successor for successor in at.successors if successor.name not in seen)
        super().follow(job, other)


# ---- the simple one, to fall back on


class FailsAlone(Toy):
    """SIMPLE-1: those after a failure wait for ever."""

    def settle(self, successor: Job, how: str) -> None:
        if how != "failed":
            super().settle(successor, how)


class CancelsOnce(Toy):
    """SIMPLE-2: what is cancelled is not found any more."""

    def cancel(self, name: str) -> None:
        if name not in self.jobs:
            raise Refused(f"no such task: {name}")
        super().cancel(name)


class KnowsNoLimits(Toy):
    """SIMPLE-3: one after the other, so what should they need."""

    def fits(self, job: Job) -> bool:
        return True


class KnowsNoAge(Toy):
    """SIMPLE-3: highest number first."""

    def rank(self, job: Job) -> tuple[int, int]:
        return -job.priority, job.id


# ---- workflows


class Orchestra(Toy):
    """Does workflows right: `perform` submits the steps and says once, at the end, how it went."""

    def __init__(self, cpu: int = 8, ram: int = 10) -> None:
        super().__init__(cpu, ram)
        self.completed: list[bool] = []
        self.peak = 0
        self.left: set[str] | None = None  # of the workflow, while it is known

    def perform(self, steps: Steps, fast: bool = False) -> None:
        """`fast`: each is done before the next is submitted."""
        self.register(steps)
        self.submit_all(steps, fast)

    def register(self, steps: Steps) -> None:
        self.left = set(steps)

    def submit_all(self, steps: Steps, fast: bool) -> None:
        for name, (after, ram, fate) in steps.items():
            self.submit(name, after, ram=ram, fate=fate if fast else "")
        while running := [job for job in self.jobs.values() if job.state in ("runs", "stops")]:
            self.tell(running[0].name, steps[running[0].name][2])

    def start(self, job: Job) -> None:
        super().start(job)
        self.peak = max(self.peak, sum(other.ram for other in self.running))

    def tell_event(self, job: Job, what: str) -> None:
        super().tell_event(job, what)
        if what == "over" and self.left is not None:
            self.left.discard(job.name)
            if not self.left:
                self.complete()

    def complete(self) -> None:
        self.completed.append(self.error is None)


class RegistersLast(Orchestra):
    """B-12: the workflow is recorded when its tasks have been submitted."""

    def perform(self, steps: Steps, fast: bool = False) -> None:
        self.submit_all(steps, fast)
        self.register(steps)


class CompletesOnSuccess(Orchestra):
    """B-13: nobody hears of a workflow that failed."""

    def complete(self) -> None:
        if self.error is None:
            super().complete()


class SharesOneToken(Orchestra):
    """B-14: one failure cancels all the others."""

    def fails(self, job: Job) -> None:
        super().fails(job)
        for name in list(self.jobs):
            self.cancel(name)


class StatesNoNeeds(Orchestra):
    """B-15: what a step needs never reaches the gate."""

    def fits(self, job: Job) -> bool:
        return self.taken("cpu") + job.cpu <= self.limits["cpu"]
