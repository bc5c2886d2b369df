"""A web service in which no request can use more than its budget. Needs uvicorn and httpx.

uvicorn serves and httpx asks, both in one asyncio loop. Every request goes through a portal into a Bursar program in
the same loop, where it is a task with a budget. One request never ends: Bursar stops it when its operations are
spent. The later requests are answered before that, because Bursar gives every task its turn.

Run:
    bursar run examples/asgi_service.py

Prints:
    answered: /1 /2 /3 /spin
    /spin  503 out of ops
    /1     200 one moment, /1
    /2     200 one moment, /2
    /3     200 one moment, /3
"""

import asyncio
import socket

import httpx
import uvicorn

import bursar
from bursar import Budget
from bursar.asyncio import run

PATHS = ["/spin", "/1", "/2", "/3"]


class Service:
    """The ASGI application. Its `portal` leads into the nursery of a Bursar program."""

    def __init__(self):
        self.open = asyncio.Event()
        self.answered = []

    async def attend(self):
        async with bursar.nursery() as n:
            with bursar.portal(n) as self.portal:
                self.open.set()
                await bursar.Event().wait()  # until it is cancelled

    async def __call__(self, scope, receive, send):
        handling = self.portal.spawn(self.handle, scope["path"], budget=Budget(ops=50_000))
        status, text = await asyncio.wrap_future(handling)
        await send({"type": "http.response.start", "status": status})
        await send({"type": "http.response.body", "body": text.encode()})

    async def handle(self, path):
        try:
            while path == "/spin":
                await bursar.checkpoint()
            return 200, f"one moment, {path}"
        except bursar.BudgetExceeded as stopped:
            return 503, f"out of {stopped.component}"
        finally:
            self.answered.append(path)


async def ask(address):
    # without a timeout: what ends /spin is its budget, and how long that takes is up to the machine
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=None) as client:
        return await asyncio.gather(*(client.get(path) for path in PATHS))


async def application():
    service = Service()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(service, log_level="warning", lifespan="off", ws="none", loop="none")
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as group:
        guest = group.create_task(run(service.attend))
        await service.open.wait()
        group.create_task(server.serve(sockets=[listener]))
        responses = await ask(f"http://127.0.0.1:{listener.getsockname()[1]}")
        server.should_exit = True
        guest.cancel()
    print("answered:", *sorted(service.answered[:3]), *service.answered[3:])
    for path, response in zip(PATHS, responses, strict=True):
        print(f"{path:6} {response.status_code} {response.text}")


async def main():
    """Where `bursar run` begins: the service has a loop of its own."""
    asyncio.run(application())


if __name__ == "__main__":
    asyncio.run(application())
