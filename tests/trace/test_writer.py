"""The trace writer of the native kernel: with it and without it, a run leaves the same records, to the byte.

`Recorder` and `Memory` without a trace writer are the specification: observers in Python, on either kernel. The trace
writer must write what they would have written, in the same place. What it declines must reach them.
"""

import contextlib
import gc
import json
import subprocess
import sys
import tracemalloc
import weakref
from os import environ
from pathlib import Path
from random import Random

import pytest
from parity import fixture, kernels
from parity.scenarios import SCENARIOS
from support import programs
from support.builds import needs_fast_paths
from support.evidence import DIGEST_BYTES, KINDS, LAYOUTS, MAGIC, Memory, Trace, ring
from support.kernel import KERNEL_VARIABLE, NATIVE, Kernel
from support.law import Kernel as PythonKernel

import bursar
from bursar import Budget, Runtime
from bursar.trace import writer
from bursar.trace.writer import BUFFER_BYTES, Recorder

if not NATIVE:
    pytest.skip("this process has the kernel in Python", allow_module_level=True)

from bursar._native import TraceRing, TraceWriter

PROGRAMS = [f"program {number}" for number in range(1000, 1080)]
FIXTURES = [f"{kernels.FIXTURE}{id}" for id in fixture.IDS]
EXAMPLES = [
    f"{kernels.EXAMPLE}{file.stem}"
    for file in sorted((kernels.ROOT / "examples").glob("*.py"))
    if "virtual" in kernels.arguments_of(f"{kernels.EXAMPLE}{file.stem}")
]
CASES = [*SCENARIOS, *FIXTURES, *EXAMPLES, *PROGRAMS]


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run.trace"


def without_pen(patch: pytest.MonkeyPatch) -> None:
    """Make recorders plain observers in Python."""
    patch.setattr(writer, "trace_writer_for", lambda *_: None)
    patch.setattr(ring, "is_native_kernel", lambda _: False)


def split(data: bytes) -> tuple[dict, bytes]:
    """The header of a trace, and everything after it except the digest, which depends on the header."""
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 4], "little")
    begin = len(MAGIC) + 4
    return json.loads(data[begin : begin + length]), data[begin + length : -DIGEST_BYTES]


# ---- the same bytes


def test_a_trace_is_the_same_with_and_without_a_pen(path, monkeypatch):
    written = {}
    for case in CASES:
        kernels.record(case, path)
        written[case] = path.read_bytes()
    without_pen(monkeypatch)
    for case in CASES:
        kernels.record(case, path)
        assert path.read_bytes() == written[case], case
    assert sum(map(len, written.values())) > 1_000_000


def test_a_trace_of_the_kernel_in_python_is_the_same_but_for_its_name(tmp_path):
    (tmp_path / "python").mkdir()
    command = [sys.executable, kernels.__file__, "record", str(tmp_path / "python"), *CASES]
    subprocess.run(command, env={**environ, KERNEL_VARIABLE: "python"}, check=True, timeout=300)
    for case in CASES:
        kernels.record(case, tmp_path / "run.trace")
        native, records = split((tmp_path / "run.trace").read_bytes())
        python, expected = split(kernels.trace_of(tmp_path / "python", case).read_bytes())
        assert records == expected, case
        assert native | {"kernel": ""} == python | {"kernel": ""}
        assert (native["kernel"], python["kernel"]) == ("native", "python")


def remembered(number: int, memory: Memory) -> list:
    runtime = programs.runtime_for(number, 1 + number % 4, seed=number)
    runtime._record = memory
    programs.run(runtime, programs.make(Random(number)))
    return [memory.dropped, memory._before, *memory.events()]


@pytest.mark.parametrize("size", [1, 10, 300, 1_000_000])
def test_a_memory_is_the_same_with_and_without_a_pen(size, monkeypatch):
    by_writer = [remembered(number, Memory(size)) for number in range(40)]
    without_pen(monkeypatch)
    assert by_writer == [remembered(number, Memory(size)) for number in range(40)]
    assert any(dropped > 0 for dropped, *_ in by_writer) or size > 1000


class Ünusual(Exception):
    """Its name is not ASCII."""


