"""A run on the virtual clock after which the law holds and nothing is left over: the fixture `run`."""

import bursar
from support.law import check


def settle(runtime):
    """After a run: the invariants hold, no task lives, no timer is armed, and all money came back."""
    kernel = runtime.kernel
    check(kernel)
    assert not kernel.tasks, f"still alive: {list(kernel.tasks.values())}"
    assert not len(kernel.timers), "a timer is still armed"
    assert not kernel.draining_holders, "somebody is still draining"
    for pool in kernel.root.pools:
        assert pool.lent == 0, "money that was lent did not come back"
        assert pool.left is None or pool.granted == pool.left + pool.spent


class Run:
    """`run(fn, *args, **keywords)`: like `bursar.run` on the virtual clock; `run.runtime` is the last one."""

    runtime: bursar.Runtime

    def __call__(self, fn, *args, **keywords):
        self.runtime = bursar.Runtime(clock="virtual", **keywords)
        try:
            return self.runtime.run(fn, *args)
        finally:
            settle(self.runtime)

    @property
    def reports(self):
        return [report.kind for report in self.runtime.reports]
