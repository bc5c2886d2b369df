"""Opening connections: names, addresses, refusals, TLS that checks the certificate, and no socket left open."""

import socket
import ssl
import threading

import pytest
from support.real_sockets import real, settled
from support.time_limits import WAIT_S
from support.tls import contexts

import bursar
from bursar import Budget, listen_tcp, listen_unix, nursery, open_tcp, open_unix, select, sleep


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def exchange(listener, opening):
    """Send a word in each direction of one connection."""
    async with nursery() as n:
        task = n.spawn(opening)
        async with await listener.accept() as server, await task as client:
            await client.send(b"ping")
            await server.send(await server.receive_exactly(4) + b"-pong")
            return await client.receive_exactly(9), client.peer, client.name


def test_a_numeric_address_is_not_looked_up(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", None)

    async def main():
        async with await listen_tcp() as listener:
            got, peer, name = await exchange(listener, lambda_open(listener))
            assert peer == f"127.0.0.1:{listener.port}"
            assert name == f"TCP stream to {peer}"
            return got

    assert real(main) == b"ping-pong"


def lambda_open(listener, host="127.0.0.1", **keywords):
    async def opening():
        return await open_tcp(host, listener.port, **keywords)

    return opening


def test_ipv6_works_where_the_machine_has_it():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")

    async def main():
        try:
            listener = await listen_tcp("::1")
        except OSError as error:
            pytest.skip(f"this machine has no IPv6: {error}")
        async with listener:
            got, peer, _ = await exchange(listener, lambda_open(listener, "::1"))
            assert peer == listener.address == f"[::1]:{listener.port}"
            return got

    assert real(main) == b"ping-pong"


def test_a_name_is_looked_up_in_another_thread(monkeypatch):
    threads = []
    look_up = socket.getaddrinfo

    def watched(*args, **keywords):
        threads.append(threading.current_thread())
        return look_up(*args, **keywords)

    monkeypatch.setattr(socket, "getaddrinfo", watched)

    async def main():
        async with await listen_tcp("127.0.0.1") as listener:
            return (await exchange(listener, lambda_open(listener, "localhost")))[0]

    assert real(main) == b"ping-pong"
    (thread,) = threads
    assert thread is not threading.main_thread()
    assert thread.daemon


def test_a_slow_look_up_holds_up_nobody_and_can_be_given_up(monkeypatch):
    go_on = threading.Event()

    def slow(*args, **keywords):
        assert go_on.wait(WAIT_S)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def main():
        async with nursery() as n:
            task = n.spawn(open_tcp, "name.invalid", 1)
            await settled()
            assert task.explain().reason == "waits for the address of name.invalid"
            task.cancel()
        go_on.set()

    real(main)
    for thread in threading.enumerate():
        if thread.name.startswith("bursar resolves"):
            thread.join()


def test_a_name_that_is_none_is_an_error_of_the_system(monkeypatch):
    def fails(*args, **keywords):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fails)

    async def main():
        with pytest.raises(OSError, match="Name or service not known"):
            await open_tcp("name.invalid", 80)

    real(main)


def test_a_text_that_cannot_be_a_name_is_an_error_of_the_system():
    async def main():
        with pytest.raises(OSError, match="is not the name of a host"):
            await open_tcp("a" * 70, 80)

    real(main)


def test_a_look_up_that_gets_no_thread_is_an_error_of_the_system_and_waits_for_nothing(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    async def main():
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(OSError, match="localhost cannot be looked up: can't start new thread"):
                await open_tcp("localhost", 80)

    real(main)


def test_of_several_addresses_the_first_that_answers_is_taken(monkeypatch):
    async def main():
        async with await listen_tcp() as listener:
            found = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, listener.port))
                for host in ("127.0.0.9", "127.0.0.1")
            ]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **keywords: found)
            return (await exchange(listener, lambda_open(listener, "two")))[1].partition(":")[0]

    assert real(main) == "127.0.0.1"


def test_when_no_address_answers_every_reason_is_told(monkeypatch):
    port = free_port()
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.8", "127.0.0.9")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **keywords: found)

    async def main():
        with pytest.raises(OSError, match=rf"no address of two answered: .*127.0.0.8:{port}.*; .*127.0.0.9:{port}"):
            await open_tcp("two", port)

    real(main)


def test_a_port_that_nobody_listens_at_is_refused():
    port = free_port()

    async def main():
        with pytest.raises(ConnectionRefusedError, match=rf"Connection refused \(127.0.0.1:{port}\)"):
            await open_tcp("127.0.0.1", port)

    real(main)


@pytest.mark.parametrize("port", [-1, 65_536, "80", 80.0, True])
def test_a_port_is_a_number_of_a_port(port):
    async def main():
        with pytest.raises(ValueError, match="must be a whole number from 0 to 65535"):
            await open_tcp("127.0.0.1", port)

    real(main)


def test_opening_costs_one_syscall_and_one_more_for_tls():
    async def main(server, client):
        async with await listen_tcp(tls=server) as listener, nursery() as n:
            task = n.spawn(open_and_close, listener.port, client)
            async with await listener.accept() as stream:
                if server is not None:
                    await stream.receive()
        return task.spent.syscalls

    async def open_and_close(port, client):
        (await open_tcp("127.0.0.1", port, tls=client)).close()

    assert real(main, None, None) == 1
    assert real(main, *contexts()) == 2


