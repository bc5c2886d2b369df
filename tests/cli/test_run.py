"""`bursar run`: the installed script runs real files, and exits with 0, 1, 2, 3 or 130."""

import hashlib
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from textwrap import dedent

import pytest
from support.evidence import Trace, verify
from support.metered import require_meter
from support.time_limits import WAIT_S


@pytest.fixture
def program(tmp_path):
    """Write a program file and return its path."""

    def write(text, name="program.py"):
        file = tmp_path / name
        file.write_text(dedent(text).lstrip())
        return file

    return write


@pytest.fixture
def started(script, environment, tmp_path):
    """Start a program that prints `started` once it runs, and leave it running."""
    processes = []

    def start(file):
        process = subprocess.Popen(
            [script, "run", file],
            cwd=tmp_path,
            env=environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "started\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


WORKING = """
    import bursar

    async def child(n):
        for _ in range(n):
            await bursar.checkpoint()
        return n

    async def main():
        async with bursar.nursery() as nursery:
            tasks = [nursery.spawn(child, n) for n in range(8)]
        return sum(task.result for task in tasks)
"""


# What a program gives and is given


def test_prints_the_result(bursar, program):
    answer = bursar("run", program("async def main():\n    return 42\n"))
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "42\n", "")


def test_prints_nothing_for_none(bursar, program):
    answer = bursar("run", program("async def main():\n    pass\n"))
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_hands_the_arguments_to_main(bursar, program):
    file = program("""
        import sys

        async def main(first, *rest):
            return first, rest, sys.argv[1:]
    """)
    answer = bursar("run", file, "--seed", "7", "a", "--", "b c", "--seed")
    assert answer.stdout == "('a', ('b c', '--seed'), ['a', 'b c', '--seed'])\n", answer.stderr


def test_the_folder_of_the_file_is_importable(bursar, program, tmp_path):
    (tmp_path / "sub").mkdir()
    program("ANSWER = 42\n", "sub/helper.py")
    file = program("import helper\n\nasync def main():\n    return helper.ANSWER\n", "sub/program.py")
    assert bursar("run", file).stdout == "42\n"


def test_the_file_is_not_run_as_a_script(bursar, program):
    file = program("""
        import bursar

        async def main():
            return "once"

        if __name__ == "__main__":
            print(bursar.run(main))
    """)
    assert bursar("run", file).stdout == "once\n"


def test_a_virtual_clock_does_not_wait(bursar, program):
    file = program("""
        import bursar

        async def main():
            begin = await bursar.now()
            await bursar.sleep(86_400)
            return await bursar.now() - begin
    """)
    answer = bursar("run", file, "--clock", "virtual")
    assert answer.stdout == "86400.0\n", answer.stderr


# What can be asked of the runtime


def test_the_same_seed_gives_the_same_fingerprint(bursar, program):
    file = program(WORKING)
    options = ("--fingerprint", "--workers", "4", "--clock", "virtual")
    one, again, other = (bursar("run", file, *options, "--seed", seed) for seed in (1, 1, 2))
    assert one.stdout == "28\n"
    assert re.fullmatch(r"fingerprint [0-9a-f]{16}\n", one.stderr)
    assert again.stderr == one.stderr
    assert other.stderr != one.stderr


@pytest.mark.parametrize("policy", ["random", "round_robin", "least_loaded"])
def test_takes_every_stealing_policy(bursar, program, policy):
    answer = bursar("run", program(WORKING), "--workers", "3", "--steal", policy)
    assert (answer.returncode, answer.stdout) == (0, "28\n"), answer.stderr


def test_statistics_and_fingerprint_also_follow_a_failure(bursar, program):
    file = program("async def main():\n    raise ValueError('no')\n")
    answer = bursar("run", file, "--statistics", "--fingerprint")
    assert answer.returncode == 1
    assert "ValueError: no" in answer.stderr
    assert re.search(r"^fingerprint [0-9a-f]{16}$", answer.stderr, re.MULTILINE)
    assert len(answer.stderr) > len(bursar("run", file, "--fingerprint").stderr)


def test_a_profile_is_passed_on(bursar, program):
    answer = bursar("run", program(WORKING), "--profile", "sovereign", "--ops", "1000", "--spawns", "10")
    assert answer.returncode == 1
    assert "CapabilityDenied" in answer.stderr


def test_the_sovereign_profile_wants_a_budget(bursar, program):
    answer = bursar("run", program(WORKING), "--profile", "sovereign")
    assert answer.returncode == 2
    assert "grants nothing by itself" in answer.stderr


# How a program ends badly


