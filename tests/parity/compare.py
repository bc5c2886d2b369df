"""A case on the virtual host beside the same case on another one: they must agree.

    .venv/bin/python tests/parity/compare.py                 every scenario on every host that needs no more than Python
    .venv/bin/python tests/parity/compare.py all HOST        every scenario on one host; see HOSTS
    .venv/bin/python tests/parity/compare.py CASE HOST       one scenario, or one generated program: "program 17"

Compared are the outcomes of all tasks, the phases of every cancellation, the obligations that were closed, the
fingerprint of the decisions and that of the events, host fields aside. If anything differs, the files that explain it
are left behind (see `artifacts`), with this very command.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from browser import harness  # noqa: E402
from parity import artifacts, running  # noqa: E402
from parity.scenarios import SCENARIOS  # noqa: E402
from support.hosts import AsyncioHost, SelectorHost, VirtualHost  # noqa: E402

T = TypeVar("T")

COMMAND = ".venv/bin/python tests/parity/compare.py"
COMPARED = ("result", "outcomes", "phases", "obligations", "decision_fingerprint", "event_fingerprint")
CARRIED = (
    *("scenarios.py", "running.py", "artifacts.py"),
    *("script.py", "scripted_host.py", "scripted_page.py", "fixture.py"),
)
AWAY = ("node", "chromium")


def split(host: str) -> tuple[str, str]:
    """ "asyncio, virtual clock" → asyncio, virtual."""
    name, comma, _ = host.partition(", virtual clock")
    return name, "virtual" if comma else "real"


# ---- hosts of this process


def in_asyncio(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return apart(lambda: asyncio.run(main()))


def in_uvloop(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    import uvloop

    def run() -> T:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())

    return apart(run)


def apart(call: Callable[[], T]) -> T:
    """In a thread of its own: an open browser keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def run_here(case: str, host: str) -> dict[str, Any]:
    name, clock = split(host)
    match name:
        case "virtual":
            return running.run(case, VirtualHost(), "virtual")
        case "native":
            return running.run(case, SelectorHost(), clock)
        case "asyncio" | "uvloop":
            enter = in_asyncio if name == "asyncio" else in_uvloop
            return enter(lambda: guest(case, clock))
        case _:
            raise SystemExit(f"there is no host {host!r}; the hosts are: {'; '.join(HOSTS)}")


async def guest(case: str, clock: str) -> dict[str, Any]:
    return await running.run_guest(case, AsyncioHost(), clock)


# ---- hosts of a page


def carry(backend: Any) -> None:
    """Bring this folder into Pyodide, beside tests/support."""
    files = {name: (HERE / name).read_text(encoding="utf-8") for name in CARRIED}
    backend.run_python(
        f"import json, pathlib\n"
        f"for name, text in json.loads({json.dumps(files)!r}).items():\n"
        f"    path = pathlib.Path('/tests/parity', name)\n"
        f"    path.parent.mkdir(parents=True, exist_ok=True)\n"
        f"    path.write_text(text, encoding='utf-8')\n"
    )


def run_away(backend: Any, case: str, host: str) -> dict[str, Any]:
    """In a page or in node. The log stays there until it is asked for: it is long."""
    _, clock = split(host)
    return backend.run_python(
        f"from bursar.hosts.browser import BrowserHost\n"
        f"from parity import running\n"
        f"running.kept = await running.run_guest({case!r}, BrowserHost.of_page(), {clock!r})\n"
        f"{{name: running.kept[name] for name in {COMPARED!r}}}"
    )


def kept(backend: Any) -> dict[str, Any]:
    return backend.run_python("from parity import running\nrunning.kept")


HERE_HOSTS = ("native", "native, virtual clock", "asyncio", "asyncio, virtual clock")
HOSTS = (*HERE_HOSTS, *(f"{name}{clock}" for name in ("uvloop", *AWAY) for clock in ("", ", virtual clock")))

# ---- comparing


def different(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """The names of what differs."""
    return [name for name in COMPARED if left[name] != right[name]]


@cache
def reference(case: str) -> dict[str, Any]:
    """What every host is compared with. The virtual host repeats itself, so once is enough."""
    return run_here(case, "virtual")


def compare(case: str, host: str, backend: Any = None) -> list[str]:
    """What differs between the virtual host and this one; nothing, if they agree."""
    left = reference(case)
    right = run_here(case, host) if backend is None else run_away(backend, case, host)
    names = different(left, right)
    if not names:
        return []
    if backend is not None:
        right = kept(backend)
    told = [f"{case} on {host} differs from the virtual host in: {', '.join(names)}"]
    told += artifacts.first_difference(left["essence"], right["essence"], ("virtual", host))
    artifacts.write(
        artifacts.Failure(
            id=(id := f"parity.{case}.{host}"),
            fixture=id,
            scenario=case,
            seed=running.seed_of(case),
            logs={"virtual": left["log"], host: right["log"]},
            difference=told,
            command=f'{COMMAND} "{case}" "{host}"',
        )
    )
    return told


def open_backend(host: str, stack: ExitStack) -> Any:
    """What runs a page's hosts, with this folder inside; None for a host of this process."""
    name = split(host)[0]
    if name not in AWAY:
        return None
    kit = harness.Kit(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    if name == "node":
        backend: Any = stack.enter_context(harness.Node(kit))
    else:
        backend = stack.enter_context(harness.Chromium(kit, stack.enter_context(harness.Browser())))
    carry(backend)
    return backend


def main(args: list[str]) -> int:
    case, host = args or ("all", "all")
    failed = 0
    for each_host in HERE_HOSTS if host == "all" else (host,):
        with ExitStack() as stack:
            backend = open_backend(each_host, stack)
            for each_case in SCENARIOS if case == "all" else (case,):
                told = compare(each_case, each_host, backend)
                print("\n".join([*told, f"{'FAIL' if told else 'PASS'} {each_case} on {each_host}"]))
                failed += bool(told)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
