"""The nine fixtures: each passes, here and on the browser host; each shows its rule; and none can go wrong unnoticed.

What a failure leaves behind is in `test_fixture_failures.py`.

A fixture's expectations can be rewritten by a command, so what the rule demands of the log is stated here once more,
in words that do not come out of a run.
"""

import json
from itertools import groupby, pairwise

import pytest
from parity import artifacts, compare, fixture, script
from parity.failures import doctored, paste
from support.evidence import Event, file_format

LANE, STREAK, DRAIN, DEDUP, REENTRY, YIELD, LATE, CATCH_UP, AUTHORITY = fixture.IDS

every_fixture = pytest.mark.parametrize("id", fixture.IDS)


class Log:
    """The events of one fixture, to ask about."""

    def __init__(self, id: str) -> None:
        self.events = fixture.play(fixture.load(fixture.path_of(id))).events
        self.names = {event.task_id: event.text for event in self.events if event.name == "task_spawned"}

    def who(self, event: Event) -> str:
        return self.names.get(event.task_id, "")

    def all(self, *names: str) -> list[Event]:
        return [event for event in self.events if event.name in names]

    def of(self, task: str, *names: str) -> list[Event]:
        return [event for event in self.all(*names) if self.who(event) == task]

    def decisions(self, after: Event | None = None) -> list[tuple[str, str]]:
        start = after.number if after is not None else -1
        return [(e.lane, self.who(e)) for e in self.all("scheduler_step_decision") if e.number > start]


def runs(lanes: list[str]) -> list[tuple[str, int]]:
    return [(lane, len(list(same))) for lane, same in groupby(lanes)]


# ---- they pass


@every_fixture
def test_the_fixture_passes(id):
    _, _, told = fixture.check(fixture.path_of(id))
    assert not told, "\n".join(told)


@every_fixture
def test_the_fixture_passes_under_node(id, inside_node):
    """The real browser host, on another interpreter, in another engine: every field of every event is the same."""
    _, _, told = fixture.check(fixture.path_of(id), inside_node)
    assert not told, "\n".join(told)


@pytest.mark.browser
@every_fixture
def test_the_fixture_passes_in_chromium(id, inside_chromium):
    _, _, told = fixture.check(fixture.path_of(id), inside_chromium)
    assert not told, "\n".join(told)


def test_under_node_they_run_on_the_browser_host(inside_node):
    """JavaScript calls the host from its own queues; the script says only when."""
    stacks = inside_node.run_python("""
import traceback
from bursar.drive.pump import Pump
from parity import fixture
from parity.script import Stage
from parity.scripted_page import ScriptedPage

stacks, page = [], ScriptedPage()
stage = Stage(1, 1, 2, loop=page)
drain = stage.runtime.pump.drain
stage.runtime.pump.drain = lambda: (stacks.append([frame.name for frame in traceback.extract_stack()]), drain())
stage.begin()
body = [["sleep", 5], ["checkpoint", 4]]
await stage.play_in_loop([["spawn", "a", {"body": body}], ["settle"], ["ring"], ["settle"], ["end"], ["settle"]])
[type(page.host).__module__, *stacks]
""")
    assert stacks.pop(0) == "bursar.hosts.browser"
    entries = {frames[0] for frames in stacks}
    assert entries == {"_on_soon", "_on_later", "_on_ring"}, "nothing in Python is below the host: JavaScript called it"


# ---- each shows its rule


def test_cancelled_work_goes_before_timed_work_and_timed_before_ready():
    log = Log(LANE)
    asked = log.of("victim", "cancel_requested")[0]
    queued = [log.of(name, "task_enqueued")[-1] for name in ("crowd-3", "sleeper", "victim")]
    assert [event.number for event in queued] == sorted(event.number for event in queued)
    assert log.decisions(asked)[:3] == [("cancel", "victim"), ("timed", "sleeper"), ("ready", "crowd-3")]


