"""The loops that run asyncio's coroutines: asyncio's own loop, uvloop and rloop. All three run the same programs.

A workload has one function for asyncio, with a keyword `loop`, and `on_loops` makes three peers of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from bursar_benchmarks.harness import Run, load

LOOPS = ("asyncio", "uvloop", "rloop")


def runner_of(loop: str) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Returns `asyncio.run` for that loop. Call it before the meter starts: it imports the loop."""
    make = None if loop == "asyncio" else load(loop).new_event_loop

    def run(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(main)

    return run


def on_loops(program: Callable[..., int]) -> dict[str, Run]:
    """One peer for each loop."""
    return {loop: partial(program, loop=loop) for loop in LOOPS}
