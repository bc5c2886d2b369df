"""Listeners and `serve`: one task per connection, each with its own budget, and no connection harms another."""

import contextlib
import errno
import os
import resource
import socket
import struct

import pytest
from support.evidence import Trace, replay
from support.real_sockets import open_files, real, settled
from support.tls import contexts

import bursar
from bursar import Budget, ScopeMisuse, StreamClosed, listen_tcp, listen_unix, nursery, open_tcp, serve


async def echo(stream):
    while data := await stream.receive():
        await stream.send(data)


async def ask(port, question, tls=None):
    async with await open_tcp("127.0.0.1", port, tls=tls) as stream:
        await stream.send(question)
        return await stream.receive_exactly(len(question))


# ---- listeners


def test_a_listener_has_a_port_of_its_own_and_says_where_it_is():
    async def main():
        async with await listen_tcp() as one, await listen_tcp() as other:
            assert one.port != other.port
            assert one.address == f"127.0.0.1:{one.port}"
            assert repr(one) == f"<Listener TCP listener at {one.address}>"

    real(main)


def test_an_address_in_use_is_an_error_of_the_system():
    async def main():
        async with await listen_tcp() as listener:
            with pytest.raises(OSError, match="in use") as caught:
                await listen_tcp("127.0.0.1", listener.port)
            assert caught.value.errno == errno.EADDRINUSE

    real(main)


def test_a_unix_path_in_use_is_an_error_of_the_system(tmp_path):
    async def main():
        path = str(tmp_path / "socket")
        async with await listen_unix(path):
            with pytest.raises(OSError, match="in use"):
                await listen_unix(path)

    real(main)


def test_an_accept_that_is_cancelled_takes_no_connection():
    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            task = n.spawn(accept, listener)
            await settled()
            assert task.explain().reason == f"waits for a connection to TCP listener at {listener.address}"
            task.cancel()
            await task.wait()
            n.spawn(open_and_close, listener.port)
            (await listener.accept()).close()

    async def accept(listener):
        return await listener.accept()

    async def open_and_close(port):
        (await open_tcp("127.0.0.1", port)).close()

    real(main)


def test_two_tasks_cannot_accept_at_once():
    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            task = n.spawn(accept, listener, name="first")
            await settled()
            with pytest.raises(ScopeMisuse, match="is in use: task 'first' waits for a connection"):
                await listener.accept()
            task.cancel()

    async def accept(listener):
        return await listener.accept()

    real(main)


def test_closing_a_listener_ends_whoever_waits_for_connections():
    async def main():
        listener = await listen_tcp()
        async with nursery() as n:
            task = n.spawn(count, listener)
            await settled()
            listener.close()
        with pytest.raises(StreamClosed, match="is closed"):
            await listener.accept()
        return task.result

    async def count(listener):
        number = 0
        async for stream in listener:
            stream.close()
            number += 1
        return number

    assert real(main) == 0


def test_a_connection_that_another_case_of_a_select_left_is_there_for_the_next_or_closed():
    async def main():
        event = bursar.Event()
        event.set()
        async with await listen_tcp() as listener, await open_tcp("127.0.0.1", listener.port) as client:
            while True:
                await bursar.wait_readable(listener._box.fd)
                index, stream = await bursar.select(listener.accept(), event.wait())
                if index == 1:
                    break
                stream.close()
                client.close()
                client = await open_tcp("127.0.0.1", listener.port)
            assert listener._accepted is not None
            listener.close()
            assert await client.receive() == b""
            client.close()

    for seed in range(4):
        real(main, seed=seed)


# ---- serve


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_every_connection_is_a_task_of_the_nursery(tls):
    server, client = contexts() if tls else (None, None)

    async def main():
        async with await listen_tcp(tls=server) as listener, nursery() as n:
            serving = n.spawn(serve, listener, echo, n)
            async with nursery() as clients:
                asked = [clients.spawn(ask, listener.port, b"%d " % i * 1000, client) for i in range(20)]
            listener.close()
            await serving
        return [task.result for task in asked]

    assert real(main) == [b"%d " % i * 1000 for i in range(20)]
    assert real.reports == []


