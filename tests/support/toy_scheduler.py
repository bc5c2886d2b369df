"""A scheduler in two hundred lines, of the kind that one writes first, and played like `support.manual_gate`.

It has no threads and no time of its own: what a function does is a word that it is told. `Toy` does everything right.
The classes in `support.naive` each get one thing wrong in the way in which it has been got wrong before; the tests of
`tests/law/admission/test_faults.py` must see the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

INTERVAL = 0.5
RESERVE_AFTER = 3 * INTERVAL


class Refused(Exception):
    """A submission that makes no sense."""


@dataclass(eq=False)
class Job:
    name: str
    id: int
    priority: int
    cpu: int
    ram: int
    after: int = 0  # how many it still waits for
    successors: list[Job] = field(default_factory=list)
    state: str = "waiting"  # waiting, queued, runs, stops, stands; ok, failed, cancelled
    paused: bool = False
    ready_at: float = 0.0
    fate: str = ""  # the word that it is told as soon as it runs
    calls: int = 0
    passed: int = 0  # checkpoints
    answers: list[bool] = field(default_factory=list)  # to those who paused it
    asking: int = 0  # of these, how many wait

    @property
    def over(self) -> bool:
        return self.state in ("ok", "failed", "cancelled")


class Toy:
    """All in one thread, one move at a time."""

    def __init__(self, cpu: int = 2, ram: int = 100) -> None:
        self.limits = {"cpu": cpu, "ram": ram}
        self.jobs: dict[str, Job] = {}
        self.queue: list[Job] = []
        self.running: list[Job] = []  # who holds what it needs
        self.events: list[tuple[str, str]] = []
        self.on_cancel: dict[str, Callable[[], object]] = {}
        self.error: str | None = None
        self.closed = False
        self.now = 0.0
        self.next_id = 1
        self._past: dict[str, Job] = {}

    # ---- moves

    def submit(
        self, name: str, after: Sequence[str] = (), priority: int = 0, cpu: int = 1, ram: int = 0, fate: str = ""
    ) -> None:
        self.check(name, after, cpu)
        job = Job(name, self.new_id(), priority, cpu, ram, fate=fate)
        for other in after:
            self.follow(job, self.job(other))
        self.jobs[name] = job
        self.tell_event(job, "submitted")
        if not job.after:
            self.ready(job)
        self.dispatch()

    def check(self, name: str, after: Sequence[str], cpu: int) -> None:
        if self.closed or name in self.jobs or cpu > self.limits["cpu"]:
            raise Refused(name)
        if any(other not in self.jobs and other not in self._past for other in after):
            raise Refused(name)

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def follow(self, job: Job, other: Job) -> None:
        if not other.over:
            other.successors.append(job)
            job.after += 1

    def tell(self, name: str, word: str) -> None:
        job = self.job(name)
        if word == "end":
            self.end(job, "ok" if job.state == "runs" else "cancelled")
        elif word == "fail":
            self.fails(job)
        elif job.state == "stops":
            self.end(job, "cancelled")
        elif job.paused:
            self.stand(job)
        else:
            job.passed += 1
        self.dispatch()

    def pause(self, name: str) -> list[bool]:
        job = self.job(name)
        if job.over or job.state == "stops":
            return [False]
        job.paused = True
        if job.state == "runs":
            job.asking += 1
            return job.answers
        if job in self.queue:
            self.queue.remove(job)
        self.dispatch()
        return [True]

    def resume(self, name: str) -> None:
        job = self.job(name)
        job.paused = False
        if job.state == "stands":
            job.state = "returns"
        elif job.state == "queued":
            self.ready(job)
        self.dispatch()

    def cancel(self, name: str) -> None:
        job = self.job(name)
        if job.state in ("waiting", "queued", "stands", "returns"):
            self.end(job, "cancelled")
        elif job.state == "runs":
            job.state = "stops"
            self.answer(job, False)
        self.dispatch()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.dispatch()

    def close(self) -> None:
        """Everybody is to stop."""
        self.closed = True
        for name in list(self.jobs):
            self.cancel(name)

    def leave(self) -> bool:
        """Nobody is left. Whether it says that something failed."""
        return self.error is not None

    # ---- looking

    def job(self, name: str) -> Job:
        return self.jobs[name] if name in self.jobs else self._past[name]

    def state(self, name: str) -> str:
        job = self.job(name)
        stands = job.state == "returns" or (job.paused and not job.over and job.state != "runs")
        return "stands" if stands else job.state

    def calls(self, name: str) -> int:
        return self.job(name).calls

    def passed(self, name: str) -> int:
        return self.job(name).passed

    def id(self, name: str) -> int:
        return self.job(name).id

    def known(self) -> list[str]:
        """Whom it still knows."""
        return list(self.jobs)

    def idle(self) -> bool:
        return not self.jobs

    # ---- deciding

    def ready(self, job: Job) -> None:
        """It waits for nothing but permission, unless it stands."""
        job.state, job.ready_at = "queued", self.now
        if not job.paused:
            self.queue.append(job)

    def dispatch(self) -> None:
        for job in [job for job in self.jobs.values() if job.state == "returns"]:
            if self.taken("cpu") + job.cpu <= self.limits["cpu"]:
                job.state = "runs"
                job.passed += 1  # the checkpoint where it stood
        while (job := self.choose()) is not None:
            self.queue.remove(job)
            self.start(job)
            if job.fate:
                self.tell(job.name, job.fate)

    def choose(self) -> Job | None:
        """The first that fits; but nobody overtakes one that has waited for long and would not fit any more."""
        for job in sorted(self.queue, key=self.rank):
            if self.fits(job):
                return job
            if self.now - job.ready_at >= RESERVE_AFTER:
                return None
        return None

    def rank(self, job: Job) -> tuple[int, int]:
        return -(job.priority + int((self.now - job.ready_at) // INTERVAL)), job.id

    def fits(self, job: Job) -> bool:
        alone = not self.taken("ram")
        fits_ram = not job.ram or alone or self.taken("ram") + job.ram <= self.limits["ram"]
        return fits_ram and self.taken("cpu") + job.cpu <= self.limits["cpu"]

    def taken(self, what: str) -> int:
        """Who stands does not use its processor, but its memory."""
        holding = [job for job in self.running if what == "ram" or job.state in ("runs", "stops")]
        return sum(getattr(job, what) for job in holding)

    def start(self, job: Job) -> None:
        job.state = "runs"
        job.calls += 1
        self.running.append(job)
        self.tell_event(job, "started")

    # ---- ends

    def fails(self, job: Job) -> None:
        self.error = self.error or job.name
        self.end(job, "failed")

    def stand(self, job: Job) -> None:
        job.state = "stands"
        self.answer(job, True)

    def answer(self, job: Job, stands: bool) -> None:
        job.answers += [stands] * job.asking
        job.asking = 0

    def end(self, job: Job, how: str) -> None:
        job.state = how
        for those in (self.running, self.queue):
            if job in those:
                those.remove(job)
        self.answer(job, False)
        self.forget(job)
        self.tell_event(job, "over")
        if how == "cancelled" and job.name in self.on_cancel:
            self.on_cancel.pop(job.name)()
        for successor in job.successors:
            self.settle(successor, how)

    def forget(self, job: Job) -> None:
        self._past[job.name] = self.jobs.pop(job.name)

    def settle(self, successor: Job, how: str) -> None:
        """One that it follows has ended."""
        if successor.over:
            return
        if how != "ok":
            self.end(successor, "cancelled")
            return
        successor.after -= 1
        if not successor.after:
            self.ready(successor)

    def tell_event(self, job: Job, what: str) -> None:
        self.events.append((job.name, what))
