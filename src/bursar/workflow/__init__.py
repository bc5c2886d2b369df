"""Workflows: graphs of named steps, from Python or from a file, run under one gate and recorded in a journal.

    to write one down                           to run one
    model.py       what a workflow is           execute.py           one run; commands are `bursar.io.process`
    file.py        reads one from TOML          journal.py           what happened, on database.py
    schema.py      what a file may contain      journal_reader.py    reads a journal
    references.py  references to results        plan.py              what a resumed run must do
    graph.py       order, cycles, the           store.py             where journals are
                   longest path                 orphan_processes.py  ends what a killed run left
                                                events.py, view.py, live.py, summary.py   what people see

Importing the package imports only the first column: a program that writes a workflow down need not be able to run it.
"""

from bursar.workflow.file import read
from bursar.workflow.model import Step, Workflow

__all__ = ["Step", "Workflow", "read"]
