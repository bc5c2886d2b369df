/* The docstrings of what a user asks for by name and C makes.
 *
 * Written by scripts/generate_c.py from the law in Python: do not edit.
 */
#pragma once

#include <stdint.h>

/* `nursery` of ops/nursery.py. */
#define DOC_nursery \
    "Open a nursery: `async with nursery() as n:` gives a `Nursery`, and the block ends when all its tasks have\n" \
    "ended.\n" \
    "\n" \
    "If a task or the body fails, the block raises an `ExceptionGroup`, first failure first. If the nursery was\n" \
    "cancelled with `.cancel()`, the block ends silently; a cancellation from further out passes through. A block object\n" \
    "can be entered once. Opening needs `CapSpawn`. Waiting at the end of the block is free.\n" \
    "\n" \
    "```python\n" \
    "import bursar\n" \
    "\n" \
    "\n" \
    "async def double(x):\n" \
    "    await bursar.sleep(1)\n" \
    "    return 2 * x\n" \
    "\n" \
    "\n" \
    "async def main():\n" \
    "    async with bursar.nursery() as n:\n" \
    "        one, two = n.spawn(double, 1), n.spawn(double, 2)\n" \
    "    print(one.result + two.result)\n" \
    "\n" \
    "\n" \
    "bursar.run(main, clock=\"virtual\")\n" \
    "```\n" \
    "\n" \
    "```text\n" \
    "6\n" \
    "```\n" \
    "\n" \
    "Args:\n" \
    "    budget: Its purse, taken from the budget of the task that opens it, and cut to what that task has left. Without\n" \
    "        it the nursery shares the task's budget.\n" \
    "    name: A name for snapshots and messages.\n" \
    "    capabilities: The capabilities of its tasks. By default those of the opening task, except `CapBudget`; in\n" \
    "        `sovereign` none.\n" \
    "    on_exhausted: `\"end\"`: a task that cannot pay gets `BudgetExceeded`. `\"hold\"`: it waits for a recharge.\n" \
    "    cancel_on_failure: Whether the failure of one task cancels the others.\n" \
    "    admission: The rules of its own gate. By default the runtime's gate, or none.\n" \
    "    sealed: Whether it takes no more tasks from the end of its body on. By default it takes tasks while one of its\n" \
    "        tasks lives, so its tasks can spawn others; in `sovereign` it is sealed.\n" \
    "    on_drop: `\"raise\"`: the block raises `TaskDropped` for tasks that a limit of the gate dropped, unless a program\n" \
    "        has read their outcome. `\"record\"`: it does not; handles, events and statistics show the drops."

/* `Nursery` of ops/nursery.py. */
#define DOC_Nursery \
    "The handle inside a nursery's block. A task that holds it, and holds `CapSpawn`, may spawn into it.\n" \
    "\n" \
    "The new task is paid from the nursery's purse. If another task than the owner spawns, the new task gets no more\n" \
    "capabilities than its spawner holds."

/* `Nursery.spawn` of ops/nursery.py. */
#define DOC_Nursery_spawn \
    "Start `fn(*args)` as a task of this nursery and return its `Task` at once. A refused spawn leaves nothing\n" \
    "behind.\n" \
    "\n" \
    "`fn` is a coroutine function or one of Bursar's own functions, such as `sleep`. A plain function runs on a\n" \
    "thread of the pool, and its task needs `CapExecutor`. A spawn costs one op and one spawn of the nursery's\n" \
    "purse. Context variables are copied. A task among the arguments is a dependency, and its value is passed.\n" \
    "\n" \
    "Args:\n" \
    "    fn: The function.\n" \
    "    args: Its arguments.\n" \
    "    name: The task's name; by default the function's.\n" \
    "    budget: The task's own budget, set aside from the purse and cut to what is left.\n" \
    "    capabilities: What the task holds, instead of what it would inherit. The spawner must hold each as\n" \
    "        delegable, or have derived it from such a capability.\n" \
    "    priority: How soon it gets permission to start.\n" \
    "    after: Tasks that must succeed first.\n" \
    "    needs: Resources of the gate that it needs.\n" \
    "    retry: When and how often to try again.\n" \
    "\n" \
    "Raises:\n" \
    "    NurseryClosed: The nursery takes no more tasks.\n" \
    "    CapabilityDenied: The spawner lacks a capability.\n" \
    "    SpawnBudgetExceeded: The purse has no spawns or no ops.\n" \
    "    BadDependency: A dependency is impossible.\n" \
    "    InfeasibleDemand: The needs can never be met.\n" \
    "    ScopeMisuse: The caller is not a task."

/* `Task` of ops/task.py. */
#define DOC_Task \
    "The handle that `spawn` returns. Handles of the same task are equal.\n" \
    "\n" \
    "`await task` returns its value, or raises: its error if it failed, `TaskCancelled`, `TaskPanicked` or\n" \
    "`TaskDropped`."

/* `Task.result` of ops/task.py. */
#define DOC_Task_result \
    "The task's value, or its error, as for `await task` but without waiting. Raises `ResultNotReady` before\n" \
    "the end."

/* `checkpoint` of ops/task.py. */
#define DOC_checkpoint \
    "Awaited: pay one op and let the other tasks run. This is the place where a long loop can be stopped.\n" \
    "\n" \
    "Every call returns the same object, so that a yield makes none. So no warning can name a checkpoint whose `await`\n" \
    "was forgotten, as it does for all other requests."

/* `sleep` of ops/clock.py. */
#define DOC_sleep \
    "Awaited: wait for at least `seconds`. `sleep(0)` yields once, like `checkpoint()`. Needs `CapTimer`."

/* `SendCore.send` of ops/channel.py. */
#define DOC_SendCore_send \
    "Awaited: put a value in; waits for room, or without a buffer for a receiver. Raises `ChannelClosed`."

/* `ReceiveCore.receive` of ops/channel.py. */
#define DOC_ReceiveCore_receive \
    "Awaited: the next value. Raises `ChannelClosed` when all sending ends are closed and no value is left."

/* `Event` of ops/sync.py. */
#define DOC_Event \
    "Happens once. All tasks that wait for it, before or after, continue."

/* `Event.wait` of ops/sync.py. */
#define DOC_Event_wait \
    "Awaited: returns when the event has happened. Works in `select`."

/* `Event.set` of ops/sync.py. */
#define DOC_Event_set \
    "Let the event happen. Idempotent and free."

/* `Event.is_set` of ops/sync.py. */
#define DOC_Event_is_set \
    "Whether the event has happened."
