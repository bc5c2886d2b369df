"""Streams: bytes arrive in order and once, whatever is cancelled; a broken stream raises; nothing is left open."""

import socket
import ssl

import pytest
from support.real_sockets import real, settled
from support.tls import contexts

import bursar
from bursar import (
    Budget,
    CapIO,
    CapSpawn,
    DelimiterNotFound,
    ScopeMisuse,
    StreamClosed,
    StreamEnded,
    listen_tcp,
    nursery,
    open_tcp,
    select,
    sleep,
)

BIG = bytes(range(256)) * 20_000  # five megabytes: more than any buffer of the system


@pytest.fixture(params=["plain", "TLS"])
def tls(request):
    """The TLS contexts of server and client, or None."""
    return (None, None) if request.param == "plain" else contexts()


def linked(body, *, tls=(None, None), **keywords):
    """Run `body(client, server)` with both ends of a connection."""

    async def main():
        async with await listen_tcp(tls=tls[0]) as listener, nursery() as n:
            opening = n.spawn(open_tcp_to, listener.port)
            async with await listener.accept() as server:
                if tls[0] is not None:
                    n.spawn(server.receive_exactly, 0)
                    shake = n.spawn(server.receive_exactly, 1)
                async with await opening as client:
                    if tls[0] is not None:
                        await client.send(b"!")
                        await shake
                    return await body(client, server)

    async def open_tcp_to(port):
        return await open_tcp("127.0.0.1", port, tls=tls[1])

    return real(main, **keywords)


# ---- receiving


def test_what_is_sent_is_received(tls):
    async def body(client, server):
        await client.send(b"to the server")
        await server.send(b"to the client")
        return await server.receive_exactly(13), await client.receive_exactly(13)

    assert linked(body, tls=tls) == (b"to the server", b"to the client")


def test_receive_gives_what_there_is_and_no_more_than_asked(tls):
    async def body(client, server):
        await client.send(b"abcdef")
        got = b""
        while len(got) < 6:
            part = await server.receive(2)
            assert 1 <= len(part) <= 2
            got += part
        return got

    assert linked(body, tls=tls) == b"abcdef"


def test_megabytes_arrive_in_both_directions_at_once(tls):
    async def body(client, server):
        async with nursery() as n:
            n.spawn(client.send, BIG)
            n.spawn(server.send, BIG[::-1])
            there, back = n.spawn(server.receive_exactly, len(BIG)), n.spawn(client.receive_exactly, len(BIG))
        return there.result == BIG, back.result == BIG[::-1]

    assert linked(body, tls=tls) == (True, True)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_anything_like_bytes_can_be_sent(kind):
    async def body(client, server):
        async with nursery() as n:
            n.spawn(client.send, kind(BIG[:1_000_000]))
            return await server.receive_exactly(1_000_000)

    assert linked(body) == BIG[:1_000_000]


def test_sending_nothing_sends_nothing():
    async def body(client, server):
        await client.send(b"")
        await client.send(b"x")
        return await server.receive()

    assert linked(body) == b"x"


def test_half_close_ends_one_direction_only():
    async def body(client, server):
        await client.send(b"last words")
        await client.send_eof()
        heard = await server.receive_exactly(10)
        assert await server.receive() == b""
        assert await server.receive() == b""
        await server.send(b"an answer")
        return heard, await client.receive_exactly(9)

    assert linked(body) == (b"last words", b"an answer")


def test_a_tls_stream_cannot_be_half_closed():
    async def body(client, server):
        with pytest.raises(bursar.BursarError, match="a TLS stream ends in both directions at once; close it"):
            await client.send_eof()

    linked(body, tls=contexts())


def test_a_closed_peer_is_the_end(tls):
    async def body(client, server):
        await client.send(b"bye")
        client.close()
        return await server.receive_exactly(3), await server.receive()

    assert linked(body, tls=tls) == (b"bye", b"")


