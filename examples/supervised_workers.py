"""A supervisor starts its children again when they fail, and gives up when they fail too often.

A worker does not try to handle an error: it ends, and a new one starts. `one_for_one` restarts only the one that
failed; `one_for_all` and `rest_for_one` restart its neighbours too. A child that runs out of budget can be recharged
instead. Supervisors belong to the cluster and sovereign profiles.

Run:
    bursar run examples/supervised_workers.py --profile cluster --clock virtual

Prints:
    parser: 9 jobs done, 2 restarts (jobs 3 and 7 were poisoned)
    counter: 500 ops of work, on a budget of 200 and 2 recharges
    gave up: supervisor: 'hopeless' ended (failed: RuntimeError: no luck), and this would be restart 4 within 5 s
"""

import bursar
from bursar import Budget, RestartLimitExceeded


async def parse(jobs, done):
    async for job in jobs:
        if job in (3, 7):
            raise ValueError(f"job {job} makes no sense")
        done.append(job)


async def count():
    for _ in range(5):
        await bursar.charge(ops=100)


async def hopeless():
    await bursar.sleep(0.1)
    raise RuntimeError("no luck")


async def parse_everything():
    send, jobs = bursar.channel(16)
    done = []
    async with bursar.supervisor(max_restarts=5, within=1.0) as boss:
        worker = boss.start(parse, jobs, done, name="parser")
        with send:
            for job in range(11):
                await send.send(job)
    print(f"parser: {len(done)} jobs done, {worker.restarts} restarts (jobs 3 and 7 were poisoned)")


async def count_on_credit():
    async with bursar.supervisor(on_exhausted="recharge", recharge=Budget(ops=200)) as boss:
        worker = boss.start(count, name="counter", budget=Budget(ops=200))
    spent = worker.task.spent.ops
    print(f"counter: {spent} ops of work, on a budget of 200 and {-(-(spent - 200) // 200)} recharges")


async def main():
    await parse_everything()
    await count_on_credit()
    try:
        async with bursar.supervisor() as boss:
            boss.start(hopeless)
    except* RestartLimitExceeded as group:
        print("gave up:", str(group.exceptions[0]).partition(";")[0])


if __name__ == "__main__":
    bursar.run(main, profile="cluster", clock="virtual")