def test_at_most_sixteen_cancels_in_a_row_while_other_work_waits():
    log = Log(STREAK)
    lanes = [lane for lane, _ in log.decisions(log.all("cancel_requested")[0])]
    expected = [("cancel", 16), ("ready", 1), ("cancel", 16), ("ready", 1), ("cancel", 16)]
    assert runs(lanes) == [*expected, ("cancel_fallback", 1), ("cancel", 11), ("ready", 1)]


def test_at_most_thirty_two_while_a_region_or_an_obligation_drains():
    log = Log(DRAIN)
    begins, ends = log.all("nursery_cancelling")[0].number, log.of("family", "nursery_closed")[0].number
    region = [e for e in log.all("scheduler_step_decision") if begins < e.number < ends]
    assert runs([e.lane for e in region]) == [("cancel", 32), ("ready", 1), ("cancel", 32), ("ready", 1), ("cancel", 8)]
    assert {e.cancel_streak_limit for e in region} == {32}
    assert any(begins < e.number < ends for e in log.all("scheduler_host_handoff")), "the streak outlives a turn"

    begins, ends = (log.of("holder", name)[0].number for name in ("cleanup_begun", "obligation_settled"))
    holding = [e for e in log.all("scheduler_step_decision") if begins < e.number < ends]
    assert {e.cancel_streak_limit for e in holding} == {32}
    assert max(e.cancel_streak for e in holding) == 32
    assert [log.who(e) for e in holding if e.lane == "ready"] == ["onlooker"]
    assert log.all("scheduler_step_decision")[-1].cancel_streak_limit == 16


def test_many_wakes_in_several_turns_make_one_entry():
    log = Log(DEDUP)
    wakes = log.of("sleeper", "task_woken")
    assert [event.numbers["notice"] for event in wakes] == [0, 1, 1, 1, 0]
    assert len({event.host_turn_id for event in wakes[:4]}) == 3
    queued = [e for e in log.of("sleeper", "task_enqueued") if wakes[0].number < e.number < wakes[4].number]
    assert len(queued) == 1
    assert len([e for e in log.of("sleeper", "scheduler_step_decision") if e.number > wakes[0].number]) == 2
    stale = log.of("sleeper", "stale_wake")
    assert [event.error_class for event in stale] == ["StaleWake", "StaleWake"]
    assert stale[1].number > log.of("sleeper", "task_done")[0].number
    assert len(log.of("sleeper", "task_enqueued")) == 3