def test_a_tls_peer_that_goes_without_saying_so_is_an_error():
    async def body(client, server):
        await server.send(b"x")
        assert await client.receive() == b"x"  # with unread bytes, closing would reset the connection
        raw = client._box.socket.detach()
        client._box.socket = None
        socket.close(raw)
        with pytest.raises(ssl.SSLEOFError):
            await server.receive()

    linked(body, tls=contexts())


def test_receive_exactly_says_how_far_it_came():
    async def body(client, server):
        await client.send(b"abc")
        await client.send_eof()
        with pytest.raises(StreamEnded, match=r"TCP stream from 127.0.0.1:\d+ ended after 3 of 10 bytes") as caught:
            await server.receive_exactly(10)
        assert isinstance(caught.value, EOFError)
        return await server.receive()

    assert linked(body) == b"abc"


def test_receive_until_stops_at_the_delimiter_and_keeps_the_rest(tls):
    async def body(client, server):
        await client.send(b"one\r\ntwo\r\nthree")
        lines = [await server.receive_until(b"\r\n"), await server.receive_until(b"\r\n")]
        return lines, await server.receive_exactly(5)

    assert linked(body, tls=tls) == ([b"one\r\n", b"two\r\n"], b"three")


def test_a_delimiter_that_comes_in_pieces_is_found():
    async def body(client, server):
        async with nursery() as n:
            line = n.spawn(server.receive_until, b"--end--")
            for byte in b"text--e--end--rest":
                await client.send(bytes([byte]))
                await settled()
        return line.result, await server.receive_exactly(4)

    assert linked(body) == (b"text--e--end--", b"rest")


@pytest.mark.parametrize(("text", "limit", "found"), [(b"1234\n", 5, True), (b"12345\n", 5, False)])
def test_the_limit_of_receive_until_counts_the_delimiter(text, limit, found):
    async def body(client, server):
        await client.send(text)
        if found:
            assert await server.receive_until(b"\n", limit) == text
            return
        with pytest.raises(DelimiterNotFound, match=rf"sent {limit} bytes without b'\\n'"):
            await server.receive_until(b"\n", limit)
        assert await server.receive_exactly(len(text)) == text

    linked(body)


def test_a_stream_that_ends_before_the_delimiter_loses_nothing():
    async def body(client, server):
        await client.send(b"half a line")
        await client.send_eof()
        with pytest.raises(StreamEnded, match=r"ended after 11 bytes, without b'\\n'"):
            await server.receive_until(b"\n")
        return await server.receive()

    assert linked(body) == b"half a line"


@pytest.mark.parametrize("method", ["receive_exactly", "receive_until"])
def test_a_cancelled_receive_takes_nothing(method):
    async def body(client, server):
        await client.send(b"abc")
        async with nursery() as n:
            task = n.spawn(getattr(server, method), *((10,) if method == "receive_exactly" else (b"\n",)))
            while not task.explain().reason.startswith("waits for data"):
                await bursar.checkpoint()
            task.cancel()
        await client.send(b"def\n")
        return await server.receive_exactly(7)

    assert linked(body) == b"abcdef\n"


def test_bytes_that_another_case_of_a_select_left_are_there_for_the_next():
    async def body(client, server):
        event = bursar.Event()
        event.set()
        await client.send(b"x")
        await bursar.wait_readable(server._box.fd)
        chosen = set()
        for seed in range(20):  # both cases are ready, and the random choice sometimes takes the other one
            index, value = await select(server.receive(), event.wait())
            chosen.add(index)
            if index == 0:
                assert value == b"x", seed
                await client.send(b"x")
                await bursar.wait_readable(server._box.fd)
        return chosen

    assert linked(body) == {0, 1}


def test_select_waits_for_data_or_something_else():
    async def body(client, server):
        assert (await select(server.receive(), sleep(0.001))).index == 1
        async with nursery() as n:
            task = n.spawn(first, server)
            await settled()
            await client.send(b"data")
        return task.result

    async def first(stream):
        return tuple(await select(stream.receive(), sleep(60)))

    assert linked(body) == (0, b"data")


# ---- sends that are cut off


