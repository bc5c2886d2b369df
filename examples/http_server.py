"""A small HTTP/1.1 server that does not trust its clients: every connection is a task with a budget and a time limit.

It keeps connections alive, reads bodies by their Content-Length, and limits everything that a client may send. A
wrong request gets the status that says so. A connection that is too slow or sends too much is cut, and no other
connection notices.

Run:
    bursar run examples/http_server.py

Prints:
    GET /                      200 hello, world
    GET / once more            200 hello, world
    POST /echo                 200 some words
    GET /nothing               404 Not Found
    PATCH /                    405 Method Not Allowed
    nonsense                   400 Bad Request
    a head that never ends     431 Request Header Fields Too Large
    a body of a gigabyte       413 Content Too Large
    a chunked body             501 Not Implemented
    a client that asks and asks: cut after 100 answers
"""

from dataclasses import dataclass

import bursar
from bursar import Budget, DelimiterNotFound, StreamEnded

HEAD_MAX = 8_192  # bytes of request line and headers
BODY_MAX = 1_000_000
PATIENCE_S = 10.0  # for one whole request
LINGER_MAX = 1_000_000  # bytes that are read and thrown away, so that a client hears why it was refused
PURSE = Budget(ops=10_000, syscalls=200)  # for one connection: a hundred requests
PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
}


class Refused(Exception):
    """The request cannot be answered as it was meant; the connection ends after the answer."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    body: bytes
    keep_alive: bool


async def read_request(stream):
    """The next request, or None if the client has ended."""
    try:
        head = await stream.receive_until(b"\r\n\r\n", HEAD_MAX)
    except DelimiterNotFound:
        raise Refused(431) from None
    except StreamEnded:
        if await stream.receive():  # half a request
            raise Refused(400) from None
        return None
    method, path, version, headers = parse_head(head)
    keep_alive = headers.get("connection", "").lower() != "close" and version == "HTTP/1.1"
    if "transfer-encoding" in headers:
        raise Refused(501)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Refused(400)
    if int(length) > BODY_MAX:
        raise Refused(413)
    if headers.get("expect", "").lower() == "100-continue":
        await stream.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Request(method, path, headers, await stream.receive_exactly(int(length)), keep_alive)


def parse_head(head):
    """Strict: what two programs could read in two ways is refused."""
    try:
        first, *lines = head[:-4].decode("ascii").split("\r\n")
        method, path, version = first.split(" ")
    except ValueError:
        raise Refused(400) from None
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise Refused(400)
        headers[name.lower()] = value.strip(" \t")
    if not method.isupper() or not path.startswith("/") or version not in ("HTTP/1.0", "HTTP/1.1"):
        raise Refused(400)
    if version == "HTTP/1.1" and "host" not in headers:
        raise Refused(400)
    return method, path, version, headers


def answer(request):
    """The program itself: what is there, and what it says."""
    match request.method, request.path:
        case "GET" | "HEAD", "/":
            return 200, b"hello, world"
        case "POST", "/echo":
            return 200, request.body
        case _, "/" | "/echo":
            return 405, PHRASES[405].encode()
        case _:
            return 404, PHRASES[404].encode()


def response(status, body, *, keep_alive, head_only=False):
    connection = "keep-alive" if keep_alive else "close"
    head = f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Length: {len(body)}\r\nConnection: {connection}\r\n\r\n"
    return head.encode() + (b"" if head_only else body)


async def talk_http(stream):
    """One connection, from its first request to its last."""
    try:
        while True:
            async with bursar.timeout(PATIENCE_S):
                request = await read_request(stream)
            if request is None:
                return
            status, body = answer(request)
            head_only = request.method == "HEAD"
            await stream.send(response(status, body, keep_alive=request.keep_alive, head_only=head_only))
            if not request.keep_alive:
                return
    except Refused as refused:
        (status,) = refused.args
        await stream.send(response(status, PHRASES[status].encode(), keep_alive=False))
        await linger(stream)
    except TimeoutError:
        await stream.send(response(408, PHRASES[408].encode(), keep_alive=False))


async def linger(stream):
    """Read what the client still sends: closing on it would take back the answer."""
    await stream.send_eof()
    left = LINGER_MAX
    async with bursar.timeout(PATIENCE_S):
        while left > 0 and (data := await stream.receive()):
            left -= len(data)


async def serve_http(listener, n):
    await bursar.serve(listener, talk_http, n, budget=PURSE)


# A client, to see it work.


async def read_response(stream):
    head = (await stream.receive_until(b"\r\n\r\n")).decode()
    length = next(int(line[16:]) for line in head.split("\r\n") if line.startswith("Content-Length: "))
    return head.split(" ")[1], (await stream.receive_exactly(length)).decode()


async def show(stream, what, request):
    await stream.send(request)
    status, body = await read_response(stream)
    print(f"{what:26} {status} {body}")


HOST = b"Host: localhost\r\n"


async def client(port):
    async with await bursar.open_tcp("127.0.0.1", port) as stream:  # one connection, kept alive
        await show(stream, "GET /", b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        await show(stream, "GET / once more", b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        await show(stream, "POST /echo", b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\nsome words")
        await show(stream, "GET /nothing", b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n")
        await show(stream, "PATCH /", b"PATCH / HTTP/1.1\r\n" + HOST + b"\r\n")
    for what, request in {
        "nonsense": b"hello?\r\n\r\n",
        "a head that never ends": b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_MAX,
        "a body of a gigabyte": b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000000\r\n\r\nxxx",
        "a chunked body": b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n",
    }.items():
        async with await bursar.open_tcp("127.0.0.1", port) as stream:
            await show(stream, what, request)


async def runaway(port):
    answers = 0
    async with await bursar.open_tcp("127.0.0.1", port) as stream:
        try:
            while True:
                await stream.send(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                await read_response(stream)
                answers += 1
        except (StreamEnded, ConnectionError):
            print(f"a client that asks and asks: cut after {answers} answers")


async def main():
    async with await bursar.listen_tcp("127.0.0.1", 0) as listener, bursar.nursery() as n:
        n.spawn(serve_http, listener, n)
        await client(listener.port)
        await runaway(listener.port)
        listener.close()


if __name__ == "__main__":
    bursar.run(main)
