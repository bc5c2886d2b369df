"""The HTTP server of `examples/`, under clients that are not ours: Python's own, `wrk`, and some that mean harm."""

import http.client
import importlib.util
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from support.real_sockets import open_files
from support.time_limits import WAIT_S

import bursar
from bursar import Budget

FILE = Path(__file__).parents[2] / "examples" / "http_server.py"


@pytest.fixture
def module():
    spec = importlib.util.spec_from_file_location("http_server", FILE)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def with_server(module, client):
    """Run `client(port)` in a thread while the server runs; returns its value and the reports of the run."""
    before = open_files()
    done = []

    def work(portal, port, over):
        try:
            done.append(client(port))
        finally:
            portal.spawn(finish, over)

    async def finish(over):
        over.set()

    async def main():
        over = bursar.Event()
        async with await bursar.listen_tcp() as listener, bursar.nursery() as n:
            serving = n.spawn(module.serve_http, listener, n)
            with bursar.portal(n) as portal:
                threading.Thread(target=work, args=(portal, listener.port, over)).start()
                await over.wait()
            listener.close()
            await serving

    runtime = bursar.Runtime()
    runtime.run(main)
    assert open_files() == before
    (value,) = done
    return value, runtime.reports


def exchange(port, request, *, shut=False):
    """Send raw bytes; returns everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
        raw.sendall(request)
        if shut:
            raw.shutdown(socket.SHUT_WR)
        got = b""
        while part := raw.recv(65536):
            got += part
        return got


def test_python_s_own_client_keeps_its_connection(module):
    def client(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        answers = []
        for method, path, body in [("GET", "/", None), ("POST", "/echo", b"x" * 500_000), ("HEAD", "/", None)] * 3:
            connection.request(method, path, body)
            response = connection.getresponse()
            answers.append((response.status, response.read()))
            sockets.add(connection.sock.getsockname())
        connection.close()
        return answers

    sockets = set()
    answers, reports = with_server(module, client)
    assert answers == [(200, b"hello, world"), (200, b"x" * 500_000), (200, b"")] * 3
    assert len(sockets) == 1
    assert reports == []


def test_requests_in_one_piece_are_answered_one_by_one(module):
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    got, _ = with_server(module, lambda port: exchange(port, request * 20 + last))
    assert got.count(b"HTTP/1.1 200 OK") == 21
    assert got.count(b"Connection: close") == 1


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000, 431),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", 501),
    ],
)
def test_what_is_wrong_is_answered_with_the_status_that_says_so(module, request_bytes, status):
    got, _ = with_server(module, lambda port: exchange(port, request_bytes))
    assert int(got.split(b" ")[1]) == status
    assert b"Connection: close" in got


def test_half_a_request_is_a_bad_one(module):
    got, _ = with_server(module, lambda port: exchange(port, b"GET / HT", shut=True))
    assert got.startswith(b"HTTP/1.1 400 ")


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(module):
    def client(port):
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
            raw.sendall(b"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            leave = raw.recv(1000)
            raw.sendall(b"body")
            got = b""
            while part := raw.recv(1000):
                got += part
            return leave, got

    (leave, got), _ = with_server(module, client)
    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert got.endswith(b"\r\n\r\nbody")


def test_a_client_that_is_too_slow_is_sent_away(module):
    module.PATIENCE_S = 0.01
    got, _ = with_server(module, lambda port: exchange(port, b"GET / HTTP/1.1\r\nHost: "))
    assert got.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_asks_too_much_is_cut_and_the_next_is_served(module):
    module.PURSE = Budget(syscalls=20)

    def client(port):
        answers = 0
        request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
            try:
                while True:
                    raw.sendall(request)
                    if not raw.recv(1000):
                        break
                    answers += 1
            except ConnectionError:
                pass
        return answers, exchange(port, b"GET / HTTP/1.0\r\n\r\n")

    (answers, after), reports = with_server(module, client)
    assert answers == 10
    assert after.startswith(b"HTTP/1.1 200 ")
    assert [report.kind for report in reports] == ["connection_lost"]


def test_many_threads_at_once_all_get_their_answers(module):
    module.PURSE = None

    def client(port):
        counts = []

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            for _ in range(50):
                connection.request("GET", "/")
                counts.append(connection.getresponse().read() == b"hello, world")
            connection.close()

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return counts

    counts, reports = with_server(module, client)
    assert counts == [True] * 800
    assert reports == []


def test_wrk_finds_no_error(module):
    if shutil.which("wrk") is None:
        pytest.skip("wrk, the load generator, is not installed")
    module.PURSE = None

    def client(port):
        command = ["wrk", "-t1", "-c50", "-d1s", f"http://127.0.0.1:{port}/"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S).stdout

    said, _ = with_server(module, client)
    assert "Socket errors" not in said
    assert "Non-2xx" not in said
    found = re.search(r"(\d+) requests in", said)
    assert found is not None
    assert int(found[1]) > 100
