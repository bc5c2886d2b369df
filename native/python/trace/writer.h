/* The trace writer: turns the frequent events into the bytes of a trace, without a call of Python.
 *
 * An observer that records has a *trace writer*. The kernel gives the frequent events to the trace writer, which appends
 * their records to the observer's store. All other events go to the observer itself, which appends their records to the
 * same store. So all records are in one order. The layout of each kind comes from the catalogue (trace/catalogue.py) when
 * the trace writer is made; C knows only how many numbers each kind has.
 *
 * A trace writer appends to a *page*, the buffer of a trace file (writer.c), or to a *trace ring*, which keeps the newest
 * records in memory (ring.c). trace/writer.py and trace/ring.py make them.
 */

#pragma once

#include "python/law/records.h"
#include "law/generated/trace_records.h"

#define RECORD_MAX \
    (1 + 8 * TRACE_FIELDS_MAX + 4 + LAW_TEXT_MAX + 8) /* the last 8: `put_number` always stores 8 bytes */

/* The layout of the records of one kind. */
typedef struct Layout {
    uint8_t code;
    uint8_t n;                       /* how many numbers */
    uint8_t width[TRACE_FIELDS_MAX]; /* of each number, in bytes */
    bool text;                       /* a length and a text follow */
} Layout;

typedef struct TraceWriter TraceWriter;

struct TraceWriter {
    PyObject_HEAD
    Layout layouts[NOTES];
    /* Stores a whole record: 0, or -1 with an exception set. NULL: `__init__` was not called. */
    int (*take)(Kernel *k, TraceWriter *trace_writer, const uint8_t *record, size_t size);
    unsigned long long count; /* how many records it wrote */
    PyObject *page;           /* a bytearray; NULL: this is a trace ring */
    Py_ssize_t page_max;      /* when the page is longer, the writer calls `flush` of the observer */
};

extern PyType_Spec trace_writer_spec;

/* Read the layouts from a dict: name -> (code, format of `struct`). 0, or -1 with an exception set. */
int trace_writer_learn(TraceWriter *trace_writer, PyObject *layouts);

/* Set *trace_writer to the trace writer of an observer, a new reference, or to NULL if it has none. 0, or -1 with an
 * exception set. */
int trace_writer_of(ModuleState *st, PyObject *observer, TraceWriter **trace_writer);

/* Write the record of an event, if the kernel's observer has a trace writer. `numbers` has as many numbers as the kind.
 * `text` is the text of a kind that has one; NULL: empty. False: there is no trace writer, or only Python can describe
 * this event; then nothing has changed. An error is deferred, as with any observer: see `k_defer_error`. */
bool trace_writer_write(Kernel *k, Note note, const uint64_t *numbers, PyObject *text);

/* Call the observer in Python instead: what NOTE does, for a kind that a trace writer knows. */
int trace_writer_decline(Kernel *k, Note note, Task *task, PyObject *detail);

/* Read back a number that `trace_writer_write` stored. */
uint64_t trace_writer_number(const Layout *layout, const uint8_t *record, int field);
