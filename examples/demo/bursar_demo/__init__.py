"""What `bursar demo` runs and shows. Only that command imports it: it needs rich, which the core does without.

Read in this order: `program`, what the tasks do; `watch`, which notes what ran, what waited and why; `words`, how
that is said; `show`, the run while it happens; `account`, the tables when it is over.
"""
