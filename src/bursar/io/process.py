"""Runs one command of a workflow, in a process group of its own: reads its output as it comes, and can stop it.

    spawned ──exit──► ended
       └──cancelled──► SIGTERM to the group ──grace──► SIGKILL to the group

The command leads a new session. So a Ctrl-C at the terminal reaches only Bursar, and one signal reaches everything that
the command started. A pidfd reports the exit; a system without pidfds is asked twenty times a second. The end of the
output is not the exit: a command may close its output and continue, and a process that it left behind may keep the
output open for ever.

PROCESS-1  when `execute` has returned, raised or been closed, every process of the group has ended or got SIGKILL
PROCESS-2  the group gets signals only until its leader is reaped: later its number may belong to another group
PROCESS-3  all output that was written before the exit is delivered before the result
PROCESS-4  the end of a command does not depend on what its children do with its output: after the exit only the bytes
    that are in the pipes then are read, however fast a child writes more
PROCESS-5  between two turns of other tasks at most `READ_BYTES` bytes of output are passed on

Rejected: threads that read pipes, because they cannot be cancelled. Rejected: SIGCHLD, because a process has one
handler for it, which may belong to the program.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import shlex
import signal
import struct
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

from bursar.errors import Cancelled, CommandFailed, WorkflowError
from bursar.io.files import wait_readable
from bursar.ops.clock import now, sleep
from bursar.ops.select import select

try:
    import fcntl
    import termios
except ImportError:  # Windows: there, a pipe cannot say how much it holds
    fcntl = termios = None

LOOK_S: Final = 0.05  # between two looks where there is no pidfd: too short to notice, and cheap enough
READ_BYTES: Final = 1 << 12  # read at once: so many empty lines are passed on without a turn for other tasks
PIPE_BYTES: Final = 1 << 16  # what a pipe holds, where it cannot say how much
LINE_MAX: Final = 4_096  # characters shown as one line: a progress bar without line ends must not grow for ever
TAIL_LINES: Final = 20  # last lines of the output, in the error of a command that failed
CAPTURE_MAX: Final = 1 << 20  # bytes of output as a result; more belongs in a file

OnLine = Callable[[str, str], None]  # "out" or "err", and the line


async def execute(
    argv: Sequence[str],
    *,
    shell: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    capture: bool = False,
    grace: float,
    on_line: OnLine | None = None,
) -> str | None:
    """Run a command. With `capture`, return what it wrote. Raises `CommandFailed` for any exit code but 0."""
    running = _Running(_start(argv, shell, env, cwd), capture, on_line)
    try:
        try:
            await running.wait_exit(None)
        except Cancelled:
            running.signal(signal.SIGTERM)
            await running.wait_exit(grace)
            raise
    finally:
        running.end()  # PROCESS-1
    return running.result(argv[0] if shell else shlex.join(argv))


def _start(argv: Sequence[str], shell: bool, env: Mapping[str, str] | None, cwd: str | None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv[0] if shell else list(argv),
            shell=shell,
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        if cwd is not None and not os.path.isdir(cwd):
            raise WorkflowError(f"the command cannot be started: cwd {cwd!r} is not a folder") from error
        raise WorkflowError(f"the command {argv[0]!r} cannot be started: {error}; is it installed?") from error


class _Pipe:
    """The reading end of one output: reads bytes, passes on lines."""

    def __init__(self, file: IO[bytes], name: str, running: _Running) -> None:
        self.file = file
        self._name = name
        self._running = running
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        os.set_blocking(file.fileno(), False)

    def read(self, most: int = READ_BYTES) -> int:
        """Read once. Returns the number of bytes; 0: there is nothing to read now, or nothing will come any more."""
        try:
            data = os.read(self.file.fileno(), most)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
            return 0
        self._running.keep_output(self._name, data)
        *lines, self._rest = (self._rest + self._decode(data)).replace("\r", "\n").split("\n")
        while len(self._rest) > LINE_MAX:
            lines.append(self._rest[:LINE_MAX])
            self._rest = self._rest[LINE_MAX:]
        for line in lines:
            self._running.line(self._name, line)
        return len(data)

    async def read_rest(self) -> None:
        """Read what the pipe holds now, and nothing that is written later (PROCESS-4)."""
        left = 0 if self.file.closed else self._held()
        while left > 0 and (count := self.read(min(left, READ_BYTES))):
            left -= count
            await sleep(0)  # PROCESS-5

    def _held(self) -> int:
        """The number of bytes in the pipe."""
        if fcntl is None or termios is None:
            return PIPE_BYTES
        return struct.unpack("i", fcntl.ioctl(self.file.fileno(), termios.FIONREAD, bytes(4)))[0]

    def close(self) -> None:
        if not self.file.closed:
            self.file.close()
            rest, self._rest = self._rest + self._decode(b"", True), ""
            if rest:
                self._running.line(self._name, rest)


class _Running:
    """A process that has been started."""

    def __init__(self, process: subprocess.Popen[bytes], capture: bool, on_line: OnLine | None) -> None:
        assert process.stdout is not None, "_start asked for a pipe"
        assert process.stderr is not None, "_start asked for a pipe"
        self._process = process
        self._pidfd: int | None = None
        with contextlib.suppress(AttributeError, OSError):  # not every system has pidfds
            self._pidfd = os.pidfd_open(process.pid)
        self._capture = capture
        self._on_line = on_line
        self._captured = bytearray()
        self._too_much = False
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._pipes = [_Pipe(process.stdout, "out", self), _Pipe(process.stderr, "err", self)]

    # ---- waiting

    async def wait_exit(self, seconds: float | None) -> bool:
        """Read the output until the command has exited. False: the time was over first."""
        deadline = None if seconds is None else await now() + seconds
        while not self._exited():
            left = None if deadline is None else max(0.0, deadline - await now())
            if left == 0.0:
                return False
            await self._wait_once(left)
        for pipe in self._pipes:
            await pipe.read_rest()  # PROCESS-3
        return True

    async def _wait_once(self, left: float | None) -> None:
        """Wait until there is output, the command exits, or the time is over."""
        pipes = [pipe for pipe in self._pipes if not pipe.file.closed]
        cases: list[Any] = [wait_readable(pipe.file) for pipe in pipes]
        if self._pidfd is not None:
            cases.append(wait_readable(self._pidfd))
        naps = [span for span in (left, LOOK_S if self._pidfd is None else None) if span is not None]
        if naps:
            cases.append(sleep(min(naps)))
        chosen = (await select(*cases)).index
        if chosen < len(pipes):
            pipes[chosen].read()

    def _exited(self) -> bool:
        """Whether the leader has exited. Does not reap it (PROCESS-2), except on a system without `waitid`."""
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    # ---- ending

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:  # PROCESS-2
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def end(self) -> None:
        """Kill what is left of the group, at once. Idempotent."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        for pipe in self._pipes:
            pipe.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    # ---- output and result

    def keep_output(self, name: str, data: bytes) -> None:
        if self._capture and name == "out":
            self._too_much = self._too_much or len(self._captured) + len(data) > CAPTURE_MAX
            if not self._too_much:
                self._captured += data

    def line(self, name: str, line: str) -> None:
        self._tail.append(line)
        if self._on_line is not None and not (self._capture and name == "out"):
            self._on_line(name, line)

    def result(self, title: str) -> str | None:
        code = self._process.returncode
        tail = "\n".join(self._tail)
        if code:
            how = f"was ended by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"
            said = f":\n{tail}" if tail else ""
            raise CommandFailed(f"the command {title!r} {how}{said}", code, tail)
        if not self._capture:
            return None
        if self._too_much:
            raise CommandFailed(
                f"the command {title!r} wrote more than {CAPTURE_MAX:,} bytes, which is too much for a result; "
                "let it write to a file",
                0,
                tail,
            )
        return self._captured.decode("utf-8", "replace").rstrip("\n")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
