"""What the host answered, as bytes: what was asked, a letter for the type, and what came back.

A replay has no other world than this, so an answer comes back as it was: the same bytes, the same text, an error of
the same number and words. Rejected: pickle. A trace comes from elsewhere, and reading one must not run anything.
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
            told = f"{answer.errno or 0}:{type_name(answer)}:{answer.strerror or brief(answer)}"
            tag, body = b"e", told.encode("utf-8", "replace")
        case _:
            raise TypeError(f"{what} answered {brief(answer, repr)}, which cannot be recorded")
    return what.encode() + b"\0" + tag + body


def unpack_answer(packed: bytes) -> tuple[str, Answer]:
    """The reverse. An error comes back as the subclass of `OSError` that its number stands for."""
    what, zero, rest = packed.partition(b"\0")
    try:
        if zero:
            return what.decode(), _unpack(rest[:1], rest[1:])
    except ValueError:
        pass
    raise TraceError(f"{brief(packed, repr)} is no answer of a host")


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
            number, name, told = body.decode().split(":", 2)
            return _class_of(name)(int(number), told)
        case _:
            raise ValueError(tag)


def _class_of(name: str) -> type[OSError]:
    """Of names and of TLS the errors have numbers of their own; for all others the number says which class it is."""
    if name == "gaierror":
        return socket.gaierror
    if name.startswith("SSL"):
        with contextlib.suppress(ImportError):  # where there is none, nobody can have caught it by its name
            import ssl

            found = getattr(ssl, name, None)
            if isinstance(found, type) and issubclass(found, ssl.SSLError):
                return found
    return OSError


def error_in(text: str) -> str:
    """The class of the error that an answer is; "": it is none."""
    _, zero, rest = text.partition("\0")
    return rest.split(":", 2)[1] if zero and rest.startswith("e") and rest.count(":") > 1 else ""
