"""The fixtures `sched.browser.*`: one JSON file each, with a script, the rule that it shows, and what must come out.

    .venv/bin/python tests/parity/fixture.py                         all of them
    .venv/bin/python tests/parity/fixture.py ID_OR_FILE ...          these, with their events
    .venv/bin/python tests/parity/fixture.py --on node ...           on the browser host under node, or --on chromium
    .venv/bin/python tests/parity/fixture.py --write ID_OR_FILE ...  from now on what comes out is expected

Without `--on`, a scripted host calls the pump in this process.

A fixture expects three fingerprints. That of the decisions is the chain's last value; that of the events covers what
must be the same on every host; that of the log covers every field of every event, turns and batches included: they
follow from the script, on the browser host as well. The key events are the part of the log that shows the rule, in
words; equal lines in a row are counted. When a fixture fails, the files that explain it are left behind (see
`artifacts`).
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from parity import artifacts  # noqa: E402
from parity.script import Stage, crowd, log_fingerprint, outcomes, without_waiting  # noqa: E402
from parity.scripted_host import ScriptedLoop, ScriptError  # noqa: E402
from support.evidence import QUEUES, Event, file_format, fingerprint  # noqa: E402

FIXTURES = HERE / "fixtures"
IDS = (
    "sched.browser.lane_precedence.cancel_timed_ready",
    "sched.browser.fairness.cancel_streak_bound",
    "sched.browser.fairness.drain_mode_double_bound",
    "sched.browser.wake.dedup_cross_turn",
    "sched.browser.reentrancy.defer_not_reenter",
    "sched.browser.yield.single_wake_pending_then_ready",
    "sched.browser.timer.late_wakeup_after_cancel",
    "sched.browser.timer.catchup_bounded_batches",
    "sched.browser.authority.fail_closed_no_fallback",
)
FIELDS = {
    "id": str,
    "contract": dict,
    "explains": list,
    "seed": int,
    "workers": int,
    "burst_limit": int,
    "initial_snapshot_id": str,
    "script": list,
    "shows": list,
    "expected": dict,
    "command": str,
}
EXPECTED = {
    "decision_fingerprint": str,
    "event_fingerprint": str,
    "log_fingerprint": str,
    "outcomes": dict,
    "key_events": list,
}
MANDATORY = {  # what every event of every log carries
    "task_id",
    "region_id",
    "lane",
    "decision_seq",
    "decision_hash",
    "host_turn_id",
    "microtask_batch_id",
    "cancel_streak",
    "cancel_streak_limit",
    "error_class",
}
COMMAND = ".venv/bin/python tests/parity/fixture.py"
LONG = ("explains", "script", "key_events")  # written one item to a line


def path_of(name: str) -> Path:
    """A fixture by its id, or by the path of a file."""
    return Path(name) if name.endswith(".json") else FIXTURES / f"{name}.json"


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def faults(fixture: dict[str, Any]) -> list[str]:
    """What is wrong with the form of a fixture."""
    found = [
        f"{name} is missing or no {kind.__name__}" for name, kind in FIELDS.items() if not _is(fixture, name, kind)
    ]
    found += [f"unknown field {name}" for name in fixture if name not in FIELDS]
    expected = fixture["expected"] if _is(fixture, "expected", dict) else {}
    found += [f"expected.{fault}" for fault in _missing(expected, EXPECTED)]
    if _is(fixture, "id", str) and fixture.get("command") != f"{COMMAND} {fixture['id']}":
        found.append("command does not run this fixture")
    if _is(fixture, "contract", dict) and fixture["contract"] != file_format.CONTRACT:
        found.append(f"contract is not {file_format.CONTRACT}: review the fixture, then write it again")
    return found


def _missing(found: dict[str, Any], fields: dict[str, type]) -> list[str]:
    return [f"{name} is missing or no {kind.__name__}" for name, kind in fields.items() if not _is(found, name, kind)]


def _is(fixture: dict[str, Any], name: str, kind: type) -> bool:
    return type(fixture.get(name)) is kind and (kind is int or bool(fixture[name]))


# ---- running


@dataclass(frozen=True)
class Found:
    """What a fixture's script came to."""

    snapshot_id: str
    expected: dict[str, Any]  # in the form of a fixture's own field
    events: list[Event]
    error: str = ""  # that ended the script early

    @property
    def log(self) -> list[dict[str, Any]]:
        return [event.as_dict() for event in self.events]


