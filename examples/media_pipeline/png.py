"""PNG files, as far as this pipeline needs them: eight-bit RGB, no filters, checked when read."""

import struct
import zlib
from pathlib import Path

MAGIC = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write(path: Path, width: int, height: int, rgb: bytes) -> None:
    row = width * 3
    lines = b"".join(b"\0" + rgb[y * row : (y + 1) * row] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(MAGIC + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b""))


def read(path: Path) -> tuple[int, int, bytes]:
    """Width, height and pixels of a file that `write` wrote."""
    data = path.read_bytes()
    if data[:8] != MAGIC:
        raise ValueError(f"{path} is no PNG file")
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if struct.unpack_from(">I", data, at + 8 + length)[0] != zlib.crc32(kind + body):
            raise ValueError(f"{path} is damaged")
        chunks[kind] = chunks.get(kind, b"") + body
        at += length + 12
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    lines, row = zlib.decompress(chunks[b"IDAT"]), width * 3 + 1
    return width, height, b"".join(lines[y * row + 1 : (y + 1) * row] for y in range(height))
