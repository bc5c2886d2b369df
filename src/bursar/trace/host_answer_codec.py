"""The answers of the host, as bytes: what was asked, a letter for the type of the answer, and the answer.

A replay takes the host's answers from the trace alone. So an answer is restored exactly: the same bytes, the same text,
an error with the same number and message.

Rejected: pickle. A trace may come from another person, and reading a trace must not run code.
"""

from __future__ import annotations

import contextlib
import socket

from bursar.errors import TraceError
from bursar.text import brief, type_name

Answer = int | bytes | str | OSError | None


def pack_answer(what: str, answer: object) -> bytes:
    """An answer of the host as bytes."""
    match answer:
        case None:
            tag, body = b"n", b""
        case int():
            tag, body = b"i", b"%d" % answer
        case bytes():
            tag, body = b"b", answer
        case str():
            tag, body = b"s", answer.encode("utf-8", "surrogateescape")
        case OSError():
            error = f"{answer.errno or 0}:{type_name(answer)}:{answer.strerror or brief(answer)}"
            tag, body = b"e", error.encode("utf-8", "replace")
        case _:
            raise TypeError(f"{what} answered {brief(answer, repr)}, which cannot be recorded")
    return what.encode() + b"\0" + tag + body


def unpack_answer(packed: bytes) -> tuple[str, Answer]:
    """The question and the answer. An error is restored as the subclass of `OSError` that its number selects."""
    what, zero, rest = packed.partition(b"\0")
    try:
        if zero:
            return what.decode(), _unpack(rest[:1], rest[1:])
    except ValueError:
        pass
    raise TraceError(f"{brief(packed, repr)} is not an answer of a host")


def _unpack(tag: bytes, body: bytes) -> Answer:
    match tag:
        case b"n" if not body:
            return None
        case b"i":
            return int(body)
        case b"b":
            return body
        case b"s":
            return body.decode("utf-8", "surrogateescape")
        case b"e":
            number, name, message = body.decode().split(":", 2)
            return _class_of(name)(int(number), message)
        case _:
            raise ValueError(tag)


def _class_of(name: str) -> type[OSError]:
    """Errors of name lookup and of TLS need their own class. For all others, `OSError` selects it by the number."""
    if name == "gaierror":
        return socket.gaierror
    if name.startswith("SSL"):
        with contextlib.suppress(ImportError):  # without the module, no program can catch its errors by name
            import ssl

            found = getattr(ssl, name, None)
            if isinstance(found, type) and issubclass(found, ssl.SSLError):
                return found
    return OSError


def error_in(text: str) -> str:
    """The name of the error's class, if the answer is an error; otherwise ""."""
    _, zero, rest = text.partition("\0")
    return rest.split(":", 2)[1] if zero and rest.startswith("e") and rest.count(":") > 1 else ""
