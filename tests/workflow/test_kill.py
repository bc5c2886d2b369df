"""A workflow that is killed with SIGKILL at random moments, and resumed, has the same results as without a kill.

The workflow is a random graph of three hundred tasks: functions on threads, coroutine functions and commands. Each task
uses the results of its dependencies. The installed command runs it in another process. A kill comes after a number of
lines of output, from a seeded stream; the number may be 0.

Afterwards the results are those of a run without a kill. The journal has each task as done exactly once, and a kill
ended each attempt before that. No function began before its record, and none began after its task was done.
"""

import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

TASKS = 300
KILLS_MAX = 4  # of one run; then it may end
LINES = 2 * TASKS  # of a run without a kill: a start and an end for each task

WORK = '''
import hashlib
import os


def mixed(name, before):
    return hashlib.sha256(repr((name, before)).encode()).hexdigest()[:16]


def began(name):
    """Write one line for each start of the task, in one write."""
    file = os.open("began/" + name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"x\\n")
    os.close(file)


def plain(name, *before):
    began(name)
    return {"is": mixed(name, before), "n": len(before)}


async def coroutine(name, *before):
    began(name)
    return [mixed(name, before)]
'''


def workflow_text(rng: random.Random) -> str:
    """A random graph of three kinds of tasks."""
    text = ['name = "kill"', "[authority]", 'order = "aging"', "resources = { cpu = 4 }"]
    for number in range(TASKS):
        name = f"t{number}"
        before = [f"${{t{other}}}" for other in rng.sample(range(number), min(number, rng.randrange(4)))]
        text.append(f"[task.{name}]")
        if number % 30 == 7:
            line = "echo x >> began/$BURSAR_TASK; echo $ALL | cksum"
            text += [f"shell = {json.dumps(line)}", f"env = {{ ALL = {json.dumps(' '.join(before))} }}"]
            text += ['output = "capture"']
        else:
            kind = "coroutine" if number % 3 else "plain"
            text += [f'run = "work:{kind}"', f"args = {json.dumps([name, *before])}"]
        text.append(f"priority = {rng.randrange(100)}")
    return "\n".join(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("kill")
    (made / "work.py").write_text(WORK)
    (made / "workflow.toml").write_text(workflow_text(random.Random(7)))
    return made


def start(folder: Path, run: Path) -> subprocess.Popen[bytes]:
    """The command, in a separate folder for the files of the tasks."""
    script = Path(sys.executable).parent / "bursar"
    command = [script, "run", run / "workflow.toml", "--journal", run / "run.journal", "--resume", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def prepare(folder: Path, run: Path) -> Path:
    (run / "began").mkdir(parents=True)
    for name in ("work.py", "workflow.toml"):
        (run / name).write_bytes((folder / name).read_bytes())
    return run


def finish(process: subprocess.Popen[bytes]) -> None:
    out, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (0, b""), out[-2000:]


def kill_after(process: subprocess.Popen[bytes], lines: int) -> None:
    """Read this number of lines, then kill the run, wherever it is by then."""
    assert process.stdout is not None
    for _ in range(lines):
        if not process.stdout.readline():
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()


def rows(run: Path, query: str) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(run / "run.journal")) as db:
        return db.execute(query).fetchall()


def results(run: Path) -> dict[str, str]:
    return dict(rows(run, "SELECT name, result FROM task"))


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory) -> dict[str, str]:
    run = prepare(folder, tmp_path_factory.mktemp("undisturbed") / "run")
    finish(start(folder, run))
    found = results(run)
    assert len(found) == TASKS
    assert all(found.values())
    return found


def check(run: Path, undisturbed: dict[str, str]) -> None:
    assert results(run) == undisturbed
    assert rows(run, "SELECT DISTINCT state, edition FROM task") == [("ok", 1)]
    attempts: dict[str, list[str]] = {}
    for name, ending in rows(run, "SELECT task, ending FROM attempt ORDER BY task, n"):
        attempts.setdefault(name, []).append(ending)
    for name in undisturbed:
        endings = attempts[name]
        assert endings == ["lost"] * (len(endings) - 1) + ["ok"], name
        begun = len((run / "began" / name).read_text().split())
        assert 1 <= begun <= len(endings), name
    assert [number for (number,) in rows(run, "SELECT n FROM session")] == list(
        range(1, 1 + rows(run, "SELECT count(*) FROM session")[0][0])
    )


def disturb(folder: Path, run: Path, seed: int) -> int:
    """Run, kill, resume, and so on. Returns the number of kills that hit a run before its end."""
    rng = random.Random(seed)
    killed = 0
    for _ in range(rng.randrange(1, KILLS_MAX + 1)):
        process = start(folder, run)
        kill_after(process, rng.choice((0, 1, rng.randrange(LINES), rng.randrange(LINES))))
        killed += process.returncode == -signal.SIGKILL
    finish(start(folder, run))
    return killed


@pytest.mark.parametrize("seed", range(4))
def test_killed_and_resumed(folder, undisturbed, tmp_path, seed):
    run = prepare(folder, tmp_path / "run")
    assert disturb(folder, run, seed) >= 1
    check(run, undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_two_hundred_times(folder, undisturbed, tmp_path):
    killed = 0
    for seed in range(100, 300):
        run = prepare(folder, tmp_path / str(seed))
        killed += disturb(folder, run, seed)
        check(run, undisturbed)
    assert killed >= 200