def test_a_failure_exits_1_with_its_traceback(bursar, program):
    file = program("""
        class Broken(Exception):
            pass

        async def main():
            raise Broken("so sad")
    """)
    answer = bursar("run", file)
    assert answer.returncode == 1
    assert "Broken: so sad" in answer.stderr
    assert answer.stderr.startswith(f'Traceback (most recent call last):\n  File "{file}", line 5, in main\n')


SPENDER = """
    import bursar

    async def spend():
        while True:
            await bursar.checkpoint()

    async def main(where):
        if where == "main":
            await spend()
        async with bursar.nursery() as nursery:
            nursery.spawn(spend)
"""


@pytest.mark.parametrize("where", ["main", "child"])
def test_a_spent_budget_exits_3(bursar, program, where):
    answer = bursar("run", program(SPENDER), where, "--ops", "500")
    assert answer.returncode == 3
    assert "BudgetExceeded" in answer.stderr


def test_a_spent_budget_beside_another_failure_exits_1(bursar, program):
    file = program("""
        from bursar import BudgetExceeded

        async def main():
            raise ExceptionGroup("both", [BudgetExceeded("spent"), ValueError("broken")])
    """)
    assert bursar("run", file).returncode == 1


def test_no_spawns_granted_exits_3(bursar, program):
    answer = bursar("run", program(WORKING), "--spawns", "3")
    assert answer.returncode == 3
    assert "SpawnBudgetExceeded" in answer.stderr


GREEDY = """
    async def main():
        kept = []
        while True:
            kept.append(bytes(10_000))
"""


def test_metered_memory_that_runs_out_exits_3(bursar, program):
    require_meter()
    answer = bursar("run", program(GREEDY), "--meter-memory", "--memory", "5000000")
    assert answer.returncode == 3
    assert "MemoryBudgetExceeded" in answer.stderr


def test_metered_memory_is_not_recorded(bursar, program, tmp_path):
    answer = bursar("run", program(GREEDY), "--meter-memory", "--record", tmp_path / "run.trace")
    assert answer.returncode == 2
    assert "choose one of the two" in answer.stderr


def test_the_exit_code_of_sys_exit_is_kept(bursar, program):
    assert bursar("run", program("import sys\nsys.exit(7)\n")).returncode == 7


# Recording


def test_record_writes_a_trace_that_knows_its_program(bursar, program, tmp_path):
    file = program("async def main(a, b):\n    return a + b\n")
    plain = bursar("run", file, "x", "y", "--fingerprint")
    answer = bursar("run", file, "--record", "run.trace", "--fingerprint", "x", "y")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "xy\n", plain.stderr)
    trace = Trace(tmp_path / "run.trace")
    assert trace.header["program"] == {
        "file": str(file),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "function": "main",
        "args": ["x", "y"],
    }
    *_, last = trace.events()
    assert f"fingerprint {last.decision_hash:016x}\n" == answer.stderr


def test_a_program_that_fails_is_recorded_and_exits_1(bursar, program, tmp_path):
    answer = bursar("run", program("async def main():\n    1 / 0\n"), "--record", "run.trace")
    assert answer.returncode == 1
    classes = {event.error_class for event in Trace(tmp_path / "run.trace").events()}
    assert classes == {"", "ZeroDivisionError"}


