"""Python inside Pyodide, from a test: under node, or in headless Chromium. One interface, two backends.

    with Node(kit) as python:                      # or Chromium(kit)
        python.run_python("import bursar; bursar.__version__")

`run_python` runs a source in a fresh namespace, where it may `await`, and returns the value of its last expression,
which must be JSON. The wheel of this checkout is installed there, and tests/support and tests/browser/inside can be
imported: `from support import programs`. One backend is one interpreter, for as long as it is open: starting costs
seconds, a call almost nothing.

The modules of tests/browser/inside hold the tests themselves, as `async def test_…`: `cases` finds them, and `run_case`
runs one of them in a backend.

Where node, npm or Chromium are missing, `need` skips the test. With BURSAR_REQUIRE_BROWSER set, `need` fails instead,
so that a run without a browser cannot pass for a run with a browser.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any, Self

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import browser_kit  # noqa: E402

REQUIRE = "BURSAR_REQUIRE_BROWSER"
START_S_MAX = 120  # loading Pyodide takes seconds, and far more on a busy machine
ANSWER_S_MAX = 110  # less than pytest's own limit, so that this error comes first: it says what hung
LINE_MAX = 500  # characters of node's message, which may quote Pyodide: one line of a million characters
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",  # continuous integration runs as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class PythonFailed(AssertionError):
    """A source raised in Pyodide; the message is the traceback from there."""


def need(*what: str) -> None:
    """Skip the test unless these are installed: programs, or "pyodide", or "playwright"."""
    for thing in what:
        match thing:
            case "pyodide":
                there, remedy = browser_kit.PYODIDE.is_dir(), "run `make browser-kit`"
            case "playwright":
                there, remedy = importlib.util.find_spec("playwright") is not None, "run `make test-browser`"
            case "chromium":
                there, remedy = chromium() is not None, "install Debian's package `chromium`"
            case _:
                there, remedy = shutil.which(thing) is not None, f"install {thing}"
        if not there:
            refuse = pytest.fail if os.environ.get(REQUIRE) else pytest.skip
            refuse(f"{thing} is missing: {remedy}")


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


class Kit:
    """The wheel, and a zip of the test modules for Pyodide; made once."""

    def __init__(self, directory: Path) -> None:
        self.wheel = browser_kit.build_wheel(directory)
        self.support = directory / "support.zip"
        with zipfile.ZipFile(self.support, "w") as archive:
            for folder in (ROOT / "tests" / "support", HERE / "inside"):
                for file in sorted(folder.glob("*.py")):
                    archive.write(file, f"{folder.name}/{file.name}")


def _value(answer: str) -> Any:
    decoded = json.loads(answer)
    if "error" in decoded:
        raise PythonFailed(decoded["error"])
    return decoded["value"]


def cases(*modules: str) -> list[str]:
    """The tests of modules in inside/, each as `module.test_name`. They are read, not imported: they need Pyodide."""
    found: list[str] = []
    for module in modules:
        tree = ast.parse((HERE / "inside" / f"{module}.py").read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
        found += [f"{module}.{name}" for name in names if name.startswith("test_")]
    assert found, f"no tests in {modules}"
    return found


def run_case(backend: Node | Chromium, case: str) -> None:
    """Run one test of inside/ in a backend."""
    module = case.partition(".")[0]
    backend.run_python(f"from inside import {module}\nawait {case}()")


class Node:
    """Pyodide in one node process."""

    name = "node"

    def __init__(self, kit: Kit) -> None:
        command = ["node", str(HERE / "node.mjs"), str(kit.wheel), str(kit.support)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._said: list[str] = []  # on standard error: what programs print
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._listen)]
        for reader in self._readers:
            reader.start()
        try:
            assert self._answer(START_S_MAX) == "ready"
        except BaseException:
            self._end()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(line[:LINE_MAX] for line in self._process.stderr)

    def _answer(self, seconds: float) -> Any:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self._process.kill()
            raise TimeoutError(f"no answer from node after {seconds} s; it said {self._said[-20:]}") from None
        if not line:
            self._lines.put("")  # for the next call
            raise EOFError(f"node ended; it said {''.join(self._said)[-4000:]}")
        return _value(line)

    def run_python(self, source: str, seconds: float = ANSWER_S_MAX) -> Any:
        """The value of the last expression of `source`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # node has ended: `_answer` raises with its message
            self._process.stdin.write(json.dumps(source) + "\n")
            self._process.stdin.flush()
        return self._answer(seconds)

    def close(self) -> None:
        """Wait until node ends by itself. It does not end if a program left a port or a timer open."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            raise AssertionError("node did not end: a program left something open") from None
        finally:
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._end()  # the test has failed already, and its own error must be the one that is raised


class Served:
    """A directory on a local server, with Pyodide and the wheel beside it."""

    def __init__(self, directory: Path, wheel: Path) -> None:
        self._server = browser_kit.server(directory, wheel)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://localhost:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Browser:
    """Headless Chromium."""

    def __init__(self) -> None:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        try:
            self.browser = self._playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        except BaseException:
            self._playwright.stop()
            raise

    def close(self) -> None:
        self.browser.close()
        self._playwright.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Chromium:
    """Pyodide in one page. `page` is Playwright's page, for tests that need more of a browser."""

    name = "chromium"

    def __init__(self, kit: Kit, browser: Browser) -> None:
        self._served = Served(HERE, kit.wheel)
        try:
            self.page = browser.browser.new_page()
            self.page.set_default_timeout(START_S_MAX * 1000)
            self.complaints: list[str] = []
            self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
            self.page.goto(f"{self._served.url}/pages/")
            self.page.evaluate("(zip) => start(zip)", base64.b64encode(kit.support.read_bytes()).decode())
        except BaseException:
            self._served.close()
            raise

    def run_python(self, source: str) -> Any:
        """The value of the last expression of `source`."""
        return _value(self.page.evaluate("(source) => evaluate(source)", source))

    def close(self) -> None:
        self.page.close()
        self._served.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
