"""Mutants of workflow files: each is a workflow, or a `WorkflowError` that begins with the name of the file.

No mutant is run: a mutated command could do anything.
"""

import random

import pytest

from bursar import WorkflowError
from bursar.workflow import read

TEXT = """
name = "mutant"
[authority]
order = { interval = "1s", boost = 2 }
max_concurrent = 3
max_queue = 100
max_wait = "1h"
reserve_after = 2.5
resources = { cpu = 4, ram = "2GiB", x = { soft = 3 } }
[defaults]
timeout = "10m"
retry = { times = 3, backoff = "250ms", factor = 1.5 }
[task.a]
command = ["echo", "one", "$${x}"]
output = "capture"
grace = 0.5
env = { A = "b" }
[task.b]
run = "json:dumps"
args = { obj = ["${a}", { k = [1, 2.5, true, 1979-05-27] }] }
priority = "high"
needs = { cpu = 2, ram = "1GiB" }
[task.c]
shell = "echo $A"
env = { A = "x ${b.0}" }
after = ["a"]
cwd = "."
"""

PIECES = [
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "=",
    ",",
    ".",
    "${",
    "}",
    "\\n",
    "\\",
    "#",
    "-",
    "inf",
    "nan",
    "1e300",
    "0x" + "f" * 300,
]
PIECES += [
    "9" * 30,
    "9" * 5000,
    "[" * 5000,
    "\\u0000",
    "true",
    "''",
    "[task.a]",
    "a.b.c = 1",
    "é",
    "\ud7ff",
    "0",
    "-1",
    "${c}",
    '"""',
]


def mutant(rng: random.Random) -> str:
    text = TEXT
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at = rng.randrange(len(text))
        match rng.randrange(5):
            case 0:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randrange(1, 20) :]
            case 2:
                text = text[:at] + chr(rng.randrange(1, 0x300)) + text[at + 1 :]
            case 3:
                lines = text.split("\\n")
                rng.shuffle(lines)
                text = "\\n".join(lines)
            case _:
                start = text.find("= ", at)
                end = text.find("\\n", start)
                text = text if start < 0 else text[: start + 2] + rng.choice(PIECES) + text[end:]
    return text


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 300), pytest.param(2, 100_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_mutants_are_workflows_or_have_a_message(tmp_path, seed, count):
    rng = random.Random(seed)
    path = tmp_path / "mutant.toml"
    read_well = 0
    for _ in range(count):
        text = mutant(rng)
        path.write_text(text)
        try:
            workflow = read(path)
        except WorkflowError as error:
            message = str(error)
        else:
            message = f"{path}: "
            read_well += 1
            assert all(step.title for step in workflow.steps.values())
        assert message.startswith(f"{path}: "), text
    assert 0 < read_well < count
