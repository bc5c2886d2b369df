"""Admission: may a task start? Priorities, dependencies, resources, pause, drop, retry.

    authority   the rules of a gate          resources   what there is, and whether a demand fits
    gate        the decision                 queues      who waits, in which order
    ticket      what is known of one task    graph       who follows whom
    pause       standing still               retry       trying again
    ask         from a spawn to the gate     explain     why a task waits

A gate belongs to a nursery that asked for one, or to the runtime. It lets tasks into the lanes; who runs next is
decided there, and no priority counts for that.
"""
