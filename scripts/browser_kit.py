"""What a page with the browser host needs: Pyodide, Bursar's wheel in pure Python, and a server for both.

    python scripts/browser_kit.py install         fetch Pyodide with npm, once
    python scripts/browser_kit.py wheel DIR       build the wheel for Pyodide; prints its path
    python scripts/browser_kit.py serve DIR       serve DIR, with Pyodide and the wheel beside it

The version of Pyodide is pinned in tests/browser/package.json. Every page finds Pyodide at `/pyodide/pyodide.mjs` and
the wheel at `/bursar.whl`, so that it works without a network.

Rejected: a bundler, and copying Pyodide next to every page. A server of the standard library with three prefixes is
enough.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tests" / "browser"
PYODIDE = PACKAGE / "node_modules" / "pyodide"


def install() -> None:
    """Fetch what package-lock.json names, unless it is there."""
    if shutil.which("npm") is None:
        sys.exit("npm is not installed: it fetches Pyodide; on Debian, apt-get install nodejs npm")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "ci", *quiet], cwd=PACKAGE, check=True)


def build_wheel(directory: Path) -> Path:
    """The wheel without its native extension."""
    code = f"import scikit_build_core.build as b; b.build_wheel({str(directory)!r}, {{'wheel.cmake': 'false'}})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = directory.glob("bursar-*-py3-none-any.whl")
    return wheel


class Handler(SimpleHTTPRequestHandler):
    """One directory, and beside it Pyodide and the wheel."""

    def __init__(self, *args, wheel: Path, **keywords) -> None:
        self.wheel = wheel
        super().__init__(*args, **keywords)

    def guess_type(self, path) -> str:
        """A browser compiles only what is called by the right name, and not every machine's table has these."""
        types = {".mjs": "text/javascript", ".wasm": "application/wasm"}
        return types.get(Path(path).suffix) or super().guess_type(path)

    def translate_path(self, path: str) -> str:
        plain = path.partition("?")[0]
        if plain == "/bursar.whl":
            return str(self.wheel)
        if plain.startswith("/pyodide/"):
            return str(PYODIDE / Path(plain).name)
        return super().translate_path(path)

    def end_headers(self) -> None:
        # Isolated from other origins, a page may read a clock of 5 µs instead of 100 µs.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """A request that went well is no news."""


def server(directory: Path, wheel: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on this machine only; port 0: any free one."""
    if not PYODIDE.is_dir():
        sys.exit("Pyodide is not installed: run `make browser-kit` first")
    handler = partial(Handler, directory=os.fspath(directory), wheel=wheel)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        sys.exit(f"port {port}: {error.strerror}; try: python scripts/browser_kit.py serve DIR --port {port + 1}")


def serve(directory: Path, port: int) -> None:
    with tempfile.TemporaryDirectory() as folder, server(directory, build_wheel(Path(folder)), port) as http:
        print(f"http://localhost:{http.server_port}/  (Ctrl-C ends it)", flush=True)
        try:
            http.serve_forever()
        except KeyboardInterrupt:
            print()


def main() -> None:
    parser = argparse.ArgumentParser(description="What the browser host needs around it.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    commands.add_parser("wheel").add_argument("directory", type=Path)
    serving = commands.add_parser("serve")
    serving.add_argument("directory", type=Path)
    serving.add_argument("--port", type=int, default=8000)
    asked = parser.parse_args()
    match asked.command:
        case "install":
            install()
        case "wheel":
            print(build_wheel(asked.directory))
        case _:
            serve(asked.directory, asked.port)


if __name__ == "__main__":
    main()
