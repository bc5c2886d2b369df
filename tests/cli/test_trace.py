"""`bursar trace …`: the installed script reads real files, and exits with 0, 1 or 2."""

import contextlib
import hashlib
import json
from pathlib import Path

import pytest
from support.evidence import KINDS, MANDATORY, Trace

import bursar
from bursar import Runtime


async def child(n):
    await bursar.sleep(n)
    if n == 2:
        raise ValueError("no")


async def main(last):
    with contextlib.suppress(ExceptionGroup):
        async with bursar.nursery(name="yard") as nursery:
            nursery.spawn(child, 1, name="one")
            nursery.spawn(child, last, name="last")


@pytest.fixture
def command(request):
    """The fixture `bursar` under another name: these tests also use the module `bursar`."""
    return request.getfixturevalue("bursar")


@pytest.fixture
def record(tmp_path):
    """Record a run of the program, and return the name of its trace."""

    def run(name, last=2, **options):
        Runtime(clock="virtual", record=tmp_path / name, **options).run(main, last)
        return name

    return run


def refused(answer, *texts):
    assert answer.returncode == 2, answer
    for text in texts:
        assert text in answer.stderr
    assert "Traceback" not in answer.stderr
    return True


# ---- show


def test_show_prints_every_event_on_a_line_of_its_own(command, record, tmp_path):
    answer = command("trace", "show", record("run.trace"))
    title, columns, *lines = answer.stdout.splitlines()
    assert (answer.returncode, answer.stderr) == (0, "")
    assert title == "run.trace: seed 0, 1 worker, profile service, host virtual, clock virtual"
    assert columns.split() == ["event", "seconds", "turn.batch", "decision", "lane"]
    events = list(Trace(tmp_path / "run.trace").events())
    assert len(lines) == len(events)
    for line, event in zip(lines, events, strict=True):
        number, _, _, seq, lane, rest = line.split(maxsplit=5)
        assert (int(number), int(seq), lane, rest) == (event.number, event.decision_seq, event.lane, str(event))
    assert "\x1b" not in answer.stdout


def test_show_chooses_by_name_task_place_and_number(command, record, tmp_path):
    record("run.trace")
    events = list(Trace(tmp_path / "run.trace").events())

    def shown(*options):
        answer = command("trace", "show", "run.trace", "--json", *options)
        assert answer.returncode == 0, answer
        return [json.loads(line)["number"] for line in answer.stdout.splitlines()]

    assert shown() == [event.number for event in events]
    assert shown("--event", "task_done") == [e.number for e in events if e.name == "task_done"]
    both = ("--event", "task_done", "--event", "task_spawned")
    assert shown(*both) == [e.number for e in events if e.name in ("task_done", "task_spawned")]
    assert shown("--task", "4") == [e.number for e in events if e.task_id == 4]
    assert shown("--from", "10", "--limit", "3") == [10, 11, 12]
    assert shown("--task", "4", "--from", "10", "--limit", "1") == [
        next(e.number for e in events if e.task_id == 4 and e.number >= 10)
    ]
    assert shown("--from", "100000") == []


def test_show_as_json_has_every_field(command, record, tmp_path):
    answer = command("trace", "show", "--json", record("run.trace"))
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert lines == [{"number": e.number, **e.as_dict()} for e in Trace(tmp_path / "run.trace").events()]
    for line in lines:
        assert set(MANDATORY) <= set(line)


def test_show_refuses_a_name_that_is_none_and_suggests_near_ones(command, record):
    answer = command("trace", "show", record("run.trace"), "--event", "task_blockd")
    assert refused(answer, "there is no event 'task_blockd'; did you mean task_blocked")
    answer = command("trace", "show", "run.trace", "--event", "zzz")
    assert refused(answer, "there is no event 'zzz'; `bursar trace show FILE` prints the names")


def test_show_prints_what_there_is_of_a_trace_that_was_cut(command, record, tmp_path):
    record("run.trace")
    data = (tmp_path / "run.trace").read_bytes()
    (tmp_path / "cut.trace").write_bytes(data[:-100])
    answer = command("trace", "show", "--json", "cut.trace")
    count = len(answer.stdout.splitlines())
    assert count > 10
    why = "the run still goes on, or was killed, or the file was cut"
    assert refused(answer, f"cut.trace: the file ends in the middle: {why}; {count} ")


# ---- verify


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_verify_says_that_a_trace_is_valid(command, record, tmp_path, strict):
    record("a.trace")
    record("b.trace", workers=4)
    answer = command("trace", "verify", *strict, "a.trace", "b.trace")
    assert (answer.returncode, answer.stderr) == (0, "")
    for line, name in zip(answer.stdout.splitlines(), ("a.trace", "b.trace"), strict=True):
        *_, last = Trace(tmp_path / name).events()
        good = "valid, and every decision follows the law" if strict else "valid"
        assert line.startswith(f"{name}: {good}: {last.number + 1} events, {last.decision_seq} decisions, fingerprint ")
        assert f"fingerprint {last.decision_hash:016x}," in line


def forge(path: Path, name: str, seq: int, **changes: int) -> None:
    """Change a record, and sign the file again."""
    kind = KINDS[name]
    event = next(e for e in Trace(path).events() if e.name == name and e.decision_seq == seq)
    data = path.read_bytes()
    old = kind.layout.pack(kind.code, *event.numbers.values())
    assert data.count(old) == 1
    body = data.replace(old, kind.layout.pack(kind.code, *(event.numbers | changes).values()))[:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())


def test_verify_finds_a_broken_chain(command, record, tmp_path):
    record("run.trace")
    forge(tmp_path / "run.trace", "scheduler_step_decision", 2, worker=1)
    answer = command("trace", "verify", "run.trace")
    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout.startswith("run.trace: not valid: the hash ")
    assert "of decision 2 (event " in answer.stdout


