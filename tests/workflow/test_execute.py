"""Runs of workflows: order, results, failures, retries, timeouts, limits, and the content of the journal.

The runs use real threads, processes and files.
"""

import asyncio
import itertools
import sys
import threading

import pytest
from support.evidence import Trace
from support.hosts import SelectorHost
from support.journals import rows
from support.time_limits import WAIT_S
from support.workflow import REASONS_S, Journal

import bursar
from bursar import Checkpoint, JournalError, Retry, WorkflowError
from bursar.workflow import Workflow
from bursar.workflow.execute import Execution


class Heard:
    """A listener that keeps the events and the reasons."""

    def __init__(self):
        self.events = []
        self.ticks = 0
        self.reasons = {}

    def on_event(self, event):
        self.events.append(event)

    def tick(self, run):
        self.ticks += 1
        for name, step in run.steps.items():
            if step.reason:
                self.reasons[name] = step.reason

    def kinds(self, task):
        return [event.kind for event in self.events if event.task == task]

    def details(self, kind):
        return [event.detail for event in self.events if event.kind == kind]


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def w():
    return Workflow("w", resources={"cpu": 4})


def fails(message="no"):
    raise ValueError(message)


# ---- order and results


def test_each_kind_of_work_and_its_result(w):
    async def double(x):
        await bursar.sleep(0)
        return 2 * x

    a = w.task("thread", lambda: threading.current_thread().name)
    b = w.task("coroutine", double, args=[21])
    c = w.task("command", command=["printf", "%s|%s", a, b], output="capture")
    w.task("shell", shell='printf "<$X>"', env={"X": c}, output="capture")
    report = w.run()
    assert report.ok
    assert report.results["thread"].startswith("bursar worker")
    assert report.results["coroutine"] == 42
    assert report.results["shell"] == f"<{report.results['thread']}|42>"


def test_everything_after_what_it_depends_on(w, heard):
    order = []
    names = "hgfedcba"
    for name in names:
        after = [other for other in "abcdefgh" if other < name][-2:]
        w.task(name, order.append, args=[name], after=after)
    assert w.run(listener=heard).ok
    place = {name: i for i, name in enumerate(order)}
    assert all(place[other] < place[name] for name, step in w.steps.items() for other in step.after)


def test_keywords_and_parts_of_results(w):
    w.task("a", lambda: {"title": "Dunes", "sizes": (10, 20)})
    from support.workflow import Ref, Template

    w.task("b", "json:dumps", args={"obj": Ref("a", ("sizes", "1"))}, after=["a"])
    w.task("c", command=["printf", "%s", Template(("<", Ref("a", ("title",)), ">"))], output="capture")
    assert w.run().results == {"a": {"title": "Dunes", "sizes": [10, 20]}, "b": "20", "c": "<Dunes>"}


def test_a_part_that_is_not_there_fails_the_task(w):
    from support.workflow import Ref

    w.task("a", lambda: {"x": 1})
    w.task("b", str, args=[Ref("a", ("y",))])
    assert "there is no 'y' in the result of task 'a'" in w.run().tasks["b"].error


def test_a_value_that_json_cannot_hold_is_passed_on_as_it_is(w):
    class Thing:
        pass

    a = w.task("a", Thing)
    w.task("b", lambda thing: type(thing).__name__, args=[a])
    assert w.run().results["b"] == "Thing"


def test_output_reaches_the_listener_line_by_line(w, heard):
    w.task("a", shell="echo one; echo two >&2")
    w.task("b", shell="echo one", output="discard")
    w.run(listener=heard)
    assert sorted((e.task, e.value, e.detail) for e in heard.events if e.kind == "output") == [
        ("a", "err", "two"),
        ("a", "out", "one"),
    ]


def test_commands_know_who_they_are(w, path):
    w.task("a", shell='echo "$BURSAR_TASK $BURSAR_ATTEMPT ${#BURSAR_RUN}"', output="capture")
    assert w.run(journal=path).results["a"] == "a 1 16"


