"""Echo: how many requests per second a TCP server answers on the loopback, with one connection and with fifty.

Measured, by the client's wall clock: the time from the first timed request to the last answer. Also measured: the CPU
time of the server's process over the whole sample, without its start. A request is MESSAGE bytes in each direction. The
client is a separate process and the same for all peers. It writes to every connection, then reads from every
connection, so that with fifty connections the server always finds several ready. Each sample has a fresh server and a
fresh client. The peers: Bursar's streams; asyncio's streams; the same on uvloop; and asyncio with a bare `Protocol`,
which echoes in a callback of the loop, without any task. The last one shows the most that a Python server can reach on
that loop.

Bursar runs as `bursar.run(main)`: each receive and each send is billed, checked against a capability, and could be
recorded. Not measured: latency by itself, TLS, networks. Other load on the machine disturbs this workload more than any
other, because two processes and the system's network take turns. Read the best sample, and look at the spread.

`python -m bursar_benchmarks.echo server PEER CONNECTIONS REQUESTS` takes one sample and prints it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

from bursar_benchmarks.child import environment
from bursar_benchmarks.grid import grid
from bursar_benchmarks.harness import Row, Sample, installed, interleave
from bursar_benchmarks.report import number

TIMEOUT_S = 900
CONNECTIONS = (1, 50)
REQUESTS, REQUESTS_QUICK = 20_000, 5_000
WARM_UP = 1_000
MESSAGE = 64
BASELINE = "asyncio"


class Visit:
    """One client process: started when the server listens, gone when its last connection is closed."""

    def __init__(self, connections: int, requests: int) -> None:
        self._arguments = [str(connections), str(requests)]
        self._connections = connections
        self._over: Callable[[], object] = lambda: None

    def begin(self, port: int, over: Callable[[], object]) -> None:
        self._over = over
        command = [sys.executable, "-m", "bursar_benchmarks.echo", "client", str(port), *self._arguments]
        self._client = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        self._cpu = time.process_time()

    def closed(self) -> None:
        """One connection has ended."""
        self._connections -= 1
        if not self._connections:
            self.cpu = time.process_time() - self._cpu
            self._over()

    def seconds(self) -> float:
        said, _ = self._client.communicate(timeout=TIMEOUT_S)
        return float(said)


def bursar(visit: Visit) -> None:
    import bursar

    async def echo(stream: bursar.Stream) -> None:
        while data := await stream.receive():
            await stream.send(data)
        visit.closed()

    async def main() -> None:
        async with await bursar.listen_tcp() as listener, bursar.nursery() as nursery:
            visit.begin(listener.port, listener.close)
            await bursar.serve(listener, echo, nursery)

    bursar.run(main)


async def _serve(server: asyncio.Server, visit: Visit) -> None:
    over = asyncio.Event()
    async with server:
        visit.begin(server.sockets[0].getsockname()[1], over.set)
        await over.wait()


async def _streams(visit: Visit) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
        visit.closed()

    await _serve(await asyncio.start_server(echo, "127.0.0.1", 0), visit)


async def _protocol(visit: Visit) -> None:
    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            self._transport.write(data)

        def connection_lost(self, exc: Exception | None) -> None:
            visit.closed()

    await _serve(await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0), visit)


def asyncio_(visit: Visit) -> None:
    asyncio.run(_streams(visit))


def protocol(visit: Visit) -> None:
    asyncio.run(_protocol(visit))


def uvloop(visit: Visit) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_streams(visit))


PEERS: dict[str, Callable[[Visit], None]] = {
    "bursar": bursar,
    "asyncio": asyncio_,
    "uvloop": uvloop,
    "protocol": protocol,
}


def client(port: int, connections: int, requests: int) -> float:
    """Send all requests. Returns how many seconds they took, without the warm-up."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message, start = b"x" * MESSAGE, 0.0
    for asked in (WARM_UP, requests):
        start = time.perf_counter()
        for _ in range(asked // connections):
            for one in sockets:
                one.send(message)
            for one in sockets:
                left = MESSAGE
                while left:
                    left -= len(one.recv(left))
    seconds = time.perf_counter() - start
    for one in sockets:
        one.close()
    return seconds


def sample(peer: str, connections: int, requests: int) -> Sample:
    """One server and one client, in this process and a child of it."""
    visit = Visit(connections, requests)
    PEERS[peer](visit)
    return Sample(visit.seconds() / requests * 1e6, {"cpu": visit.cpu / (requests + WARM_UP) * 1e6})


def sample_in_child(peer: str, connections: int, requests: int) -> Sample:
    command = [sys.executable, "-m", "bursar_benchmarks.echo", "server", peer, str(connections), str(requests)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().rsplit("\n", 1)[-1]
        return Sample(0.0, error=f"the server ended with {done.returncode}: {said}")
    cost, cpu = json.loads(done.stdout)
    return Sample(cost, {"cpu": cpu})


def measure(*, requests: int, repeats: int) -> list[Row]:
    """Every peer with every number of connections, interleaved over both."""
    present = [peer for peer in PEERS if peer == "protocol" or installed(peer)]
    entries = [(peer, connections) for connections in CONNECTIONS for peer in present]
    taken = interleave(entries, repeats, lambda entry: sample_in_child(*entry, requests))
    return [
        _row(peer, connections, requests, taken.get((peer, connections), []), taken[BASELINE, connections])
        for connections in CONNECTIONS
        for peer in PEERS
    ]


def _row(peer: str, connections: int, requests: int, samples: Sequence[Sample], baseline: Sequence[Sample]) -> Row:
    case, unit = f"echo, {connections} connections" if connections > 1 else "echo, 1 connection", "us/request"
    if not samples:
        return Row(case, peer, unit, requests, "absent", detail="not installed")
    if samples[-1].error is not None:
        return Row(case, peer, unit, requests, "failed", detail=samples[-1].error)
    best, costs = min(samples, key=lambda one: one.cost), tuple(one.cost for one in samples)
    ratio = best.cost / min(one.cost for one in baseline) if baseline[-1].error is None else None
    cpu = min(one.stages["cpu"] for one in samples)
    return Row(case, peer, unit, requests, "ok", best.cost, median(costs), ratio, "", costs, {"cpu": cpu})


def render(rows: Sequence[Row]) -> str:
    """One line per peer and number of connections."""
    lines = [["workload", "peer", "requests/s", "(median)", "us/request", "server CPU us", "to asyncio"]]
    for row in rows:
        if row.best is None or row.median is None:
            lines.append([row.case, row.peer, row.status, "", "", "", row.detail])
            continue
        ratio = "" if row.ratio is None else f"x{row.ratio:.2f}"
        rates = [f"{1e6 / row.best:,.0f}", f"({1e6 / row.median:,.0f})"]
        lines.append([row.case, row.peer, *rates, number(row.best), number(row.stages["cpu"]), ratio])
    legend = "best (median) by the client's clock; CPU of the server, best; below x1 is faster than asyncio's streams"
    return "\n".join([grid(lines), "", legend])


def main() -> None:
    role, first, *numbers = sys.argv[1:]
    if role == "client":
        print(client(int(first), *map(int, numbers)))
    else:
        one = sample(first, *map(int, numbers))
        print(json.dumps([one.cost, one.stages["cpu"]]))


if __name__ == "__main__":
    main()
