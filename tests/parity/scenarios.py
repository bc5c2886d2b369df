"""The five scenarios that must come out alike on every host, as ordinary programs.

A host with a real clock differs from another in how long everything takes, so a scenario must not depend on that:

- a timer that fires is armed when everything else waits, so nothing else can be running when it does;
- two timers that would fire are armed at the same time only in one step, or if the earlier disarms the later;
- every other deadline is an hour away.

What comes back from outside (a file, a promise) is played by `Outside`: it posts to the pump, as every host does, from
inside the program, so that the moment is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from support.hosts import BURST_MAX
from support.law import require
from support.requests import Entry, Operation

import bursar
from bursar import Budget, CapabilityDenied, CapEntropy, CapIO, CapSpawn, CapTimer

SOON = 0.02  # long enough to be waited for, short enough to run everywhere
NEVER = 3600.0


async def quiet(rounds: int = 4) -> None:
    """Until all others wait: who gives way goes behind everybody."""
    for _ in range(rounds):
        await bursar.checkpoint()


# ---- callbacks


class _Heard(Operation[str]):
    """Waits for a call from outside. Needs `CapIO`, before and after."""

    reason = "waits to be called back"

    def __init__(self, outside: Outside, name: str) -> None:
        self.outside = outside
        self.name = name

    def ready(self, kernel: Any, task: Any) -> bool:
        require(task, task.capabilities, CapIO, "wait to be called back")
        return False

    def enlist(self, kernel: Any, entry: Entry) -> None:
        self.outside.entries[self.name] = kernel, entry

    def delist(self, kernel: Any, entry: Entry) -> None:
        """Outside does not know that nobody waits any more: that is what makes a call late."""


class Outside:
    """Calls back, as often and as late as it likes."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[Any, Entry]] = {}

    def heard(self, name: str) -> Operation[str]:
        return _Heard(self, name)

    def call(self, name: str) -> None:
        kernel, entry = self.entries[name]
        kernel.runtime.pump.post(f"call {name}", lambda: self._deliver(kernel, entry))

    @staticmethod
    def _deliver(kernel: Any, entry: Entry) -> None:
        task = entry.task
        try:
            require(task, task.capabilities, CapIO, "be called back")
        except CapabilityDenied as error:
            kernel.note("capability_denied", task, error)
            entry.refuse(kernel, error)
        else:
            entry.answer(kernel, "called")


# ---- 1. lasting cancel pressure beside ready work


async def cancel_pressure() -> list[int]:
    order: list[int] = []
    send, receive = bursar.channel(8)
    async with bursar.nursery(name="all") as n:
        for i in range(6):
            n.spawn(_steady, i, order, name=f"steady-{i}")
        for wave in range(5):
            async with bursar.nursery(name=f"wave-{wave}") as w:
                victims = [w.spawn(_victim, i, send, name=f"victim-{wave}-{i}") for i in range(40)]
                await quiet(2)
                for victim in victims[::2]:
                    victim.cancel("one by one")
                w.cancel("all at once")
        receive.close()
    return order


async def _steady(i: int, order: list[int]) -> None:
    for _ in range(60):
        await bursar.checkpoint()
    order.append(i)


async def _victim(i: int, send: bursar.SendEnd[int]) -> None:
    try:
        if i % 8 == 0:
            with await send.reserve():
                await bursar.Event().wait()
        await bursar.Event().wait()
    finally:
        await quiet(i % 3)


# ---- 2. timers that are cancelled when they fire, and late wakes


async def timer_race() -> list[str]:
    told: list[str] = []
    outside = Outside()
    async with bursar.nursery(name="all") as n:
        sleeper = n.spawn(_sleep, NEVER, name="sleeper")
        listener = n.spawn(_listen, outside, "late", name="listener")
        await quiet()
        try:
            async with bursar.timeout(SOON):  # armed first, so it always wins, and disarms the other
                await bursar.sleep(SOON)
        except TimeoutError:
            told.append("the timeout wins")
        first = await bursar.select(bursar.sleep(SOON), bursar.sleep(SOON), bursar.Event().wait())  # one step
        told.append(f"case {first.index} wins")
        await bursar.sleep(SOON)
        sleeper.cancel("just before its time")
        listener.cancel("just before its call")
        await quiet()
        outside.call("late")
        outside.call("late")
        await bursar.sleep(SOON)
        told += [str(sleeper.outcome), str(listener.outcome)]
    return told


async def _sleep(seconds: float) -> None:
    await bursar.sleep(seconds)


async def _listen(outside: Outside, name: str) -> None:
    await outside.heard(name)


# ---- 3. storms of wakes, with duplicates


LISTENERS = 20


