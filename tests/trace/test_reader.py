"""Trace files: the reader gives what a run wrote, also if the run, the disk or the file fails."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections import deque
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest
from support import programs
from support.evidence import (
    BUFFER_BYTES,
    CONTRACT,
    HEADER,
    KINDS,
    LAW_HEADER,
    MAGIC,
    TEXT_BYTES_MAX,
    Memory,
    Recorder,
    fingerprint,
    ring,
    writer,
)
from support.law import Kernel
from support.time_limits import WAIT_S

import bursar
from bursar import Authority, Retry, Runtime, TraceCut, TraceError
from bursar.trace.reader import Trace


async def nap(seconds):
    await bursar.sleep(seconds)


async def naps():
    async with bursar.nursery() as nursery:
        nursery.spawn(nap, 1)
        nursery.spawn(nap, 2)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run.trace"


@pytest.fixture
def good(path) -> bytes:
    """A small trace."""
    bursar.run(naps, clock="virtual", record=path)
    return path.read_bytes()


def read(data: bytes) -> list:
    return list(Trace.of(io.BytesIO(data), "it.trace").events())


# ---- recording


def test_what_was_written_is_what_is_read(path):
    memory = Memory()
    remembered = Runtime(clock="virtual", seed=3, workers=2, record=memory)
    remembered.run(naps)
    written = Runtime(clock="virtual", seed=3, workers=2, record=path)
    written.run(naps)
    trace = Trace(path)
    assert [str(event) for event in trace.events()] == [str(event) for event in memory.events()]
    assert [event.as_dict() for event in trace.events()] == [event.as_dict() for event in memory.events()]
    assert trace.ending == {"error": ""}
    assert fingerprint(trace.events()) == fingerprint(memory.events())
    assert trace.broken_link() is None


def test_a_trace_is_read_as_often_as_one_likes(path, good):
    trace = Trace(path)
    first, second = trace.events(), trace.events()
    assert [str(a) == str(b) for a, b in zip(first, second, strict=True)] == [True] * len(read(good))


def test_run_takes_a_path_in_any_form(tmp_path):
    for name in (str(tmp_path / "text.trace"), tmp_path / "path.trace"):
        bursar.run(naps, clock="virtual", record=name)
        assert Trace(name).header["clock"] == "virtual"


def test_the_header_says_what_the_run_depended_on(path):
    runtime = Runtime(clock="virtual", seed=-7, workers=3, steal="round_robin", profile="cluster", record=path)
    runtime.program = {"file": "/x.py", "args": ["\udcff"]}
    runtime.run(naps)
    header = Trace(path).header
    assert header == json.loads(json.dumps(runtime.header()))
    assert header.keys() >= HEADER.keys() > LAW_HEADER
    assert header["contract"] == {"id": "wasm-browser-scheduler-semantics-v1", "version": 1}
    assert (header["seed"], header["workers"], header["steal"], header["profile"]) == (-7, 3, "round_robin", "cluster")
    assert header["program"] == {"file": "/x.py", "args": ["\udcff"]}


def test_a_trace_from_before_the_contract_was_named_still_opens(path, good):
    path.write_bytes(with_header(good, contract=...))
    assert "contract" not in Trace(path).header


def test_the_last_decision_is_the_fingerprint_of_the_run(path):
    runtime = Runtime(clock="virtual", record=path)
    runtime.run(naps)
    *_, last = Trace(path).events()
    assert f"{last.decision_hash:016x}" == runtime.fingerprint


async def fail():
    raise ValueError("again")


async def queue_up():
    async with bursar.nursery(admission=Authority(max_concurrent=1, max_queue=1), on_drop="record") as nursery:
        for _ in range(3):
            nursery.spawn(nap, 1)  # one is admitted, one waits, one is dropped
    async with bursar.nursery() as nursery:
        nursery.spawn(fail, retry=Retry(1))


@pytest.mark.parametrize("workers", [1, 3])
def test_who_is_admitted_and_who_is_dropped_is_part_of_the_chain(path, workers):
    runtime = Runtime(clock="virtual", seed=5, workers=workers, record=path)
    with pytest.raises(ExceptionGroup):
        runtime.run(queue_up)
    trace = Trace(path)
    told = [event.name for event in trace.events() if event.name in ("task_admitted", "task_dropped")]
    assert told == ["task_admitted", "task_dropped", *["task_admitted"] * 3]
    assert trace.broken_link() is None


def test_recording_does_not_touch_the_schedule(tmp_path):
    """Recording changes no decision, in memory or in a file, and the file holds the events."""
    for number in range(50):
        program, workers = programs.make(Random(number)), (1, 4)[number % 2]
        plain, remembered, written = (programs.runtime_for(number, workers) for _ in range(3))
        remembered._record = memory = Memory(1_000_000)
        written._record = tmp_path / "run.trace"
        endings = {programs.run(runtime, program) for runtime in (plain, remembered, written)}
        assert len(endings) == 1
        assert plain.fingerprint == remembered.fingerprint == written.fingerprint, number
        assert not [report for report in written.reports if report.kind == "trace_failed"]
        trace = Trace(tmp_path / "run.trace")
        assert fingerprint(trace.events()) == fingerprint(memory.events())
        assert trace.broken_link() is None


def test_a_run_that_fails_leaves_a_whole_trace(path):
    async def main():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        bursar.run(main, clock="virtual", record=path)
    assert [event.error_class for event in Trace(path).events() if event.name == "task_done"] == ["ValueError"]


def test_a_run_that_is_torn_down_says_so_in_its_ending(path):
    async def main():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bursar.run(main, clock="virtual", record=path)
    trace = Trace(path)
    assert list(trace.events())
    assert trace.ending == {"error": "KeyboardInterrupt"}


def test_a_recorder_holds_no_more_than_its_buffer(path):
    """Also if a single poll has many events."""

    async def main():
        send, receive = await bursar.channel(1)
        for _ in range(10_000):
            send.send_nowait(None)
            receive.receive_nowait()

    recorder_sizes = []
    runtime = Runtime(clock="virtual", record=path)
    flush = Recorder.flush

    def measured(self):
        recorder_sizes.append(len(self._buffer))
        flush(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "flush", measured)
        runtime.run(main)
    assert path.stat().st_size > 10 * BUFFER_BYTES
    assert max(recorder_sizes) < BUFFER_BYTES + 1000


def test_a_run_of_a_batch_is_in_the_file_when_the_batch_is_over(path):
    sizes = []

    async def main():
        for _ in range(3):
            await bursar.sleep(1)
            sizes.append(path.stat().st_size)

    bursar.run(main, clock="virtual", record=path)
    assert sizes == sorted(set(sizes))


# ---- memory


def test_a_memory_keeps_the_newest_and_counts_the_rest():
    whole, short = Memory(), Memory(10)
    Runtime(clock="virtual", record=whole).run(naps)
    Runtime(clock="virtual", record=short).run(naps)
    events = list(whole.events())
    assert short.dropped == len(events) - 10
    assert [event.as_dict() for event in short.events()] == [event.as_dict() for event in events[-10:]]
    assert [event.number for event in short.events()] == list(range(len(events) - 10, len(events)))


def test_a_memory_can_be_used_again():
    memory = Memory(10)
    for _ in range(2):
        Runtime(clock="virtual", record=memory).run(naps)
        dropped, events = memory.dropped, [str(event) for event in memory.events()]
    Runtime(clock="virtual", record=memory).run(naps)
    assert (memory.dropped, [str(event) for event in memory.events()]) == (dropped, events)


def test_a_memory_is_bounded_in_bytes_too(monkeypatch):
    monkeypatch.setattr(ring, "MEMORY_BYTES_MAX", 1000)
    memory, kernel = Memory(), Kernel()
    memory.attach(kernel)
    for _ in range(50):
        kernel.note("host_answer", None, ("read", b"x" * 300))
    assert len(list(memory.events())) == 3
    assert memory.dropped == 47


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None])
def test_a_memory_of_no_size_is_refused(size):
    with pytest.raises(ValueError, match="at least 1"):
        Memory(size)


# ---- trouble with the file


def refused(path, *texts):
    """The run is refused before it begins."""
    ran = []

    async def main():
        ran.append(True)

    with pytest.raises(TraceError) as caught:
        bursar.run(main, record=path)
    assert not ran
    for text in ("cannot be written", *texts):
        assert text in str(caught.value)
    return True


def test_a_trace_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    assert refused(tmp_path, "Is a directory", str(tmp_path))
    assert refused(tmp_path / "nowhere" / "run.trace", "No such file or directory")
    assert refused("a\0b", "null")


@pytest.fixture
def unprivileged():
    """Root may read every file, so the test becomes another user for a moment."""
    if not hasattr(os, "geteuid"):
        pytest.skip("no users here")
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield
    os.seteuid(was)


@pytest.mark.usefixtures("unprivileged")
def test_a_trace_without_permission_is_refused_before_anything_runs():
    assert refused("/run.trace", "Permission denied")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.skipif(writer.fcntl is None, reason="no locks here")
def test_two_runs_are_not_recorded_into_one_file(path):
    async def outer():
        with pytest.raises(TraceError, match="the trace cannot be written: another run is being recorded to this file"):
            bursar.run(nap, 0, record=path)

    for _ in range(2):  # once it is over, the file is free again
        bursar.run(outer, record=path)
        assert [event.text for event in Trace(path).events() if event.name == "task_spawned"] == [outer.__qualname__]


def test_a_full_disk_ends_the_recording_and_not_the_program():
    runtime = Runtime(clock="virtual", record="/dev/full")
    plain = Runtime(clock="virtual")
    plain.run(naps)
    runtime.run(naps)
    (report,) = runtime.reports
    assert report.kind == "trace_failed"
    assert report.detail == "the trace /dev/full is incomplete: [Errno 28] No space left on device"
    assert runtime.fingerprint == plain.fingerprint
    assert runtime.kernel.observer is None


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files here")
def test_a_disk_that_fills_up_in_the_middle_leaves_whole_records(path):
    script = dedent("""
        import resource, signal, sys
        import bursar

        async def main():
            for _ in range(20_000):
                await bursar.checkpoint()
            return "done"

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        runtime = bursar.Runtime(clock="virtual", record=sys.argv[1])
        print(runtime.run(main), [report.kind for report in runtime.reports])
    """)
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=WAIT_S)
    assert done.stdout == "done ['trace_failed']\n", done.stderr
    assert path.stat().st_size == 100_000
    with pytest.raises(TraceCut, match="complete records can be read"):
        list(Trace(path).events())


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL here")
def test_a_killed_run_leaves_whole_records(path):
    script = dedent("""
        import sys
        import bursar

        async def main():
            for n in range(10):
                await bursar.sleep(0)
            await bursar.sleep(0.001)
            print("started", flush=True)
            await bursar.sleep(3600)

        bursar.run(main, record=sys.argv[1])
    """)
    process = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "started\n"
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)
    assert process.returncode == -signal.SIGKILL
    trace, events = Trace(path), []
    with pytest.raises(TraceCut) as caught:
        deque(map(events.append, trace.events()))
    assert trace.ending is None
    assert caught.value.record == len(events)
    assert f"{len(events):,} complete records can be read" in str(caught.value)
    assert len([event for event in events if event.name == "scheduler_step_end"]) >= 11


def test_an_event_that_cannot_be_written_down_ends_the_recording_and_not_the_program(path):
    async def main():
        (await bursar.current_task())._inside(runtime.kernel)
        runtime.kernel.note("host_answer", runtime.kernel.current, ("read", 1.5))
        runtime.kernel.note("host_answer", runtime.kernel.current, ("read", 1))
        return "done"

    runtime = Runtime(clock="virtual", record=path)
    assert runtime.run(main) == "done"
    (report,) = runtime.reports
    assert "read answered 1.5, which cannot be recorded" in report.detail
    with pytest.raises(TraceCut):
        list(Trace(path).events())


def test_an_answer_that_is_too_long_ends_the_recording(path):
    kernel = Kernel()
    recorder = Recorder(kernel, path, Runtime(clock="virtual").header())
    kernel.observe(recorder)
    kernel.note("host_answer", None, ("read", bytes(TEXT_BYTES_MAX)))
    assert str(recorder.error) == f"the answer of host_answer is {TEXT_BYTES_MAX + 6:,} bytes long"
    assert kernel.observer is None


def test_a_header_that_is_too_long_is_refused(path):
    runtime = Runtime(record=path)
    runtime.program = {"args": ["x" * (TEXT_BYTES_MAX + 1)]}
    with pytest.raises(TraceError, match="the header of the trace would be"):
        runtime.run(naps)
    assert not path.exists()


# ---- bad input


def fails(data: bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(data)
    return caught.value


def test_a_trace_that_is_cut_anywhere_is_refused(good):
    whole = len(read(good))
    seen = set()
    for size in range(len(good)):
        error = fails(good[:size])
        assert f"byte {size:,}" in str(error) or size >= len(MAGIC) or error.record == 0
        assert type(error) is (TraceCut if size >= len(MAGIC) else TraceError)
        assert error.record <= whole
        seen.add(error.record)
    assert seen == set(range(whole + 1))


def test_a_trace_in_which_any_byte_was_changed_is_refused(good):
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1 << place % 8
        error = fails(bytes(changed))
        assert 0 <= error.record <= len(good)
        assert f"(record {error.record:,}, byte " in str(error)


def test_a_trace_with_something_after_it_is_refused(good):
    assert "there are bytes after the digest" in str(fails(good + b"\0"))


PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.mark.parametrize("data", [b"", b"\0" * 100, PNG, b"hello", b'{"a": 1}', MAGIC.replace(b"1", b"2") + bytes(50)])
def test_what_is_no_trace_is_refused_as_such(tmp_path, data):
    file = tmp_path / "other"
    file.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        Trace(file)
    told = "this is not a Bursar trace, or its format is not the one that this version reads"
    assert str(caught.value) == f"{file}: {told} (record 0, byte 0)"


def with_header(good: bytes, **changes) -> bytes:
    length = int.from_bytes(good[16:20], "little")
    header = json.loads(good[20 : 20 + length]) | changes
    text = json.dumps({k: v for k, v in header.items() if v is not ...}).encode()
    return MAGIC + len(text).to_bytes(4, "little") + text + good[20 + length :]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schema": 2}, "the schema is 2; this Bursar reads schema 1"),
        ({"schema": ...}, "the schema is None"),
        ({"schema": "1"}, "the schema is '1'"),
        ({"contract": None}, "the trace follows the contract None; this Bursar follows {'id': 'wasm-browser-"),
        ({"contract": CONTRACT | {"version": 2}}, "'version': 2}; this Bursar follows"),
        ({"contract": CONTRACT | {"id": "another"}}, "the trace follows the contract {'id': 'another'"),
        ({"seed": ...}, "seed in the header is missing or invalid: None"),
        ({"seed": 1.5}, "seed in the header is missing or invalid: 1.5"),
        ({"workers": True}, "workers in the header is missing or invalid: True"),
        ({"workers": 0}, "the header says 0 workers"),
        ({"workers": 10**30}, "workers; 1 to 4096 are allowed"),
        ({"program": "x.py"}, "program in the header is missing or invalid"),
        ({"seed": 1}, "the digest does not match"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(good, changes, text):
    error = fails(with_header(good, **changes))
    assert text in str(error)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"seed":' + b"9" * 5000 + b"}"])
def test_a_header_that_is_no_json_object_is_refused(text):
    data = MAGIC + len(text).to_bytes(4, "little") + text
    assert "the header is not a JSON object" in str(fails(data))


def records_of(good: bytes) -> int:
    """The offset of the first record."""
    return 20 + int.from_bytes(good[16:20], "little")


def test_a_number_that_stands_for_nothing_is_refused(good):
    start = records_of(good)
    kind = KINDS["scheduler_step_end"]
    error = fails(good[:start] + kind.layout.pack(kind.code, 2, 99))
    assert "the state of scheduler_step_end is 99, which has no meaning (record 0" in str(error)
    assert "no kind of record has the number 255" in str(fails(good[:start] + b"\xff"))


def test_a_length_that_claims_gigabytes_allocates_nothing(good):
    start = records_of(good)
    kind = KINDS["task_blocked"]
    huge = [
        MAGIC + (0xFFFFFFFF).to_bytes(4, "little") + b"{}",
        MAGIC + TEXT_BYTES_MAX.to_bytes(4, "little") + b"{}",
        good[:start] + kind.layout.pack(kind.code, 2, 1, 0xFFFFFFFF) + b"x",
        good[:start] + kind.layout.pack(kind.code, 2, 1, TEXT_BYTES_MAX) + b"x",
    ]
    tracemalloc.start()
    try:
        for data in huge:
            fails(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 20])
def test_a_sparse_file_of_gigabytes_is_refused_at_once(tmp_path, good, size):
    file = tmp_path / "sparse"
    file.write_bytes(good[: records_of(good)] if size else b"")
    os.truncate(file, 2 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(TraceError):
            list(Trace(file).events())
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_what_is_no_plain_file_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"cannot be read: it is not a regular file$"):
        Trace(tmp_path)
    with pytest.raises(TraceError, match=r"nowhere: cannot be read: No such file or directory$"):
        Trace(tmp_path / "nowhere")
    with pytest.raises(TraceError, match=r"cannot be read"):
        Trace("a\0b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="it is not a regular file"):
        Trace(tmp_path / "pipe")


@pytest.fixture
def locked(path, good) -> Path:
    path.chmod(0)
    return path


@pytest.mark.usefixtures("locked", "unprivileged")
def test_a_trace_without_permission_is_refused(path):
    with pytest.raises(TraceError, match="cannot be read: Permission denied"):
        Trace(path)


def resigned(good: bytes, old: bytes, new: bytes) -> bytes:
    """The trace with a change and a matching digest."""
    assert good.count(old) == 1
    body = good.replace(old, new)[:-32]
    return body + hashlib.sha256(body).digest()


def test_an_admission_that_was_changed_breaks_the_chain(path):
    with pytest.raises(ExceptionGroup):
        bursar.run(queue_up, clock="virtual", record=path)
    kind, whole = KINDS["task_admitted"], path.read_bytes()
    admitted = next(event for event in read(whole) if event.name == kind.name)
    old = kind.layout.pack(kind.code, *admitted.numbers.values())
    new = kind.layout.pack(kind.code, *(admitted.numbers | {"task_id": admitted.task_id + 1}).values())
    trace = Trace.of(io.BytesIO(resigned(whole, old, new)), "forged.trace")
    assert trace.broken_link().number == admitted.number


def test_a_decision_that_was_changed_breaks_the_chain_even_if_the_file_was_signed_again(good):
    kind = KINDS["scheduler_step_decision"]
    decision = next(event for event in read(good) if event.decision_seq == 2)
    old = kind.layout.pack(kind.code, *decision.numbers.values())
    new = kind.layout.pack(kind.code, *(decision.numbers | {"cancel_streak": 5}).values())
    trace = Trace.of(io.BytesIO(resigned(good, old, new)), "forged.trace")
    broken = trace.broken_link()
    assert (broken.number, broken.decision_seq) == (decision.number, 2)