def one_bad_connection(handler, bad, **keywords):
    """Serve a bad connection, then a good one. Returns what the good one received."""

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            serving = n.spawn(serve_with, listener, n)
            await bad(listener.port)
            good = await ask(listener.port, b"still there?")
            listener.close()
            await serving
        return good

    async def serve_with(listener, n):
        await serve(listener, handler, n, **keywords)

    return real(main)


def test_a_connection_that_breaks_ends_alone_and_is_reported():
    async def handler(stream):
        if await stream.receive_exactly(1) == b"s":
            await stream.send(b"still there?")
            return
        while True:
            await stream.send(b"x" * 1_000_000)

    async def reset(port):
        async with await open_tcp("127.0.0.1", port) as stream:
            await stream.send(b"x")
            await stream.receive()

    assert one_bad_connection(handler, reset) == b"still there?"
    (report,) = real.runtime.reports
    assert report.kind == "connection_lost"
    assert "one_bad_connection" not in report.detail
    assert report.task.startswith(
        "test_a_connection_that_breaks_ends_alone_and_is_reported.<locals>.handler 127.0.0.1:"
    )


def test_a_connection_that_ends_early_ends_alone_and_is_reported():
    async def handler(stream):
        await stream.send(await stream.receive_exactly(12))

    async def leave(port):
        async with await open_tcp("127.0.0.1", port) as stream:
            await stream.send(b"still")
            await stream.send_eof()
            assert await stream.receive() == b""

    assert one_bad_connection(handler, leave) == b"still there?"
    (report,) = real.runtime.reports
    assert report.kind == "connection_lost"
    assert "ended after 5 of 12 bytes" in report.detail


def test_a_connection_that_overruns_its_budget_is_cut_and_the_others_are_served():
    async def runaway(port):
        async with await open_tcp("127.0.0.1", port) as stream:
            with pytest.raises((bursar.StreamEnded, OSError)):
                await ask_for_ever(stream)

    async def ask_for_ever(stream):
        while True:
            await stream.send(b"x")
            await stream.receive_exactly(1)

    assert one_bad_connection(echo, runaway, budget=Budget(syscalls=20)) == b"still there?"
    (report,) = real.runtime.reports
    assert report.kind == "connection_lost"
    assert "BudgetExceeded" in report.detail
    assert "is out of syscalls" in report.detail


async def reset(port, data):
    """Send something, then reset the connection."""
    async with await open_tcp("127.0.0.1", port) as stream:
        await stream.send(data)
        stream._box.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_connection_that_breaks_in_a_nursery_of_its_handler_ends_alone():
    async def handler(stream):
        async with nursery() as n:
            n.spawn(echo, stream)

    async def bad(port):
        await reset(port, b"x")

    assert one_bad_connection(handler, bad) == b"still there?"
    (report,) = real.runtime.reports
    assert "ConnectionResetError" in report.detail


def test_a_mistake_in_a_nursery_of_a_handler_is_a_failure_even_if_the_connection_broke_as_well():
    async def handler(stream):
        raise ExceptionGroup("both", [ConnectionResetError("theirs"), KeyError("mine")])

    async def bad(port):
        async with await open_tcp("127.0.0.1", port) as stream:
            await stream.receive()
            await bursar.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        one_bad_connection(handler, bad)
    assert caught.group_contains(KeyError)
    assert not caught.group_contains(ConnectionResetError)


def test_a_peer_that_sends_no_end_of_a_line_ends_alone():
    async def handler(stream):
        await stream.send(await stream.receive_until(b"?", 100))

    async def bad(port):
        async with await open_tcp("127.0.0.1", port) as stream:
            await stream.send(b"x" * 100)
            with contextlib.suppress(ConnectionError):
                assert await stream.receive() == b""

    assert one_bad_connection(handler, bad) == b"still there?"
    (report,) = real.runtime.reports
    assert "DelimiterNotFound" in report.detail


