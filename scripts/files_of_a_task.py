"""Lists the C files that one task crosses on the native kernel, from its spawn to its result.

    python scripts/files_of_a_task.py                      a task that awaits a checkpoint
    python scripts/files_of_a_task.py --await "sleep(1)"   one that awaits something else
    python scripts/files_of_a_task.py --functions          and the functions in each file
    python scripts/files_of_a_task.py --checkout ../other  another checkout

The extension is built with gcc's `--coverage` in a scratch folder. A program runs with some children, and with twice as
many: a file is on the path if each more child runs one of its lines. Inline functions count in their headers. gcov does
not list functions that the compiler must inline (ALWAYS_INLINE), only their lines.

The files X.c, X.h, X_fast.h and X_py.c are one module: one idea, which is read together. Generated files do not count.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from pathlib import Path

CHILDREN = 50
PROGRAM = """
import gc, sys
import bursar

async def child(number):
    await bursar.{awaited}
    return number

async def main():
    gc.disable()
    async with bursar.nursery() as n:
        tasks = [n.spawn(child, i) for i in range(int(sys.argv[1]))]
    assert [task.result for task in tasks] == list(range(int(sys.argv[1])))

bursar.run(main, clock="virtual")
"""


def build(checkout: Path, scratch: Path) -> None:
    """A copy of the package with an extension that counts calls."""
    path = scratch / "path"
    shutil.copytree(checkout / "src" / "bursar", path / "bursar", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    flags = ["-O0", "-std=c11", "-fPIC", "--coverage", "-DBURSAR_PRIVATE_LAYOUTS=1"]
    flags += ["-I", sysconfig.get_paths()["include"], "-I", str(checkout / "native")]
    objects: list[str] = []
    for source in sorted((checkout / "native" / "python").rglob("*.c")):
        objects.append(f"{len(objects)}.o")
        subprocess.run(["gcc", *flags, "-c", str(source), "-o", objects[-1]], cwd=scratch, check=True)
    made = path / "bursar" / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["gcc", "--coverage", "-shared", *objects, "-o", str(made), "-lpthread"], cwd=scratch, check=True)


def count(scratch: Path, program: str, *arguments: str) -> dict[tuple[str, str], int]:
    """How often a program calls each function and runs each line: (file, function or line number) -> how often."""
    for old in [*scratch.glob("*.gcda"), *scratch.glob("*.gz")]:
        old.unlink()
    environment = {**os.environ, "PYTHONPATH": str(scratch / "path"), "BURSAR_KERNEL": "native", "PYTHONHASHSEED": "0"}
    base = getattr(sys, "_base_executable", sys.executable)  # without the import hook of an editable install
    run = [base, "-c", program, *arguments]
    subprocess.run(run, env=environment, check=True, stdout=subprocess.DEVNULL)
    data = [path.name for path in scratch.glob("*.gcda")]
    subprocess.run(["gcov", "--json-format", *data], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    calls: dict[tuple[str, str], int] = defaultdict(int)
    for report in scratch.glob("*.gcov.json.gz"):
        for file in json.loads(gzip.decompress(report.read_bytes()))["files"]:
            for function in file["functions"]:
                calls[file["file"], function["name"]] += function["execution_count"]
            for line in file["lines"]:
                calls[file["file"], str(line["line_number"])] += line["count"]
    return calls


def module(file: str) -> str:
    return file.rsplit(".", 1)[0].removesuffix("_fast").removesuffix("_py")


def main() -> None:
    parser = argparse.ArgumentParser(description="List the C files that one task crosses.")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--await", dest="awaited", default="checkpoint()")
    parser.add_argument("--functions", action="store_true")
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        build(checkout, scratch)
        program = PROGRAM.replace("{awaited}", given.awaited)
        few, many = (count(scratch, program, str(n)) for n in (CHILDREN, 2 * CHILDREN))
    native = f"{checkout / 'native'}/"
    found: dict[str, list[str]] = defaultdict(list)
    for (file, name), calls in sorted(many.items()):
        if calls - few.get((file, name), 0) >= CHILDREN and file.startswith(native) and "/generated/" not in file:
            found[file.removeprefix(native)] += [] if name.isdecimal() else [name]
    modules = sorted({module(file) for file in found})
    for each in modules:
        print(each)
        for file in sorted(file for file in found if module(file) == each):
            names = f": {', '.join(found[file])}" if given.functions else ""
            print(f"    {file.rpartition('/')[2]}{names}")
    sources = sum(file.endswith(".c") for file in found)
    print(f"{len(found)} files ({sources} of them .c) in {len(modules)} modules")


if __name__ == "__main__":
    main()
