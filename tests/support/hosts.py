"""What tests use of the way from a host to a poll: hosts, the pump, the runtime and its settings."""

from bursar import runtime, settings
from bursar.drive.coroutine import CLOSE_ATTEMPTS_MAX, Coroutines
from bursar.drive.host import Host
from bursar.drive.pump import BURST_MAX, THREAD_DRIVE_NS_MAX, Pump, PumpState
from bursar.hosts import asyncio_bridge
from bursar.hosts.asyncio import AsyncioHost
from bursar.hosts.asyncio_bridge import from_asyncio
from bursar.hosts.browser import DELAY_MS_MAX, MICROTASKS_MAX, NEEDED, SLICE_MS_MAX, BrowserHost, from_promise
from bursar.hosts.selector import SelectorHost
from bursar.hosts.virtual import VirtualHost
from bursar.runtime import make_host
from bursar.settings import SCHEDULERS
