"""Admission: decides when a task may start. Priorities, dependencies, resources, pauses, drops, retries.

    authority   the rules of a gate          resources   limits, and whether a demand fits
    gate        the decision                 queues      the tasks that wait, in their order
    ticket      what is known of one task    graph       the dependencies
    retry       when to try again            blockers    what a task waits for
    aging       the priority that counts after a wait

`ops.gate_spawn` takes a spawn to its gate, and `ops.pause` pauses and resumes tasks.

A gate belongs to a nursery that asked for one, or to the runtime. It admits tasks to the lanes. The lanes decide which
task runs next, and priorities do not count there.
"""
