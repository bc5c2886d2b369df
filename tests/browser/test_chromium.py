"""A real browser: the tests of inside/ again, and tests that only a browser can run."""

import os
import re
import signal
import time

import pytest
from browser.harness import ROOT, Served, cases, run_case
from support.hosts import BURST_MAX

pytestmark = pytest.mark.browser

FRAMES = """
() => {
  const frames = {count: 0, on: true};
  const tick = () => {
    frames.count += 1;
    if (frames.on) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  return frames;
}
"""
FRAMES_MIN = 20  # if batches were not cut, a runaway of this size would allow only six


@pytest.mark.parametrize("case", cases("host", "promises", "running"))
def test_in_a_page(chromium, case):
    run_case(chromium, case)


def test_nothing_went_wrong_unseen(chromium):
    assert chromium.complaints == []


def test_frames_are_drawn_while_a_runaway_burns_its_budget(chromium):
    found = chromium.run_python(f"""
import bursar
from bursar import Budget, BudgetExceeded
from bursar.browser import run
from pyodide.code import run_js

async def runaway():
    while True:
        await bursar.charge(ops=1)

async def main():
    async with bursar.nursery() as n:
        n.spawn(runaway, budget=Budget(ops=200_000))

frames, cut = run_js({FRAMES!r})(), ""
try:
    await run(main)
except* BudgetExceeded as group:
    cut = str(group.exceptions[0])
frames.on = False
{{"cut": cut, "frames": frames.count}}
""")
    assert "runaway" in found["cut"]
    assert found["frames"] > FRAMES_MIN


@pytest.mark.parametrize("name", ["hops", "steps", "frames"])
def test_the_measurements_still_measure(chromium, name):
    source = (ROOT / "benchmarks" / "bursar_benchmarks" / "browser" / "inside.py").read_text(encoding="utf-8")
    figures = chromium.run_python(f"{source}\nawait {name}(100)")
    assert figures
    assert all(figure > 0 for what, figure in figures.items() if "over" not in what), figures


def test_a_fetch_can_be_awaited_and_aborted(chromium):
    asked = []
    chromium.page.route("**/never", lambda route: asked.append(route.request.url))  # which never answers
    with chromium.page.expect_event("requestfailed") as failed:
        text, aborted = chromium.run_python("""
import bursar, js
from bursar.hosts.browser import from_promise
from bursar.browser import run
from pyodide.ffi import to_js

async def main():
    response = await from_promise(js.fetch("/pages/"))
    text = await from_promise(response.text())
    abort = js.AbortController.new()
    options = to_js({"signal": abort.signal}, dict_converter=js.Object.fromEntries)
    try:
        async with bursar.timeout(0.2):
            await from_promise(js.fetch("/never", options), abort)
    except TimeoutError:
        return text, abort.signal.aborted
await run(main)
""")
    assert "Bursar under test" in text
    assert aborted
    assert [failed.value.url] == asked
    assert "ABORTED" in failed.value.failure
    chromium.page.unroute("**/never")


@pytest.fixture
def renderers(browser):
    """The processes that pages run in."""
    session = browser.browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return [process["id"] for process in found if process["type"] == "renderer"]


def test_a_suspended_page_works_off_its_timers_in_bounded_batches(chromium, renderers):
    """The process of the page is stopped, like that of a frozen tab, while eight hundred timers become due."""
    chromium.run_python("""
import bursar, js
from bursar import Runtime
from bursar.hosts.browser import BrowserHost
from bursar.browser import guest

tasks, noted, woken = 800, [], []

async def main():
    begun = await bursar.now()
    async with bursar.nursery() as n:
        for i in range(tasks):
            n.spawn(sleeper, i, begun + 1.5 + (tasks - i) * 0.0002)

async def sleeper(i, until):
    await bursar.sleep_until(until)
    woken.append(i)

runtime = Runtime(host=BrowserHost.of_page())
runtime.kernel.observe(lambda name, task, detail: noted.append((name, detail)))
running = guest(runtime, main)

async def result():
    await running
    turns = [detail for name, detail in noted if name == "host_turn"]
    times = [now_ns for _, _, now_ns in turns]
    batches = " ".join(name for name, _ in noted).split("host_turn")
    return {
        "woken": woken,
        "gap_ms": max(b - a for a, b in zip(times, times[1:])) / 1e6,
        "fired": [batch.count("timer_fired") for batch in batches],
        "turns": len({turn for turn, _, _ in turns}),
        "handoffs": [name for name, _ in noted].count("scheduler_host_handoff"),
    }

js.suspended = result
while [name for name, _ in noted].count("timer_armed") < tasks:
    await js.Promise.resolve()
""")
    for pid in renderers:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(1.8)  # the gap itself
    finally:
        for pid in renderers:
            os.kill(pid, signal.SIGCONT)
    found = chromium.run_python("import js\nawait js.suspended()")
    assert found["gap_ms"] > 400
    assert found["woken"] == list(range(800))[::-1]
    assert max(found["fired"]) == BURST_MAX
    assert found["handoffs"] >= 800 // BURST_MAX
    assert found["turns"] > 800 // BURST_MAX


@pytest.fixture
def example(browser, kit):
    """The page of examples/browser, and its errors."""
    with Served(ROOT / "examples" / "browser", kit.wheel) as served:
        page = browser.browser.new_page(viewport={"width": 1000, "height": 800})
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.goto(served.url)
        page.wait_for_selector("tr[data-name='worker 1']", timeout=60_000)
        yield page
        page.close()


def number(page, selector):
    return int(re.sub(r"\D", "", page.text_content(selector)))


def test_the_example_cuts_a_runaway_and_keeps_drawing(example, tmp_path):
    before = number(example, "#frames")
    example.click("text=Start a runaway")
    example.wait_for_selector("tr[data-name='runaway 5'][data-state='FAILED']", timeout=60_000)
    assert "BudgetExceeded" in example.text_content("tr[data-name='runaway 5']")
    assert number(example, "#frames") > before + FRAMES_MIN
    example.wait_for_selector("tr[data-name^='worker'][data-state='BLOCKED']", timeout=60_000)  # the others go on
    example.screenshot(path=tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    example.click("text=Cancel all")
    example.wait_for_selector("tr[data-name='worker 1'][data-state='CANCELLED']")
    example.click("text=Start a worker")
    example.wait_for_selector("tr[data-name='worker 6']")
    assert example.complaints == []
