"""The fixtures `sched.browser.*`: one JSON file each, with a script, the rule that it shows, and what must come out.

    .venv/bin/python tests/parity/fixture.py                         all of them
    .venv/bin/python tests/parity/fixture.py ID_OR_FILE ...          these, with their events
    .venv/bin/python tests/parity/fixture.py --write ID_OR_FILE ...  from now on what comes out is expected

A fixture expects three fingerprints. That of the decisions is the chain's last value; that of the events covers what
must be the same on every host; that of the log covers every field of every event, turns and batches included, because
on a scripted host they follow from the script. The key events are the part of the log that shows the rule, in words;
equal lines in a row are counted. When a fixture fails, the files that explain it are left behind (see `artifacts`).
"""

from __future__ import annotations

import difflib
import json
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from parity import artifacts  # noqa: E402
from parity.script import ScriptError, Stage, crowd, log_fingerprint, outcomes  # noqa: E402
from support.evidence import QUEUES, Event, fingerprint  # noqa: E402

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


def play(fixture: dict[str, Any]) -> Found:
    stage = Stage(fixture["seed"], fixture["workers"], fixture["burst_limit"])
    snapshot_id = stage.begin()
    stage.play(fixture["script"])
    events = stage.events()
    return Found(
        snapshot_id,
        {
            "decision_fingerprint": stage.runtime.fingerprint,
            "event_fingerprint": fingerprint(events),
            "log_fingerprint": log_fingerprint(events),
            "outcomes": outcomes(events),
            "key_events": key_events(events, fixture["shows"]),
        },
        events,
    )


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
    told = []
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


def check(path: Path) -> tuple[dict[str, Any], Found | None, list[str]]:
    """Run one fixture: what it is, what it came to, and where the two differ. Leaves artifacts if they do."""
    fixture = load(path)
    told = faults(fixture)
    if told:
        return fixture, None, told
    try:
        found = play(fixture)
    except ScriptError as error:
        return fixture, None, [str(error)]
    told = differences(fixture, found)
    if told:
        expected = [{"key_event": line} for line in fixture["expected"]["key_events"]]
        artifacts.write(
            artifacts.Failure(
                id=fixture["id"],
                scenario=fixture["id"],
                seed=fixture["seed"],
                logs={"expected": expected, "found": [event.as_dict() for event in found.events]},
                difference=told,
                command=f"{COMMAND} {fixture['id'] if path.parent == FIXTURES else path}",
            )
        )
    return fixture, found, told


# ---- the command line


def rewrite(path: Path) -> None:
    """What comes out is what is expected from now on."""
    fixture = load(path)
    found = play(fixture)
    fixture |= {"initial_snapshot_id": found.snapshot_id, "expected": found.expected}
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
    write = "--write" in args
    named = [arg for arg in args if arg != "--write"]
    failed = 0
    for name in named or IDS:
        path = path_of(name)
        if write:
            rewrite(path)
        fixture, found, told = check(path)
        if named and found is not None:
            print("\n".join(json.dumps(event.as_dict()) for event in found.events))
            print("\n".join(f"{name}: {value}" for name, value in found.expected.items() if type(value) is str))
        print("\n".join([*told, f"{'FAIL' if told else 'PASS'} {fixture.get('id', path)}"]))
        failed += bool(told)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
