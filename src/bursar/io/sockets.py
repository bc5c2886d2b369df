"""Sockets for streams: non-blocking calls whose results can be written to a trace.

Each call returns bytes, a number or a text, or raises `OSError`. A call that would have to wait returns `WANT_READ` or
`WANT_WRITE`, which says what it would wait for: TLS may have to read in order to write. A call that makes a socket puts
it into a `SocketBox`. In a replay no call is made, and the box stays empty.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from bursar.text import brief

if TYPE_CHECKING:
    import ssl

WANT_READ: Final = -1
WANT_WRITE: Final = -2


class Address(NamedTuple):
    """The address that a socket connects to, or listens at."""

    family: int
    where: Any  # as `socket.connect` takes it
    text: str


def tcp_address(family: int, where: Any) -> Address:
    host, port = where[:2]
    return Address(family, where, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def unix_address(path: str) -> Address:
    return Address(socket.AF_UNIX, path, path)


def numeric(host: str, port: int) -> Address | None:
    """The address, if `host` is a numeric address. None: it is a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return tcp_address(family, (host, port) if family == socket.AF_INET else (host, port, 0, 0))
    return None


def resolve(host: str, port: int) -> str:
    """The addresses of a name, one per line. It blocks, so it runs in a separate thread."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"{host!r} is not the name of a host: {error}") from error
    return "\n".join(f"{int(family)} {where[0]}" for family, _, _, _, where in found)


def resolved(answer: str, port: int) -> list[Address]:
    """The answer of `resolve`, as addresses."""
    found: list[Address] = []
    for line in answer.split("\n"):
        family, host = line.split(" ")
        ipv4 = int(family) == socket.AF_INET
        found.append(tcp_address(int(family), (host, port) if ipv4 else (host, port, 0, 0)))
    return list(dict.fromkeys(found))


def require_context(tls: ssl.SSLContext, *, server_side: bool = False, hostname: str | None = None) -> None:
    """Raise `ValueError` if the context cannot be used like this. Checked before a connection is made for it."""
    import ssl  # it is loaded already: the program made a context

    try:
        tls.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=server_side, server_hostname=hostname)
    except (ValueError, ssl.SSLError) as error:
        whom = "a server" if server_side else f"a client of {brief(hostname, repr)}"
        raise ValueError(f"this TLS context cannot be used for {whom}: {error}") from None


class SocketBox:
    """A place for one socket, and the calls on the socket."""

    __slots__ = ("socket", "tls")

    def __init__(self, made: socket.socket | None = None) -> None:
        self.socket = made
        self.tls = False

    @property
    def fd(self) -> int:
        return self.socket.fileno() if self.socket is not None else -1

    # ---- making a socket

    def listen(self, address: Address, backlog: int) -> str:
        made = self.socket = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            if address.family != socket.AF_UNIX:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address.where)
            made.listen(backlog)
        except BaseException:
            self.close()
            raise
        unix = address.family == socket.AF_UNIX
        return address.text if unix else tcp_address(address.family, made.getsockname()).text

    def accept(self, into: SocketBox, tls: ssl.SSLContext | None) -> str | int:
        assert self.socket is not None, "a listener has a socket"
        while True:
            try:
                made, where = self.socket.accept()
            except BlockingIOError:
                return WANT_READ
            except ConnectionAbortedError:
                continue  # this connection ended before it could be accepted
            into.socket = made
            try:
                into.configure()
                if tls is not None:
                    into.wrap(tls, server_side=True)
            except OSError:  # the connection has ended already: the listener must not fail because of a peer
                into.close()
                continue
            return tcp_address(made.family, where).text if made.family != socket.AF_UNIX else ""

    def connect(self, address: Address) -> int:
        """Connect, or ask whether the connection was made. 0: connected."""
        if self.socket is None:
            self.socket = socket.socket(address.family, socket.SOCK_STREAM)
            self.socket.setblocking(False)
            code = self.socket.connect_ex(address.where)
            if code == errno.EINPROGRESS:
                return WANT_WRITE
        else:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, f"{os.strerror(code)} ({address.text})")
        self.configure()
        return 0

    def configure(self) -> None:
        """Set up a new connection: it does not block, and does not delay small messages."""
        assert self.socket is not None, "there is a socket now"
        self.socket.setblocking(False)
        if self.socket.family != socket.AF_UNIX:
            with contextlib.suppress(OSError):  # the peer has gone: the next call will say so
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def wrap(self, context: ssl.SSLContext, *, server_side: bool = False, hostname: str | None = None) -> None:
        """Begin TLS. The first call that needs the handshake makes it."""
        assert self.socket is not None, "there is a socket now"
        self.socket.getpeername()  # raises if the peer has gone: `wrap_socket` would leave a socket open then
        self.socket = context.wrap_socket(
            self.socket,
            server_side=server_side,
            server_hostname=hostname,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,  # an end without TLS's closing message may be an attack
        )
        self.tls = True

    # ---- using the socket

    def receive(self, size: int) -> bytes | int:
        assert self.socket is not None, "a stream has a socket"
        try:
            return self.socket.recv(size)
        except BlockingIOError:
            return WANT_READ
        except OSError as error:
            return self._wanted(error)

    def send(self, data: bytes | memoryview) -> int:
        assert self.socket is not None, "a stream has a socket"
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return WANT_WRITE
        except OSError as error:
            return self._wanted(error)

    def handshake(self, context: ssl.SSLContext, hostname: str | None) -> int:
        """Continue the client's handshake. 0: done."""
        try:
            if not self.tls:
                self.wrap(context, hostname=hostname)
            cast("ssl.SSLSocket", self.socket).do_handshake()
        except OSError as error:
            return self._wanted(error)
        return 0

    def _wanted(self, error: OSError) -> int:
        """`WANT_READ` or `WANT_WRITE` if the error says that TLS must wait. Raises any other error."""
        if self.tls:
            import ssl  # it is loaded already: this is one of its sockets

            if isinstance(error, ssl.SSLWantReadError):
                return WANT_READ
            if isinstance(error, ssl.SSLWantWriteError):
                return WANT_WRITE
        raise error

    def shutdown_write(self) -> None:
        assert self.socket is not None, "a stream has a socket"
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket. Sends the closing message of TLS if that is possible without waiting. Idempotent."""
        made, self.socket = self.socket, None
        if made is None:
            return
        if self.tls:
            with contextlib.suppress(OSError, ValueError):
                cast("ssl.SSLSocket", made).unwrap()
        made.close()
