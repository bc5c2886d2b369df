"""The program behind the page: tasks with budgets, in the event loop of a browser.

It is ordinary Bursar. What is the page's own comes in through one object, `page`: a promise for the next button that
is pressed, and a function that draws. A worker works a little and sleeps a little, and ends well within its budget. A
runaway never stops by itself; it burns its budget and is cut, and meanwhile the page goes on drawing, because the pump
hands over to it several times per frame.
"""

import json
from collections import deque

import bursar
from bursar import Budget, BudgetExceeded, Runtime
from bursar.browser import guest
from bursar.hosts.browser import BrowserHost, from_promise

WORKERS = 4  # at the beginning
ROUNDS = 600  # of a worker: half a minute
WORKER = Budget(ops=20_000)
RUNAWAY = Budget(ops=250_000)
DRAW_EVERY_S = 0.1
KEPT = 14  # tasks on show; older ones make room once they are over


class Board:
    """What the page shows."""

    def __init__(self, page, runtime):
        self._page = page
        self._runtime = runtime
        self._tasks = deque(maxlen=KEPT)
        self._started = 0

    def add(self, nursery, job, budget):
        self._started += 1
        task = nursery.spawn(job, name=f"{job.__name__} {self._started}", budget=budget)
        self._tasks.append((task, budget.ops))

    def cancel_all(self):
        for task, _ in self._tasks:
            task.cancel("the button was pressed")

    def draw(self):
        statistics = self._runtime.statistics()
        rows = [
            {
                "name": task.name,
                "state": task.state.name if task.outcome is None else task.outcome.kind.name,
                "reason": task.explain().reason,
                "spent": task.spent.ops,
                "budget": budget,
            }
            for task, budget in self._tasks
        ]
        view = {"tasks": rows, "lanes": statistics.by_lane, "decisions": statistics.decisions}
        self._page.draw(json.dumps(view))

    async def keep_drawing(self):
        while True:
            self.draw()
            await bursar.sleep(DRAW_EVERY_S)


async def worker():
    for _ in range(ROUNDS):
        await bursar.charge(ops=25)
        await bursar.sleep(0.05)


async def runaway():
    while True:
        await bursar.charge(ops=1)


async def main(page, board):
    async with bursar.nursery(name="the page") as n:
        n.spawn(board.keep_drawing, name="keep_drawing")
        n.spawn(serve, page, board)


async def serve(page, board):
    """Start what the buttons ask for. A task that is cut fails, and only that task."""
    try:
        async with bursar.nursery(name="jobs", cancel_on_failure=False) as jobs:
            for _ in range(WORKERS):
                board.add(jobs, worker, WORKER)
            while True:
                match await from_promise(page.nextPress()):
                    case "worker":
                        board.add(jobs, worker, WORKER)
                    case "runaway":
                        board.add(jobs, runaway, RUNAWAY)
                    case "cancel":
                        board.cancel_all()
    except* BudgetExceeded:
        pass  # it was on show all along


def begin(page):
    """Called by page.js, which awaits what this returns like a promise."""
    runtime = Runtime(host=BrowserHost.of_page())
    return guest(runtime, main, page, Board(page, runtime))
