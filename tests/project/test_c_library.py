"""The C library as a program finds it: by the flags of `bursar info`, by pkg-config, by CMake; shared and static; in
this environment, in another prefix, and in a folder that was moved. Only installed files are used.
"""

import json
import platform
import re
import shlex
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from support.building import STRICT, needed, plain_project, run, tools

from bursar.cli.library import library_in

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
EXAMPLE = ROOT / "examples" / "c"
SOURCE = EXAMPLE / "counting_house.c"
BURSAR = Path(sys.executable).parent / "bursar"


def said(section: str) -> str:
    """A section of the example's opening text."""
    opening = SOURCE.read_text(encoding="utf-8").partition("*/")[0]
    text = re.sub(r"^ \*", "", opening, flags=re.MULTILINE)
    return dedent(re.split(r"^ \w+:$", text.partition(f" {section}:\n")[2], flags=re.MULTILINE)[0]).strip() + "\n"


def prints_what_it_says(program: Path) -> None:
    assert run(program) == said("Prints")


@pytest.fixture(scope="module")
def facts() -> dict[str, object]:
    """What `bursar info` prints about the library. With a compiler and on the right machine there must be one."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))) or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    if platform.machine() not in {"x86_64", "aarch64"}:
        pytest.skip(f"no context switch for {platform.machine()}")
    found = json.loads(run(BURSAR, "info", "--json"))["c_library"]
    assert found["present"], found
    return found


@pytest.fixture(scope="module")
def here(facts: dict[str, object]) -> Path:
    """The library's folder in this environment."""
    return Path(str(facts["pkg_config_path"])).parents[1]


