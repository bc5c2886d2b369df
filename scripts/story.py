"""A story becomes a video: script → images and audio per scene → compose. `bench_m3.py` measures this by default.

Every step is a plain function on Bursar's pool, with real work (text, hashing, compression), priorities and needs. The
environment configures the gate (`BURSAR_SCHEDULER`, `BURSAR_CPU_SLOTS`, `BURSAR_VRAM_MB` and so on). Two pictures
together need more VRAM than there is by default, so one waits for the other.

    python scripts/story.py --scene-count 4
"""

from __future__ import annotations

import argparse
import hashlib
import random
import zlib

import bursar
from bursar import Checkpoint, Priority

PIXELS = 1 << 18  # bytes of a picture: enough that its compression takes longer than all the scheduling
PASSES = 4
SAMPLES = 1 << 17  # bytes of sound

WORDS = ("a", "lamp", "crosses", "the", "quiet", "river", "and", "nobody", "sees", "it", "again")


def write_script(scenes: int) -> list[str]:
    """The text of every scene."""
    rng = random.Random(scenes)
    return [" ".join(rng.choices(WORDS, k=200)) for _ in range(scenes)]


def draw(script: list[str], scene: int, checkpoint: Checkpoint) -> bytes:
    """The picture of a scene."""
    picture = random.Random(script[scene]).randbytes(PIXELS)
    for done in range(PASSES):
        checkpoint(progress=done / PASSES, message=f"picture {scene}, pass {done}")
        picture = zlib.decompress(zlib.compress(picture, 6))
    return hashlib.sha256(picture).digest()


def speak(script: list[str], scene: int, checkpoint: Checkpoint) -> bytes:
    """The sound of a scene."""
    sound = random.Random(scene).randbytes(SAMPLES)
    checkpoint(progress=0.5, message=f"sound {scene}")
    return hashlib.sha256(zlib.compress(sound, 9) + script[scene].encode()).digest()


def compose(pictures: list[bytes], sounds: list[bytes]) -> str:
    """All of it together."""
    return hashlib.sha256(b"".join(pictures + sounds)).hexdigest()


async def make(scenes: int) -> str:
    """The graph."""
    async with bursar.nursery(name="story") as n:
        script = n.spawn(write_script, scenes, priority=Priority.HIGH, needs={"ram": "64MiB"})
        pictures = [
            n.spawn(draw, script, scene, name=f"draw {scene}", needs={"ram": "256MiB", "vram": "4GiB"})
            for scene in range(scenes)
        ]
        sounds = [
            n.spawn(speak, script, scene, name=f"speak {scene}", needs={"ram": "128MiB"}) for scene in range(scenes)
        ]
        film = n.spawn(compose, pictures, sounds, priority=Priority.LOW, needs={"ram": "512MiB"})
    return film.result


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a film and print how long its tasks waited.")
    parser.add_argument("--scene-count", type=int, default=4)
    scenes = parser.parse_args().scene_count
    runtime = bursar.Runtime()
    film = runtime.run(make, scenes)
    found = runtime.statistics().admission
    print(f"scheduler={runtime.settings.scheduler} film={film[:16]}")
    print(f"tasks_admitted={found.admitted}")
    print(f"queue_wait_ms={found.wait_mean * 1000:.3f}")
    print(f"resource_budget_hits={found.passed_over}")


if __name__ == "__main__":
    main()
