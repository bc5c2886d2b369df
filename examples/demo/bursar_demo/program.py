"""The program of the demo: a small service, and beside it the tasks that Bursar is for.

The service: fetchers share a few connections and send pages through a channel to parsers, which write them to a store
behind a lock and pass them on to a supervised indexer that crashes now and then. Beside it: a task that never stops
and is stopped by its budget, a whole subtree that is out of time, and a task that swallows its cancellation and is cut
off. The clock is virtual, so a run takes a fraction of a second, and all of it is a function of seed, workers and
tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from bursar import (
    Budget,
    BudgetExceeded,
    Cancelled,
    Cleanup,
    Lock,
    ReceiveEnd,
    Runtime,
    Semaphore,
    SendEnd,
    channel,
    charge,
    entropy,
    nursery,
    sleep,
    supervisor,
    timeout,
)

CONNECTIONS: Final = 24  # fetches at once
PARSERS: Final = 6
BRANCHES, LEAVES = 3, 8  # of the slow site
FETCH_OPS: Final = 16  # what one fetch may spend
RUNAWAY_OPS: Final = 20_000  # what the runaway task may spend before it is stopped
ARCHIVE_OPS: Final = 250  # the archiver's first budget, and each recharge
CRASHES: Final = 3  # of the indexer
PATIENCE_S: Final = 1.5  # for the slow site
CLEANUP_S: Final = 2.0  # for a cancelled task


def make_runtime(seed: int, workers: int) -> Runtime:
    """A runtime for one run of the program."""
    return Runtime(profile="cluster", seed=seed, workers=workers, clock="virtual", cleanup=Cleanup(seconds=CLEANUP_S))


@dataclass
class Store:
    """What the service has got done."""

    lock: Lock = field(default_factory=Lock)
    stored: int = 0
    indexed: int = 0
    crash_after: set[int] = field(default_factory=set[int])


async def service(tasks: int) -> Store:
    """The main task."""
    store = Store()
    try:
        async with nursery(name="service", cancel_on_failure=False) as n:
            n.spawn(pipeline, tasks, store, name="pipeline")
            n.spawn(runaway, name="runaway", budget=Budget(ops=RUNAWAY_OPS))
            n.spawn(slow_site, name="slow-site")
            stubborn_one = n.spawn(stubborn, name="stubborn")
            await sleep(1.0)
            stubborn_one.cancel("its shift is over")
    except* BudgetExceeded:
        pass  # the runaway: expected, and contained
    return store


async def pipeline(tasks: int, store: Store) -> None:
    """Fetchers → channel → parsers → store → channel → indexer."""
    pages, fetched = channel(16)
    entries, parsed = channel(4)
    connections = Semaphore(CONNECTIONS)
    store.crash_after = {await entropy() % tasks for _ in range(CRASHES)}
    async with supervisor(
        max_restarts=CRASHES, within=3600, on_exhausted="recharge", recharge=Budget(ops=ARCHIVE_OPS)
    ) as boss:
        boss.start(index, parsed, store, name="indexer")
        boss.start(archive, name="archiver", budget=Budget(ops=ARCHIVE_OPS))
        async with nursery(name="parsers") as parsers:
            for number in range(PARSERS):
                parsers.spawn(parse, fetched, entries, store, name=f"parser {number}")
            async with nursery(name="fetchers", budget=Budget(ops=(FETCH_OPS + 1) * tasks)) as fetchers:
                for number in range(tasks):
                    fetchers.spawn(
                        fetch, number, connections, pages, name=f"fetch {number}", budget=Budget(ops=FETCH_OPS)
                    )
            pages.close()
        entries.close()


async def fetch(number: int, connections: Semaphore, pages: SendEnd[tuple[int, int]]) -> None:
    async with connections:
        await sleep(0.05 + await entropy() % 400 / 1000)
    await pages.send((number, 20 + await entropy() % 200))


async def parse(pages: ReceiveEnd[tuple[int, int]], entries: SendEnd[int], store: Store) -> None:
    async for number, size in pages:
        await charge(ops=size)
        async with store.lock:
            await sleep(0.008)  # the write
            store.stored += 1
        await entries.send(number)


async def index(entries: ReceiveEnd[int], store: Store) -> None:
    async for number in entries:
        await charge(ops=20)
        await sleep(0.006)
        store.indexed += 1
        if number in store.crash_after:
            store.crash_after.discard(number)
            raise ConnectionError(f"the index hung up after page {number}")


async def archive() -> None:
    """Does more than its budget allows and is recharged by its supervisor."""
    for _ in range(10):
        await sleep(0.25)
        await charge(ops=60)


async def runaway() -> None:
    """A loop whose author forgot the end of it."""
    await sleep(0.7)
    while True:
        await charge(ops=50)


async def slow_site() -> str:
    """A tree of requests to a site that does not answer in time."""
    try:
        async with timeout(PATIENCE_S), nursery(name="slow-site") as n:
            for number in range(BRANCHES):
                n.spawn(branch, number, name=f"branch {number}")
    except TimeoutError:
        return "given up"
    return "answered"


async def branch(number: int) -> None:
    async with nursery(name=f"branch {number}") as n:
        for leaf in range(LEAVES):
            n.spawn(sleep_long, name=f"leaf {number}.{leaf}")


async def sleep_long() -> None:
    await sleep(60)


async def stubborn() -> None:
    """Refuses to be cancelled."""
    while True:
        try:
            await sleep(0.5)
        except Cancelled:
            continue
