"""Damaged traces: for any bytes, the reader gives a trace or `TraceError`, with few operations and little memory.

A seeded generator makes the mutations. Some change bytes; others know where lengths and the digest are. Every second
input gets a new digest: otherwise the digest would refuse all of them.
"""

import hashlib
import io
import json
import sys
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.evidence import DIGEST_BYTES, FORMATS, MAGIC, Trace, diff

import bursar
from bursar import TraceError

OPERATIONS_PER_BYTE = 2  # reads of an input, and writes of an export: no forged length or number may cause more
GROWTH_MAX = 64 << 20  # bytes, for all inputs together
INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF)
LENGTHS = (0, 1, 0xFF, 0xFFFF, 1 << 24, (1 << 24) + 1, 0x7FFFFFFF, 0xFFFFFFFF)


async def quiet():
    await bursar.checkpoint()


async def failing():
    raise ValueError("é")


async def busy():
    try:
        async with bursar.nursery(name="yard") as nursery, bursar.timeout(1):
            nursery.spawn(failing)
            await bursar.sleep(2)
    except ExceptionGroup:
        await bursar.charge(ops=5)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> list[bytes]:
    """Small traces of different programs."""
    path = tmp_path_factory.mktemp("seeds") / "run.trace"
    found = []
    for main, workers in ((quiet, 1), (busy, 1), (busy, 2)):
        bursar.run(main, clock="virtual", workers=workers, record=path)
        found.append(path.read_bytes())
    return found


class CountedFile(io.BytesIO):
    """An input that fails when it is read too often."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads_left = OPERATIONS_PER_BYTE * (len(data) + 1)

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads_left -= 1
        assert self.reads_left >= 0, "the input was read too often"
        return super().read(size)


class CountedText(io.StringIO):
    """The output for an input of `size` bytes. It fails when it is written too often."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.writes_left = OPERATIONS_PER_BYTE * (size + 1)

    def write(self, text: str, /) -> int:
        self.writes_left -= 1
        assert self.writes_left >= 0, "the output was written too often"
        return super().write(text)


def attempt(data: bytes) -> bool:
    """Read the bytes to the end. True: they are a trace. Any error but `TraceError` is a bug."""
    try:
        trace = Trace.of(CountedFile(data), "fuzz.trace")
        for event in trace.events():
            event.essence()
    except TraceError as error:
        if not str(error).startswith("fuzz.trace: ") or error.record is None:
            raise AssertionError(f"an error that does not say where: {error}") from error
        return False
    return True


def use(data: bytes) -> None:
    """All other uses of a trace."""
    for write in FORMATS.values():
        try:
            write(Trace.of(CountedFile(data), "fuzz.trace"), CountedText(len(data)))
        except TraceError:
            continue
    try:
        trace = Trace.of(CountedFile(data), "fuzz.trace")
        trace.broken_link()
        assert diff(trace, Trace.of(CountedFile(data), "fuzz.trace")) is None
    except TraceError:
        pass


def signed(data: bytes) -> bytes:
    body = data[:-DIGEST_BYTES]
    return body + hashlib.sha256(body).digest()


# ---- mutations


def flip(random: Random, data: bytearray) -> None:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def overwrite(random: Random, data: bytearray) -> None:
    data[random.randrange(len(data))] = random.choice(INTERESTING)


def claim(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    data[place : place + 4] = random.choice(LENGTHS).to_bytes(4, "little")


def claim_header(random: Random, data: bytearray) -> None:
    data[len(MAGIC) : len(MAGIC) + 4] = random.choice(LENGTHS).to_bytes(4, "little")


def delete(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    del data[place : place + random.randrange(1, 40)]


def repeat(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    data[place:place] = data[place : place + random.randrange(1, 40)]


def insert(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    data[place:place] = random.randbytes(random.randrange(1, 20))


def cut(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def edit_header(random: Random, data: bytearray) -> None:
    start = len(MAGIC) + 4
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    try:
        header = json.loads(data[start:end])
        name = random.choice(sorted(header))
    except (ValueError, TypeError, IndexError, RecursionError):
        return  # an earlier mutation was here
    values = [None, 0, -1, 1 << 70, 1.5, "", "x", [], {}, True, [None] * 5, {"file": [1]}]
    header[name] = random.choice(values)
    text = json.dumps(header).encode()
    data[len(MAGIC) : end] = len(text).to_bytes(4, "little") + text


MUTATIONS = (flip, flip, overwrite, overwrite, claim, claim_header, delete, repeat, insert, cut, edit_header)


def mutated(random: Random, seeds: list[bytes]) -> bytes:
    data = bytearray(random.choice(seeds))
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        random.choice(MUTATIONS)(random, data)
        if not data:
            break
    return signed(bytes(data)) if random.random() < 0.5 else bytes(data)


def memory_peak() -> int:
    """The largest memory of the process so far, in bytes; 0 if the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def campaign(seeds: list[bytes], count: int, seed: int) -> int:
    """Read `count` mutated inputs. Returns how many of them were still traces."""
    random = Random(seed)
    peak = memory_peak()
    traces = 0
    for number in range(count):
        data = mutated(random, seeds)
        traces += attempt(data)
        if number % 16 == 0:
            use(data)
    assert memory_peak() - peak < GROWTH_MAX
    return traces


# ---- tests


@given(st.binary(max_size=2000))
@example(b"")
@example(MAGIC)
def test_any_bytes_are_refused_or_read(data):
    assert not attempt(data)
    assert not attempt(MAGIC + data)


@given(data=st.binary(max_size=500))
@settings(max_examples=300)
def test_any_records_are_refused_or_read(seeds, data):
    seed = seeds[0]
    start = len(MAGIC) + 4 + int.from_bytes(seed[len(MAGIC) : len(MAGIC) + 4], "little")
    attempt(seed[:start] + data)
    attempt(signed(seed[:start] + data + seed[start:]))
    use(signed(seed[:start] + data + seed[start:]))


@given(number=st.integers(0, 1 << 60))
@settings(max_examples=300)
def test_any_mutation_of_a_trace_is_refused_or_read(seeds, number):
    data = mutated(Random(number), seeds)
    attempt(data)
    use(data)


def test_the_mutations_get_past_the_digest(seeds):
    """Some mutations must be readable and most must not; otherwise the tests below would reach only one line."""
    traces = campaign(seeds, 3_000, seed=1)
    assert 30 < traces < 1_500


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_mutations_are_refused_or_read(seeds):
    assert campaign(seeds, 1_000_000, seed=2) > 10_000