def test_a_workflow_runs_in_any_thread(w):
    reports = []
    w.task("a", shell="echo x", output="capture")
    w.task("b", int)
    thread = threading.Thread(target=lambda: reports.append(w.run()))
    thread.start()
    thread.join()
    assert reports[0].results == {"a": "x", "b": 0}


@pytest.mark.parametrize("host", [None, SelectorHost])
def test_a_workflow_takes_no_time_on_a_virtual_clock(w, host, heard):
    """The run waits for signals in the main thread. The virtual clock advances in spite of these waits."""
    asked = []

    async def nap():
        await bursar.sleep(60)
        return len(asked)

    def flaky():
        asked.append(len(asked))
        if len(asked) < 3:
            raise ValueError("not yet")

    w.task("nap", nap, after=[w.task("flaky", flaky, retry=Retry(5, backoff=60))])
    report = w.run(clock="virtual", host=host and host(), listener=heard)
    assert report.ok, report.tasks
    assert report.results["nap"] == 3


def test_a_command_on_a_virtual_clock_is_refused(w, path):
    """The refusal comes before a journal is made."""
    w.task("a", int)
    w.task("b", command=["true"])
    for host in (None, SelectorHost()):
        with pytest.raises(WorkflowError, match=r"task 'b' is a command.*without clock='virtual', or replace"):
            w.run(clock="virtual", host=host, journal=path)
    assert not path.exists()


def test_a_workflow_runs_twice_without_a_journal(w):
    w.task("a", int)
    assert w.run().ok
    assert w.run().ok


# ---- failures


def test_a_failure_cancels_what_depends_on_it_and_nothing_else(w, heard, path):
    w.task("bad", fails)
    w.task("child", int, after=["bad"])
    w.task("grandchild", int, after=["child"])
    w.task("other", int)
    w.task("after-other", int, after=["other"])
    report = w.run(journal=path, listener=heard)
    assert report.counts == {"ok": 2, "failed": 1, "cancelled": 2}
    assert report.exit_code == 1
    assert report.tasks["bad"].error == "ValueError: no"
    for name in ("child", "grandchild"):
        assert "'bad'" in report.tasks[name].error
        assert heard.kinds(name) == ["cancelled"]
    assert rows(path, "SELECT name, state FROM task ORDER BY position") == [
        ("bad", "failed"),
        ("child", "cancelled"),
        ("grandchild", "cancelled"),
        ("other", "ok"),
        ("after-other", "ok"),
    ]
    assert rows(path, "SELECT ending FROM session") == [("failed",)]


def test_a_command_that_fails_shows_the_end_of_its_output(w):
    w.task("a", shell="echo the disk is full >&2; exit 7")
    assert w.run().tasks["a"].error.endswith("exited with code 7:\nthe disk is full")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_sys_exit_fails_the_task(w, asynchronous):
    async def leaves():
        sys.exit(3)

    w.task("a", leaves if asynchronous else lambda: sys.exit(3))
    w.task("b", int)
    report = w.run()
    assert report.tasks["a"].error == "called sys.exit(3)"
    assert report.results == {"b": 0}


class Odd(BaseException):
    pass


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, Odd, BaseExceptionGroup])
def test_any_exception_is_the_end_of_its_step_only(w, path, kind, asynchronous):
    error = kind("why", [Odd()]) if kind is BaseExceptionGroup else kind("why")

    def fail():
        raise error

    async def fail_async():
        raise error

    w.task("a", fail_async if asynchronous else fail)
    w.task("b", int)
    w.task("c", int, after=["a"])
    report = w.run(journal=path)
    assert report.tasks["a"].error.startswith(f"raised {kind.__name__}: why")
    assert report.results == {"b": 0}
    assert rows(path, "SELECT name, state FROM task ORDER BY name") == [
        ("a", "failed"),
        ("b", "ok"),
        ("c", "cancelled"),
    ]
    assert rows(path, "SELECT count(*) FROM attempt WHERE ending IS NULL") == [(0,)]


