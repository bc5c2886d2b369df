"""What tests use of `bursar.law`: records, tables and rules, of the kernel in Python."""

from bursar.law import budget, cancel, chain, dispatch, kernel, lanes, nursery, pool, state, steal, wake
from bursar.law import decide as decide_module
from bursar.law.budget import CHANNEL_OPS, COMPONENTS, MEMORY, OPS, SPAWNS, SYSCALLS, UNITS_MAX, UNSTATED
from bursar.law.cancel import CancelPhase, CancelScope, Scope, cut, outward, request
from bursar.law.capability import DEPTH_MAX, require
from bursar.law.chain import MASK64, RandomStream, link, mix64, seed_chain
from bursar.law.cleanup import end_cleanup
from bursar.law.costs import CHANNEL, FREE, OP, SPAWN, SYSCALL, allocation
from bursar.law.decide import CANCEL_STREAK_MAX, TIMED_STREAK_MAX, cancel_limit, decide, streaks_after, wait_max
from bursar.law.invariants import check
from bursar.law.kernel import Kernel
from bursar.law.lanes import INJECTOR_INTERVAL, Lane, TimedLane, Worker
from bursar.law.ledger import Bill
from bursar.law.nursery import Nursery
from bursar.law.obligation import Obligation, Settled
from bursar.law.pool import PAID, Pool, affordable, close, derive, left, named_of, pay, root_pools, top_up
from bursar.law.profile import PROFILES
from bursar.law.state import ENDINGS, TRANSITIONS, move
from bursar.law.steal import StealPolicy
from bursar.law.task import Task
from bursar.law.timers import COMPACT_MIN, SECONDS_MAX, TIME_END_NS, Timer, TimerKind, Timers
from bursar.law.wake import Notice, Wait, WakeState
from bursar.text import TEXT_MAX