class Run:
    """One run of a fixture's script. Where it is to wait for a page, `play` is awaited there."""

    def __init__(self, fixture: dict[str, Any], loop: ScriptedLoop | None = None) -> None:
        self.fixture = fixture
        self.stage = Stage(fixture["seed"], fixture["workers"], fixture["burst_limit"], loop=loop)
        self.error = ""

    async def play(self) -> None:
        self.snapshot_id = self.stage.begin()
        try:
            await self.stage.play_in_loop(self.fixture["script"])
        except Exception as error:  # what happened up to here is evidence too
            self.error = f"{type(error).__name__}: {error}"

    def found(self) -> Found:
        events = self.stage.events()
        expected = {
            "decision_fingerprint": self.stage.runtime.fingerprint,
            "event_fingerprint": fingerprint(events),
            "log_fingerprint": log_fingerprint(events),
            "outcomes": outcomes(events),
            "key_events": key_events(events, self.fixture["shows"]),
        }
        return Found(self.snapshot_id, expected, events, self.error)


def play(fixture: dict[str, Any]) -> Found:
    """On the scripted host, in this process."""
    run = Run(fixture)
    without_waiting(run.play())
    return run.found()


async def answer(fixture: dict[str, Any]) -> dict[str, Any]:
    """In a page or in node, on the browser host: what was found, as JSON."""
    from parity.scripted_page import ScriptedPage

    run = Run(fixture, ScriptedPage())
    await run.play()
    found = run.found()
    return {**vars(found), "events": [list(event[:-1]) for event in found.events]}  # without blobs


def play_away(fixture: dict[str, Any], backend: Any) -> Found:
    """Inside a backend of tests/browser/harness.py, on the browser host."""
    source = f"import json\nfrom parity.fixture import answer\nawait answer(json.loads({json.dumps(fixture)!r}))"
    try:
        found = backend.run_python(source)
    except Exception as error:  # a law that cannot be imported or never ends is a failure of the fixture too
        return Found("", dict.fromkeys(EXPECTED), [], f"{type(error).__name__}: {error}")
    return Found(**{**found, "events": [Event(*values) for values in found["events"]]})


def key_events(events: list[Event], shows: list[str]) -> list[str]:
    """The events of these names, one line each; equal lines in a row are one line with a number."""
    names = {event.task_id: event.text for event in events if event.name == "task_spawned"}
    lines = [_line(event, names) for event in events if event.name in shows]
    return [
        f"{count} × {line}" if count > 1 else line for line, count in ((k, len(list(g))) for k, g in groupby(lines))
    ]


def _line(event: Event, names: dict[int, str]) -> str:
    """In words. The members of a crowd are not told apart, so that a streak reads as one."""
    who = crowd(names.get(event.task_id, ""))
    match event.name:
        case "host_turn":
            return f"turn {event.host_turn_id}, batch {event.microtask_batch_id}, {event.now_ns // 1_000_000} ms"
        case "scheduler_step_decision":
            return f"{event.lane}: {who} (limit {event.cancel_streak_limit})"
        case "task_enqueued":
            return f"task_enqueued {who} {QUEUES[event.numbers['queue']]}"
        case "task_woken" | "stale_wake":
            return f"{event.name} {who}: {('enqueue', 'merged', 'noted', 'stale')[event.numbers['notice']]}"
        case "outside":
            return f"outside: {event.text}"
        case "capability_denied":
            return f"capability_denied {who}: {event.text}"
        case _:
            return " ".join(filter(None, (event.name, who, event.error_class and f"[{event.error_class}]")))


def differences(fixture: dict[str, Any], found: Found) -> list[str]:
    """Where the two part, as lines of a diff; nothing, if they agree."""
    told = [found.error] if found.error else []
    if found.error and not found.events:
        return told  # nothing ran that could be compared
    if fixture["initial_snapshot_id"] != found.snapshot_id:
        told += [
            f"- initial_snapshot_id {fixture['initial_snapshot_id']}",
            f"+ initial_snapshot_id {found.snapshot_id}",
        ]
    for name, kind in EXPECTED.items():
        wanted, got = fixture["expected"].get(name), found.expected[name]
        if wanted == got:
            continue
        if kind is str:
            told += [f"- {name} {wanted}", f"+ {name} {got}"]
        else:
            lines = [[json.dumps(line, ensure_ascii=False) for line in _items(side)] for side in (wanted, got)]
            told += difflib.unified_diff(*lines, f"{name}, expected", f"{name}, found", lineterm="", n=3)
    return told


