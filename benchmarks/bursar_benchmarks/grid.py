"""Tables as plain text, for all tables but the one of `bursar bench`."""

from __future__ import annotations

from collections.abc import Sequence


def grid(lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first line is the heading."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    ruled = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in ruled)
