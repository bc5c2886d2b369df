/* The trace ring: the newest records of a run, in memory, for `Memory` of trace/ring.py.
 *
 * The records are in one block of bytes, one after the other, each with a head that has its size. When there are too many,
 * the oldest records are dropped. The events of the others depend on them (`TraceContext` of trace/events.py), so `Before`
 * keeps what the dropped records say. This is in C because a long run drops almost every record.
 *
 * Rejected: a list of Python objects. Each event would make three objects, and free three.
 *
 *   RING-1  start <= end <= room, and between start and end there are `kept` whole records
 *   RING-2  kept <= kept_max and blob_bytes <= blob_bytes_max, except while `put` adds a record
 */

#include "python/trace/ring.h"
#include "python/trace/writer.h"

#include <string.h>

#define ROOM_MIN 4096

typedef struct Head {
    uint32_t size;       /* of the record that follows */
    uint32_t blob_bytes; /* of its text, if the text is an answer of the host; otherwise 0 */
} Head;

/* What the dropped records say about the first kept record: the fields of `TraceContext`, in their order. */
typedef struct Before {
    uint64_t hash, number, seq, turn, batch, streak, limit, lane, running;
    int64_t now_ns;
    PyObject *regions; /* dict: live task -> its nursery */
} Before;

typedef struct TraceRing {
    TraceWriter trace_writer;
    uint8_t *bytes;
    size_t start, end, room;
    uint64_t kept, kept_max;
    uint64_t blob_bytes, blob_bytes_max;
    Before before;
} TraceRing;

/* ---- dropping */

/* Remember that a task belongs to a region. 0, or -1 with an exception set. */
static int
join_region(TraceRing *self, uint64_t task, uint64_t region)
{
    PyObject *key = PyLong_FromUnsignedLongLong(task), *value = PyLong_FromUnsignedLongLong(region);
    int failed = key == NULL || value == NULL ? -1 : PyDict_SetItem(self->before.regions, key, value);
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed;
}

/* Forget a DONE task. The ring may not know it: then it was spawned before there was an observer. */
static int
leave_region(TraceRing *self, uint64_t task)
{
    PyObject *key = PyLong_FromUnsignedLongLong(task);
    int there = key == NULL ? -1 : PyDict_Contains(self->before.regions, key);
    int failed = there > 0 ? PyDict_DelItem(self->before.regions, key) : there;
    Py_XDECREF(key);
    return failed;
}

static void
read_clock(Before *before, uint64_t now_ns)
{
    before->now_ns = (int64_t)now_ns > before->now_ns ? (int64_t)now_ns : before->now_ns;
}

/* Take in a record that is dropped: `TraceContext.skip`. 0, or -1 with an exception set; then nothing has changed. */
static int
skip(TraceRing *self, const uint8_t *record)
{
    const Layout *layouts = self->trace_writer.layouts;
    Before *before = &self->before;
#define IS(note) (record[0] == layouts[note].code)
#define NUMBER(note, field) trace_writer_number(&layouts[NOTE_##note], record, FIELD_##note##_##field)
    if (IS(NOTE_STEP_DECISION)) {
        before->seq += 1;
        before->running = NUMBER(STEP_DECISION, TASK_ID);
        before->lane = NUMBER(STEP_DECISION, LANE);
        before->streak = NUMBER(STEP_DECISION, CANCEL_STREAK);
        before->limit = NUMBER(STEP_DECISION, CANCEL_STREAK_LIMIT);
        before->hash = NUMBER(STEP_DECISION, DECISION_HASH);
    } else if (IS(NOTE_STEP_END)) {
        if (NUMBER(STEP_END, STATE) == LAW_STATE_DONE && leave_region(self, NUMBER(STEP_END, TASK_ID)) < 0) {
            return -1;
        }
        before->lane = LAW_LANE_IDLE;
        before->running = 0;
    } else if (IS(NOTE_SPAWNED)) {
        if (join_region(self, NUMBER(SPAWNED, TASK_ID), NUMBER(SPAWNED, REGION_ID)) < 0) {
            return -1;
        }
    } else if (IS(NOTE_HOST_TURN)) {
        before->turn = NUMBER(HOST_TURN, HOST_TURN_ID);
        before->batch = NUMBER(HOST_TURN, MICROTASK_BATCH_ID);
        read_clock(before, NUMBER(HOST_TURN, NOW_NS));
    } else if (IS(NOTE_CLOCK)) {
        read_clock(before, NUMBER(CLOCK, NOW_NS));
    }
#undef IS
#undef NUMBER
    before->number += 1;
    return 0;
}

/* Drop the oldest records until RING-2 holds. 0, or -1 with an exception set. */
static int
drop_old(TraceRing *self)
{
    while (self->kept > self->kept_max || self->blob_bytes > self->blob_bytes_max) {
        Head head;
        memcpy(&head, self->bytes + self->start, sizeof head);
        if (skip(self, self->bytes + self->start + sizeof head) < 0) {
            return -1;
        }
        self->start += sizeof head + head.size;
        self->blob_bytes -= head.blob_bytes;
        self->kept -= 1;
    }
    return 0;
}

/* ---- putting */

