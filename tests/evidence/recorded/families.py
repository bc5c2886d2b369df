"""A program behind recorded traces in this folder. Do not change it: its traces were recorded from this very text."""

import bursar


async def leaf(n):
    await bursar.sleep(n / 10)
    if n == 7:
        raise ValueError("seven")
    return n


async def branch(n):
    try:
        async with bursar.nursery(name=f"branch {n}") as inner:
            tasks = [inner.spawn(leaf, n + k, name=f"leaf {n + k}") for k in range(4)]
    except* ValueError as group:
        failed = len(group.exceptions)
    else:
        failed = 0
    return failed or sum(task.result for task in tasks)


async def main():
    async with bursar.nursery() as n:
        branches = [n.spawn(branch, k) for k in (0, 2, 5, 9)]
        late = n.spawn(bursar.sleep, 100)
        async with bursar.timeout(2):
            await branches[0]
        late.cancel("not needed")
    return [task.result for task in branches]
