"""The media pipeline: it makes a film of real pictures and sound, and goes on where it was killed."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from support.time_limits import WAIT_S

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "bursar"


@pytest.fixture
def pipeline(tmp_path):
    """A copy of its folder, so that nothing is left in the checkout, and the command in its environment."""
    source = ROOT / "examples" / "media_pipeline"
    shutil.copytree(source, tmp_path / "film", ignore=shutil.ignore_patterns("out", "__pycache__"))
    folder = tmp_path / "film"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # some python3 must be there
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": path}

    def start(*args):
        command = [SCRIPT, *args, "--json"]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return folder, start


def events(process):
    out, errors = process.communicate(timeout=WAIT_S)
    assert errors == ""
    return [json.loads(line) for line in out.splitlines()]


def test_a_film(pipeline):
    folder, start = pipeline
    found = events(start("run", folder / "workflow.toml"))
    assert found[-1].items() >= {"event": "summary", "exit_code": 0, "counts": {"ok": 12}}.items()
    assert found[-1]["critical_path"][0] == "script"
    assert found[-1]["critical_path"][-1] == "checksum"
    results = {one["task"]: one["result"] for one in found if one["event"] == "ok"}
    film = (folder / "out" / "film.avi").read_bytes()
    assert results["compose"] == {
        "file": "out/film.avi",
        "frames": 32,
        "width": 96,
        "height": 54,
        "bytes": len(film),
    }
    assert film[:4] + film[8:12] == b"RIFFAVI "
    assert struct.unpack_from("<I", film, 4)[0] + 8 == len(film)
    assert film.count(b"00db") == film.count(b"01wb") == 2 * 32  # in the movie and in its index
    assert results["checksum"].split()[1] == str(len(film))
    assert len(list((folder / "out").glob("images-*/*.png"))) == 32
    with wave.open(str(folder / "out" / "sound.wav")) as sound:
        assert sound.getnframes() / sound.getframerate() == results["mix"]["seconds"] == 4.0


def test_it_stays_within_its_limits(pipeline):
    """At no time do more than two draw, and nobody runs beside `compose`: it takes both CPUs."""
    folder, start = pipeline
    running: set[str] = set()
    for one in events(start("run", folder / "workflow.toml")):
        if one["event"] == "started":
            running.add(one["task"])
            assert sum(name.startswith("images") for name in running) <= 2
            assert "compose" not in running or running == {"compose"}
        elif one["event"] in ("ok", "failed"):
            running.discard(one["task"])


def test_killed_and_resumed_it_is_the_same_film(pipeline):
    folder, start = pipeline
    process = start("run", folder / "workflow.toml")
    done = set()
    for line in process.stdout:
        found = json.loads(line)
        if found["event"] == "ok":
            done.add(found["task"])
        if len(done) == 4:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    resumed = events(start("resume", folder / "workflow.toml"))
    assert resumed[-1].items() >= {"exit_code": 0, "counts": {"ok": 12}}.items()
    assert not done & {one["task"] for one in resumed if one["event"] == "started"}
    film = (folder / "out" / "film.avi").read_bytes()
    shutil.rmtree(folder / "out")
    events(start("run", folder / "workflow.toml"))
    assert (folder / "out" / "film.avi").read_bytes() == film