def test_strict_verification_finds_what_the_chain_does_not_show(command, record, tmp_path):
    record("run.trace")
    forge(tmp_path / "run.trace", "scheduler_step_end", 2, state=1)  # the child sleeps, so READY is false
    assert command("trace", "verify", "run.trace").returncode == 0
    answer = command("trace", "verify", "--strict", "run.trace")
    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout.startswith("run.trace: not valid: ")


def test_strict_verification_is_refused_where_the_law_has_no_assertions(command, record):
    record("run.trace")
    answer = command("trace", "verify", "--strict", "run.trace", PYTHONOPTIMIZE="1")
    assert refused(answer, "verify needs the assertions of the law")
    assert command("trace", "verify", "run.trace", PYTHONOPTIMIZE="1").returncode == 0


def test_verify_tells_unreadable_from_untrue_and_looks_at_every_file(command, record, tmp_path):
    record("good.trace")
    record("forged.trace")
    forge(tmp_path / "forged.trace", "scheduler_step_decision", 2, worker=1)
    data = bytearray((tmp_path / "good.trace").read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged.trace").write_bytes(data)
    answer = command("trace", "verify", "damaged.trace", "forged.trace", "nowhere.trace", "good.trace")
    assert refused(answer, "damaged.trace: the digest does not match", "nowhere.trace: cannot be read: No such file")
    assert [line.partition(": ")[2].partition(":")[0] for line in answer.stdout.splitlines()] == [
        "not valid",
        "valid",
    ]


# ---- diff


def test_diff_says_that_two_runs_are_the_same(command, record):
    record("a.trace")
    record("b.trace")
    answer = command("trace", "diff", "a.trace", "b.trace")
    assert (answer.returncode, answer.stdout) == (
        0,
        "a.trace and b.trace are the same; what comes from the host was not compared\n",
    )
    answer = command("trace", "diff", "--host", "a.trace", "b.trace")
    assert (answer.returncode, answer.stdout) == (0, "a.trace and b.trace are the same\n")


def test_diff_shows_both_sides_from_the_first_difference_on(command, record):
    record("a.trace", 2)
    record("b.trace", 3)
    answer = command("trace", "diff", "a.trace", "b.trace")
    assert (answer.returncode, answer.stderr) == (1, "")
    lines = answer.stdout.splitlines()
    assert lines[0].endswith("events compared are the same; then the traces differ:")
    assert [line[0] for line in lines[1:]] == [" "] * 3 + ["-"] * 4 + ["+"] * 4
    assert lines[4] == "- a.trace"
    assert lines[5].endswith("task_blocked(task_id=5, interruptible=yes, reason='sleeps for 2 s')")
    assert lines[8] == "+ b.trace"
    assert lines[9].endswith("task_blocked(task_id=5, interruptible=yes, reason='sleeps for 3 s')")


def test_diff_shows_what_differs_in_the_settings(command, record):
    record("a.trace")
    record("b.trace", seed=7)
    answer = command("trace", "diff", "a.trace", "b.trace")
    assert answer.returncode == 1
    assert answer.stdout.startswith("header: seed is 0 in a.trace and 7 in b.trace\n")


# ---- export


def test_export_writes_a_picture(command, record, tmp_path):
    record("run.trace")
    answer = command("trace", "export", "run.trace", "--format", "perfetto", "-o", "run.json")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    picture = json.loads((tmp_path / "run.json").read_text())
    assert {event["ph"] for event in picture["traceEvents"]} == set("MBEbeisfC")
    printed = command("trace", "export", "run.trace", "--format", "perfetto")
    assert json.loads(printed.stdout) == picture


def test_export_writes_json_lines(command, record):
    record("run.trace")
    answer = command("trace", "export", "run.trace", "--format", "jsonl")
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert set(lines[0]) == {"header"}
    assert lines[-1] == {"ending": {"error": ""}}


def test_export_refuses_what_it_cannot_do(command, record):
    record("run.trace")
    assert refused(command("trace", "export", "run.trace", "--format", "svg"), "--format")
    assert refused(command("trace", "export", "run.trace"), "--format")
    answer = command("trace", "export", "run.trace", "--format", "jsonl", "-o", "nowhere/x")
    assert refused(answer, "nowhere/x: cannot be written: No such file or directory")


def test_export_does_not_write_over_the_trace(command, record, tmp_path):
    record("run.trace")
    (tmp_path / "link").symlink_to("run.trace")
    for output in ("run.trace", "link"):
        answer = command("trace", "export", "run.trace", "--format", "jsonl", "-o", output)
        assert refused(answer, f"{output}: the output would overwrite the trace")
    assert command("trace", "verify", "run.trace").returncode == 0


# ---- files that are no traces


COMMANDS = [
    ("show",),
    ("verify",),
    ("verify", "--strict"),
    ("diff", "run.trace"),
    ("export", "--format", "perfetto"),
    ("export", "--format", "jsonl"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_no_trace_is_refused_by_every_command(command, record, tmp_path, words):
    record("run.trace")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert refused(command("trace", *words, "picture.png"), "picture.png: this is not a Bursar trace")


def test_what_is_no_file_is_refused(command, tmp_path):
    (tmp_path / "folder").mkdir()
    answer = command("trace", "verify", "folder", "nowhere")
    assert refused(answer, "folder: cannot be read: it is not a regular file", "nowhere: cannot be read: No such file")


def test_the_group_alone_shows_its_commands(command):
    answer = command("trace")
    for name in ("show", "verify", "diff", "export"):
        assert name in answer.stdout + answer.stderr