def _items(value: Any) -> list[Any]:
    return [list(pair) for pair in value.items()] if isinstance(value, dict) else list(value or ())


def check(path: Path, backend: Any = None) -> tuple[dict[str, Any], Found | None, list[str]]:
    """Run one fixture: what it is, what it came to, and where the two differ. Leaves artifacts if they do.

    With a backend, the fixture runs in there; the artifacts stay here, with the native log beside that of the browser.
    """
    fixture = load(path)
    told = faults(fixture)
    if told:
        return fixture, None, told
    found = play(fixture) if backend is None else play_away(fixture, backend)
    told = differences(fixture, found)
    if told:
        told += leave_artifacts(path, fixture, found, told, backend and backend.name)
    return fixture, found, told


def leave_artifacts(
    path: Path, fixture: dict[str, Any], found: Found, told: list[str], browser: str | None
) -> list[str]:
    """Write them; returns where the logs of the two hosts part."""
    expected = [{"key_event": line} for line in fixture["expected"]["key_events"]]
    if browser is None:
        logs, parting = {"expected": expected, "native": found.log}, []
    else:
        native = play(fixture).log
        logs = {"expected": expected, "native": native, browser: found.log}
        parting = artifacts.first_difference(native, found.log, ("native", browser))
    artifacts.write(
        artifacts.Failure(
            id=fixture["id"] if browser is None else f"{fixture['id']}.{browser}",
            fixture=fixture["id"],
            scenario=fixture["id"],
            seed=fixture["seed"],
            logs=logs,
            difference=told + parting,
            command=command_of(fixture["id"] if path.parent == FIXTURES else str(path), browser),
        )
    )
    return parting


def command_of(name: str, browser: str | None = None) -> str:
    """The command that runs this fixture on this host again."""
    return " ".join([COMMAND, *(("--on", browser) if browser else ()), name])


# ---- the command line


def rewrite(path: Path) -> None:
    """What comes out is what is expected from now on."""
    fixture = load(path)
    found = play(fixture)
    if found.error:
        raise ScriptError(found.error)
    about = {"contract": file_format.CONTRACT, "initial_snapshot_id": found.snapshot_id}
    fixture |= {**about, "expected": found.expected}
    ordered = {name: fixture[name] for name in FIELDS}
    path.write_text(_pretty(ordered) + "\n", encoding="utf-8")


def _pretty(fields: dict[str, Any], indent: str = "") -> str:
    """JSON with one field on a line, and one line of a text, operation or key event."""
    inner = indent + "  "
    items = []
    for name, value in fields.items():
        if name == "expected":
            shown = _pretty(value, inner)
        elif name in LONG:
            lines = ",\n".join(f"{inner}  {json.dumps(item, ensure_ascii=False)}" for item in value)
            shown = f"[\n{lines}\n{inner}]"
        else:
            shown = json.dumps(value, ensure_ascii=False)
        items.append(f"{inner}{json.dumps(name)}: {shown}")
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Run the fixtures sched.browser.*.")
    parser.add_argument("--write", action="store_true", help="from now on what comes out is expected")
    parser.add_argument("--on", choices=("node", "chromium"), help="run on the browser host there")
    parser.add_argument("fixtures", nargs="*", metavar="ID_OR_FILE", help="these, with their events; otherwise all")
    asked = parser.parse_args(args)
    if asked.write:
        for name in asked.fixtures or IDS:
            rewrite(path_of(name))
    with ExitStack() as stack:
        backend = None
        if asked.on:
            from parity.compare import open_backend  # not in a page

            backend = open_backend(asked.on, stack)
        return check_all(asked.fixtures, backend)


def check_all(named: Iterable[str], backend: Any) -> int:
    """Check these or all, and print what came out. 1: a fixture failed."""
    failed = 0
    for name in named or IDS:
        path = path_of(name)
        fixture, found, told = check(path, backend)
        if named and found is not None:
            print("\n".join(map(json.dumps, found.log)))
            print("\n".join(f"{name}: {value}" for name, value in found.expected.items() if type(value) is str))
        print("\n".join([*told, f"{'FAIL' if told else 'PASS'} {fixture.get('id', path)}"]))
        failed += bool(told)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