@pytest.mark.parametrize("retry", [None, 2])
def test_an_error_that_is_not_utf_8_is_recorded(w, path, heard, retry):
    w.task("a", lambda: fails("cannot read caf\udce9.txt"), retry=retry)
    w.task("b", int, after=["a"])
    report = w.run(journal=path, listener=heard)
    assert report.tasks["a"].error.endswith("cannot read caf\\udce9.txt")
    assert rows(path, "SELECT state, error FROM task WHERE name = 'a'") == [("failed", report.tasks["a"].error)]
    assert report.tasks["b"].state == "cancelled"


def test_a_result_whose_methods_raise_is_passed_on_and_not_kept(w, path):
    class Weird(dict):
        def items(self):
            raise OSError("items")

    w.task("a", lambda: Weird(a=1))
    w.task("b", len, args=["x"], after=["a"])
    assert w.run(journal=path).ok
    assert rows(path, "SELECT state FROM task") == [("ok",), ("ok",)]


@pytest.mark.parametrize("setting", [{"timeout": 1e300}, {"timeout": 10**400}, {"priority": 10**30}])
def test_a_setting_out_of_range_is_refused(w, setting):
    with pytest.raises(WorkflowError, match=r"task 'a': .* must be"):
        w.task("a", int, **setting)


def test_retries_are_attempts(w, heard, path):
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) < 3:
            raise OSError("busy")
        return len(tries)

    a = w.task("a", flaky, retry=Retry(5))
    w.task("b", lambda n: n + 1, args=[a])
    report = w.run(journal=path, listener=heard)
    assert report.results == {"a": 3, "b": 4}
    assert report.tasks["a"].attempts == 3
    assert heard.kinds("a") == ["started", "failed", "retry"] * 2 + ["started", "ok"]
    assert rows(path, "SELECT n, ending FROM attempt WHERE task = 'a'") == [(1, "failed"), (2, "failed"), (3, "ok")]


def test_retries_end(w, heard):
    w.task("a", shell="exit 1", retry=2)
    w.task("b", int, after=["a"])
    report = w.run(listener=heard)
    assert report.counts == {"failed": 1, "cancelled": 1}
    assert report.tasks["a"].attempts == 3
    assert heard.details("retry") == ["2 more times at most", "1 more time at most"]


def test_a_retry_only_after_what_it_is_for(w):
    w.task("a", fails, retry=Retry(3, on=OSError))
    assert w.run().tasks["a"].attempts == 1


# ---- stopping


def test_a_timeout_of_each_kind(w):
    def counts(checkpoint: Checkpoint):
        while True:
            checkpoint()

    async def sleeps():
        await bursar.sleep(1000)

    w.task("thread", counts, timeout=0.02)
    w.task("coroutine", sleeps, timeout=0.02)
    slow = w.task("command", command=["sleep", "1000"], timeout=0.02)
    w.task("behind", int, after=[slow])
    report = w.run()
    assert report.tasks.pop("behind").error.endswith("failed: TimeoutError: was not done within 0.02 s")
    assert {task.error for task in report.tasks.values()} == {"was not done within 0.02 s"}
    assert report.counts == {"failed": 3}


def test_a_timeout_error_of_its_own_is_not_ours(w):
    def late():
        raise TimeoutError("the server is slow")

    w.task("a", late, timeout=1000)
    assert w.run().tasks["a"].error == "TimeoutError: the server is slow"


def test_a_timeout_is_a_failure_that_can_be_retried(w):
    """The second attempt does not wait, so it ends in time on any machine."""
    attempts = []

    async def slow_at_first():
        attempts.append(len(attempts))
        if attempts == [0]:
            await bursar.sleep(1000)

    w.task("a", slow_at_first, timeout=0.02, retry=1)
    report = w.run()
    assert report.ok
    assert report.tasks["a"].attempts == 2


# ---- limits


