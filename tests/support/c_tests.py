"""Tests in C, found by their text: which functions of a file are tests that its program runs."""

import re
from functools import cache
from pathlib import Path


@cache
def c_tests(path: Path) -> set[str]:
    """The functions of a C file that take nothing, a size of the test, or what `main` takes, and that something in the
    file calls or lists. `main` is called by whoever starts the program."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    defined = set(re.findall(r"^(\w+)\((?:void|bool \w+|uint32_t \w+|int \w+, char \*\*\w+)\)\n\{", text, re.MULTILINE))
    return {name for name in defined if name == "main" or len(re.findall(rf"\b{name}\b", text)) > 1}
