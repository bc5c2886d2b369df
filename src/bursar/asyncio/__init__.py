"""asyncio's face: Bursar programs inside asyncio."""

from bursar.asyncio.guest import run
from bursar.hosts.asyncio import AsyncioHost
from bursar.hosts.asyncio_bridge import from_asyncio

__all__ = ["AsyncioHost", "from_asyncio", "run"]