@pytest.mark.parametrize(
    ("limits", "needs", "most"),
    [
        ({"resources": {"cpu": 3}}, None, 3),
        ({"resources": {"cpu": 9, "tape": 2}}, {"tape": 1}, 2),
        ({"resources": {"cpu": 9, "ram": "1GiB"}}, {"ram": "512MiB"}, 2),
        ({"resources": {"cpu": 9}, "max_concurrent": 4}, None, 4),
        ({"resources": {"cpu": 9, "ram": "1GiB"}}, {"ram": "2GiB"}, 1),
    ],
)
def test_limits_are_kept_and_used(limits, needs, most):
    """The first `most` tasks wait for each other at a barrier, so they run at the same time, or the test hangs."""
    lock, now, seen = threading.Lock(), [0], [0]
    barrier = threading.Barrier(most)

    def work(first):
        with lock:
            now[0] += 1
            seen[0] = max(seen[0], now[0])
        if first:
            barrier.wait(WAIT_S)
        with lock:
            now[0] -= 1

    w = Workflow("w", **limits)
    for number in range(12):
        w.task(f"t{number}", work, args=[number < most], needs=needs)
    assert w.run().ok
    assert seen == [most]


def test_priorities(heard):
    order = []
    w = Workflow("w", resources={"cpu": 1})
    w.task("first", order.append, args=["first"], priority=bursar.Priority.HIGH)
    for name, priority in (("low", 10), ("high", 100), ("normal", 50)):
        w.task(name, order.append, args=[name], priority=priority, after=["first"])
    w.run()
    assert order == ["first", "high", "normal", "low"]


def test_the_most_urgent_of_those_that_could_start_at_once_is_first_wherever_it_is_written(path):
    order, broken = [], [True]

    def work(name):
        if broken and name != "a":
            fails()
        order.append(name)

    w = Workflow("w", resources={"cpu": 1})
    w.task("a", work, args=["a"])
    for name, priority in (("low", 10), ("high", 100), ("normal", 50)):
        w.task(name, work, args=[name], priority=priority)
    w.task("behind", work, args=["behind"], priority=1000, after=["a", "low"])
    w.task("after_a", work, args=["after_a"], priority=70, after=["a"])
    w.run(journal=path)
    assert order == ["a"]
    broken.clear()
    w.run(journal=path, resume=True)
    assert order == ["a", "high", "after_a", "normal", "low", "behind"]


def test_a_task_that_is_dropped_is_not_done(path, heard):
    w = Workflow("w", resources={"cpu": 1}, max_queue=1)
    for name in "abc":
        w.task(name, int)
    report = w.run(journal=path, listener=heard)
    assert report.counts == {"ok": 2, "dropped": 1}
    assert report.exit_code == 1
    (dropped,) = [name for name, task in report.tasks.items() if task.state == "dropped"]
    assert heard.kinds(dropped) == ["dropped"]
    assert "more than 1 were waiting" in report.tasks[dropped].error
    assert w.run(journal=path, resume=True).ok  # now the queue has room for the task


def test_reasons_reach_the_listener_and_the_journal(path, heard):
    go = threading.Event()

    class Letting(Heard):
        def tick(self, run):
            super().tick(run)
            if {"b", "c"} <= self.reasons.keys():
                go.set()

    letting = Letting()
    w = Workflow("w", resources={"cpu": 1})
    w.task("a", go.wait, args=[60])
    w.task("b", int)
    w.task("c", int, after=["a"])
    assert w.run(journal=path, listener=letting).ok
    assert "cpu" in letting.reasons["b"]
    assert "'a'" in letting.reasons["c"]
    (waits,) = [waits for (waits,) in rows(path, "SELECT waits FROM attempt WHERE task = 'b'")]
    assert "waits for permission, because it lacked cpu" in waits


def test_the_journal_has_a_transition_before_the_listener_and_the_dependents(w, path):
    """WORKFLOW-1."""
    seen = []

    def in_journal(task):
        ((state,),) = rows(path, "SELECT state FROM task WHERE name = ?", task)
        return state

    class Reader(Heard):
        def on_event(self, event):
            if event.kind in ("started", "ok", "failed", "cancelled"):
                seen.append((event.task, event.kind, in_journal(event.task)))

    w.task("dependent", lambda _: in_journal("first"), args=[w.task("first", int)])
    w.task("never", int, after=[w.task("bad", fails, retry=1)])
    report = w.run(journal=path, listener=Reader())
    assert report.results["dependent"] == "ok"
    assert [(kind, state) for task, kind, state in seen if task == "bad"] == 2 * [
        ("started", "running"),
        ("failed", "failed"),
    ]
    assert len(seen) == 9
    assert [one for one in seen if one[2] != {"started": "running"}.get(one[1], one[1])] == []


