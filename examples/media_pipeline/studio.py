"""The script, the voices, the mix and the film: plain functions, which run on threads.

What a task returns is small and plain, the names of files and a few numbers; the work itself is in the files. So a run
that is resumed finds everything where it was.
"""

import json
import math
import wave
from array import array
from pathlib import Path

import avi
import png

from bursar import Checkpoint

RATE = 16_000  # samples per second
FPS = 8

LINES = (
    "a coast at dawn",
    "the fog lifts slowly",
    "birds over the cliffs",
    "and then the tide",
)


def write(out: str, width: int, height: int, frames: int) -> dict:
    """The script: one file for each scene."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    scenes = []
    for number, line in enumerate(LINES):
        colour = [255 - 50 * number, 120 + 30 * number, 90 + 50 * number]
        scene = {"line": line, "angle": 0.6 + 1.3 * number, "colour": colour}
        file = folder / f"scene-{number}.json"
        file.write_text(json.dumps(scene | {"width": width, "height": height, "frames": frames}))
        scenes.append(str(file))
    return {"scenes": scenes, "frames": frames, "seconds": frames / FPS}


def speak(scene_file: str, seconds: float, out: str, checkpoint: Checkpoint) -> str:
    """The voice of one scene: a tone for each letter, with two overtones, and silence for a space."""
    line = json.loads(Path(scene_file).read_text())["line"]
    total = int(seconds * RATE)
    each = total // len(line)
    samples = array("h")
    for place, letter in enumerate(line):
        checkpoint(progress=place / len(line), message=letter)
        pitch = 0 if letter == " " else 110 * 2 ** ((ord(letter) - 97) / 24)
        for i in range(each):
            fade = min(1.0, i / 200, (each - i) / 200)
            turn = 2 * math.pi * pitch * i / RATE
            tone = math.sin(turn) + 0.4 * math.sin(2 * turn) + 0.2 * math.sin(3 * turn)
            samples.append(int(6000 * fade * tone))
    samples.extend([0] * (total - len(samples)))
    write_wave(Path(out), samples)
    return out


def mix(voices: list, out: str) -> dict:
    """All voices, one after the other, over a low drone."""
    samples = array("h")
    for voice in voices:
        with wave.open(voice) as file:
            samples.frombytes(file.readframes(file.getnframes()))
    for i in range(len(samples)):
        samples[i] += int(900 * math.sin(2 * math.pi * 55 * i / RATE))
    write_wave(Path(out), samples)
    return {"file": out, "seconds": len(samples) / RATE}


def compose(folders: list, sound: str, out: str, checkpoint: Checkpoint) -> dict:
    """The film: every picture in order, and the sound."""
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.png"))]
    frames, width, height = [], 0, 0
    for place, file in enumerate(files):
        checkpoint(progress=place / len(files))
        width, height, pixels = png.read(file)
        frames.append(pixels)
    with wave.open(sound) as file:
        pcm = file.readframes(file.getnframes())
    avi.write(Path(out), width, height, FPS, frames, RATE, pcm)
    return {"file": out, "frames": len(frames), "width": width, "height": height, "bytes": Path(out).stat().st_size}


def write_wave(path: Path, samples: array) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