def test_a_connection_without_syscalls_is_not_opened():
    async def main():
        async with await listen_tcp() as listener, nursery(cancel_on_failure=False) as n:
            n.spawn(open_tcp, "127.0.0.1", listener.port, budget=Budget(syscalls=0))

    with pytest.raises(ExceptionGroup) as caught:
        real(main)
    assert isinstance(caught.value.exceptions[0], bursar.BudgetExceeded)


def test_a_connection_that_is_given_up_leaves_no_socket():
    """A listener whose queue is full does not answer: the second connection waits until it is cancelled."""

    async def main():
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            streams = []
            async with nursery() as n:
                for _ in range(4):
                    task = n.spawn(open_tcp, "127.0.0.1", port)
                    index, outcome = await select(task.wait(), sleep(0.05))
                    if index == 1:
                        assert task.explain().reason == f"waits for a connection to 127.0.0.1:{port}"
                        task.cancel()
                        break
                    streams.append(outcome.value)
                else:
                    pytest.fail("every connection was accepted")
            for stream in streams:
                stream.close()

    real(main)


# ---- TLS


def test_tls_checks_the_name_of_the_server():
    server, client = contexts()

    async def main():
        async with await listen_tcp(tls=server) as listener, nursery() as n:
            n.spawn(echo, listener)
            async with await open_tcp("127.0.0.1", listener.port, tls=client) as by_address:
                await by_address.send(b"ping")
                assert await by_address.receive_exactly(4) == b"ping"
            n.spawn(echo, listener)
            async with await open_tcp("127.0.0.1", listener.port, tls=client, server_hostname="localhost") as by_name:
                await by_name.send(b"pong")
                return await by_name.receive_exactly(4)

    async def echo(listener):
        async with await listener.accept() as stream:
            await stream.send(await stream.receive_exactly(4))
            assert await stream.receive() == b""

    assert real(main) == b"pong"


@pytest.mark.parametrize(
    ("trusts", "hostname", "message"),
    [(True, "somebody.else", "doesn't match|not valid for|mismatch"), (False, "localhost", "self-signed|self signed")],
)
def test_tls_refuses_a_server_that_is_not_who_it_should_be(trusts, hostname, message):
    server, client = contexts()

    async def main():
        async with await listen_tcp(tls=server) as listener, nursery() as n:
            n.spawn(answer, listener)
            context = client if trusts else ssl.create_default_context()
            with pytest.raises(ssl.SSLCertVerificationError, match=message):
                await open_tcp("127.0.0.1", listener.port, tls=context, server_hostname=hostname)

    async def answer(listener):
        async with await listener.accept() as stream:
            with pytest.raises(ssl.SSLError):
                await stream.receive()

    real(main)


@pytest.mark.parametrize("name", ["a" * 300, ".x"], ids=["too long", "no name"])
def test_a_name_that_no_server_can_have_is_refused_before_anything_is_opened(name):
    async def main():
        with pytest.raises(ValueError, match=r"this TLS context cannot be used for a client of .*label"):
            await open_tcp("127.0.0.1", free_port(), tls=contexts()[1], server_hostname=name)

    real(main)


def test_a_context_for_servers_is_refused_where_clients_connect():
    async def main():
        with pytest.raises(ValueError, match=r"cannot be used for a client of '127\.0\.0\.1'"):
            await open_tcp("127.0.0.1", free_port(), tls=contexts()[0])

    real(main)


def test_a_server_that_speaks_no_tls_is_refused():
    _, client = contexts()

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            n.spawn(answer, listener)
            with pytest.raises(ssl.SSLError):
                await open_tcp("127.0.0.1", listener.port, tls=client)

    async def answer(listener):
        async with await listener.accept() as stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    real(main)


def test_a_handshake_that_is_given_up_leaves_no_socket():
    _, client = contexts()

    async def main():
        async with await listen_tcp() as listener, nursery() as n:
            task = n.spawn(lambda_open(listener, tls=client))
            async with await listener.accept() as stream:
                await stream.receive()  # the client's first message, which gets no answer
                assert task.explain().reason.startswith("waits for the TLS handshake with 127.0.0.1:")
                task.cancel()
                await task.wait()

    real(main)


# ---- Unix sockets


def test_a_unix_socket_is_a_stream_like_any_other(tmp_path):
    path = str(tmp_path / "socket")

    async def main():
        async with await listen_unix(path) as listener:
            assert listener.address == path
            with pytest.raises(bursar.BursarError, match="has no port"):
                _ = listener.port
            return await exchange(listener, opening)

    async def opening():
        return await open_unix(path)

    assert real(main) == (b"ping-pong", path, f"Unix stream to {path}")


def test_a_unix_socket_that_is_not_there_is_an_error(tmp_path):
    async def main():
        with pytest.raises(FileNotFoundError, match="nobody"):
            await open_unix(str(tmp_path / "nobody"))

    real(main)


def test_what_is_no_path_leaves_no_socket(tmp_path):
    async def main():
        for attempt in (listen_unix, open_unix):
            with pytest.raises(TypeError):
                await attempt(tmp_path / "socket")

    real(main)