def test_only_changed_reasons_are_written_and_not_too_often(path, monkeypatch):
    """JOURNAL-5, on the virtual clock: the reasons change every 0.3 s."""
    written = []
    write = Journal.waiting

    class Timed(Execution):
        def now(self):
            return self.runtime.kernel.now_ns / 1e9

    def waiting(journal, reasons):
        written.append((run.now(), list(reasons)))
        write(journal, reasons)

    async def nap():
        await bursar.sleep(0.3)

    monkeypatch.setattr(Journal, "waiting", waiting)
    w = Workflow("w", resources={"cpu": 1})
    for number in range(20):
        w.task(f"nap-{number}", nap, needs={"cpu": 1})
    w.task("last", int, after=["nap-19"])
    with Journal.create(path, w) as journal:
        run = Timed(w, journal=journal, listener=Heard(), clock="virtual")
        assert run.run().ok
    times = [at for at, _ in written]
    assert len(times) > 3
    assert all(later - sooner >= REASONS_S for sooner, later in itertools.pairwise(times))
    last = {}
    for _, reasons in written:
        assert len({name for name, _ in reasons}) == len(reasons)
        assert not last.items() & set(reasons)
        last.update(reasons)
    assert [name for _, reasons in written for name, _ in reasons].count("last") == 1  # its reason never changes


@pytest.mark.parametrize("method", ["on_event", "tick"])
def test_a_run_continues_when_its_listener_fails(w, method):
    class Broken(Heard):
        pass

    def fail(self, _):
        self.ticks += 1000
        raise OSError("the pipe is closed")

    setattr(Broken, method, fail)
    broken = Broken()
    w.task("a", shell="echo x")
    w.task("b", int, after=["a"])
    run = Execution(w, listener=broken)
    assert run.run().ok
    assert str(run.recorder.listener_error) == "the pipe is closed"
    assert broken.ticks == 1000


@pytest.mark.parametrize("journal", [False, True])
def test_the_error_of_a_listener_is_in_the_report_and_a_warning(w, path, journal):
    class Broken(Heard):
        def on_event(self, event):
            raise OSError("the pipe is closed")

    w.task("a", int)
    with pytest.warns(RuntimeWarning, match=r"the listener of workflow .* failed.*the pipe is closed"):
        report = w.run(listener=Broken(), journal=path if journal else None)
    assert report.ok
    assert str(report.listener_error) == "the pipe is closed"
    assert "the listener failed and got no more events: OSError('the pipe is closed')" in str(report)


def test_progress_reaches_the_listener(heard):
    seen = threading.Event()

    def work(checkpoint: Checkpoint):
        checkpoint(progress=0.25)
        seen.wait(WAIT_S)

    class Watching(Heard):
        def tick(self, run):
            if run.steps["a"].progress == 0.25:
                seen.set()

    w = Workflow("w")
    w.task("a", work)
    assert w.run(listener=Watching()).ok
    assert seen.is_set()


# ---- the journal


def test_a_resume_runs_what_is_left(w, path, heard):
    broken = [True]
    calls = []

    def second(n):
        calls.append(n)
        if broken:
            raise ValueError("not today")
        return n + 1

    a = w.task("a", lambda: 20)
    w.task("b", second, args=[a])
    assert w.run(journal=path).counts == {"ok": 1, "failed": 1}
    broken.clear()
    report = w.run(journal=path, resume=True, listener=heard)
    assert report.results == {"a": 20, "b": 21}
    assert heard.kinds("a") == []
    assert report.tasks["a"].earlier
    assert not report.tasks["b"].earlier
    assert report.tasks["b"].attempts == 2


def test_a_resume_with_nothing_left(w, path, heard):
    w.task("a", lambda: [1, 2])
    w.run(journal=path)
    report = w.run(journal=path, resume=True, listener=heard)
    assert report.ok
    assert report.results == {"a": [1, 2]}
    assert [event.kind for event in heard.events] == ["run"]


