"""The pictures of one scene: a command of its own, so that scenes are drawn by as many processes as there are CPUs.

    python3 draw.py SCENE.json FOLDER

Each frame is a Julia set, computed point by point; the scene says where it begins and how it turns.
"""

import json
import math
import sys
from pathlib import Path

import png

DEPTH = 40


def frame(width: int, height: int, angle: float, colour: tuple[int, int, int]) -> bytes:
    c = complex(0.7885 * math.cos(angle), 0.7885 * math.sin(angle))
    red, green, blue = colour
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            z = complex((x / width - 0.5) * 3.2, (y / height - 0.5) * 1.8)
            left = DEPTH
            while left and z.real * z.real + z.imag * z.imag < 4:
                z = z * z + c
                left -= 1
            shade = 255 * (DEPTH - left) // DEPTH
            pixels += bytes((shade * red // 255, shade * green // 255, shade * blue // 255))
    return bytes(pixels)


def main(scene_file: str, folder: str) -> None:
    scene = json.loads(Path(scene_file).read_text())
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for number in range(scene["frames"]):
        angle = scene["angle"] + 0.9 * number / scene["frames"]
        pixels = frame(scene["width"], scene["height"], angle, scene["colour"])
        png.write(out / f"{number:03}.png", scene["width"], scene["height"], pixels)
        print(f"frame {number + 1} of {scene['frames']}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
