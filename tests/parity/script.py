"""The interpreter of fixture scripts: the real pump, kernel and coroutines, called in a set order.

A script is a list of operations. Those of the host say what the loop around the pump does, one call at a time:

    ["call"]                 the call that the pump asked for (a microtask or a handoff)
    ["call twice"]           the same, and once more at once, which the pump did not ask for
    ["settle"]               calls until none is owed
    ["jump", ms]             the clock moves on, without a call
    ["ring"]                 the alarm rings, at its time or later, whatever else is owed

The others happen outside the law and are posted to the pump, which lets them in with the next batch:

    ["spawn", task, {...}]   "body": steps, and "count" or "capabilities": [names] if they matter
    ["wake", task, ...]      one wake each, for the wait that the task is in now
    ["wake at", task, poll]  one wake for the wait that the task's poll number `poll` ended in
    ["cancel", task, ...]    each is asked to stop
    ["revoke", capability]   the runtime takes a capability back
    ["end"]                  nothing more is spawned: the run is over when its tasks are

With a count, tasks are called task-1, task-2, …; the name alone means all of them. A body is a list of steps:

    ["park"]                 wait for a wake of the script
    ["checkpoint"]           give way; ["checkpoint", n]: n times
    ["sleep", ms]
    ["work", ms]             this poll takes so long
    ["now"], ["entropy"]     ask the runtime
    ["cancel", task]         ask another task to stop
    ["finally", steps, cleanup]
    ["catch", class, steps]  steps that may fail with that error of Bursar's
    ["hold", steps]          steps inside a reservation of a channel: an obligation
    ["family", n, steps]     a nursery of n children with these steps, and its end
    ["host calls"]           the host calls the pump in the middle of this poll
    ["host wakes", task]     something outside wakes another task in the middle of this poll

Rejected: fixtures as Python functions. They could do anything, so no reader could say what they do, least of all in
another language.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from parity.scripted_host import ScriptedHost, ScriptedLoop, ScriptError
from support.evidence import Event, Memory
from support.law import Task as LawTask
from support.requests import Entry, Operation

import bursar
from bursar import Runtime

HEADER = ("schema", "contract", "seed", "workers", "steal", "profile", "yield_interval", "cleanup_ops", "cleanup_ns")
LIMITS = ("burst_limit", "cancel_streak_max", "timed_streak_max", "root_region", "clock", "budget")


class Park(Operation[None]):
    """Wait for a wake of the script."""

    reason = "is parked until the script wakes it"

    def ready(self, kernel: Any, task: LawTask) -> bool:
        return False

    def enlist(self, kernel: Any, entry: Entry) -> None:
        """The script finds a task by its name."""

    def delist(self, kernel: Any, entry: Entry) -> None:
        """There is no queue to leave."""


class Stage:
    """One run of one script."""

    def __init__(
        self,
        seed: int,
        workers: int,
        burst_limit: int,
        record: Path | None = None,
        loop: ScriptedLoop | None = None,
    ) -> None:
        self.loop = loop or ScriptedHost()
        self.memory = Memory()
        self.runtime = Runtime(host=self.loop.host, seed=seed, workers=workers, record=record or self.memory)
        self.runtime.pump.burst_limit = burst_limit
        self.tasks: dict[str, list[bursar.Task[Any]]] = {}
        self.orders: deque[tuple[str, dict[str, Any]]] = deque()
        self.ending = False

    # ---- the run

    def begin(self) -> str:
        """Everything is there and nothing has happened yet. Returns the name of that moment."""
        self.runtime.pump.sources += 1  # the script: a task that waits for it is not stuck
        self.loop.begin(self.runtime.pump)
        self.runtime.start(script, self)
        header = self.runtime.header()
        moment = [{name: header[name] for name in HEADER + LIMITS}, str(self.runtime.snapshot())]
        return hashlib.blake2b(json.dumps(moment, sort_keys=True).encode(), digest_size=8).hexdigest()

    def play(self, script: list[list[Any]]) -> None:
        """On the scripted host."""
        without_waiting(self.play_in_loop(script))

    async def play_in_loop(self, script: list[list[Any]]) -> None:
        try:
            for number, (verb, *args) in enumerate(script, 1):
                await self.perform(number, verb, args)
            if not self.runtime.pump.over:
                raise ScriptError(f"the script is over and {self.runtime.live} tasks live:\n{self.runtime.snapshot()}")
        except ScriptError as error:
            self.runtime.pump.stop(error)
        await self.loop.end()
        self.runtime.result()

    async def perform(self, number: int, verb: str, args: list[Any]) -> None:
        operation = getattr(self, "op_" + verb.replace(" ", "_"), None)
        if operation is None:
            raise ScriptError(f"operation {number}: there is no {verb!r}")
        try:
            result = operation(*args)
            if result is not None:
                await result
        except ScriptError as error:
            raise ScriptError(f"operation {number}, {json.dumps([verb, *args])}: {error}") from None

    def events(self) -> list[Event]:
        return list(self.memory.events())

    def spawn(self, nursery: bursar.Nursery, held: dict[str, Any], name: str, how: dict[str, Any]) -> None:
        count, granted = how.get("count"), how.get("capabilities")
        names = [name] if count is None else [f"{name}-{n}" for n in range(1, count + 1)]
        passed = None if granted is None else [held[kind] for kind in granted]
        self.tasks[name] = [nursery.spawn(self.steps, how["body"], name=title, capabilities=passed) for title in names]

    def find(self, name: str) -> list[bursar.Task[Any]]:
        if name in self.tasks:
            return self.tasks[name]
        for task in (task for tasks in self.tasks.values() for task in tasks):
            if task.name == name:
                return [task]
        raise ScriptError(f"there is no task {name!r}; was it spawned, and has the host called since?")

    # ---- operations of the host

    async def op_call(self) -> None:
        await self.loop.call()

    async def op_call_twice(self) -> None:
        await self.loop.call()
        await self.loop.call_again()

    async def op_settle(self) -> None:
        await self.loop.settle()

    def op_jump(self, ms: int) -> None:
        self.loop.jump(ms)

    async def op_ring(self) -> None:
        await self.loop.ring()

    # ---- operations from outside

    def post(self, label: str, deliver: Callable[[], Any]) -> None:
        self.runtime.pump.post(label, lambda: (deliver(), None)[1])

    def op_spawn(self, name: str, how: dict[str, Any]) -> None:
        self.orders.append((name, how))
        self.post(f"spawn {name}", self.tell_script)

    def op_end(self) -> None:
        self.ending = True
        self.runtime.pump.sources -= 1
        self.post("end", self.tell_script)

    def tell_script(self) -> None:
        main = next(iter(self.runtime.kernel.tasks.values()))
        self.runtime.kernel.wake(main, main.generation)

    def op_wake(self, *names: str) -> None:
        kernel = self.runtime.kernel
        found = [task._inside(kernel) for name in names for task in self.find(name)]
        wakes = [(record, record.generation) for record in found]
        self.post(f"wake {' '.join(names)}", lambda: [kernel.wake(*wake) for wake in wakes])

    def op_wake_at(self, name: str, poll: int) -> None:
        kernel = self.runtime.kernel
        (task,) = self.find(name)
        self.post(f"wake {name} {poll}", lambda: kernel.wake(task._inside(kernel), poll))

    def op_cancel(self, *names: str) -> None:
        tasks = [task for name in names for task in self.find(name)]
        self.post(f"cancel {' '.join(names)}", lambda: [task.cancel("the script says so") for task in tasks])

    def op_revoke(self, kind: str) -> None:
        root = {type(c).__name__: c for c in self.runtime.kernel.root.capabilities.values()}
        self.post(f"revoke {kind}", lambda: self.runtime.revoke(root[kind]))

    # ---- steps of a task

    async def steps(self, body: list[list[Any]]) -> None:
        for verb, *args in body:
            perform = getattr(self, "step_" + verb.replace(" ", "_"), None)
            if perform is None:
                raise ScriptError(f"there is no step {verb!r}")
            await perform(*args)

    async def step_park(self) -> None:
        await Park()

    async def step_checkpoint(self, count: int = 1) -> None:
        for _ in range(count):
            await bursar.checkpoint()

    async def step_sleep(self, ms: int) -> None:
        await bursar.sleep(ms / 1000)

    async def step_work(self, ms: int) -> None:
        self.loop.jump(ms)

    async def step_now(self) -> None:
        await bursar.now()

    async def step_entropy(self) -> None:
        await bursar.entropy()

    async def step_cancel(self, name: str) -> None:
        for task in self.find(name):
            task.cancel("another task says so")

    async def step_finally(self, body: list[Any], cleanup: list[Any]) -> None:
        try:
            await self.steps(body)
        finally:
            await self.steps(cleanup)

    async def step_catch(self, kind: str, body: list[Any]) -> None:
        with Quiet(getattr(bursar, kind)):
            await self.steps(body)

    async def step_hold(self, body: list[Any]) -> None:
        send, _ = bursar.channel(1)
        with await send.reserve():
            await self.steps(body)

    async def step_family(self, count: int, body: list[Any]) -> None:
        name = (await bursar.current_task()).name
        async with bursar.nursery(name=name) as nursery:
            self.spawn(nursery, {}, f"{name} child", {"count": count, "body": body})

    async def step_host_calls(self) -> None:
        self.loop.reenter()

    async def step_host_wakes(self, name: str) -> None:
        self.op_wake(name)


async def script(stage: Stage) -> None:
    """The main task takes the script's orders to spawn: a spawn needs a task that pays and answers for it."""
    held = {type(c).__name__: c for c in (await bursar.capabilities()).values()}
    with Quiet(BaseExceptionGroup):  # the fixture says how each task ends
        async with bursar.nursery(name="stage", cancel_on_failure=False) as nursery:
            while not stage.ending:
                while stage.orders:
                    stage.spawn(nursery, held, *stage.orders.popleft())
                if not stage.ending:
                    await Park()


def without_waiting(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits: the scripted host makes its calls at once."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("the scripted host waits for nothing")


class Quiet:
    """Suppresses these errors as they are; contextlib's also looks into groups, from Python 3.12 on."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self.kinds)


# ---- what a run came to


def log_fingerprint(events: list[Event]) -> str:
    """A hash over every field of every event, the host's too: on a scripted host they are part of the rule."""
    digest = hashlib.blake2b(digest_size=8)
    for event in events:
        digest.update(json.dumps(event.as_dict(), sort_keys=True).encode())
    return digest.hexdigest()


def crowd(name: str) -> str:
    """The name of the crowd that a task belongs to: victim-7 is one of victim."""
    return name.rstrip("0123456789").rstrip("-")


def outcomes(events: list[Event]) -> dict[str, int]:
    """How the tasks ended, and how many of each crowd ended so."""
    names = {e.task_id: e.text for e in events if e.name == "task_spawned"}
    kinds = [kind.name.lower() for kind in bursar.OutcomeKind]
    ends = [(crowd(names[e.task_id]), kinds[e.numbers["outcome"]], e.text) for e in events if e.name == "task_done"]
    return dict(Counter(": ".join(filter(None, end)) for end in ends))