async def wake_storm() -> list[int]:
    outside, gate = Outside(), bursar.Event()
    rounds = Rounds(3)
    send, receive = bursar.channel(2)
    got: list[int] = []
    async with bursar.nursery(name="all") as n:
        for i in range(LISTENERS):
            n.spawn(_listen_all, outside, f"{i}", rounds, name=f"listener-{i}")
            n.spawn(_through, gate, send, i, name=f"sender-{i}")
            n.spawn(_take, receive, got, name=f"receiver-{i}")
        for everybody_listens in rounds.events:
            await everybody_listens.wait()
            for _ in range(BURST_MAX // LISTENERS + 1):
                for i in range(LISTENERS):  # more calls in one poll than one batch takes in
                    outside.call(f"{i}")
            gate.set()
            gate.set()
    return got


class Rounds:
    """Tells when all listeners have come to their next wait: the last one does, and waits before anybody else runs."""

    def __init__(self, count: int) -> None:
        self.events = [bursar.Event() for _ in range(count)]
        self.arrived = [0] * count

    def arrive(self, round: int) -> None:
        self.arrived[round] += 1
        if self.arrived[round] == LISTENERS:
            self.events[round].set()


async def _listen_all(outside: Outside, name: str, rounds: Rounds) -> None:
    for round in range(len(rounds.events)):
        rounds.arrive(round)
        await outside.heard(name)
        await bursar.checkpoint()


async def _through(gate: bursar.Event, send: bursar.SendEnd[int], i: int) -> None:
    await gate.wait()
    with await send.reserve() as reservation:
        await bursar.checkpoint()
        if i % 5:
            reservation.send(i)
    if i % 5 == 0:
        await send.send(-i)


async def _take(receive: bursar.ReceiveEnd[int], got: list[int]) -> None:
    got.append(await receive.receive())


# ---- 4. work that mostly yields


async def yield_heavy() -> list[int]:
    order: list[int] = []
    async with bursar.nursery(name="all", budget=Budget(ops=20_000)) as n:
        for i in range(40):
            n.spawn(_yielder, i, order, name=f"yielder-{i}", budget=Budget(ops=400) if i % 4 == 0 else None)
    return order


async def _yielder(i: int, order: list[int]) -> None:
    for round in range(10 * (i % 7 + 1)):
        await bursar.checkpoint()
        if round % 10 == i % 10:
            await bursar.charge(ops=round)
        if round % 25 == 0 and await bursar.entropy() % 2:
            await bursar.sleep(0)
    order.append(i)


# ---- 5. callbacks without the capability


async def denied_callback() -> list[str]:
    told: list[str] = []
    outside = Outside()
    held = await bursar.capabilities()
    mine = held[CapIO].attenuate()
    try:
        async with bursar.nursery(name="all", cancel_on_failure=False) as n:
            n.spawn(_bare, outside, told, name="bare", capabilities=[])
            n.spawn(_revoked, outside, told, name="revoked", capabilities=[mine, held[CapTimer]])
            n.spawn(_uncaught, name="uncaught", capabilities=[held[CapEntropy], held[CapSpawn]])
            await quiet()
            await bursar.revoke(mine)
            outside.call("revoked")
            outside.call("revoked")
            await quiet()
            await bursar.sleep(SOON)
    except* CapabilityDenied as group:
        told += [type(error).__name__ for error in group.exceptions]
    return told


async def _bare(outside: Outside, told: list[str]) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: outside.heard("bare"),
        lambda: bursar.sleep(SOON),
        bursar.now,
        bursar.entropy,
        bursar.nursery().__aenter__,
        bursar.timeout(SOON).__aenter__,
    ]
    for ask in asks:
        try:
            await ask()
        except CapabilityDenied as error:
            told.append(str(error).partition(":")[0])


async def _revoked(outside: Outside, told: list[str]) -> None:
    try:
        told.append(await outside.heard("revoked"))
    except CapabilityDenied as error:
        told.append(f"{type(error).__name__}: {error}")
    await quiet()


async def _uncaught() -> None:
    await bursar.entropy()
    await bursar.sleep(SOON)


# ---- and one that must not: it shows that a difference is found


async def host_sensitive() -> None:
    """Reads the clock, which is at 0 on a virtual host and has moved on on a real one."""
    await quiet(1 if await bursar.now() else 3)


class Scenario(NamedTuple):
    """A program, and the runtime that it wants."""

    main: Callable[[], Coroutine[Any, Any, Any]]
    seed: int
    workers: int


SCENARIOS = {
    "cancel_pressure": Scenario(cancel_pressure, 11, 1),
    "timer_race": Scenario(timer_race, 12, 2),
    "wake_storm": Scenario(wake_storm, 13, 3),
    "yield_heavy": Scenario(yield_heavy, 14, 2),
    "denied_callback": Scenario(denied_callback, 15, 1),
}
BROKEN = {"host_sensitive": Scenario(host_sensitive, 16, 1)}
