"""Damaged journals: each command that reads one gives an answer, or a `BursarError` that says what is wrong."""

import contextlib
import random

import pytest
from support.workflow import journal_reader

from bursar import BursarError
from bursar.workflow import Workflow


def workflow() -> Workflow:
    w = Workflow("damaged")
    one = w.task("one", str, args=["text"])
    two = w.task("two", int, args=["no number"], retry=1)
    w.task("three", str, args=[one], after=[two])
    w.task("four", command=["printf", "%s", one], output="capture")
    return w


def damaged(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    kind = rng.random()
    if kind < 0.2:
        return bytes(data[: rng.randrange(len(data))])
    if kind < 0.9:
        used = [at for at, byte in enumerate(data) if byte]
        for _ in range(rng.choice([1, 3, 20, 200])):
            data[rng.choice(used)] = rng.randrange(256)
        return bytes(data)
    at = rng.randrange(len(data))
    data[at : at + 4096] = rng.randbytes(min(4096, len(data) - at))
    return bytes(data)


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), pytest.param(2, 5000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_damaged_journals_have_a_message(tmp_path, seed, count):
    rng = random.Random(seed)
    path = tmp_path / "journal"
    workflow().run(journal=path)
    whole = path.read_bytes()
    for number in range(count):
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        path.write_bytes(damaged(whole, rng))
        with contextlib.suppress(BursarError):
            journal_reader.head(path)
        for name in ("one", "two", "three", "four"):
            with contextlib.suppress(BursarError):
                assert journal_reader.explained(journal_reader.task(path, name)), number
        with contextlib.suppress(BursarError):
            report = workflow().run(journal=path, resume=True)
            assert all(task.state in ("ok", "failed", "cancelled") for task in report.tasks.values()), number