@pytest.fixture(scope="module")
def moved(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of that folder in another place."""
    return Path(shutil.copytree(here, tmp_path_factory.mktemp("moved") / "away"))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed without Python, as a distribution installs it."""
    prefix = tmp_path_factory.mktemp("bursar_rt")
    build = plain_project("bursar_rt_shared", "bursar_rt_static")
    run(needed("cmake"), "--install", build, "--component", "bursar_rt", "--prefix", prefix)
    return prefix


@pytest.fixture(params=["here", "moved", "prefix"])
def place(request: pytest.FixtureRequest) -> Path:
    """The folder with the libraries, in three installs."""
    (library,) = request.getfixturevalue(request.param).glob("**/libbursar_rt.so.1")
    return library.parent


def pkg_config(place: Path, *options: str) -> list[str]:
    found = tools() | {"PKG_CONFIG_PATH": str(place / "pkgconfig")}
    return shlex.split(run(needed("pkg-config"), *options, "bursar_rt", env=found))


# ---- by the flags of bursar info


def test_as_the_example_says(facts, tmp_path):
    shutil.copy(SOURCE, tmp_path)
    assert run("sh", "-e", "-c", said("Run"), cwd=tmp_path) == said("Prints")


PAGE = ROOT / "docs" / "howto" / "use-from-c.md"
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("commands", COMMANDS, ids=lambda text: text.split()[0])
def test_as_the_page_says(facts, tmp_path, commands):
    for program in re.findall(r"\b(?:cmake|pkg-config)\b", commands):
        needed(program)
    shutil.copytree(EXAMPLE, tmp_path / "copy")
    assert run("sh", "-e", "-c", commands, cwd=tmp_path / "copy").endswith(said("Prints"))


def test_the_page_has_every_way():
    assert len(COMMANDS) == 3


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("kind", [(), ("--static",)], ids=["shared", "static"])
def test_by_flags(facts, tmp_path, compiler, kind):
    flags = shlex.split(run(BURSAR, "info", "--cflags", "--libs", *kind))
    program = tmp_path / "program"
    run(needed(compiler), *STRICT, "-O2", SOURCE, *flags, "-o", program)
    prints_what_it_says(program)
    assert ("libbursar_rt.so.1" in run(needed("readelf"), "-d", program)) is (not kind)


def test_compiling_and_linking_apart(facts, tmp_path):
    """No flag of the linker is among those of the compiler, or the reverse: the strictest compiler accepts both."""
    compiler = needed("clang")
    cflags, libs = (shlex.split(run(BURSAR, "info", option)) for option in ("--cflags", "--libs"))
    run(compiler, *STRICT, "-c", SOURCE, *cflags, "-o", tmp_path / "program.o")
    run(compiler, "-Werror", tmp_path / "program.o", *libs, "-o", tmp_path / "program")
    prints_what_it_says(tmp_path / "program")


def test_the_flags_are_those_of_pkg_config(facts, here):
    """`bursar info` reads the same file, and shortens the paths."""

    def tidied(words: list[str]) -> list[str]:
        return [re.sub(r"/lib/pkgconfig/\.\.(/\.\.)?", lambda up: "" if up[1] else "/lib", word) for word in words]

    assert tidied(pkg_config(here / "lib", "--cflags")) == facts["cflags"]
    assert tidied(pkg_config(here / "lib", "--libs")) == facts["libs"]
    assert tidied(pkg_config(here / "lib", "--variable=static_libs")) == facts["static_libs"]
    assert pkg_config(here / "lib", "--modversion") == [facts["version"]]


def test_several_things_come_on_one_line(facts):
    asked = run(BURSAR, "info", "--pkg-config-path", "--libs", "--cflags", "--cmake-dir")
    expected = [*facts["cflags"], *facts["libs"], facts["cmake_dir"], facts["pkg_config_path"]]
    assert asked == shlex.join(expected) + "\n"


def test_a_folder_may_have_any_name(here, tmp_path):
    """Not with pkg-config, which gets quotes wrong."""
    moved = shutil.copytree(here, tmp_path / "it's $5 here")
    found = library_in(moved)
    for number, libs in enumerate([found.libs, found.static_libs]):
        program = tmp_path / f"program{number}"
        run(needed("cc"), *STRICT, SOURCE, *found.cflags, *libs, "-o", program)
        prints_what_it_says(program)
    flags = shlex.join(found.cflags + found.libs)
    run("sh", "-e", "-c", f"eval cc {shlex.quote(str(SOURCE))} {shlex.quote(flags)} -o quoted", cwd=tmp_path)
    prints_what_it_says(tmp_path / "quoted")


# ---- by pkg-config and by CMake, in every place


def test_nothing_remembers_where_it_was_made(place):
    texts = [file for file in place.glob("**/*") if file.suffix in {".pc", ".cmake", ".so"}]
    assert len(texts) == 4
    assert not [file for file in texts if re.search(r"(?<![\w}.])/\w+/\w+", file.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_by_pkg_config(place, tmp_path, kind):
    asked = {"shared": ["--libs"], "static": ["--variable=static_libs"]}[kind]
    program = tmp_path / "program"
    run(needed("cc"), *STRICT, SOURCE, *pkg_config(place, "--cflags"), *pkg_config(place, *asked), "-o", program)
    prints_what_it_says(program)


@pytest.mark.parametrize("kind", ["SHARED", "STATIC"])
def test_by_cmake(place, tmp_path, kind):
    project, build = tmp_path / "project", tmp_path / "build"
    shutil.copytree(EXAMPLE, project)
    lists = project / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("PRIVATE bursar_rt::SHARED", f"PRIVATE bursar_rt::{kind}"))
    cmake, found = needed("cmake"), place / "cmake" / "bursar_rt"
    run(cmake, "-S", project, "-B", build, f"-Dbursar_rt_DIR={found}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    run(cmake, "--build", build)
    prints_what_it_says(build / "counting_house")
    (compiled,) = json.loads((build / "compile_commands.json").read_text())
    assert set(pkg_config(place, "--cflags-only-other")) <= set(shlex.split(compiled["command"]))


def test_cmake_refuses_another_major_version(place, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(later LANGUAGES NONE)\nfind_package(bursar_rt 2 QUIET)\n"
        "if(bursar_rt_FOUND)\n  message(FATAL_ERROR found)\nendif()\n"
    )
    found = f"-Dbursar_rt_DIR={place / 'cmake' / 'bursar_rt'}"
    run(needed("cmake"), "-S", tmp_path, "-B", tmp_path / "build", found)


# ---- what is in it


def test_there_is_one_library_to_load(place):
    """A process could load a second file, under the plain name, beside the first: that would be two runtimes."""
    libraries = [file for file in place.glob("*.so*") if file.read_bytes()[:4] == b"\x7fELF"]
    assert [file.name for file in libraries] == ["libbursar_rt.so.1"]
    assert "libbursar_rt.so.1" in run(needed("readelf"), "-d", libraries[0])


def test_what_is_exported_is_what_is_declared(place):
    """`janus_*` of the public headers, and `bursar_*` of abi/, for the Python package."""
    listed = run(needed("nm"), "-D", "--defined-only", place / "libbursar_rt.so.1")
    declared = set()
    for folder, prefix in (("include", "janus"), ("abi", "bursar")):
        headers = "".join(file.read_text(encoding="utf-8") for file in (NATIVE / folder).glob("*.h"))
        names = re.findall(rf"^JANUS_API [\w ]*\**({prefix}_\w+)\(", headers, re.MULTILINE)
        assert len(names) == headers.count("\nJANUS_API ")
        declared |= set(names)
    assert len(declared) > 50
    assert {line.split()[-1] for line in listed.splitlines()} == declared


def test_headers_are_c_plus_plus_too(facts, tmp_path):
    program = tmp_path / "one.cpp"
    program.write_text("#include <janus_interop.h>\nint main() { return janus_rt_is_running() ? 1 : 0; }\n")
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]
    run(needed("c++"), *strict, program, *facts["cflags"], *facts["libs"], "-o", tmp_path / "one")
    run(tmp_path / "one")


@pytest.mark.parametrize("header", ["janus_rt.h", "janus_interop.h"])
def test_a_header_stands_alone(facts, tmp_path, header):
    program = tmp_path / "one.c"
    program.write_text(f"#include <{header}>\n")
    run(needed("cc"), *STRICT, "-Wpedantic", "-fsyntax-only", program, *facts["cflags"])


OVERFLOW = """
#include <janus_rt.h>
#include <string.h>

static int64_t
overflows(void *bytes)
{
    char frame[1 << 20];
    memset(frame, (int)(intptr_t)bytes, (size_t)(intptr_t)bytes); /* the far end is in another stack */
    return *(volatile char *)frame;
}

int
main(void)
{
    janus_nursery_create();
    janus_nursery_spawn(overflows, (void *)1);
    return janus_nursery_await_all() == JANUS_PANICKED ? 0 : 1;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_with_these_flags_no_frame_steps_over_a_guard(facts, tmp_path, compiler, level):
    (tmp_path / "overflow.c").write_text(OVERFLOW)
    program = tmp_path / "overflow"
    run(needed(compiler), *STRICT, level, tmp_path / "overflow.c", *facts["cflags"], *facts["libs"], "-o", program)
    run(program)


WALK = """
#include <janus_rt.h>
#include <signal.h>

__attribute__((noinline)) static int64_t
innermost(int64_t x)
{
    raise(SIGTRAP);
    return x + 1;
}

static int64_t
outermost(void *unused)
{
    (void)unused;
    return janus_yield() == JANUS_OK ? innermost(1) * 2 : -1;
}

int
main(void)
{
    janus_nursery_create();
    janus_nursery_spawn(outermost, NULL);
    return janus_nursery_await_all() == JANUS_OK ? 0 : 1;
}
"""


def test_a_debugger_sees_through_a_task(facts, tmp_path):
    """From the running function to the first frame of the task, on a stack of the pool, through a switch or two."""
    (tmp_path / "walk.c").write_text(WALK)
    program = tmp_path / "walk"
    run(needed("cc"), *STRICT, "-g", tmp_path / "walk.c", *facts["cflags"], *facts["libs"], "-o", program)
    quiet = ["-nx", "-batch", "-ex", "set style enabled off", "-ex", "set debuginfod enabled off"]
    shown = run(needed("gdb"), *quiet, "-ex", "run", "-ex", "backtrace", program)
    if "SIGTRAP" not in shown:
        pytest.skip(f"gdb cannot run programs here: {shown}")
    frames = re.findall(r"^#\d+ .*$", shown, re.MULTILINE)
    named = [place for place, frame in enumerate(frames) if "walk.c:" in frame]
    assert ["innermost" in frames[named[0]], "outermost" in frames[named[1]], len(named)] == [True, True, 2]
    assert frames[named[1] + 1 :]
    assert all("libbursar_rt.so.1" in frame for frame in frames[named[1] + 1 :])
    assert "corrupt stack" not in shown
