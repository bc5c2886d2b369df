"""The kernel in several interpreters, in several threads, and in an interpreter that ends in the middle of a run.

Types and state belong to the module object, so each interpreter has its own. A record may outlive the module; then it
must neither use the module nor leave an exception set. Each program runs in a child process, because a fault may crash
it.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from support.kernel import NATIVE
from support.time_limits import WAIT_S

if not NATIVE:
    pytest.skip("for the native kernel", allow_module_level=True)

PROGRAM = """
import bursar


async def child(tx, i):
    await bursar.sleep(i)
    await tx.send(i)


async def main(n):
    tx, rx = bursar.channel(1)
    async with bursar.nursery() as nursery:
        for i in range(n):
            nursery.spawn(child, tx, i)
        return [await rx.receive() for _ in range(n)]


def run(n):
    assert bursar.Runtime(clock="virtual").run(main, n) == list(range(n))
"""

PENDING = (
    PROGRAM
    + """
from bursar.ops.start import start


async def stuck(event):
    async with bursar.timeout(50), bursar.nursery() as nursery:
        nursery.spawn(main, 10)
        await event.wait()


def leave_pending():
    runtime = bursar.Runtime(clock="virtual")
    kernel = runtime.kernel
    kernel.thread = runtime.pump.thread
    event = bursar.Event()
    for _ in range(20):
        start(kernel.spawn(kernel.root), stuck, (event,))
    for _ in range(300):
        task = kernel.step()
        if task is None:
            break
        runtime.driver.poll(task)
        kernel.step_over(task)
    assert kernel.live > 20
    return runtime, event, list(kernel.tasks.values()), bursar.channel(0)[0].send(runtime)
"""
)


def in_child(code, *options):
    """Run a program in a child process, and return its output. Nothing may go wrong, also at the interpreter's end."""
    command = [sys.executable, "-X", "faulthandler", *options, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    for line in done.stderr.splitlines():
        assert not any(sign in line for sign in WRONG), done.stderr
    return done.stdout


# Python may print that a coroutine which was dropped inside a block could not wait there. It must not print these:
WRONG = ("Fatal", "SystemError", "SystemExit", "associated module", "AttributeError", "AssertionError", "MemoryError")


INTERPRETERS = """
try:
    import _interpreters as interpreters  # 3.13 and later

    def run_in(code):
        id = interpreters.create("legacy")
        try:
            failed = interpreters.run_string(id, code)
            assert failed is None, failed
        finally:
            interpreters.destroy(id)
except ImportError:
    import _xxsubinterpreters as interpreters

    def run_in(code):
        id = interpreters.create(isolated=False)
        try:
            interpreters.run_string(id, code)
        finally:
            interpreters.destroy(id)
"""


def test_two_interpreters_have_a_kernel_each():
    said = in_child(
        PROGRAM
        + INTERPRETERS
        + f"program = {PROGRAM!r}\n"
        + """
import bursar._native as native
run(20)
for _ in range(3):
    run_in(program + "run(20)\\nimport bursar._native as n; print(id(n.Task))")
    run(20)
print(id(native.Task))
"""
    )
    *inner, own = said.split()
    assert len(inner) == 3
    assert own not in inner


ISOLATED = """
import threading
import _interpreters as interpreters

native = "from bursar.backend import NATIVE; assert NATIVE\\n"  # the import must not fall back to the Python kernel
went = []

def work(id):
    went.append(interpreters.run_string(id, program + native + "for _ in range(50): run(20)"))

ids = [interpreters.create("isolated") for _ in range(3)]
threads = [threading.Thread(target=work, args=(id,)) for id in ids]
for thread in threads:
    thread.start()
for _ in range(50):
    run(20)
for thread in threads:
    thread.join()
assert went == [None] * 3, went
for id in ids:
    interpreters.destroy(id)
run(20)
print("ended")
"""


@pytest.mark.skipif(
    sys.version_info < (3, 13),
    reason="3.11 has no GIL per interpreter; 3.12.1 aborts there, also without the extension: free(): invalid pointer",
)
def test_interpreters_with_a_gil_of_their_own_run_at_the_same_time():
    assert in_child(PROGRAM + f"program = {PROGRAM!r}\n" + ISOLATED).split() == ["ended"]


def test_an_interpreter_ends_with_tasks_pending():
    in_child(PROGRAM + INTERPRETERS + f"run_in({PENDING!r} + 'kept = leave_pending()')\nrun(20)\n", "-W", "ignore")


@pytest.mark.parametrize(
    "kept", ["kept = leave_pending()", "leave_pending()", "import sys; sys.kept = leave_pending()"]
)
def test_the_process_ends_with_tasks_pending(kept):
    in_child(PENDING + kept, "-W", "ignore")


def test_the_process_ends_in_the_middle_of_a_poll():
    in_child(
        PENDING
        + """
import threading

kept = leave_pending()
half = threading.Event()

async def goes_on():
    half.set()
    while True:
        await bursar.checkpoint()

threading.Thread(target=lambda: bursar.Runtime(clock="virtual").run(goes_on), daemon=True).start()
half.wait()
""",
        "-W",
        "ignore",
    )


def test_records_outlive_the_module():
    in_child(
        PENDING
        + """
import gc, sys

kept = leave_pending()
for name in [name for name in sys.modules if name.startswith("bursar")]:
    del sys.modules[name]
del bursar, start, child, main, run, stuck, leave_pending
gc.collect()
del kept
gc.collect()
""",
        "-W",
        "ignore",
    )


def test_freeing_a_record_keeps_the_exception_that_is_set():
    """A destructor that finds no module any more must neither set nor clear an exception."""
    in_child(
        PROGRAM
        + """
class Handle(bursar.Task):
    pass

def raises():
    kernel = bursar.Runtime(clock="virtual").kernel
    held = Handle(kernel, kernel.spawn(kernel.root))
    raise KeyError("kept")

for _ in range(3):
    try:
        raises()
    except KeyError as error:
        assert error.args == ("kept",)
    else:
        raise SystemExit("the exception was lost")
"""
    )


def test_each_thread_has_its_own_runtime():
    in_child(
        PROGRAM
        + """
import sys, threading

sys.setswitchinterval(1e-5)
failed = []

def work():
    try:
        for _ in range(50):
            run(20)
    except BaseException as error:
        failed.append(error)
        raise

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""
    )