def test_a_handler_whose_stream_is_closed_by_another_task_ends_alone():
    async def handler(stream):
        if await stream.receive_exactly(1) == b"x":
            stream.close()
        await stream.send(b"s" + await stream.receive_exactly(11))

    async def bad(port):
        async with await open_tcp("127.0.0.1", port) as stream:
            await stream.send(b"x")
            assert await stream.receive() == b""

    assert one_bad_connection(handler, bad) == b"still there?"
    assert "StreamClosed" in real.runtime.reports[0].detail


@pytest.mark.parametrize("data", [b"", b"no TLS"], ids=["nothing", "something"])
def test_a_peer_that_is_gone_before_its_tls_begins_does_not_end_the_serving(data):
    server, client = contexts()

    async def main():
        async with await listen_tcp(tls=server) as listener, nursery() as n:
            await reset(listener.port, data)
            n.spawn(serve, listener, echo, n)
            answer = await ask(listener.port, b"hello", client)
            listener.close()
            return answer

    assert real(main) == b"hello"


def test_a_context_for_clients_is_refused_where_servers_listen():
    _, client = contexts()

    async def main():
        with pytest.raises(ValueError, match="this TLS context cannot be used for a server: "):
            await listen_tcp(tls=client)

    real(main)


def test_a_mistake_of_the_handler_is_a_failure_of_the_nursery():
    async def handler(stream):
        raise KeyError("mine")

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            n.spawn(serve, listener, handler, n)
            async with await open_tcp("127.0.0.1", listener.port) as stream:
                await stream.receive()
                await bursar.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        real(main)
    assert [type(error) for error in caught.value.exceptions] == [KeyError]


def test_connections_whose_tasks_never_began_are_closed():
    begun, accepted = [], []

    async def handler(stream):
        begun.append(stream)

    class CancelsAfterOne:
        """A listener that cancels the nursery at the second accept. The task of the first stream has not begun then."""

        def __init__(self, listener, n):
            self._listener = listener
            self._nursery = n

        async def accept(self):
            if accepted:
                self._nursery.cancel()
            accepted.append(await self._listener.accept())
            return accepted[-1]

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            n.spawn(serve, CancelsAfterOne(listener, n), handler, n)
            async with bursar.shield():
                client = await open_tcp("127.0.0.1", listener.port)
                async with client:
                    assert await client.receive() == b""

    real(main)
    assert begun == []
    assert len(accepted) == 1


def test_a_connection_that_the_nursery_cannot_pay_for_is_closed_and_the_others_are_served():
    async def main():
        async with await listen_tcp() as listener, nursery(budget=Budget(spawns=2)) as n:
            n.spawn(serve, listener, echo, n)
            async with await open_tcp("127.0.0.1", listener.port) as first:
                await first.send(b"1")
                assert await first.receive_exactly(1) == b"1"
                for _ in range(2):
                    async with await open_tcp("127.0.0.1", listener.port) as refused:
                        assert await refused.receive() == b""
                await first.send(b"2")
                assert await first.receive_exactly(1) == b"2"
            listener.close()

    real(main)
    assert real.reports == ["connection_lost", "connection_lost"]
    assert real.runtime.reports[0].task == "serve"
    assert "SpawnBudgetExceeded" in real.runtime.reports[0].detail
    assert "has no spawns left" in real.runtime.reports[0].detail