def test_a_send_that_is_cancelled_half_way_breaks_the_stream():
    async def body(client, server):
        async with nursery() as n:
            task = n.spawn(client.send, BIG)
            while not task.explain().reason.startswith("waits until"):
                await bursar.checkpoint()
            task.cancel()
        with pytest.raises(StreamClosed, match=r"is broken: a send was cut off after [\d,]+ of 5,120,000 bytes"):
            await client.send(b"more")
        with pytest.raises(StreamClosed, match="is broken"):
            await client.receive()
        client.close()
        got = 0
        while part := await server.receive():
            got += len(part)
        return 0 < got < len(BIG)

    assert linked(body)


def test_a_tls_send_that_is_cancelled_before_any_byte_went_out_breaks_the_stream_too():
    """TLS has encrypted the record already, and would refuse to send other data before it."""

    async def body(client, server):
        async with nursery() as n:
            task = n.spawn(send_for_ever, client, b"x" * 16_000)
            while not task.explain().reason.startswith("waits until"):
                await bursar.checkpoint()
            task.cancel()
        with pytest.raises(StreamClosed, match=r"is broken: a send was cut off after [\d,]+ of 16,000 bytes"):
            await client.send(b"something else")

    linked(body, tls=contexts())


def test_a_send_that_never_began_breaks_nothing():
    async def body(client, server):
        async with nursery() as n:
            n.spawn(client.send, b"never").cancel()
        await client.send(b"fine")
        return await server.receive()

    assert linked(body) == b"fine"


def test_sending_to_a_peer_that_is_gone_is_the_error_of_the_system():
    async def body(client, server):
        server.close()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await send_for_ever(client)

    linked(body)


async def send_for_ever(stream, data=BIG):
    while True:
        await stream.send(data)


# ---- misuse


def test_two_tasks_cannot_receive_at_once():
    async def body(client, server):
        async with nursery() as n:
            task = n.spawn(receive, server, name="first")
            await settled()
            with pytest.raises(ScopeMisuse, match=r"is in use: task 'first' waits for data of TCP stream from"):
                await server.receive()
            await client.send(b"for the first")
        return task.result

    async def receive(stream):
        return await stream.receive()

    assert linked(body) == b"for the first"


def test_two_tasks_cannot_send_at_once():
    async def body(client, server):
        async with nursery() as n:
            n.spawn(client.send, BIG)
            await settled()
            with pytest.raises(ScopeMisuse, match="two tasks sent at the same time"):
                await client.send(b"in between")
            return await server.receive_exactly(len(BIG)) == BIG

    assert linked(body)


def test_a_stream_of_another_runtime_is_refused():
    async def body(client, server):
        async def other():
            with pytest.raises(ScopeMisuse, match="which belongs to another runtime"):
                await client.receive()

        bursar.run(other)

    linked(body)


@pytest.mark.parametrize("call", [lambda s: s.receive(0), lambda s: s.receive(True), lambda s: s.receive("1")])
def test_a_size_is_a_positive_number(call):
    async def body(client, server):
        with pytest.raises(ValueError, match="must be a whole number, at least 1"):
            call(client)
        with pytest.raises(ValueError, match="not negative"):
            await client.receive_exactly(-1)
        with pytest.raises(ValueError, match="must not be empty"):
            await client.receive_until(b"")

    linked(body)


# ---- closing


def test_a_closed_stream_says_so_and_closing_again_is_fine():
    async def body(client, server):
        client.close()
        client.close()
        for use in (client.receive(), client.send(b"x"), client.send_eof()):
            with pytest.raises(StreamClosed, match="is closed"):
                await use
        return repr(client)

    assert linked(body).endswith(", is closed>")


def test_closing_tells_whoever_waits(tls):
    async def body(client, server):
        async with nursery(cancel_on_failure=False) as n:
            n.spawn(receive, server, name="waits")
            await settled()
            server.close()

    async def receive(stream):
        with pytest.raises(StreamClosed, match=r"task 'waits': TCP stream from .* was closed while it waited"):
            await stream.receive()

    linked(body, tls=tls)


