"""In the sovereign profile a task may do only what it was given by name.

A capability is an object that the runtime mints. Its holder may pass it on, as it is or attenuated, but never
widened. The task that derived a capability may revoke it. Constructing the class only describes a capability and
grants nothing. Every refusal names the task, what it tried, and what it lacks. The program embeds a sovereign
runtime, as a host does that runs code from others.

Run:
    bursar run examples/sovereign_capabilities.py

Prints:
    given a description: CapabilityForged: CapTimer(delegable=False) was not minted by this runtime
    given nothing: CapabilityDenied: may not sleep: it holds no CapTimer
    given a timer: slept
    given a loan: slept
    given a loan: slept
    given a loan: CapabilityRevoked: may not sleep: its CapTimer has been revoked
    main: CapabilityDenied when it tried to widen what it had narrowed
    crowd: CapabilityDenied: may not spawn into nursery 10 of 'crowd': CapSpawn(max_tasks=2) is used up
    crowd: CapabilityDenied when it tried to pass on a timer that it was only lent
"""

import re

import bursar
from bursar import Budget, CapabilityDenied, CapSpawn, CapTimer


async def sleeper(times=1):
    me = (await bursar.current_task()).name
    try:
        for _ in range(times):
            await bursar.sleep(1)
            print(f"{me}: slept")
    except CapabilityDenied as error:
        print(f"{me}: {brief(error)}")


async def crowd():
    """Holds a CapSpawn for two tasks and asks for three; holds a timer that it may not pass on."""
    mine = await bursar.capabilities()
    try:
        async with bursar.nursery() as n:
            for number in range(3):
                n.spawn(sleeper, name=f"member {number}", capabilities=[])
    except* CapabilityDenied as group:
        print("crowd:", brief(group.exceptions[0]))
    try:
        async with bursar.nursery() as n:
            n.spawn(sleeper, name="friend of the crowd", capabilities=[mine[CapTimer]])
    except* CapabilityDenied:
        print("crowd: CapabilityDenied when it tried to pass on a timer that it was only lent")


async def program():
    mine = await bursar.capabilities()
    timer, spawn = mine[CapTimer], mine[CapSpawn]
    async with bursar.nursery() as n:
        n.spawn(sleeper, name="given nothing")
        n.spawn(sleeper, name="given a timer", capabilities=[timer])
        try:
            n.spawn(sleeper, name="given a description", capabilities=[CapTimer()])
        except CapabilityDenied as error:
            print("given a description:", brief(error))

    async with bursar.nursery() as n:
        loan = timer.attenuate()
        n.spawn(sleeper, 3, name="given a loan", capabilities=[loan])
        await bursar.sleep(1.5)
        await bursar.revoke(loan)  # the sleep that has begun goes on; the next one is refused

    async with bursar.nursery() as n:
        narrow = spawn.attenuate(max_tasks=2, delegable=True)
        n.spawn(crowd, name="crowd", capabilities=[narrow, timer.attenuate()], budget=Budget(spawns=10))
        try:
            narrow.attenuate(max_tasks=20)
        except CapabilityDenied:
            print("main: CapabilityDenied when it tried to widen what it had narrowed")


def brief(error):
    """What was refused and why, without the name of the task, which the line begins with, and the advice."""
    refusal = re.sub(r"^task '.*?' \(\d+\) ", "", str(error)).partition(";")[0]
    return f"{type(error).__name__}: {refusal}"


async def main():
    bursar.run(
        program,
        profile="sovereign",
        clock="virtual",
        budget=Budget(ops=10_000, spawns=20),
        capabilities=[CapSpawn(max_tasks=10), CapTimer()],
    )


if __name__ == "__main__":
    bursar.run(main)