def test_a_program_without_budget_is_recorded_and_exits_3(bursar, program, tmp_path):
    answer = bursar("run", program(SPENDER), "main", "--ops", "500", "--record", "run.trace")
    assert answer.returncode == 3
    assert "budget_exceeded" in {event.name for event in Trace(tmp_path / "run.trace").events()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_trace_that_could_not_be_written_is_told_and_does_not_exit_0(bursar, program):
    file = program("async def main(*args):\n    assert not args\n    return 'done'\n")
    answer = bursar("run", file, "--record", "/dev/full")
    assert (answer.returncode, answer.stdout) == (2, "done\n")
    assert answer.stderr == "bursar: the trace /dev/full is incomplete: [Errno 28] No space left on device\n"
    assert bursar("run", file, "--record", "/dev/full", "fail").returncode == 1


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ("folder", "Is a directory"),
        ("nowhere/run.trace", "No such file or directory"),
        ("run.py/x", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_trace_that_can_never_be_written_is_refused_before_the_file_is_imported(
    bursar, program, tmp_path, record, text
):
    (tmp_path / "folder").mkdir()
    program("", "run.py")
    file = program("print('imported')\nasync def main():\n    print('ran')\n")
    assert refused(bursar("run", file, "--record", record), f"--record {record}: the trace cannot be written: {text}")


def test_a_trace_does_not_overwrite_its_program(bursar, program):
    file = program("async def main():\n    print('ran')\n")
    assert refused(bursar("run", file, "--record", file), f"--record {file}: the trace would overwrite the program")
    assert "print('ran')" in file.read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_trace_can_go_through_a_pipe(bursar, program, tmp_path):
    pipe, copied = tmp_path / "pipe", tmp_path / "run.trace"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copied.write_bytes(pipe.read_bytes()))
    reader.start()
    answer = bursar("run", program("async def main():\n    return 'done'\n"), "--record", pipe)
    reader.join()
    assert (answer.returncode, answer.stdout) == (0, "done\n")
    assert verify(Trace(copied)).decisions == 1


def test_a_refused_command_leaves_no_trace_behind(bursar, program, tmp_path):
    assert refused(bursar("run", program("x = 1\n"), "--record", "run.trace"), "no 'async def main'")
    assert not (tmp_path / "run.trace").exists()


# What is refused before anything runs


def refused(answer, *texts):
    assert answer.returncode == 2, answer
    assert answer.stdout == ""
    for text in texts:
        assert text in answer.stderr
    return True


def test_refuses_a_missing_file(bursar):
    assert refused(bursar("run", "nowhere.py"), "nowhere.py: there is no such file")
    assert refused(bursar("run", "x" * 300), "there is no such file")


def test_refuses_a_file_that_raises_at_import(bursar, program):
    file = program("x = 1\n\ny = x / 0\n\nasync def main():\n    pass\n")
    answer = bursar("run", file)
    assert refused(answer, f"{file}:3: ", "cannot be imported: ZeroDivisionError: division by zero")
    assert "cli/run.py" not in answer.stderr


def test_refuses_a_file_whose_import_raises_elsewhere(bursar, program):
    program("boom = 1 / 0\n", "helper.py")
    file = program("import sys\nimport helper\n")
    assert refused(bursar("run", file), f"{file}:2: ", "helper.py", "boom = 1 / 0")


def test_refuses_a_file_with_a_syntax_error(bursar, program):
    file = program("async def main():\n    return (\n")
    assert refused(bursar("run", file), f"{file}:2: ", "SyntaxError")


def test_refuses_a_file_without_main(bursar, program):
    file = program("x = 1\n\nasync def start():\n    pass\n")
    assert refused(bursar("run", file), f"{file}:1: the file has no 'async def main'", "start (line 3)")


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    return 1\n",
        "async def main():\n    yield 1\n",
        "class main:\n    pass\n",
        "main = 3\n",
    ],
)
def test_refuses_a_main_that_is_not_async(bursar, program, text):
    file = program(text)
    assert refused(bursar("run", file), f"{file}:1: 'main' is not an 'async def' function")


@pytest.mark.parametrize("args", [(), ("a", "b", "c")])
def test_refuses_arguments_that_do_not_fit(bursar, program, args):
    file = program("import os\nasync def main(first, second=None):\n    pass\n")
    assert refused(bursar("run", file, *args), f"{file}:2: the arguments do not fit main(first, second=None)")


def test_refuses_a_kernel_that_is_not_there(bursar, program):
    assert refused(bursar("run", program(WORKING), BURSAR_KERNEL="fast"), "BURSAR_KERNEL=fast")


@pytest.mark.parametrize(
    "options",
    [
        ("--profile", "core"),
        ("--clock", "lunar"),
        ("--steal", "everything"),
        ("--workers", "0"),
        ("--ops", "-1"),
    ],
)
def test_refuses_options_that_make_no_sense(bursar, program, options):
    assert refused(bursar("run", program(WORKING), *options), options[0])


# Signals

WAITING = """
    import bursar

    async def child():
        await bursar.sleep(3600)

    async def main():
        try:
            async with bursar.nursery(name="yard") as nursery:
                nursery.spawn(child, name="sleeper")
                print("started")
                await bursar.sleep(3600)
        finally:
            print("cleaned up")
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_ctrl_c_cleans_up_and_exits_130(program, started):
    process = started(program(WAITING))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, err
    assert out == "cleaned up\n"
    assert "Traceback" not in err


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
def test_sigusr1_prints_the_tree_and_the_program_goes_on(program, started):
    process = started(program(WAITING))
    process.send_signal(signal.SIGUSR1)
    lines = []
    while "sleeper" not in "".join(lines):
        line = process.stderr.readline()
        assert line, "the program ended"
        lines.append(line)
    assert "yard" in "".join(lines)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 130


@pytest.mark.parametrize("name", ["w.yaml", "w.json", "w.TOML", "notes.txt"])
def test_a_file_of_another_kind_is_refused(bursar, tmp_path, name):
    (tmp_path / name).write_text("import sys; sys.exit(7)\n")
    said = bursar("run", str(tmp_path / name))
    assert said.returncode == 2
    assert (
        f"{name}: FILE must be a Python file (.py) with an 'async def main', or a workflow file (.toml)" in said.stderr
    )
