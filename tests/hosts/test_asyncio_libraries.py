"""Popular asyncio libraries, on loopback: aiohttp and uvicorn as servers, aiohttp and httpx as clients.

Each request is a Bursar task with a budget. The budget ends a runaway request while others are served.
"""

import asyncio
import contextlib
import gc
import socket
import sys

import aiohttp
import httpx
import pytest
import uvicorn
from aiohttp import web
from support.hosts import from_asyncio

import bursar
from bursar import Budget
from bursar.asyncio import run

LOOPS = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


@pytest.fixture(params=LOOPS)
def go(request):
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run
    gc.collect()


def listening():
    """A socket that already accepts connections, and its address."""
    sock = socket.create_server(("127.0.0.1", 0))
    return sock, f"http://127.0.0.1:{sock.getsockname()[1]}"


# ---- aiohttp


@contextlib.asynccontextmanager
async def aiohttp_server(**handlers):
    """Calls the handler `name` for the path /name, and cancels it if the client goes away."""
    application = web.Application()
    for name, handler in handlers.items():
        application.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    sock, address = listening()
    await web.SockSite(runner, sock).start()
    try:
        yield address
    finally:
        await runner.cleanup()


async def fetch(session, url):
    async with session.get(url) as response:
        return response.status, await response.text()


def test_bursar_tasks_fetch_with_aiohttp(go):
    async def hello(request):
        return web.Response(text=f"hello {request.query['n']}")

    async def one(session, address, n):
        return await from_asyncio(fetch(session, f"{address}/hello?n={n}"))

    async def program(session, address):
        async with bursar.nursery(budget=Budget(syscalls=20)) as nursery:
            tasks = [nursery.spawn(one, session, address, n) for n in range(20)]
        return [task.result for task in tasks], nursery.budget.syscalls

    async def main():
        async with aiohttp_server(hello=hello) as address, aiohttp.ClientSession() as session:
            return await run(program, session, address)

    assert go(main()) == ([(200, f"hello {n}") for n in range(20)], 0)


def test_what_a_library_calls_awaitable_is_enough(go):
    """`session.get` returns neither a coroutine nor a future. If it is refused, there is no warning about a coroutine
    that was never awaited."""

    async def hello(request):
        return web.Response(text="hello")

    async def program(session, address):
        response = await from_asyncio(session.get(f"{address}/hello"))
        text = await from_asyncio(response.text())
        with pytest.raises(bursar.BudgetExceeded):
            await from_asyncio(session.get(f"{address}/hello"))
        return text

    async def main():
        async with aiohttp_server(hello=hello) as address, aiohttp.ClientSession() as session:
            return await run(program, session, address, budget=Budget(syscalls=2))

    assert go(main()) == "hello"


def test_cancelling_a_bursar_task_reaches_the_handler_at_the_other_end(go):
    async def main():
        began, ended = asyncio.Event(), asyncio.Event()

        async def silent(request):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def program(session, address):
            async with bursar.nursery() as nursery:
                asking = nursery.spawn(ask, session, address)
                await from_asyncio(began.wait())
                asking.cancel()
            await from_asyncio(ended.wait())
            return asking.outcome.kind

        async def ask(session, address):
            await from_asyncio(fetch(session, f"{address}/silent"))

        async with aiohttp_server(silent=silent) as address, aiohttp.ClientSession() as session:
            return await run(program, session, address)

    assert go(main()) is bursar.OutcomeKind.CANCELLED


def test_each_request_of_an_aiohttp_server_may_be_a_program_of_its_own(go):
    async def fib(n):
        await bursar.charge(ops=1)
        return n if n < 2 else await fib(n - 1) + await fib(n - 2)

    async def handler(request):
        try:
            value = await run(fib, int(request.query["n"]), budget=Budget(ops=5000))
        except bursar.BudgetExceeded:
            return web.Response(status=503, text="too much")
        return web.Response(text=str(value))

    async def main():
        async with aiohttp_server(fib=handler) as address, aiohttp.ClientSession() as session:
            return await asyncio.gather(*(fetch(session, f"{address}/fib?n={n}") for n in (30, 5, 10, 25)))

    assert go(main()) == [(503, "too much"), (200, "5"), (200, "55"), (503, "too much")]


