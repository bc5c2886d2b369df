"""A tick is a decrement and a branch: seen in what compilers make of the header, for both machines.

The way of a tick that is not due goes straight through the assembly, from the function's label to its return, past a
branch that is not taken. Each instruction on it must be of a known kind, and there is one of each. A load and a store
belong to the decrement where a machine has no instruction for all of it.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from support.building import STRICT, needed, run

INCLUDE = Path(__file__).parents[3] / "native" / "include"
SOURCE = """
#include <janus_interop.h>

int one(janus_ticks *ticks);

int
one(janus_ticks *ticks)
{
    return janus_tick(ticks);
}
"""


class Machine(NamedTuple):
    options: tuple[str, ...]
    comment: str
    kinds: dict[str, str]


X86_64 = Machine(
    options=("-fcf-protection=none",),  # what marks an entry is no part of a tick, which is inline
    comment="#",
    kinds={
        "decrement": r"subq \$1, ?\(%rdi\)|addq \$-1, ?\(%rdi\)|decq \(%rdi\)",
        "branch": r"js \S+",
        "result": r"xorl %eax, ?%eax",
        "return": r"retq?",
    },
)
AARCH64 = Machine(
    options=(),
    comment="//",
    kinds={
        "load": r"ldr (x\d+), \[x0\]",
        "decrement": r"subs? x\d+, x\d+, #?1",
        "store": r"str x\d+, \[x0\]",
        "branch": r"tbnz x\d+, #63, \S+|b\.?mi \S+",
        "result": r"mov w0, (#?0|wzr)",
        "return": r"ret",
    },
)
COMPILERS = {"gcc": X86_64, "clang": X86_64, "aarch64-linux-gnu-gcc": AARCH64}


def straight(text: str, function: str, comment: str) -> list[str]:
    """The instructions of a function up to its return."""
    body = re.split(rf"^{function}:", text, flags=re.MULTILINE)[1]
    lines = [" ".join(line.partition(comment + " ")[0].split()) for line in body.splitlines()]
    found = [line for line in lines if line and line[0] != "." and line[0] != "#" and line[-1] != ":"]
    ends = next(place for place, line in enumerate(found) if line.startswith("ret"))
    return found[: ends + 1]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_tick_is_a_decrement_and_a_branch(tmp_path, compiler):
    found, machine = needed(compiler), COMPILERS[compiler]
    if compiler != "aarch64-linux-gnu-gcc" and "x86_64" not in run(found, "-dumpmachine"):
        pytest.skip(f"{compiler} is for another machine")
    (tmp_path / "tick.c").write_text(SOURCE)
    options = (*STRICT, "-O2", *machine.options, f"-I{INCLUDE}")
    text = run(found, *options, "-S", tmp_path / "tick.c", "-o", "-")
    code = straight(text, "one", machine.comment)
    kinds = [next((kind for kind, form in machine.kinds.items() if re.fullmatch(form, line)), line) for line in code]
    assert sorted(kinds) == sorted(machine.kinds), code
