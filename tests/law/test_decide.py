"""The decision: all inputs against a table written by hand, and the two fairness bounds under every adversary."""

from functools import cache
from itertools import product

import pytest
from support.kernel import Kernel, Task, Wait
from support.law import Lane, TimerKind, Worker, cancel, check

from bursar import CancelKind, CancelReason, CapSpawn, Outcome, OutcomeKind, State
from bursar.law.decide import CANCEL_STREAK_MAX, TIMED_STREAK_MAX, cancel_limit, decide, streaks_after, wait_max

LIMITS = (CANCEL_STREAK_MAX, 2 * CANCEL_STREAK_MAX)
BOTH = (False, True)

# What a worker takes. Each case of the inputs matches exactly one row.
#   cancel   fresh: has work, streak below the limit · spent: has work, streak at it · none
#   timed    fresh: due, streak below its bound · spent: due, streak at it · none
TABLE = """
    cancel   timed   ready   steal     takes
    fresh    *       *       *         CANCEL
    spent    fresh   *       *         TIMED
    spent    spent   yes     *         READY
    spent    spent   no      yes       STEAL
    spent    spent   no      no        TIMED
    spent    none    yes     *         READY
    spent    none    no      yes       STEAL
    spent    none    no      no        CANCEL_FALLBACK
    none     fresh   *       *         TIMED
    none     spent   yes     *         READY
    none     spent   no      yes       STEAL
    none     spent   no      no        TIMED
    none     none    yes     *         READY
    none     none    no      yes       STEAL
    none     none    no      no        IDLE
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()[1:]]


def expected(case: tuple[str, str, str, str]) -> Lane:
    matching = [row[4] for row in ROWS if all(want in ("*", is_) for want, is_ in zip(row[:4], case, strict=True))]
    assert len(matching) == 1, (case, matching)
    return Lane[matching[0]]


def case_of(asked, due, ready, steal, cancel_streak, limit, timed_streak) -> tuple[str, str, str, str]:
    return (
        ("fresh" if cancel_streak < limit else "spent") if asked else "none",
        ("fresh" if timed_streak < TIMED_STREAK_MAX else "spent") if due else "none",
        "yes" if ready else "no",
        "yes" if steal else "no",
    )


def test_the_table_has_one_row_for_every_case():
    cases = list(product(("fresh", "spent", "none"), ("fresh", "spent", "none"), ("yes", "no"), ("yes", "no")))
    assert len(cases) == 36
    for case in cases:
        expected(case)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("asked", "due", "ready", "steal"), list(product(BOTH, repeat=4)))
def test_every_decision_is_the_one_in_the_table(asked, due, ready, steal, limit):
    for cancel_streak, timed_streak in product(range(2 * CANCEL_STREAK_MAX + 2), range(TIMED_STREAK_MAX + 2)):
        inputs = (asked, due, ready, steal, cancel_streak, limit, timed_streak)
        assert decide(*inputs) is expected(case_of(*inputs)), inputs


def test_the_limits_have_names():
    assert (CANCEL_STREAK_MAX, TIMED_STREAK_MAX) == (16, 8)
    assert (cancel_limit(draining=False), cancel_limit(draining=True)) == (16, 32)
    assert (wait_max(16), wait_max(32)) == (152, 296)


@pytest.mark.parametrize(
    ("lane", "after"),
    [
        (Lane.CANCEL, (6, 3)),
        (Lane.TIMED, (0, 4)),
        (Lane.READY, (0, 0)),
        (Lane.STEAL, (0, 0)),
        (Lane.CANCEL_FALLBACK, (0, 3)),
        (Lane.IDLE, (0, 0)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_streaks_after_each_lane(lane, after):
    assert streaks_after(lane, 5, 3) == after


def test_the_timed_streak_stops_at_its_bound():
    assert streaks_after(Lane.TIMED, 0, TIMED_STREAK_MAX) == (0, TIMED_STREAK_MAX)


# ---- the bounds, against an adversary that chooses every input before every decision


def play(asked, due, ready, steal, limit, streaks) -> tuple[Lane, tuple[int, int]]:
    lane = decide(asked, due, ready, steal, streaks[0], limit, streaks[1])
    return lane, streaks_after(lane, *streaks)


def starts(limit: int) -> list[tuple[int, int]]:
    return list(product(range(limit + 1), range(TIMED_STREAK_MAX + 1)))


def longest(limits: tuple[int, ...], counted: set[Lane], over: set[Lane], given: list[dict]) -> int:
    """The most decisions in `counted` that an adversary can arrange before one in `over`, from any streaks.

    The adversary may choose any of the limits and anything in `given`, anew for every decision. A cycle, that is
    a wait without end, shows as a RecursionError.
    """

    @cache
    def most(streaks: tuple[int, int]) -> int:
        best = 0
        for limit, inputs in product(limits, given):
            lane, after = play(limit=limit, streaks=streaks, **inputs)
            if lane not in over:
                best = max(best, (lane in counted) + most(after))
        return best

    return max(most(streaks) for streaks in starts(max(limits)))


def inputs(**fixed) -> list[dict]:
    """All inputs in which these hold."""
    rows = [dict(zip(("asked", "due", "ready", "steal"), row, strict=True)) for row in product(BOTH, repeat=4)]
    return [row for row in rows if all(row[name] == value for name, value in fixed.items())]


READY_RUNS = {Lane.READY, Lane.STEAL}
CANCELS = {Lane.CANCEL, Lane.CANCEL_FALLBACK}


@pytest.mark.parametrize("limits", [(16,), (32,), (16, 32)], ids=str)
def test_ready_work_waits_exactly_as_long_as_promised_and_no_longer(limits):
    """The bound is met by the worst adversary, also by one that turns drain mode on and off."""
    assert longest(limits, set(Lane), READY_RUNS, inputs(ready=True)) == wait_max(max(limits))


@pytest.mark.parametrize("limits", [(16,), (32,), (16, 32)], ids=str)
def test_at_most_the_limit_of_cancels_in_a_row_while_other_work_waits(limits):
    other_work = [row for row in inputs() if row["due"] or row["ready"] or row["steal"]]
    assert longest(limits, CANCELS, set(Lane) - CANCELS, other_work) == max(limits)


@pytest.mark.parametrize("limits", [(16,), (32,), (16, 32)], ids=str)
def test_at_most_its_bound_of_timed_between_two_ready(limits):
    assert longest(limits, {Lane.TIMED}, READY_RUNS, inputs(ready=True)) == TIMED_STREAK_MAX


def test_with_nothing_but_cancel_work_it_goes_on_and_the_streak_starts_anew():
    for limit in LIMITS:
        lanes, streaks = [], (0, 0)
        for _ in range(3 * (limit + 1)):
            lane, streaks = play(True, False, False, False, limit, streaks)
            lanes.append(lane)
        assert lanes == ([Lane.CANCEL] * limit + [Lane.CANCEL_FALLBACK]) * 3


def test_after_the_fallback_other_work_waits_no_longer_than_a_fresh_streak():
    streaks = (0, 0)
    for _ in range(17):
        lane, streaks = play(True, False, False, False, 16, streaks)
    assert lane is Lane.CANCEL_FALLBACK
    lanes = []
    for _ in range(17):
        lane, streaks = play(True, False, True, False, 16, streaks)
        lanes.append(lane)
    assert lanes == [Lane.CANCEL] * 16 + [Lane.READY]


def test_leaving_drain_mode_in_the_middle_of_a_long_streak_ends_the_streak():
    streaks = (0, 0)
    for _ in range(20):
        lane, streaks = play(True, False, True, False, 32, streaks)
        assert lane is Lane.CANCEL
    lane, streaks = play(True, False, True, False, 16, streaks)
    assert (lane, streaks) == (Lane.READY, (0, 0))


def test_timers_go_first_while_there_is_no_ready_work_however_many():
    streaks = (0, 0)
    for _ in range(100):
        lane, streaks = play(False, True, False, False, 16, streaks)
        assert lane is Lane.TIMED


# ---- the same bounds in a kernel


class Nap(Wait):
    reason = "naps"


def crowd(kernel: Kernel, cancelled: int, sleepers: int, ready: int) -> dict[str, list[Task]]:
    """Tasks on worker 0: some that clean up for ever, some that sleep, and ready ones."""
    made = {
        name: [kernel.spawn(kernel.root, name=f"{name}-{i}", pinned=True) for i in range(n)]
        for name, n in (("cancelled", cancelled), ("sleeper", sleepers), ("ready", ready))
    }
    for task in made["cancelled"]:
        cancel.request(kernel, task, CancelReason(CancelKind.USER))
    return made


def poll(kernel: Kernel) -> Task:
    """One step: whoever runs stays what it is. Sleepers are due again at once."""
    task = kernel.step()
    assert task is not None
    if task.cancel_pending:
        cancel.deliver(kernel, task)
    if task.name.startswith("sleeper"):
        kernel.timers.arm(kernel.now_ns, TimerKind.WAKE, task)
        kernel.blocked(task, Nap(task))
    else:
        kernel.yielded(task)
    kernel.step_over(task)
    kernel.advance(kernel.now_ns)
    return task


def longest_wait(kernel: Kernel, who: list[Task], steps: int) -> int:
    """The most decisions between two that chose one of `who`."""
    longest = waited = 0
    for _ in range(steps):
        waited = 0 if poll(kernel) in who else waited + 1
        longest = max(longest, waited)
    check(kernel)
    return longest


def settle_sleepers(kernel: Kernel, made: dict[str, list[Task]]) -> None:
    while any(task.generation == 0 for task in made["sleeper"]):
        poll(kernel)


@pytest.mark.parametrize(
    ("cancelled", "sleepers", "bound"),
    [
        (40, 20, wait_max(16)),
        (40, 0, 16),
        (1, 0, 16),
        (0, 20, 8),
        (0, 0, 0),
    ],
)
def test_a_flood_of_cancelled_and_timed_tasks_holds_a_ready_one_up_only_so_long(cancelled, sleepers, bound):
    kernel = Kernel()
    made = crowd(kernel, cancelled, sleepers, ready=1)
    settle_sleepers(kernel, made)
    assert longest_wait(kernel, made["ready"], 2000) == bound


def draining_kernel() -> tuple[Kernel, Task]:
    """A kernel in which one nursery is CANCELLING and stays so, and the task that owns it."""
    kernel = Kernel()
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    owner = kernel.spawn(kernel.root, name="owner", pinned=True)
    assert kernel.step() is owner
    nursery = kernel.open_nursery(owner)
    cancel.request_nursery(kernel, nursery, CancelReason(CancelKind.USER))
    cancel.deliver(kernel, owner)
    kernel.blocked(owner, Nap(owner))
    assert kernel.draining
    return kernel, owner


def test_while_regions_drain_the_bound_is_twice_as_long():
    kernel, owner = draining_kernel()
    made = crowd(kernel, 40, 0, ready=1)
    assert longest_wait(kernel, made["ready"], 2000) == 2 * CANCEL_STREAK_MAX
    assert owner.state is State.BLOCKED


def test_while_regions_drain_and_timers_are_due_both_bounds_hold():
    kernel, _ = draining_kernel()
    made = crowd(kernel, 40, 20, ready=1)
    settle_sleepers(kernel, made)
    assert longest_wait(kernel, made["ready"], 3000) == wait_max(32)


def test_a_backlog_of_timers_lets_ready_work_through_at_every_ninth_decision():
    kernel = Kernel()
    for _ in range(1000):
        sleeper = kernel.spawn(kernel.root, pinned=True)
        assert kernel.step() is sleeper
        kernel.timers.arm(5, TimerKind.WAKE, sleeper)
        kernel.blocked(sleeper, Nap(sleeper))
        kernel.step_over(sleeper)
    ready = kernel.spawn(kernel.root, pinned=True)
    assert kernel.advance(5) == 1000
    turns = []
    for number in range(1, 1126):
        task = kernel.step()
        if task is ready:
            turns.append(number)
            kernel.yielded(task)
        else:
            kernel.finish(task, Outcome(OutcomeKind.OK))
        kernel.step_over(task)
    assert turns == [TIMED_STREAK_MAX + 1 + 9 * k for k in range(125)]
    assert len(kernel.tasks) == 1


def test_one_step_is_one_decision_and_one_poll():
    kernel = Kernel()
    made = [kernel.spawn(kernel.root) for _ in range(3)]
    for number, task in enumerate(made, start=1):
        assert kernel.step() is task
        assert (kernel.decisions, kernel.current, task.generation) == (number, task, 1)
        assert [t for t in made if t.state is State.RUNNING] == [task]
        kernel.blocked(task, Nap(task))
        kernel.step_over(task)
    assert kernel.step() is None
    assert kernel.decisions == 3


def decide_for(kernel: Kernel, worker: Worker) -> Task | None:
    """Let this worker decide, and no other."""
    return kernel._dispatch(worker, any(w.stealable for w in kernel.workers))


@pytest.mark.usefixtures("python_law")
def test_own_work_goes_before_the_shared_queue_and_that_before_stealing():
    kernel = Kernel(workers=2)
    kernel.root.capabilities = {CapSpawn: kernel.registry.mint(CapSpawn())}
    parent = kernel.spawn(kernel.root, name="parent", pinned=True)
    while kernel.step() is not parent:
        pass
    victim = kernel.spawn(kernel.root, name="stealable on worker 0")
    kernel.blocked(parent, Nap(parent))
    kernel.step_over(parent)
    shared = kernel.spawn(kernel.root, name="shared")
    thief = kernel.workers[1]
    assert decide_for(kernel, thief) is shared
    kernel.blocked(shared, Nap(shared))
    kernel.step_over(shared)
    assert decide_for(kernel, thief) is victim
    assert thief.stats.dispatched[Lane.STEAL] == 1
    kernel.blocked(victim, Nap(victim))
    kernel.step_over(victim)
    assert decide_for(kernel, thief) is None