def test_no_more_connections_are_served_at_once_than_allowed():
    at_once = []

    async def handler(stream):
        at_once.append(+1)
        await echo(stream)
        at_once.append(-1)

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            serving = n.spawn(serve_two, listener, n)
            first, second, third = [await open_tcp("127.0.0.1", listener.port) for _ in range(3)]
            while sum(at_once) < 2:
                await bursar.sleep(0)
            await settled()
            told = serving.explain().reason
            first.close()
            await third.send(b"now?")
            assert await third.receive_exactly(4) == b"now?"
            second.close()
            third.close()
            listener.close()
        return told

    async def serve_two(listener, n):
        await serve(listener, handler, n, connections_max=2)

    assert real(main) == "waits for one of 2 connections to end: more may not be served at once"
    assert max(sum(at_once[:i]) for i in range(len(at_once) + 1)) == 2


@pytest.mark.parametrize("number", [0, -1, True, 1.5])
def test_a_limit_of_connections_is_a_positive_number(number):
    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            with pytest.raises(ValueError, match=r"connections_max=.*: must be a whole number, at least 1"):
                await serve(listener, echo, n, connections_max=number)

    real(main)


def test_a_connection_whose_task_is_cancelled_before_it_begins_is_closed_and_makes_room():
    begun, spawned = [], []

    async def handler(stream):
        begun.append(stream)

    class CancelsTheFirst:
        """A nursery whose first task is cancelled before it begins."""

        def __init__(self, n):
            self._nursery = n

        def spawn(self, *args, **keywords):
            spawned.append(self._nursery.spawn(*args, **keywords))
            spawned[0].cancel()
            return spawned[-1]

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            n.spawn(serve_one, listener, CancelsTheFirst(n))
            for _ in range(2):
                async with await open_tcp("127.0.0.1", listener.port) as client:
                    assert await client.receive() == b""
            listener.close()

    async def serve_one(listener, n):
        await serve(listener, handler, n, connections_max=1)

    real(main)
    assert len(spawned) == 2
    assert len(begun) == 1


def test_connections_that_were_accepted_before_the_end_are_still_served():
    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            n.spawn(serve, listener, echo, n)
            client = await open_tcp("127.0.0.1", listener.port)
            while not any(task.name.startswith("echo") for task in n.tasks):
                await bursar.checkpoint()
            listener.close()
            n.spawn(ask_and_close, client)

    async def ask_and_close(client):
        async with client:
            await client.send(b"late")
            assert await client.receive_exactly(4) == b"late"

    real(main)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_what_was_recorded_is_played_back_without_a_network(tls, tmp_path, monkeypatch):
    server, client = contexts() if tls else (None, None)

    async def main():
        async with await listen_tcp(tls=server) as listener, nursery() as n:
            n.spawn(serve, listener, echo, n)
            async with await open_tcp("localhost", listener.port, tls=client) as stream:
                await stream.send(b"x" * 300_000)
                got = await stream.receive_exactly(300_000)
            with pytest.raises(ConnectionRefusedError):
                await open_tcp("127.0.0.1", closed)
            listener.close()
        return len(got), stream.peer.rpartition(":")[2] == str(listener.port)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    trace = tmp_path / "echo.trace"
    assert bursar.run(main, record=str(trace)) == (300_000, True)
    monkeypatch.setattr(socket, "socket", None)
    replayed = replay(Trace(trace), main)
    assert replayed.error is None
    assert replayed.value == (300_000, True)


def test_serving_goes_on_when_the_process_was_out_of_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            with socket.socket() as waiting:
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", listener.port))
                await bursar.wait_readable(listener._box.fd)
                taken = take_all(waiting.fileno())
                serving = n.spawn(serve, listener, echo, n)
                await settled()
                assert serving.explain().reason == "sleeps for 0.1 s"
                for fd in taken:
                    os.close(fd)
                answer = await ask(listener.port, b"hello")
            listener.close()
            await serving
            return answer

    def take_all(fd):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, open_files())) + 5, hard))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(fd))
        return taken

    try:
        assert real(main) == b"hello"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_handler_must_be_a_coroutine_function():
    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            with pytest.raises(bursar.NotBuilt, match="use `async def`"):
                await serve(listener, print, n)

    real(main)
