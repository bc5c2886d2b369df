"""What tests use of workflows besides `bursar.workflow.Workflow`."""

from bursar.workflow import journal_reader, store
from bursar.workflow.database import lock_of
from bursar.workflow.file import AUTHORITY, TASK, TOP, parse_text
from bursar.workflow.journal import REASONS_S, Journal
from bursar.workflow.live import Live
from bursar.workflow.orphan_processes import VARIABLE, processes_with
from bursar.workflow.references import Ref, Template, keep
from bursar.workflow.step import Command, Function
from bursar.workflow.view import Json, Plain