# ---- uvicorn and httpx


class Service:
    """An ASGI application. One guest of the loop has a nursery, in which every request is a task with a budget."""

    def __init__(self, budget):
        self.budget = budget
        self.open = asyncio.Event()
        self.log = []

    async def attend(self):
        async with bursar.nursery() as n:
            with bursar.portal(n) as self.portal:
                self.open.set()
                await bursar.Event().wait()  # until it is cancelled

    async def __call__(self, scope, receive, send):
        handling = self.portal.spawn(self.handle, scope["path"], budget=self.budget, name=scope["path"])
        status, body = await asyncio.wrap_future(handling)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body.encode()})

    async def handle(self, path):
        try:
            while path == "/spin":
                await bursar.checkpoint()
            await bursar.checkpoint()
            return 200, f"hello from {path}"
        except bursar.BudgetExceeded as stopped:
            return 503, f"out of {stopped.component}"
        finally:
            self.log.append(path)


@contextlib.asynccontextmanager
async def uvicorn_server(application):
    sock, address = listening()
    config = uvicorn.Config(application, log_level="warning", lifespan="off", ws="none", loop="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield address
    finally:
        server.should_exit = True
        await serving


def test_a_runaway_request_is_cut_off_by_its_budget_while_others_are_served(go):
    async def get(client, path):
        response = await from_asyncio(client.get(path))
        return response.status_code, response.text

    async def client(address):
        http = httpx.AsyncClient(base_url=address, trust_env=False)
        async with bursar.nursery() as n:
            spinning = n.spawn(get, http, "/spin")
            others = [n.spawn(get, http, f"/{i}") for i in range(10)]
        await from_asyncio(http.aclose())
        return spinning.result, [task.result for task in others]

    async def main():
        service = Service(Budget(ops=50_000))
        async with asyncio.TaskGroup() as group:
            guest = group.create_task(run(service.attend))
            await service.open.wait()
            async with uvicorn_server(service) as address:
                answers = await run(client, address)
            guest.cancel()
        return answers, service.log

    (spinning, others), served = go(main())
    assert spinning == (503, "out of ops")
    assert others == [(200, f"hello from /{i}") for i in range(10)]
    assert served[-1] == "/spin", "nobody waited for the runaway"


def test_a_server_can_itself_be_something_that_a_bursar_task_awaits(go):
    """One program contains everything: the server, its service and the client share one nursery."""

    async def program():
        sock, address = listening()
        service = Service(Budget(ops=100))
        server = uvicorn.Server(uvicorn.Config(service, log_level="warning", lifespan="off", ws="none", loop="none"))

        async def ask():
            async with httpx.AsyncClient(base_url=address, trust_env=False) as http:
                return (await http.get("/a")).text

        async with bursar.nursery() as n:
            backend = n.spawn(service.attend)
            await from_asyncio(service.open.wait())
            serving = n.spawn(wait_for, server.serve(sockets=[sock]))
            text = await from_asyncio(ask())
            server.should_exit = True
            await serving
            backend.cancel()
        return text

    async def wait_for(coroutine):
        return await from_asyncio(coroutine)

    assert go(run(program)) == "hello from /a"


def test_an_asyncio_task_that_waits_for_a_portal_takes_its_bursar_task_with_it(go):
    async def main():
        service = Service(None)
        guest = asyncio.create_task(run(service.attend))
        await service.open.wait()
        waiting = asyncio.create_task(service({"path": "/spin"}, None, None))
        for _ in range(10):  # rounds of the loop: enough for the request to be in its endless loop
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        while not service.log:
            await asyncio.sleep(0)
        guest.cancel()
        await asyncio.wait([guest])
        return waiting.cancelled(), service.log

    assert go(main()) == (True, ["/spin"])
