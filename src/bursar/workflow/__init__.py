"""Workflows: graphs of named work, in Python or in a file, run under one gate and written down in a journal.

    model.py     what a workflow is            execute.py   running one
    file.py      reading one from TOML         process.py   one command of it
    schema.py    what may be written there     journal.py   what happened, on database.py; plan.py: what is left to do
    values.py    references to results         record.py    reading that
    graph.py     order, cycles, the longest    store.py     where journals are
                 path                          events.py, view.py, live.py, summary.py   what a person sees

Importing this imports only the first column: whoever writes a workflow down need not be able to run it here.
"""

from bursar.workflow.file import read
from bursar.workflow.model import Step, Workflow

__all__ = ["Step", "Workflow", "read"]
