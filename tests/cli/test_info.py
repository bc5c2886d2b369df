"""`bursar info`, and the messages of a command line that cannot work."""

import json
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest
from support.kernel import kernel_in_use
from support.time_limits import WAIT_S

from bursar.cli import COMMANDS


def test_json_holds_the_facts(bursar):
    answer = bursar("info", "--json")
    assert answer.returncode == 0, answer.stderr
    facts = json.loads(answer.stdout)
    assert facts["version"] == version("bursar")
    assert facts["kernel"] == kernel_in_use()
    assert facts["python"]["version"] == platform.python_version()
    assert list(facts["profiles"]) == ["core", "service", "cluster", "sovereign"]


def test_the_settings_are_shown(bursar):
    variables = {"STV_SCHEDULER": "simple", "BURSAR_WORKERS": "5", "STV_SCHED_VRAM_MB_SOFT": "0"}
    facts = json.loads(bursar("info", "--json", **variables).stdout)
    assert facts["settings"] == {
        "scheduler": "simple",
        "workers": 5,
        "cpu_slots": 5,
        "ram_mb": 2048,
        "vram_mb": 0,
        "aging_ms": 500,
        "aging_boost": 1,
        "pause_ms": 1500,
    }
    table = bursar("info", **variables).stdout
    assert "simple, 5 workers" in table
    assert "cpu 5, ram 2,048 MiB, vram unlimited" in table


def test_json_reports_the_native_extension_as_it_is(bursar):
    native = json.loads(bursar("info", "--json").stdout)["native"]
    try:
        from bursar import _native
    except ImportError:
        assert native["present"] is False
        assert "C compiler" in native["why_it_matters"]
    else:
        assert native == {"present": True, "kernel": True, "build": _native.build_info()}


def test_json_has_the_c_library_where_there_is_one(bursar):
    found = json.loads(bursar("info", "--json").stdout)["c_library"]
    flags = bursar("info", "--cflags", "--libs")
    if found["present"]:
        assert (flags.returncode, flags.stdout) == (0, shlex.join(found["cflags"] + found["libs"]) + "\n")
    else:
        assert (flags.returncode, flags.stderr) == (2, f"bursar: {found['why']}\n")


def test_without_a_c_library_the_flags_are_refused(monkeypatch, capsys):
    from bursar.cli.info import c_library, c_library_line, flags

    monkeypatch.setitem(sys.modules, "bursar._native", None)
    monkeypatch.delattr("bursar._native", raising=False)
    assert c_library()["present"] is False
    assert "C compiler" in c_library_line(c_library())
    with pytest.raises(SystemExit) as refused:
        flags(["cflags"])
    assert refused.value.code == 2
    assert "no C library" in capsys.readouterr().err


@pytest.mark.parametrize("options", [("--json", "--libs"), ("--static",), ("--static", "--cflags")], ids=" ".join)
def test_options_that_make_no_sense_together_are_refused(bursar, options):
    answer = bursar("info", *options)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert options[0] in answer.stderr


def test_the_table_says_the_same_in_words(bursar):
    answer = bursar("info")
    assert answer.returncode == 0, answer.stderr
    for text in (version("bursar"), "kernel", "C library", "python", platform.python_version(), "sovereign"):
        assert text in answer.stdout


def test_an_absent_extension_is_explained(monkeypatch):
    from bursar.cli.info import native_extension, native_line

    monkeypatch.setitem(sys.modules, "bursar._native", None)
    monkeypatch.delattr("bursar._native", raising=False)
    line = native_line(native_extension())
    assert line.startswith("absent: ")
    assert "no working C compiler" in line
    assert "Python kernel" in line


def test_the_python_kernel_can_be_asked_for(bursar):
    assert json.loads(bursar("info", "--json", BURSAR_KERNEL="python").stdout)["kernel"] == "python"


def test_a_kernel_that_is_not_there_is_refused(bursar):
    answer = bursar("info", BURSAR_KERNEL="fast")
    assert answer.returncode == 2
    assert "BURSAR_KERNEL=fast" in answer.stderr
    assert "no such kernel" in answer.stderr
    assert answer.stdout == ""


def test_every_command_is_there(bursar):
    answer = bursar("--help")
    assert answer.returncode == 0
    assert all(command in answer.stdout for command in COMMANDS)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_packages_the_command_line_names_the_remedy(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from bursar.cli import main; main()"
    answer = subprocess.run([sys.executable, "-c", code, "info"], capture_output=True, text=True, timeout=WAIT_S)
    assert answer.returncode == 2
    assert answer.stderr.strip().endswith("pip install 'bursar[cli]'")
    assert missing in answer.stderr


def test_ctrl_c_while_the_command_line_is_loaded_says_nothing():
    code = "import bursar.cli as cli, signal; cli.build_app = lambda: signal.raise_signal(signal.SIGINT); cli.main()"
    answer = subprocess.run([sys.executable, "-c", code, "info"], capture_output=True, text=True, timeout=WAIT_S)
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")
