"""What tests use of the way from a task to the kernel: requests, operations, functions on threads, native functions."""

from bursar.fibers import library, mailbox
from bursar.ops.start import start
from bursar.request import SUSPENDED, Entry, Operation, Request, where
from bursar.threads.job import ControlledJob, OnThread, ThreadJob, on_thread
from bursar.threads.pool import ThreadPool
