"""Run tools that others wrote: each gets a budget, a time limit and the capabilities that it was registered with.

This is what Bursar is for. An agent calls tools that it did not write, and some of them are wrong, greedy or
stubborn. Each call runs in its own nursery with its own purse. As long as the tool awaits from time to time, the call
ends, the agent learns how, and what was not spent is left for the next call. (Python in one process is not a sandbox
for hostile code: SECURITY.md says what Bursar can and cannot promise.)

Run:
    bursar run examples/agent_tools.py

Prints:
    word_count      ok        9
    fan_out         ok        36
    dice            ok        2
    spins           failed    BudgetExceeded: is out of ops: it needs 100, has 99 left and has spent 4,900
    breeds          failed    SpawnBudgetExceeded: nursery 18 of 'breeds' has no spawns left
    hoards          failed    MemoryBudgetExceeded: is out of memory: it needs 200,000, has 100,000 left and has spent 0
    cheats          failed    CapabilityDenied: may not draw random numbers: it holds no CapEntropy
    too_slow        cancelled user: it took longer than 5 s
    stubborn        cancelled user: it took longer than 5 s
    crashes         failed    KeyError: 'key'
    and the agent is well, 11 s later
    report: stubborn: cleanup_cut: cleanup took longer than 1 s
"""

from dataclasses import dataclass, field

import bursar
from bursar import Budget, Cancelled, CapEntropy, CapSpawn, CapTimer, OutcomeKind

PURSE = Budget(ops=5_000, memory=100_000, spawns=12)  # for one call
PATIENCE_S = 5.0
TEXT = "the quick brown fox jumps over the lazy dog"

# The tools, as their authors wrote them.


async def word_count():
    words = TEXT.split()
    await bursar.charge(ops=len(words), memory=len(TEXT))
    return len(words)


async def fan_out():
    async with bursar.nursery() as n:
        parts = [n.spawn(word_count) for _ in range(4)]
    return sum(part.result for part in parts)


async def dice():
    return await bursar.entropy() % 6 + 1


async def spins():
    while True:
        await bursar.charge(ops=100)


async def breeds():
    async with bursar.nursery() as n:
        while True:
            n.spawn(word_count)


async def hoards():
    await bursar.charge(memory=200_000)


async def cheats():
    return await bursar.entropy()


async def too_slow():
    await bursar.sleep(3600)


async def stubborn():
    while True:
        try:
            await bursar.sleep(3600)
        except Cancelled:
            continue


async def crashes():
    return {}["key"]


# The agent.


@dataclass
class Tool:
    fn: object
    needs: tuple = field(default=())  # kinds of capabilities


TOOLS = [
    Tool(word_count),
    Tool(fan_out, (CapSpawn,)),
    Tool(dice, (CapEntropy,)),
    Tool(spins),
    Tool(breeds, (CapSpawn,)),
    Tool(hoards),
    Tool(cheats),
    Tool(too_slow, (CapTimer,)),
    Tool(stubborn, (CapTimer,)),
    Tool(crashes),
]


async def call(tool):
    """Run one tool under PURSE and PATIENCE_S. Returns how it ended; never raises on its behalf."""
    mine = await bursar.capabilities()
    granted = [mine[kind].attenuate() for kind in tool.needs]
    try:
        async with bursar.nursery(budget=PURSE) as n:
            task = n.spawn(tool.fn, capabilities=granted, budget=Budget(spawns=10))
            done, _ = await bursar.select(task.wait(), bursar.sleep(PATIENCE_S))
            if done != 0:
                task.cancel(f"it took longer than {PATIENCE_S:g} s")
    except* Exception:
        pass  # the outcome of the task says the same, and more
    return task


async def agent():
    for tool in TOOLS:
        task = await call(tool)
        print(f"{task.name:15} {task.outcome.kind.name.lower():9} {detail(task)}")
    print(f"and the agent is well, {await bursar.now():g} s later")


def detail(task):
    """What a tool returned, or why it did not, without its name and the advice to its author."""
    if task.outcome.kind is OutcomeKind.OK:
        return task.outcome.value
    error = task.outcome.error
    if error is None:
        return task.outcome.reason
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    message = str(error).removeprefix(f"task {task.name!r} ({task.id}) ").partition(";")[0]
    return f"{type(error).__name__}: {message}"


async def main():
    runtime = bursar.Runtime(
        profile="sovereign",
        seed=7,
        clock="virtual",
        budget=Budget(ops=100_000, memory=1_000_000, spawns=200),
        capabilities=[CapSpawn(max_tasks=20), CapTimer(), CapEntropy(), bursar.CapClock()],
        cleanup=bursar.Cleanup(ops=100, seconds=1.0),
    )
    runtime.run(agent)
    for report in runtime.reports:
        print(f"report: {report.task}: {report.kind}: {report.detail}")


if __name__ == "__main__":
    bursar.run(main)
