"""Workflows: graphs of named steps, from Python or from a file. One gate admits the steps, and a journal records them.

    to define a workflow                        to run a workflow
    model.py       `Workflow`                   execute.py           one run of a workflow
    step.py        `Step`                       work.py              the work of a step; commands: `bursar.io.process`
    file.py        reads a TOML file            recorder.py          journal and listener get what happened
                                                journal.py           writes it, with database.py
    schema.py      what a file may contain      journal_reader.py    reads a journal
    references.py  references to results        plan.py              what a resumed run must do
    graph.py       order, cycles, the           store.py             where journals are
                   longest path                 orphan_processes.py  kills what a killed run left running
                                                events.py, view.py, live.py, summary.py   what a user sees

An import of the package loads only the first column: a program that defines a workflow may never run it.
"""

from bursar.workflow.file import read
from bursar.workflow.model import Workflow
from bursar.workflow.step import Step

__all__ = ["Step", "Workflow", "read"]