class Text(str):
    """A string whose `str` is another string."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Odd(Exception):
    pass


Odd.__name__ = "x" * 500


async def fail(error):
    raise error


async def wait(end):
    await end.receive()


async def odd_words():
    """Names, budgets, reasons and errors that no program of the suite has."""
    names = ["ascii", "ünïcode", "\udcff", "", "x" * 400, "x" * 401, "ü" * 399, "nul\0 and\nline"]
    for name in names:
        async with bursar.nursery(name=name) as nursery:
            nursery.spawn(nothing, name=name)
            nursery.spawn(nothing, name=name, budget=Budget(ops=5, memory=0))
        async with bursar.nursery(budget=Budget(ops=100, spawns=3)) as nursery:
            nursery.spawn(nothing)
            nursery.cancel(name)
        async with bursar.nursery() as nursery:
            task = nursery.spawn(nap, 1e9 / 3, name=name)
            await bursar.checkpoint()
            task.cancel(name)
    for error in (Ünusual("ü"), Odd(), ValueError("\udcff"), bursar.Cancelled(), KeyError()):
        with contextlib.suppress(BaseExceptionGroup):
            async with bursar.nursery() as nursery:
                nursery.spawn(fail, error)
    _, receive = await bursar.channel(0)
    async with bursar.timeout(0.5), bursar.shield(), bursar.nursery() as nursery:
        nursery.spawn(wait, receive, name=Text("text"))
        with pytest.raises(TimeoutError):
            async with bursar.timeout(1):
                await bursar.Event().wait()


async def nothing():
    pass


async def nap(seconds):
    await bursar.sleep(seconds)


def test_words_that_are_not_plain_are_the_same_with_and_without_a_pen(path, monkeypatch):
    whole, short = Memory(), Memory(50)
    for record in (path, whole, short):
        with pytest.raises(bursar.Deadlock):
            bursar.run(odd_words, clock="virtual", record=record)
    written = path.read_bytes(), list(whole.events()), list(short.events())
    without_pen(monkeypatch)
    whole, short = Memory(), Memory(50)
    for record in (path, whole, short):
        with pytest.raises(bursar.Deadlock):
            bursar.run(odd_words, clock="virtual", record=record)
    assert written == (path.read_bytes(), list(whole.events()), list(short.events()))
    assert {event.text for event in Trace(path).events()} >= {"x" * 400, "x" * 400 + "…", "ünïcode", "Ünusual"}


@pytest.mark.parametrize("told", [0, 1, 2**63 - 1, 2**63, -1, True, 1.5, "now"])
def test_a_time_is_written_or_refused_alike(told, tmp_path, monkeypatch):
    def written(name: str) -> tuple[bytes, str]:
        kernel = Kernel()
        recorder = Recorder(kernel, tmp_path / name, {})
        kernel.observe(recorder)
        kernel.note("clock", None, told)
        recorder.close({})
        return (tmp_path / name).read_bytes(), repr(recorder.error)

    by_writer = written("native")
    without_pen(monkeypatch)
    assert written("plain") == by_writer


# ---- what is written by whom


class Listener:
    """An observer with a trace writer. It gets what the trace writer declines."""

    def __init__(self, page: bytearray, layouts: dict = LAYOUTS, page_max: int = 1 << 30) -> None:
        self.page = page
        self.trace_writer = TraceWriter(layouts, page, page_max)
        self.heard = []
        self.flushed = 0

    def __call__(self, name, task, detail):
        self.heard.append((name, detail))

    def flush(self):
        self.flushed += 1
        self.page.clear()


async def yields(n: int):
    for _ in range(n):
        await bursar.checkpoint()


def listened(listener, main, *args) -> Runtime:
    runtime = Runtime(clock="virtual")
    runtime.kernel.observe(listener)
    runtime.run(main, *args)
    return runtime


@needs_fast_paths
def test_of_a_plain_program_the_observer_hears_only_what_the_host_did():
    async def main():
        send, receive = await bursar.channel(1)
        async with bursar.nursery() as nursery:
            nursery.spawn(wait, receive)
            nursery.spawn(yields, 3)
            await bursar.sleep(1)
            await send.send(1)
        async with bursar.nursery() as nursery:
            nursery.spawn(nap, 1)
            await bursar.checkpoint()
            nursery.cancel("enough")

    listener = Listener(bytearray())
    listened(listener, main)
    assert {name for name, _ in listener.heard} == {"host_turn"}
    assert listener.trace_writer.count > 50


@needs_fast_paths
def test_a_number_that_does_not_fit_is_left_to_the_observer_whole():
    code, format = LAYOUTS["charged"]
    listener = Listener(bytearray(), {**LAYOUTS, "charged": (code, format.replace("q", "B"))})

    async def main():
        for ops in (1, 255, 256, 3):
            await bursar.charge(ops=ops)

    listened(listener, main)
    assert [detail for name, detail in listener.heard if name == "charged"] == [((0, 256),)]
    assert listener.page.count(bytes((code,)) + (2).to_bytes(8, "little") + bytes((255, 0, 0, 0, 0))) == 1


@needs_fast_paths
def test_a_full_page_is_flushed_and_nothing_is_lost():
    whole, parts = Listener(bytearray()), Listener(bytearray(), page_max=500)
    kept = bytearray()
    flush = parts.flush

    def keeping():
        assert 500 < len(parts.page) < 1000
        kept.extend(parts.page)
        flush()

    parts.flush = keeping
    for listener in (whole, parts):
        listened(listener, yields, 200)
    assert parts.flushed > 10
    assert kept + parts.page == whole.page
    assert parts.trace_writer.count == whole.trace_writer.count


@needs_fast_paths
def test_an_error_of_a_flush_ends_the_run():
    listener = Listener(bytearray(), page_max=500)

    def broken():
        raise KeyboardInterrupt

    listener.flush = broken
    with pytest.raises(KeyboardInterrupt):
        listened(listener, yields, 200)


@needs_fast_paths
def test_a_flush_may_take_the_observer_off():
    listener = Listener(bytearray(), page_max=500)
    runtime = Runtime(clock="virtual")
    listener.flush = lambda: runtime.kernel.observe(None)
    runtime.kernel.observe(listener)
    trace_writer = weakref.ref(listener, lambda _: None)
    runtime.run(yields, 200)
    assert 500 < len(listener.page) < 1000
    assert trace_writer() is listener


def test_an_observer_in_python_hears_everything(path):
    heard = []
    listened(lambda name, task, detail: heard.append(name), yields, 100)
    bursar.run(yields, 100, clock="virtual", record=path)
    assert heard == [event.name for event in Trace(path).events()]


def test_whoever_wraps_a_recorder_hears_everything_and_the_file_is_the_same(path):
    bursar.run(yields, 100, clock="virtual", record=path)
    alone, heard = path.read_bytes(), []
    runtime = Runtime(clock="virtual", record=path)

    async def main():
        recorder = runtime.kernel.observer
        runtime.kernel.observe(lambda *note: heard.append(note) or recorder(*note))
        await yields(100)
        runtime.kernel.observe(recorder)

    main.__qualname__ = "yields"
    runtime.run(main)
    assert split(path.read_bytes()) == split(alone)
    assert [name for name, *_ in heard].count("charged") == 100


@needs_fast_paths
def test_a_pen_is_not_used_once_its_observer_is_off():
    first, second = Listener(bytearray()), Listener(bytearray())
    runtime = Runtime(clock="virtual")

    async def main():
        for listener in (first, None, second):
            runtime.kernel.observe(listener)
            await yields(10)

    runtime.run(main)
    assert (
        first.trace_writer.count == 5 * 10
    )  # charged, enqueued, the end of the step, the next one's beginning and decision
    assert (
        second.trace_writer.count == 5 * 10 + 4
    )  # the task is done, the step over, the root nursery closing and closed


@pytest.mark.parametrize(
    "trace_writer", [None, 1, object(), TraceWriter.__new__(TraceWriter), TraceRing.__new__(TraceRing)]
)
def test_what_is_no_pen_is_not_used(trace_writer):
    listener = Listener(bytearray())
    listener.trace_writer = trace_writer
    listened(listener, yields, 10)
    assert [name for name, _ in listener.heard].count("scheduler_step_end") == 11


def test_an_observer_that_cannot_say_whether_it_has_a_pen_is_refused():
    class Broken(Listener):
        trace_writer = property(lambda self: 1 / 0, lambda self, value: None)

    kernel, before = Kernel(), Listener(bytearray())
    kernel.observe(before)
    with pytest.raises(ZeroDivisionError):
        kernel.observe(Broken(bytearray()))
    assert kernel.observer is before


def changed(name: str, format: str | None) -> dict:
    layouts = dict(LAYOUTS)
    if format is None:
        del layouts[name]
    else:
        layouts[name] = (layouts[name][0], format)
    return layouts


@pytest.mark.parametrize("format", [None, "", "<", "B", ">BQB", "<B", "<BQ", "<BQBB", "<BQBII", "<BQx", "<BQb", "<HQB"])
def test_a_catalogue_that_c_does_not_know_is_refused(format):
    layouts = changed("scheduler_step_end", format)
    for make in (lambda: TraceWriter(layouts, bytearray(), 1), lambda: TraceRing(layouts, 1, 1, 0)):
        with pytest.raises(SystemError, match="do not agree on scheduler_step_end"):
            make()


def test_the_catalogue_of_today_is_known():
    assert {name: (kind.code, kind.layout.format) for name, kind in KINDS.items()} == LAYOUTS
    assert TraceWriter(LAYOUTS, bytearray(), 1).count == 0


def test_a_kernel_in_python_has_no_use_for_a_pen(path):
    kernel = PythonKernel()
    recorder = Recorder(kernel, path, {})
    assert recorder.trace_writer is None
    recorder.close({})
    memory = Memory()
    memory.attach(kernel)
    assert memory.trace_writer is None


# ---- bounds


def test_a_memory_holds_no_more_than_its_records():
    memory = Memory(1000)
    tracemalloc.start()
    try:
        bursar.run(yields, 20_000, clock="virtual", record=memory)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory.dropped > 99_000
    assert len(list(memory.events())) == 1000
    assert held < 1_000_000


def test_a_memory_may_be_larger_than_any_machine():
    memory = Memory(2**64 + 1)
    bursar.run(yields, 10, clock="virtual", record=memory)
    assert memory.dropped == 0
    assert len(list(memory.events())) > 50


def test_a_memory_of_answers_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(ring, "MEMORY_BYTES_MAX", 1000)
    memory, kernel = Memory(), Kernel()
    memory.attach(kernel)
    for _ in range(50):
        kernel.note("host_answer", None, ("read", b"x" * 300))
    assert (len(list(memory.events())), memory.dropped) == (3, 47)
    kernel.note("host_answer", None, ("read", b"x" * 3000))
    assert (len(list(memory.events())), memory.dropped) == (0, 51)
    kernel.note("task_dequeued", None)
    (event,) = memory.events()
    assert (event.number, event.name, event.blob) == (51, "task_dequeued", b"")


def test_a_page_is_a_plain_bytearray():
    class Page(bytearray):
        pass

    for page in (Page(), b"", None):
        with pytest.raises(TypeError):
            TraceWriter(LAYOUTS, page, 1)


def test_a_ring_store_refuses_what_is_no_record():
    ring_store = TraceRing(LAYOUTS, 10, 10, 0)
    for record, blob_bytes in ((b"", 0), (b"x", -1), (b"x", 2)):
        with pytest.raises(ValueError, match="a whole record"):
            ring_store.put(record, blob_bytes)
    assert (ring_store.records(), ring_store.dropped) == ([], 0)


def test_records_of_every_size_are_kept_in_order():
    """The block of bytes grows, is emptied from the front, and is moved, at every size."""
    random, ring_store, expected = Random(5), TraceRing(LAYOUTS, 50, 1 << 30, 7), []
    code = LAYOUTS["outside"][0]
    for number in range(3000):
        size = random.choice((0, 10, 500, 5000)) if number % 500 > 20 else 100_000
        record = bytes((code,)) + number.to_bytes(4, "little") + bytes(size)
        ring_store.put(record, 0)
        expected = [*expected[-49:], (record, False)]
        if number % 100 == 0:
            assert ring_store.records() == expected
    assert ring_store.records() == expected
    assert (ring_store.dropped, ring_store.before()[:2]) == (2950, (7, 2950))


def test_a_recorder_is_gone_when_nobody_holds_it(path):
    kernel = Kernel()
    recorder = Recorder(kernel, path, {})
    kernel.observe(recorder)
    kernel.note("task_dequeued", None)
    recorder.close({})
    gone = weakref.ref(recorder)
    del recorder
    gc.collect()
    assert gone() is None
    assert path.stat().st_size < BUFFER_BYTES
