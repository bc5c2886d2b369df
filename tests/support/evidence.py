"""What tests use of traces, and of what is made of them: events, files, verification, replay."""

from bursar.evidence.diff import EVERYTHING, diff
from bursar.evidence.export import FORMATS
from bursar.evidence.replay import replay
from bursar.evidence.replay import replay_runtime as replay_module
from bursar.evidence.verify import Verdict, model_tasks, verifier, verify
from bursar.trace import file_format, ring, writer
from bursar.trace.events import CANCEL_KINDS, KINDS, MANDATORY, QUEUES, REPORTS, Event, Kind, TraceContext, fingerprint
from bursar.trace.file_format import CONTRACT, DIGEST_BYTES, END, HEADER, LAW_HEADER, MAGIC, TEXT_BYTES_MAX
from bursar.trace.host_answer_codec import unpack_answer
from bursar.trace.reader import Trace
from bursar.trace.record_codec import LAYOUTS
from bursar.trace.ring import Memory
from bursar.trace.writer import BUFFER_BYTES, Recorder, digest_of
