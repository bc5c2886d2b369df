"""`native()`: a C function as something to spawn. It runs as a fiber on the native workers, without the interpreter.

The task is an ordinary coroutine task. Its coroutine awaits one request, which hands the function to the engine and
blocks the task until the function has really left. So it is owned, named, cancelled, awaited, recorded and explained
like every other, and no rule of the law knows of it. What crosses between the two sides is in `execution.guests`.

Money. The function pays from pools of the engine, and these are filled out of the task's: whole where the task has a
pool of its own, else in portions, so that nobody who shares the purse starves. A portion is charged before it is handed
over; when it is used up the function holds, the task is billed for the next one, and the law decides what follows if
there is none: the end, or a hold until somebody recharges the task. At the end it gets back what was not used.

V1  while its run goes on, a task ends only when its function has left; unless it is cut off while that holds for money
V2  spent here + held there = charged to the task, and at its end nothing is held there
V3  in a replay nothing native runs: what it came to is an answer of the host

Rejected: killing a function that does not stop. It may hold a lock, or be half way through somebody's data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from bursar.errors import (
    BudgetExceeded,
    Cancelled,
    CapabilityDenied,
    NativeFailed,
    NativePanic,
    NativeUnavailable,
    brief,
)
from bursar.kernel import Kernel, Task, Wait
from bursar.law.budget import CHANNEL_OPS, COMPONENTS, FREE, MEMORY, OPS, SPAWNS, SYSCALL, SYSCALLS, UNITS_MAX, Cost
from bursar.law.capability import CapExecutor, require
from bursar.law.dispatch import Dispatch
from bursar.request import SUSPENDED, Request

if TYPE_CHECKING:
    from bursar.execution.guests import Guest, Guests
    from bursar.hosts.pump import Pump

# What needs ctypes is imported where it is used: most programs have no native functions, and it takes its time.

BACKEND: Final = "native"
STACK_BYTES: Final = 64 << 10  # enough for the C library's own functions; memory is taken as it is used
PORTION: Final = {
    OPS: 1024,
    CHANNEL_OPS: 64,
    SYSCALLS: 64,
}  # the first one out of a shared pool; each later one doubles
UNLIMITED: Final = (UNITS_MAX,) * len(COMPONENTS)  # the engine counts what it spends all the same
# What a letter is about: the kinds of janus_rt.h, those of execution.guests, and two of our own.
DONE, FAILED, CANCELLED, PANICKED, BROKE, SHORT, LOST, PAY, REFUSED = 0, 1, 2, 3, 4, 16, 17, 18, 19
PANICS: Final = {1: "it panicked with code {code}", 2: "it ran out of stack", 3: "it ran over its stack"}
REFUSALS: Final = {
    -5: "the engine refused it: is the stack that it asks for too large?",
    -6: "the native runtime was started as a deterministic one, which runs nothing by itself, or shuts down",
    -7: "there is no memory, stack or thread for it",
    -10: "the native runtime is being shut down",
}


Portion = tuple[int, ...]  # of money, by component


class Letter(NamedTuple):
    """What came from the engine."""

    kind: int
    panic: int
    code: int
    amounts: Portion  # what it has spent; SHORT: what it lacks

    @property
    def is_end(self) -> bool:
        return self.kind not in (SHORT, PAY)

    @classmethod
    def read(cls, text: str) -> Letter:
        kind, panic, code, *amounts = (int(part) for part in text.split())
        return cls(kind, panic, code, tuple(amounts))

    def __str__(self) -> str:
        return " ".join(str(number) for number in (self.kind, self.panic, self.code, *self.amounts))


class Loan:
    """What one function has of its task's money (V2)."""

    __slots__ = ("_lent", "_metered", "_sizes", "_task")

    def __init__(self, task: Task, metered: bool) -> None:
        self._task = task
        self._metered = metered  # its memory pays for what its Python code allocates
        self._lent = [0] * len(
            COMPONENTS
        )  # charged and handed over, by component; open pools are not charged in advance
        self._sizes = dict(PORTION)

    def is_free(self) -> bool:
        """Whether nothing that the task has is limited."""
        return all(pool.left is None for pool in self._task.pools)

    def portion(self, lacks: Portion | None) -> Portion:
        """What to hand over next. `lacks`: what the function asks for; None: it is about to begin."""
        return tuple(self._of(component, lacks) for component in range(len(COMPONENTS)))

    def _of(self, component: int, lacks: Portion | None) -> int:
        pool, needed = self._task.pools[component], lacks[component] if lacks is not None else 0
        if pool.left is None:
            return UNITS_MAX if lacks is None else needed
        if lacks is not None and not needed:
            return 0
        own = pool is not self._task.purse_of[component]
        left = max(pool.left - (component in (OPS, SYSCALLS)), 0)  # so much the wait itself costs
        if component in (MEMORY, SPAWNS):  # nobody holds for these: only what was granted to this very task
            return left if own and not (self._metered and component == MEMORY) else 0
        if own:
            return max(left, needed)
        size = self._sizes[component]
        self._sizes[component] = min(2 * size, UNITS_MAX)
        return max(min(size, (left + 1) // 2), needed)

    def cost(self, portion: Portion) -> Cost:
        """What the task is charged for it, with the price of the wait."""
        task = self._task
        paid = [0 if task.pools[component].left is None else n for component, n in enumerate(portion)]
        for component, amount in SYSCALL:
            paid[component] += amount
        return tuple((component, n) for component, n in enumerate(paid) if n)

    def handed(self, portion: Portion) -> None:
        for component, n in enumerate(portion):
            if self._task.pools[component].left is not None:
                self._lent[component] += n

    def difference(self, spent: Portion) -> Portion:
        """What the task is still to pay, by component; negative: what it gets back."""
        return tuple(used - lent for used, lent in zip(spent, self._lent, strict=True))


class Run(Request[Letter]):
    """One run of one function. Awaited: pays, lets the function run on, and answers with the next letter about it."""

    __slots__ = (
        "_argument",
        "_keep",
        "_lacks",
        "_loan",
        "_portion",
        "function",
        "guest",
        "guests",
        "lives",
        "stopping",
        "wait",
    )

    def __init__(self, function: NativeFunction, argument: int | None, keep: object) -> None:
        self.function = function
        self.guest: Guest | None = None  # None also in a replay (V3)
        self.guests: Guests | None = None
        self.lives = False  # it has begun, and the letter of its end has not been delivered
        self.stopping = False  # there is nothing more to give: only its end is awaited
        self.wait: NativeWait | None = None
        self._argument = argument
        self._keep = keep
        self._loan: Loan | None = None
        self._lacks: Portion | None = None
        self._portion = UNLIMITED

    def bill(self) -> Cost:
        if self.stopping:
            return FREE  # what cannot be paid must not keep a task from ending
        if self._loan is None:
            return SYSCALL
        self._portion = self._loan.portion(self._lacks)
        return self._loan.cost(self._portion)

    def perform(self, kernel: Kernel, task: Task) -> Any:
        if self._loan is None:
            self._require_allowed(task)
            self._loan = Loan(task, kernel.driver.driver.meter is not None)
            if not self._loan.is_free():
                return Letter(PAY, 0, 0, ())  # now that it is known from whom: await again
        if not self.lives:
            self._begin(kernel.driver.pump, task)
        else:
            self._go_on()
        self.wait = NativeWait(task, self, kernel.driver.pump)
        kernel.blocked(task, self.wait)
        self.wait.begin()
        return SUSPENDED

    def _require_allowed(self, task: Task) -> None:
        permit = require(task, task.capabilities, CapExecutor, "run a native function")
        if BACKEND not in permit.backends:
            allowed = ", ".join(sorted(permit.backends)) or "nothing"
            raise CapabilityDenied(
                f"task {task.name!r} may not run a native function: its CapExecutor allows {allowed}; "
                f"grant it CapExecutor(frozenset({{{BACKEND!r}}}))"
            )

    def _begin(self, pump: Pump, task: Task) -> None:
        """A function that cannot be started has ended at once: so what was paid for it comes back in the usual way."""
        if pump.live:  # V3
            error = self._spawn(pump, task)
            if error and self.guest is not None:
                self.guest.letter = (REFUSED, 0, error, (0,) * len(COMPONENTS))
        self._handed()
        self.lives = True

    def _spawn(self, pump: Pump, task: Task) -> int:
        from bursar.execution.guests import Guest, Guests

        self.guests, self.guest = Guests.of(pump), Guest(self._keep)
        name = task.name.encode("utf-8", "replace").replace(b"\0", b"?")
        function = self.function
        return self.guests.spawn(self.guest, function.address, self._argument, name, function.stack, self._portion)

    def _go_on(self) -> None:
        if not self.stopping:
            self._handed()
        if self.guest is None or self.guests is None:
            return
        if self.stopping:
            self.guests.refuse(self.guest)
        else:
            self.guests.fill(self.guest, self._portion)

    def _handed(self) -> None:
        assert self._loan is not None, "V2"
        self._loan.handed(self._portion)
        self._keep = None

    def cancel(self) -> None:
        if self.guest is not None and self.guests is not None:
            self.guests.cancel(self.guest)

    def stop(self, told: BaseException) -> None:
        """It holds for want of money, and gets none: it is to end, and the task waits for that."""
        self.stopping = True
        if isinstance(told, Cancelled):
            self.cancel()

    def letter(self) -> str:
        """What came last."""
        assert self.guest is not None, "V3"
        letter, self.guest.letter = self.guest.letter, None
        assert letter is not None, "a delivery is about something"
        return str(Letter(*letter))

    def took(self, kernel: Kernel, task: Task, letter: Letter) -> None:
        """A letter is delivered."""
        self._lacks = letter.amounts
        if letter.is_end:
            assert self._loan is not None, "V2"
            self.lives = False
            kernel.settle(task, self._loan.difference(letter.amounts))

    def value(self, letter: Letter) -> int:
        """What the function came to: its value, or the error that stands for how it ended."""
        name, code = self.function.name, letter.code
        match letter.kind:
            case 0:
                return code
            case 1:
                told = f"native function {name} returned {code}, which means that it failed"
                raise NativeFailed(told, task=name, code=code)
            case 2:
                told = f"native function {name} was stopped by somebody else: the native runtime was shut down"
                raise NativeFailed(told, task=name, code=-1)
            case 3:
                how = PANICS.get(letter.panic, "for an unknown reason").format(code=code)
                more = f"; give it more: native(f, stack={2 * self.function.stack})" if letter.panic > 1 else ""
                raise NativePanic(f"native function {name} is gone: {how}{more}", task=name, code=code)
            case 4:
                raise BudgetExceeded(f"native function {name} needed more than it was granted", task=name)
            case 19:
                why = REFUSALS.get(code, f"the engine answered {code}")
                raise NativeUnavailable(f"native function {name} was not started: {why}")
            case _:
                raise NativeUnavailable(f"native function {name} runs in the process that this one was forked from")


class NativeWait(Wait):
    """A task whose native function runs, until that has left or lacks money (V1)."""

    __slots__ = ("_asked", "_label", "_pump", "_run")
    interruptible = False

    def __init__(self, task: Task, run: Run, pump: Pump) -> None:
        super().__init__(task)
        self._run = run
        self._pump = pump
        self._asked = False
        self._label = f"native {task.id} {self.generation}"

    @property
    def reason(self) -> str:
        asked = ", was asked to stop and has not left yet" if self._asked else ""
        return f"runs {self._run.function.name} on the native workers{asked}"

    def begin(self) -> None:
        pump, guest = self._pump, self._run.guest
        pump.expected[self._label] = self.deliver
        pump.sources += 1
        if guest is not None:
            guest.label, guest.deliver = self._label, self.deliver
            if guest.letter is not None:  # it came while nobody waited
                pump.post(self._label, self.deliver)

    def interrupted(self, kernel: Dispatch) -> None:
        """A request to stop reaches the function where it next could wait."""
        self._asked = True
        self._run.cancel()

    def withdraw(self, kernel: Dispatch) -> None:
        if self._run.wait is self:
            self._run.wait = None
            self._pump.sources -= 1
            del self._pump.expected[self._label]

    def deliver(self) -> None:
        """At the beginning of a batch."""
        run, task, kernel = self._run, self.task, self._pump.kernel
        if run.wait is not self or self._pump.over:
            return
        letter = Letter.read(self._pump.ask(task, "native", run.letter))
        run.took(kernel, task, letter)
        if letter.kind == CANCELLED and task.cancel_pending:
            kernel.wake(task, self.generation)  # and is told `Cancelled`
        else:
            self.answer(kernel, letter)


class NativeFunction:
    """What `native()` makes: an async function, to be spawned or awaited."""

    def __init__(self, address: int, name: str, stack: int, keep: object) -> None:
        self.address = address
        self.name = name
        self.stack = stack
        self._keep = keep  # the library that it is in
        self.__name__ = self.__qualname__ = name

    async def __call__(self, argument: Any = None, /) -> int:
        from bursar.execution.pointers import argument_at

        run = Run(self, *argument_at(argument))
        told: BaseException | None = None
        letter = Letter(PAY, 0, 0, ())
        try:
            while not letter.is_end:
                try:
                    letter = await run
                except (Cancelled, BudgetExceeded) as error:
                    if not run.lives:
                        raise
                    told = error
                    run.stop(error)
        finally:
            if run.lives:  # the task is cut off, or the run torn down
                run.cancel()
        if told is not None:
            raise told
        return run.value(letter)

    def __repr__(self) -> str:
        return f"<native function {self.name} at {self.address:#x}>"


def native(function: Any, /, *, name: str | None = None, stack: int = STACK_BYTES) -> NativeFunction:
    """A C function `int64_t f(void *)`, given by its address or as a `ctypes` function, as something to spawn.

    `nursery.spawn(native(f), argument)` runs it on the native workers, without the interpreter. The argument is None, a
    number, a ctypes object, bytes or a writable buffer, and is kept alive. Its value is the task's; a negative one is a
    failure. Needs `CapExecutor` with "native".

    name    what it is called; default: its symbol
    stack   bytes of stack
    """
    from bursar.execution import library
    from bursar.execution.pointers import function_at

    library.library()
    address, symbol = function_at(function)
    if type(stack) is not int or stack < 1:
        raise ValueError(f"native(stack={stack!r}): must be a whole number of bytes, at least 1")
    title = brief(name) if name else symbol or f"native function at {address:#x}"
    return NativeFunction(address, title, stack, cast("object", function))
