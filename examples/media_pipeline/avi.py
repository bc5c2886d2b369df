"""AVI files: uncompressed pictures and sound, interleaved, with an index. Any player takes them."""

import struct
from collections.abc import Sequence
from pathlib import Path


def chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def listed(kind: bytes, *parts: bytes) -> bytes:
    return chunk(b"LIST", kind + b"".join(parts))


def bottom_up_bgr(width: int, height: int, rgb: bytes) -> bytes:
    """A picture as Windows had it in 1992: from the last line to the first, blue first, lines padded to four bytes."""
    flipped = bytearray(len(rgb))
    flipped[0::3], flipped[1::3], flipped[2::3] = rgb[2::3], rgb[1::3], rgb[0::3]
    row, pad = width * 3, b"\0" * (-width * 3 % 4)
    return b"".join(bytes(flipped[y * row : (y + 1) * row]) + pad for y in reversed(range(height)))


def write(path: Path, width: int, height: int, fps: int, frames: Sequence[bytes], rate: int, pcm: bytes) -> None:
    """`frames` are RGB, `pcm` is sixteen-bit mono; the sound is cut into one piece for each frame."""
    pictures = [bottom_up_bgr(width, height, frame) for frame in frames]
    size = len(pictures[0])
    step = rate // fps * 2
    sounds = [pcm[i * step : (i + 1) * step] for i in range(len(frames))]
    movie, index, at = [], [], 4
    for picture, sound in zip(pictures, sounds, strict=True):
        for kind, data in ((b"00db", picture), (b"01wb", sound)):
            index.append(struct.pack("<4sIII", kind, 0x10, at, len(data)))
            movie.append(chunk(kind, data))
            at += len(movie[-1])
    head = struct.pack(
        "<14I", 1_000_000 // fps, (size + step) * fps, 0, 0x110, len(frames), 0, 2, size, width, height, 0, 0, 0, 0
    )
    video = struct.pack(
        "<4s4sIHHIIIIIIIIHHHH", b"vids", b"DIB ", 0, 0, 0, 0, 1, fps, 0, len(frames), size, 0, 0, 0, 0, width, height
    )
    bitmap = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, size, 0, 0, 0, 0)
    samples = len(pcm) // 2
    audio = struct.pack(
        "<4s4sIHHIIIIIIIIHHHH", b"auds", b"\0" * 4, 0, 0, 0, 0, 1, rate, 0, samples, step, 0, 2, 0, 0, 0, 0
    )
    sound = struct.pack("<HHIIHHH", 1, 1, rate, rate * 2, 2, 16, 0)
    header = listed(
        b"hdrl",
        chunk(b"avih", head),
        listed(b"strl", chunk(b"strh", video), chunk(b"strf", bitmap)),
        listed(b"strl", chunk(b"strh", audio), chunk(b"strf", sound)),
    )
    body = b"AVI " + header + listed(b"movi", *movie) + chunk(b"idx1", b"".join(index))
    path.write_bytes(chunk(b"RIFF", body))