def test_a_stream_is_closed_by_its_block_also_when_that_is_cancelled():
    async def body(client, server):
        async with nursery() as n:
            task = n.spawn(hold, server)
            await settled()
            task.cancel()
        return await client.receive()

    async def hold(stream):
        async with stream:
            await stream.receive()

    assert linked(body) == b""


def test_closing_is_free_and_needs_no_capability():
    async def body(client, server):
        async with nursery() as n:
            task = n.spawn(close, client, budget=Budget(ops=0, syscalls=0), capabilities=[])
        return task.spent, await server.receive()

    async def close(stream):
        stream.close()

    assert linked(body) == (Budget(0, 0, 0, 0, 0), b"")


# ---- budget and capabilities


def test_one_receive_and_one_send_cost_one_syscall_each_however_long_they_wait():
    async def body(client, server):
        async with nursery() as n:
            task = n.spawn(echo, server)
            await settled()
            await client.send(b"x")
            await client.receive()
        return task.spent

    async def echo(stream):
        await stream.send(await stream.receive())

    assert linked(body) == Budget(2, 0, 0, 0, 2)


def test_a_task_that_is_out_of_syscalls_is_told_and_what_was_sent_is_there_for_another():
    async def body(client, server):
        async with nursery(cancel_on_failure=False) as n:
            task = n.spawn(greedy, server, budget=Budget(syscalls=3))
            await client.send(b"abcd")
        return task.result, await server.receive()

    async def greedy(stream):
        count = 0
        try:
            while await stream.receive(1):
                count += 1
        except bursar.BudgetExceeded as error:
            return count, error.component

    assert linked(body) == ((3, "syscalls"), b"d")


def test_without_the_capability_there_is_no_receiving_and_no_sending():
    async def body(client, server):
        async with nursery() as n:
            n.spawn(denied, client, capabilities=[])

    async def denied(stream):
        with pytest.raises(bursar.CapabilityDenied, match="may not receive from a socket: it holds no CapIO"):
            await stream.receive()
        with pytest.raises(bursar.CapabilityDenied, match="may not send to a socket"):
            await stream.send(b"x")
        with pytest.raises(bursar.CapabilityDenied, match="may not end a stream"):
            await stream.send_eof()

    linked(body)


def test_data_that_comes_after_a_revocation_is_not_read():
    async def body(client, server):
        mine = (await bursar.capabilities())[CapIO].attenuate()
        async with nursery() as n:
            n.spawn(denied, server, capabilities=[mine])
            await settled()
            await bursar.revoke(mine)
            await client.send(b"secret")
        return await server.receive()

    async def denied(stream):
        with pytest.raises(bursar.CapabilityRevoked, match="may not receive from a socket: its CapIO has been revoked"):
            await stream.receive()

    assert linked(body) == b"secret"


def test_opening_and_listening_need_the_capability():
    async def main():
        with pytest.raises(bursar.CapabilityDenied, match=r"may not connect to a socket"):
            await open_tcp("127.0.0.1", 1)
        with pytest.raises(bursar.CapabilityDenied, match="may not look up the name of a host"):
            await open_tcp("localhost", 1)
        with pytest.raises(bursar.CapabilityDenied, match=r"may not listen at 127.0.0.1:0"):
            await listen_tcp()

    real(main, capabilities=[CapSpawn()])


# ---- the trace


def test_the_answers_of_the_system_are_on_record_and_only_they():
    told = []

    async def body(client, server):
        real.runtime.kernel.observe(lambda kind, task, detail: told.append((kind, detail)))
        await client.send(b"plain text")
        got = await server.receive()
        real.runtime.kernel.observe(None)
        return got

    assert linked(body, tls=contexts()) == b"plain text"
    answers = [detail for kind, detail in told if kind == "host_answer"]
    assert ("send", 10) in answers
    assert ("receive", b"plain text") in answers
    assert {what for what, _ in answers} == {"send", "receive"}
    assert all(type(answer) in (int, bytes) for _, answer in answers)
