"""A simulated page: the queues of an event loop in plain Python, on a clock that a test moves.

`turn` is one turn of the loop: the oldest task of the task queue, then every microtask. `log` says in which order
things were asked for and done. A test may also change these lists in a way that a real page never would.
"""

from collections import deque

TURNS_MAX = 20_000  # far more than any test needs: a host that asks for calls in a circle must fail, not hang


class Channel:
    """Both ports of a MessageChannel. A message is a task of the page."""

    def __init__(self, page):
        self.page = page
        self.port1, self.port2 = self, self
        self.onmessage = None
        self.closed = False

    def postMessage(self, message):
        self.page.log.append("handoff asked")
        self.page.tasks.append(self.deliver)

    def deliver(self):
        if self.onmessage is not None and not self.closed:
            self.page.log.append("handoff")
            self.onmessage("an event")

    def close(self):
        self.closed = True


class Channels:
    """The class MessageChannel, as Python sees JavaScript's class."""

    def __init__(self, page):
        self.page = page
        self.made = []

    def new(self):
        self.made.append(Channel(self.page))
        return self.made[-1]


class Page:
    """Everything that a host may use of a page."""

    def __init__(self, channel=True):
        self.ms = 1000.0
        self.log = []
        self.tasks = deque()
        self.microtasks = deque()
        self.timeouts = {}  # id → (due, function)
        self.ids = 0
        if channel:
            self.MessageChannel = Channels(self)

    def now(self):
        return self.ms

    def queueMicrotask(self, function):
        self.log.append("microtask asked")
        self.microtasks.append(function)

    def setTimeout(self, function, ms):
        self.log.append(f"timeout {ms}")
        self.ids += 1
        self.timeouts[self.ids] = (self.ms + ms, function)
        return self.ids

    def clearTimeout(self, id):
        self.log.append("timeout cleared")
        self.timeouts.pop(id, None)

    def getRandomValues(self, buffer):
        buffer.fill(7)
        return buffer

    # ---- the loop

    def run_microtasks(self):
        while self.microtasks:
            self.log.append("microtask")
            self.microtasks.popleft()()

    def turn(self):
        """One turn. False: there was nothing to do at this time."""
        due = [id for id, (at, _) in sorted(self.timeouts.items(), key=lambda t: (t[1][0], t[0])) if at <= self.ms]
        if self.microtasks:
            self.run_microtasks()
        elif self.tasks:
            self.tasks.popleft()()
        elif due:
            self.log.append("timeout")
            self.timeouts.pop(due[0])[1]()
        else:
            return False
        self.run_microtasks()
        return True

    def run(self):
        """Make turns until nothing is left to do. If only timeouts are left, move the clock to the next one."""
        for _ in range(TURNS_MAX):
            if not self.turn() and not self.timeouts:
                return
            if not self.tasks and not self.microtasks and self.timeouts:
                self.ms = max(self.ms, min(at for at, _ in self.timeouts.values()))
        raise AssertionError(f"the page did not come to rest in {TURNS_MAX:,} turns")
