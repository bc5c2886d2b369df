"""`bursar demo`: the same seed gives the same fingerprint, with any view, and the page is complete."""

import re

import pytest

FORCED = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": ""}  # Rich takes this for a terminal
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def fingerprint(answer):
    """The fingerprint that a demo has printed."""
    assert (answer.returncode, answer.stderr) == (0, "")
    (found,) = re.findall(r"^fingerprint ([0-9a-f]{16}) ", ANSI.sub("", answer.stdout), re.MULTILINE)
    return found


@pytest.fixture(scope="module")
def page():
    """The page of the plain demo, for several tests."""
    return {}


@pytest.fixture
def plain(bursar, page):
    if not page:
        page["text"] = bursar("demo", "--plain").stdout
    return page["text"]


def row(text, kind):
    """The cells of the row of one kind, in the table of what ran."""
    table = text[text.index("What ran") : text.index("What was stopped")]
    (line,) = re.findall(rf"^ {kind} .*", table, re.MULTILINE)
    return line


# The same seed, the same schedule


@pytest.mark.parametrize("workers", [1, 4])
def test_same_seed_same_fingerprint_in_every_process(bursar, workers):
    runs = [bursar("demo", "--workers", workers, PYTHONHASHSEED=seed) for seed in ("0", "4242")]
    assert len({fingerprint(run) for run in runs}) == 1
    assert len({run.stdout for run in runs}) == 1


@pytest.mark.parametrize("workers", [1, 4])
def test_the_live_view_does_not_touch_the_schedule(bursar, workers):
    watched = bursar("demo", "--workers", workers, "--seconds", "0.5", **FORCED)
    assert fingerprint(watched) == fingerprint(bursar("demo", "--workers", workers, "--plain"))


def test_other_seeds_and_other_workers_give_other_schedules(bursar):
    settings = ((1, 4), (2, 4), (2, 3))
    found = [fingerprint(bursar("demo", "--seed", seed, "--workers", workers)) for seed, workers in settings]
    assert len(set(found)) == len(found)


def test_says_that_the_unwatched_run_was_the_same(plain):
    assert "the same as in a run without an observer" in plain


# What is on the page


def test_every_page_was_fetched_stored_and_indexed(plain):
    assert re.search(r"pages +240 +stored, and 240 indexed", plain)
    assert "240 of 240 pages" in plain


def test_the_runaway_is_stopped_by_its_budget(plain):
    assert "1 failed" in row(plain, "runaway")
    assert re.search(r"runaway was stopped by its budget: task 'runaway' \(\d+\) is out of ops", plain)
    assert re.search(r"s  runaway +is out of ops and must stop", plain)


def test_the_subtree_is_cancelled_with_its_reason(plain):
    assert "3 cancelled" in row(plain, "branch")
    assert "24 cancelled" in row(plain, "leaf")
    assert "branch 0  cancelled: parent: nursery 'slow-site' is cancelled (timeout: the time is up)" in plain
    assert "leaf 2.0 … leaf 2.7" in plain


def test_the_stubborn_task_is_cut_off(plain):
    assert "1 cut off" in row(plain, "stubborn")
    assert "stubborn swallowed its cancellation and was cut off: cleanup took longer than 2 s" in plain


def test_the_supervised_tasks_are_restarted_and_recharged(plain):
    assert "1 ok, 3 failed" in row(plain, "indexer")
    assert plain.count("and is restarted") == 3
    assert plain.count("is recharged: ops=250") == 2


def test_the_table_says_who_waited_for_what(plain):
    for reason in (
        "waits for a permit of a semaphore",
        "waits for a lock",
        "waits to receive from channel",
        "ran out of ops and waits for a recharge",
    ):
        assert reason in plain


def test_a_longer_program(bursar):
    answer = bursar("demo", "--tasks", "1000", "--workers", "2")
    assert fingerprint(answer)
    assert re.search(r"pages +1,000 +stored, and 1,000 indexed", answer.stdout)


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_tiny_program(bursar, tasks):
    assert fingerprint(bursar("demo", "--tasks", tasks))


# How it is shown


@pytest.mark.parametrize("variables", [{}, FORCED])
def test_plain_has_no_escape_sequences(bursar, variables):
    answer = bursar("demo", "--plain", **variables)
    assert answer.returncode == 0
    assert "\x1b" not in answer.stdout


def test_the_live_view_shows_kinds_time_and_decisions(bursar):
    answer = bursar("demo", "--seconds", "0.5", **FORCED)
    assert "\x1b[" in answer.stdout
    frames = ANSI.sub("", answer.stdout).partition("What ran")[0]
    head = r"virtual time \d+\.\d{3} s +decisions [\d,]+ +live [\d,]+ of [\d,]+ +chain [0-9a-f]{16}"
    assert len(re.findall(head, frames)) == frames.count("virtual time") >= 4
    assert re.search(r"fetch +━+[╸╺]━+ +\d+/240 .* waits for a permit of a semaphore", frames)


def test_an_output_that_knows_no_unicode(bursar):
    assert fingerprint(bursar("demo", PYTHONIOENCODING="ascii"))


def test_a_kernel_that_is_not_there_is_refused(bursar):
    answer = bursar("demo", BURSAR_KERNEL="fast")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "no such kernel" in answer.stderr