def test_a_call_while_it_runs_is_deferred():
    log = Log(REENTRY)
    deferred = log.all("scheduler_reentrancy_deferred")
    begun = [e for e in log.of("caller", "scheduler_step_decision") if e.number < deferred[0].number][-1]
    ended = next(e for e in log.of("caller", "scheduler_step_end") if e.number > deferred[0].number)
    inside = {e.name for e in log.events if begun.number < e.number < ended.number}
    assert len(deferred) == 2
    assert inside == {"scheduler_reentrancy_deferred", "task_done"}, "nothing else happens"
    steps = [e.name for e in log.all("scheduler_step_begin", "scheduler_step_end")]
    assert steps == ["scheduler_step_begin", "scheduler_step_end"] * (len(steps) // 2), "no step inside a step"
    woken = log.of("other", "task_woken")[0]
    assert woken.number > ended.number
    assert (woken.host_turn_id, woken.microtask_batch_id) == (begun.host_turn_id, begun.microtask_batch_id + 1)


def test_a_yield_queues_once_behind_the_others():
    log = Log(YIELD)
    woken = log.of("yielder", "task_woken")[0]
    polls = [e for e in log.of("yielder", "scheduler_step_decision") if e.number > woken.number]
    for one, next_one in pairwise(polls):
        between = [e for e in log.events if one.number < e.number < next_one.number]
        assert [log.who(e) for e in between if e.name == "task_enqueued"].count("yielder") == 1
        assert not [e for e in between if e.name == "task_woken"], "a yield needs no wake"
    order = [name for _, name in log.decisions(woken)]
    assert order[:8] == [*["yielder", "other-1", "other-2"] * 2, "yielder", "yielder"]
    assert polls[1].host_turn_id < polls[2].host_turn_id, "it does not keep the turn"


def test_a_late_alarm_is_a_record():
    log = Log(LATE)
    (stale,) = log.all("stale_timer")
    disarmed = next(
        e for e in log.of("sleeper", "timer_disarmed") if e.numbers["timer_id"] == stale.numbers["timer_id"]
    )
    assert disarmed.number < log.of("sleeper", "task_done")[0].number < stale.number
    assert stale.error_class == "StaleTimer"
    assert not log.all("timer_fired")
    batch = [e for e in log.events if e.microtask_batch_id == stale.microtask_batch_id]
    assert {e.name for e in batch}.isdisjoint({"task_enqueued", "task_woken"})


def test_a_backlog_is_worked_off_in_bounded_batches():
    log = Log(CATCH_UP)
    limit = 8
    late = [e for e in log.events if e.now_ns >= 3_600_000_000_000]
    batches = [list(batch) for _, batch in groupby(late, lambda e: e.microtask_batch_id)]
    fired = [sum(e.name == "timer_fired" for e in batch) for batch in batches]
    assert [n for n in fired if n] == [8, 8, 4]
    for batch in batches:
        assert sum(e.name == "scheduler_step_decision" for e in batch) <= limit
        ends = [e.name for e in batch[-2:]]
        full = sum(e.name == "timer_fired" for e in batch) == limit
        assert (ends == ["scheduler_burst_limit_reached", "scheduler_host_handoff"]) == full
    assert len({batch[0].host_turn_id for batch in batches}) == len(batches), "the host has a turn between two"
    timed = 0
    for lane, _ in log.decisions():
        timed = timed + 1 if lane == "timed" else 0
        assert timed <= 8, "ready work waits for at most eight timed dispatches"


def test_denied_authority_arms_and_queues_nothing():
    log = Log(AUTHORITY)
    denied = log.of("bare", "capability_denied")
    for event, capability in zip(denied, ("CapClock", "CapEntropy", "CapTimer"), strict=True):
        assert event.error_class == "CapabilityDenied"
        assert f"task 'bare' ({event.task_id}) may not" in event.text
        assert f"it holds no {capability}" in event.text
    after = [e for e in log.events if e.number > denied[0].number and log.who(e) == "bare"]
    assert {e.name for e in after} <= {"charged", "capability_denied", "task_done", "scheduler_step_end"}
    assert [log.who(e) for e in log.all("timer_armed")] == ["sleeper"]
    (revoked,) = log.of("sleeper", "capability_denied")
    assert revoked.error_class == "CapabilityRevoked"
    assert not log.all("host_answer"), "nothing was asked of the host instead"


# ---- the gate


def test_all_nine_are_there_and_no_others():
    assert sorted(path.stem for path in fixture.FIXTURES.iterdir()) == sorted(fixture.IDS)
    assert len(fixture.IDS) == 9


@every_fixture
def test_every_required_field_is_there(id):
    found = fixture.load(fixture.path_of(id))
    assert found["id"] == id
    assert not fixture.faults(found)


@pytest.mark.parametrize("field", [*fixture.FIELDS, *(f"expected.{name}" for name in fixture.EXPECTED)])
def test_a_missing_field_is_found_out(field):
    broken = fixture.load(fixture.path_of(LANE))
    inside, _, name = field.rpartition(".")
    del (broken[inside] if inside else broken)[name]
    assert any(field in fault for fault in fixture.faults(broken))


def test_an_unknown_field_and_a_wrong_command_are_found_out():
    broken = fixture.load(fixture.path_of(LANE)) | {"remark": "", "command": "true"}
    assert fixture.faults(broken) == ["unknown field remark", "command does not run this fixture"]


@every_fixture
def test_every_event_has_every_required_field(id):
    log = Log(id)
    for event in log.events:
        told = event.as_dict()
        assert told.keys() >= fixture.MANDATORY, event
        assert told["error_class"] or event.name not in ("stale_wake", "stale_timer", "capability_denied"), event
    decisions = [event.as_dict() for event in log.all("scheduler_step_decision")]
    assert [told["decision_seq"] for told in decisions] == list(range(1, len(decisions) + 1))
    assert all(told["task_id"] and told["region_id"] and told["host_turn_id"] for told in decisions)
    assert all(told["microtask_batch_id"] and told["cancel_streak_limit"] for told in decisions)
    assert len({told["decision_hash"] for told in decisions}) == len(decisions)


@every_fixture
def test_the_published_command_repeats_the_fixture(id, tmp_path):
    published = fixture.load(fixture.path_of(id))
    ran = paste(published["command"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    *events, decisions, shared, log, verdict = ran.stdout.splitlines()
    assert verdict == f"PASS {id}"
    assert decisions == f"decision_fingerprint: {published['expected']['decision_fingerprint']}"
    assert shared == f"event_fingerprint: {published['expected']['event_fingerprint']}"
    assert log == f"log_fingerprint: {published['expected']['log_fingerprint']}"
    assert all(json.loads(line).keys() >= fixture.MANDATORY for line in events)
    assert not list(tmp_path.iterdir())


@every_fixture
def test_another_version_of_the_contract_asks_for_a_new_fixture(id, monkeypatch):
    monkeypatch.setattr(file_format, "CONTRACT", file_format.CONTRACT | {"version": 2})
    _, found, (told,) = fixture.check(fixture.path_of(id))
    assert "contract is not {'id': 'wasm-browser-scheduler-semantics-v1', 'version': 2}" in told
    assert found is None


def test_another_schema_of_traces_asks_for_new_fixtures(monkeypatch, tmp_path):
    monkeypatch.setenv(artifacts.VARIABLE, str(tmp_path))
    monkeypatch.setattr(file_format, "SCHEMA", file_format.SCHEMA + 1)
    for id in fixture.IDS:
        _, _, told = fixture.check(fixture.path_of(id))
        assert [line.split()[:2] for line in told] == [["-", "initial_snapshot_id"], ["+", "initial_snapshot_id"]]


# ---- writing


def test_rewriting_on_purpose_gives_back_the_published_file(tmp_path, capsys):
    path = doctored(LATE, tmp_path)
    assert fixture.main(["--write", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"PASS {LATE}"
    assert path.read_bytes() == fixture.path_of(LATE).read_bytes()


@every_fixture
def test_the_files_are_written_as_the_command_writes_them(id, tmp_path):
    path = tmp_path / f"{id}.json"
    path.write_bytes(fixture.path_of(id).read_bytes())
    fixture.rewrite(path)
    assert path.read_text(encoding="utf-8") == fixture.path_of(id).read_text(encoding="utf-8")


def test_all_of_them_at_once(capsys):
    assert fixture.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"PASS {id}" for id in fixture.IDS]


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([["fly"]], "operation 1: there is no 'fly'"),
        ([["call"], ["call"]], 'operation 2, ["call"]: call: the pump asked for none'),
        ([["ring"]], "ring: no alarm is set"),
        ([["wake", "nobody"]], "there is no task 'nobody'"),
        ([["settle"]], "the script is over and 1 tasks live"),
    ],
)
def test_a_script_that_cannot_be_says_where(operations, message):
    stage = script.Stage(0, 1, 64)
    stage.begin()
    with pytest.raises(script.ScriptError) as error:
        stage.play(operations)
    assert message in str(error.value)


def test_the_snapshot_id_names_the_moment_before_the_script():
    begun = []
    for seed, workers in ((1, 1), (1, 1), (2, 1), (1, 2)):
        stage = script.Stage(seed, workers, 64)
        begun.append(stage.begin())
        stage.play([["end"], ["settle"]])
    assert begun[0] == begun[1]
    assert len(set(begun)) == 3


def test_the_folder_is_complete_inside_pyodide():
    assert {path.name for path in fixture.HERE.glob("*.py")} - set(compare.CARRIED) == {
        "conftest.py",
        "compare.py",
        "failures.py",
        "kernels.py",
        "test_fixture_failures.py",
        "test_fixtures.py",
        "test_host_turn.py",
        "test_parity.py",
        "test_generated.py",
        "test_kernels.py",
    }