def test_a_change_and_a_wish_are_said(path, heard):
    def make(n):
        w = Workflow("w")
        a = w.task("a", lambda x: x, args=[n])
        b = w.task("b", lambda x: x + 1, args=[a])
        w.task("c", lambda x: x + 1, args=[b])
        return w

    assert make(1).run(journal=path).results == {"a": 1, "b": 2, "c": 3}
    assert make(5).run(journal=path, resume=True, listener=heard).results == {"a": 5, "b": 6, "c": 7}
    assert heard.details("again")[0] == "its definition has changed"
    again = Heard()
    make(5).run(journal=path, resume=True, again=["b"], listener=again)
    assert [(e.task, e.detail) for e in again.events if e.kind == "again"] == [
        ("b", "it was asked for"),
        ("c", "task 'b', which it depends on, runs again"),
    ]


def test_a_result_that_cannot_be_kept_is_said(w, path, heard):
    w.task("a", lambda: {1})
    w.run(journal=path, listener=heard)
    assert heard.details("unkept") == [
        "its result is not in the journal: it is a set that JSON cannot hold "
        "(Object of type set is not JSON serializable)"
    ]


def test_a_refused_workflow_leaves_no_journal(w, path):
    w.task("a", "no_such_module:f")
    with pytest.raises(WorkflowError):
        w.run(journal=path)
    assert not path.exists()


def test_if_a_step_cannot_be_spawned_none_is_run(w, heard):
    """The steps that were spawned before it are cancelled."""
    ran = []
    for name in "abcd":
        w.task(name, ran.append, args=[name])
    run = Execution(w, listener=heard, budget=bursar.Budget(spawns=5))
    with pytest.raises(WorkflowError, match=r"task '[bcd]' of workflow 'w' cannot be spawned, .*spawn"):
        run.run()
    assert ran == []
    assert heard.kinds("a") == ["cancelled"]
    assert run.runtime.live == 0


@pytest.mark.parametrize("scenes", [0, 1, 5])
def test_a_film_is_a_script_some_scenes_and_a_cut(tmp_path, heard, scenes):
    """Each task is submitted once, also in the trace."""
    w = Workflow("film", resources={"cpu": 4})
    script = w.task("script", list, args=["abc"])
    images = [w.task(f"image-{n}", len, args=[script]) for n in range(scenes)]
    w.task("cut", max, args=[3, *images, 0])
    report = w.run(journal=tmp_path / "film.db", listener=heard, record=tmp_path / "film.trace")
    assert report.ok
    assert report.results["cut"] == 3
    assert report.journal == tmp_path / "film.db"
    assert len([event for event in heard.events if event.kind == "started"]) == 1 + scenes + 1
    submitted = [record for record in Trace(tmp_path / "film.trace").records() if record.name == "task_submitted"]
    assert len(submitted) == 1 + scenes + 1


def test_arguments_that_no_journal_can_hold(w, path):
    w.task("a", len, args=[{1}])
    assert w.run().results == {"a": 1}
    with pytest.raises(WorkflowError, match="cannot be written into a journal"):
        w.run(journal=path)
    assert not path.exists()


def test_resume_needs_a_journal(w):
    w.task("a", int)
    with pytest.raises(WorkflowError, match="need a journal"):
        w.run(resume=True)


def test_a_journal_that_cannot_be_written_stops_the_run(path):
    """WORKFLOW-3: no task runs without a record."""
    ran = []
    w = Workflow("w", resources={"cpu": 1})
    first = w.task("a", lambda: "x" * 500_000)
    w.task("b", ran.append, args=[first])
    w.task("c", ran.append, args=["c"], after=["a"])
    with Journal.create(path, w) as journal:
        journal._db.execute("PRAGMA max_page_count=1")
        run = Execution(w, journal=journal)
        with pytest.raises(JournalError, match="database or disk is full"):
            run.run()
    assert ran == []
    assert run.report().counts["cancelled"] == 2