/* Make room for `size` more bytes at the end (RING-1). If half of the block was dropped, reuse that instead of growing. */
static int
reserve(TraceRing *self, size_t size)
{
    if (size <= self->room - self->end) {
        return 0;
    }
    size_t held = self->end - self->start;
    if (self->start < self->room / 2 || size > self->room - held) {
        size_t room = self->room < ROOM_MIN ? ROOM_MIN : self->room;
        while (room / 2 < held + size) {
            room *= 2;
        }
        uint8_t *bytes = PyMem_Realloc(self->bytes, room);
        if (bytes == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->bytes = bytes;
        self->room = room;
    }
    memmove(self->bytes, self->bytes + self->start, held);
    self->start = 0;
    self->end = held;
    return 0;
}

static int
put(TraceRing *self, const uint8_t *record, size_t size, size_t blob_bytes)
{
    Head head = {(uint32_t)size, (uint32_t)blob_bytes};
    if (reserve(self, sizeof head + size) < 0) {
        return -1;
    }
    memcpy(self->bytes + self->end, &head, sizeof head);
    memcpy(self->bytes + self->end + sizeof head, record, size);
    self->end += sizeof head + size;
    self->blob_bytes += blob_bytes;
    self->kept += 1;
    return drop_old(self);
}

static int
trace_ring_take(Kernel *Py_UNUSED(k), TraceWriter *trace_writer, const uint8_t *record, size_t size)
{
    trace_writer->count += 1;
    return put((TraceRing *)trace_writer, record, size, 0);
}

/* ---- the Python type */

static int
trace_ring_init(TraceRing *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"layouts", "events_max", "blob_bytes_max", "chain", NULL};
    PyObject *layouts;
    unsigned long long events_max, blob_bytes_max, chain;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!KKK:TraceRing", names, &PyDict_Type, &layouts, &events_max,
                                     &blob_bytes_max, &chain) ||
        trace_writer_learn(&self->trace_writer, layouts) < 0) {
        return -1;
    }
    PyObject *regions = PyDict_New();
    if (regions == NULL) {
        return -1;
    }
    Py_XSETREF(self->before.regions, regions);
    self->before.hash = chain;
    self->kept_max = events_max;
    self->blob_bytes_max = blob_bytes_max;
    self->trace_writer.take = trace_ring_take;
    return 0;
}

static void
trace_ring_dealloc(TraceRing *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->bytes);
    Py_CLEAR(self->before.regions);
    type->tp_free(self);
    Py_DECREF(type);
}

/* put(record, blob_bytes): add a record that Python has encoded */
static PyObject *
trace_ring_put(TraceRing *self, PyObject *args)
{
    Py_buffer record;
    Py_ssize_t blob_bytes;
    if (!PyArg_ParseTuple(args, "y*n:put", &record, &blob_bytes)) {
        return NULL;
    }
    int failed = -1;
    if (record.len < 1 || blob_bytes < 0 || blob_bytes > record.len || record.len > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError,
                        "put() takes a whole record, and how many of its bytes are an answer of the host");
    } else {
        failed = put(self, record.buf, (size_t)record.len, (size_t)blob_bytes);
    }
    PyBuffer_Release(&record);
    return failed < 0 ? NULL : Py_NewRef(Py_None);
}

/* records() -> list of (record, whether its text is an answer of the host), oldest first */
static PyObject *
trace_ring_records(TraceRing *self, PyObject *Py_UNUSED(unused))
{
    PyObject *all = PyList_New(0);
    for (size_t at = self->start; all != NULL && at < self->end;) {
        Head head;
        memcpy(&head, self->bytes + at, sizeof head);
        const char *record = (const char *)self->bytes + at + sizeof head;
        PyObject *one = Py_BuildValue("y#O", record, (Py_ssize_t)head.size, head.blob_bytes > 0 ? Py_True : Py_False);
        if (one == NULL || PyList_Append(all, one) < 0) {
            Py_CLEAR(all);
        }
        Py_XDECREF(one);
        at += sizeof head + head.size;
    }
    return all;
}

/* before() -> the fields of the TraceContext of the oldest kept record */
static PyObject *
trace_ring_before(TraceRing *self, PyObject *Py_UNUSED(unused))
{
    const Before *b = &self->before;
    PyObject *regions = PyDict_Copy(b->regions);
    return regions == NULL
               ? NULL
               : Py_BuildValue("KKKKKKKKKLN", (unsigned long long)b->hash, (unsigned long long)b->number,
                               (unsigned long long)b->seq, (unsigned long long)b->turn, (unsigned long long)b->batch,
                               (unsigned long long)b->streak, (unsigned long long)b->limit, (unsigned long long)b->lane,
                               (unsigned long long)b->running, (long long)b->now_ns, regions);
}

static PyMethodDef trace_ring_methods[] = {
    {"put", (PyCFunction)trace_ring_put, METH_VARARGS, "Add a record that Python has encoded."},
    {"records", (PyCFunction)trace_ring_records, METH_NOARGS, "The records, oldest first."},
    {"before", (PyCFunction)trace_ring_before, METH_NOARGS,
     "What the dropped records say about the first kept record."},
    {NULL, NULL, 0, NULL},
};

static PyObject *
get_dropped(TraceRing *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(self->before.number);
}

static PyGetSetDef trace_ring_getset[] = {
    {"dropped", (getter)get_dropped, NULL, "how many older records were dropped", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot trace_ring_slots[] = {
    {Py_tp_doc, "Keeps the newest records of a native kernel."},
    {Py_tp_init, trace_ring_init},
    {Py_tp_dealloc, trace_ring_dealloc},
    {Py_tp_methods, trace_ring_methods},
    {Py_tp_getset, trace_ring_getset},
    {0, NULL},
};

PyType_Spec trace_ring_spec = {
    .name = "bursar._native.TraceRing",
    .basicsize = sizeof(TraceRing),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = trace_ring_slots,
};
