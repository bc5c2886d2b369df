"""A thousand generated programs: equal decisions and events on the virtual and the selector host, asyncio and the page.

All on virtual time, so that the schedule is a function of program, seed and workers alone; the program's number is the
seed and chooses one to four workers. The programs are those of support/programs.py.
"""

from functools import cache

import pytest
from parity import compare, running
from support.hosts import AsyncioHost, SelectorHost

COUNT = 1000
COUNT_QUICK = 100  # as many of them as `make test` runs on the guests; the slow tests run the rest
COUNT_CHROMIUM = 50
CHUNK = 25  # programs per call into Pyodide: a call must end long before the harness gives up


@cache
def reference(number: int) -> list:
    return running.brief(f"{running.PROGRAM}{number}", None)


def agree(host: str, found: dict[int, list], backend=None) -> None:
    """Compare with the virtual host; whatever differs is run again with its whole log, for the artifacts."""
    different = [number for number, brief in found.items() if brief != reference(number)]
    for number in different[:3]:
        told = compare.compare(f"{running.PROGRAM}{number}", f"{host}, virtual clock", backend)
        assert not told, "\n".join([f"{len(different)} of {len(found)} programs differ: {different[:10]}", *told])
    assert not different, f"only now and then: {different}"


def in_asyncio(first: int, last: int) -> dict[int, list]:
    async def main() -> dict[int, list]:
        return {n: await running.brief_guest(f"{running.PROGRAM}{n}", AsyncioHost()) for n in range(first, last)}

    return compare.in_asyncio(main)


def away(backend, first: int, last: int) -> dict[int, list]:
    """The same inside Pyodide."""
    found = {}
    for start in range(first, last, CHUNK):
        numbers = list(range(start, min(start + CHUNK, last)))
        briefs = backend.run_python(
            f"from bursar.hosts.browser import BrowserHost\n"
            f"from parity import running\n"
            f"[await running.brief_guest(f'{{running.PROGRAM}}{{n}}', BrowserHost.of_page()) for n in {numbers}]"
        )
        found |= dict(zip(numbers, briefs, strict=True))
    return found


def test_the_programs_are_worth_comparing():
    found = [reference(number) for number in range(COUNT)]
    assert len({decisions for decisions, *_ in found}) > 0.99 * COUNT, "fingerprints coincide"
    assert len({events for _, events, *_ in found}) > 0.99 * COUNT, "fingerprints coincide"
    assert sum(count for *_, count, _ in found) > 50_000, "the programs are too small to show anything"
    assert {"Deadlock", "ExceptionGroup"} < {str(ending) for *_, ending in found}


def test_the_selector_host():
    agree("native", {number: running.brief(f"{running.PROGRAM}{number}", SelectorHost()) for number in range(COUNT)})


def test_asyncio():
    agree("asyncio", in_asyncio(0, COUNT_QUICK))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_asyncio_runs_all_of_them():
    agree("asyncio", in_asyncio(COUNT_QUICK, COUNT))


def test_node(inside_node):
    agree("node", away(inside_node, 0, COUNT_QUICK), inside_node)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_node_runs_all_of_them(inside_node):
    agree("node", away(inside_node, COUNT_QUICK, COUNT), inside_node)


@pytest.mark.browser
def test_chromium(inside_chromium):
    agree("chromium", away(inside_chromium, 0, COUNT_CHROMIUM), inside_chromium)
