"""Traces for other tools: JSON lines, and the trace-event format that ui.perfetto.dev opens.

The picture has one track per logical worker, with a slice for every poll. It has a group per nursery, with a span for
the nursery and a span for each of its tasks, from the spawn to the end. An arrow leads from the spawn of a task to its
first poll. Other events are marks on the worker's track, or on the host's track if no task was running. Two counters
show how many tasks are live and how many are runnable.

Time in the picture is not the time of the run. All events between two readings of the clock have the same time; on a
virtual clock a whole program may have one time. A picture with everything at one point shows nothing. So each event is
drawn at least TICK_NS after the event before it, or at its own time if that is later. Its true time is its argument
`now_ns`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TextIO

from bursar.trace.events import Event
from bursar.trace.reader import Trace

TICK_NS: Final = 1000  # the shortest time between two events in the picture: one unit of the format
SCHEDULER: Final = 1  # the process in which the host and the workers are drawn
HOST: Final = 1  # the thread of the host; worker n is thread HOST + 1 + n
NURSERIES: Final = 10_000  # nursery n is drawn as process NURSERIES + n, above all numbers of workers
UNDRAWN: Final = frozenset(  # no marks: slices and counters show them, and charges are too many
    {"scheduler_step_begin", "charged", "task_enqueued", "task_dequeued"}
)

Drawn = dict[str, Any]


def write_jsonl(trace: Trace, out: TextIO) -> None:
    """Write a trace as JSON lines, an event per line."""
    out.write(json.dumps({"header": trace.header}) + "\n")
    for event in trace.events():
        out.write(json.dumps({"number": event.number, **event.as_dict()}) + "\n")
    out.write(json.dumps({"ending": trace.ending}) + "\n")


def write_perfetto(trace: Trace, out: TextIO) -> None:
    """Write a trace as a picture for ui.perfetto.dev."""
    picture = Picture(trace.header)
    out.write('{"traceEvents":[\n')
    try:
        out.write(",\n".join(map(json.dumps, picture.begin())))
        for event in trace.events():
            out.writelines(",\n" + json.dumps(drawn) for drawn in picture.draw(event))
    finally:
        out.writelines(",\n" + json.dumps(drawn) for drawn in picture.end())
        out.write(f'\n],\n"displayTimeUnit":"ns",\n"otherData":{json.dumps({"header": trace.header})}}}\n')


FORMATS: Final[dict[str, Callable[[Trace, TextIO], None]]] = {"perfetto": write_perfetto, "jsonl": write_jsonl}


class Picture:
    """Turns the events of a trace into those of the picture, one by one."""

    def __init__(self, header: dict[str, Any]) -> None:
        self._workers: int = header["workers"]
        self._root: int = header["root_region"]
        self._title: str = str(header["program"].get("file", "bursar"))
        self._drawn_ns = -TICK_NS
        self._polled: int | None = None  # the thread of the current poll
        self._names: dict[int, str] = {}  # of live tasks
        self._arrows: set[int] = set()  # tasks that were spawned in a poll and have not run yet
        self._spans: dict[tuple[str, int], Drawn] = {}  # open spans: (category, id) → the event that began it
        self._counts = {"runnable": 0, "live": 0}

    def begin(self) -> Iterator[Drawn]:
        yield self._meta("process_name", SCHEDULER, HOST, self._title)
        yield self._meta("thread_name", SCHEDULER, HOST, "host")
        for worker in range(self._workers):
            yield self._meta("thread_name", SCHEDULER, HOST + 1 + worker, f"worker {worker}")
        yield from self._group(self._root, "the root nursery", {})

    def draw(self, event: Event) -> Iterator[Drawn]:
        self._drawn_ns = max(self._drawn_ns, event.now_ns - TICK_NS)
        args = event.as_dict()
        match event.name:
            case "scheduler_step_decision":
                yield from self._poll(event, args)
            case "scheduler_step_end":
                yield from self._poll_over()
            case "task_spawned":
                yield from self._spawned(event, args)
            case "task_done":
                yield from self._span_over("task", event.task_id, args)
                self._names.pop(event.task_id, None)
            case "nursery_opened":
                yield from self._group(event.region_id, event.text, args)
            case "nursery_closed":
                yield from self._span_over("nursery", event.region_id, args)
            case name if name not in UNDRAWN:
                yield self._at(self._polled or HOST, "i", name, s="t", args=args)
            case _:
                pass
        yield from self._count(event.name)

    def end(self) -> Iterator[Drawn]:
        """Close what a killed or torn down run left open."""
        yield from self._poll_over()
        for category, id in reversed(list(self._spans)):
            yield from self._span_over(category, id, {})

    # ---- parts of the picture

    def _at(self, thread: int, phase: str, name: str, process: int = SCHEDULER, **more: Any) -> Drawn:
        """An event of the picture, later than every event so far."""
        self._drawn_ns += TICK_NS
        return {"ph": phase, "ts": self._drawn_ns / 1000, "pid": process, "tid": thread, "name": name, **more}

    def _meta(self, what: str, process: int, thread: int, name: str) -> Drawn:
        ts = max(0, self._drawn_ns) / 1000
        return {"ph": "M", "ts": ts, "pid": process, "tid": thread, "name": what, "args": {"name": name}}

    def _poll(self, event: Event, args: Drawn) -> Iterator[Drawn]:
        yield from self._poll_over()
        self._polled = HOST + 1 + event.numbers["worker"]
        yield self._at(self._polled, "B", self._name(event.task_id), cat=event.lane, args=args)
        if event.task_id in self._arrows:
            self._arrows.discard(event.task_id)
            yield self._at(self._polled, "f", "spawn", cat="spawn", id=event.task_id, bp="e")

    def _poll_over(self) -> Iterator[Drawn]:
        if self._polled is not None:
            thread, self._polled = self._polled, None
            yield self._at(thread, "E", "")

    def _spawned(self, event: Event, args: Drawn) -> Iterator[Drawn]:
        self._names[event.task_id] = event.text
        yield from self._span("task", event.task_id, event.region_id, event.text, args)
        if self._polled is not None:
            self._arrows.add(event.task_id)
            yield self._at(self._polled, "s", "spawn", cat="spawn", id=event.task_id)

    def _group(self, region: int, name: str, args: Drawn) -> Iterator[Drawn]:
        yield self._meta("process_name", NURSERIES + region, NURSERIES + region, name)
        yield from self._span("nursery", region, region, name, args)

    def _span(self, category: str, id: int, region: int, name: str, args: Drawn) -> Iterator[Drawn]:
        group = NURSERIES + region
        begun = self._at(group, "b", name, group, cat=category, id2={"local": hex(id)}, args=args)
        self._spans[category, id] = begun
        yield begun

    def _span_over(self, category: str, id: int, args: Drawn) -> Iterator[Drawn]:
        begun = self._spans.pop((category, id), None)
        if begun is not None:
            yield self._at(begun["tid"], "e", begun["name"], begun["pid"], cat=category, id2=begun["id2"], args=args)

    def _count(self, name: str) -> Iterator[Drawn]:
        match name:
            case "task_enqueued":
                yield self._counted("runnable", 1)
            case "task_dequeued" | "scheduler_step_decision":
                yield self._counted("runnable", -1)
            case "task_spawned":
                yield self._counted("live", 1)
            case "task_done":
                yield self._counted("live", -1)
            case _:
                pass

    def _counted(self, what: str, change: int) -> Drawn:
        self._counts[what] += change
        return self._at(HOST, "C", what, args={"tasks": self._counts[what]})

    def _name(self, task: int) -> str:
        return self._names.get(task, f"task {task}")
