/* Records: how the notes of every step become bytes of a trace, without a call of Python.
 *
 * An observer that is a recorder has a *trace writer*. A note that the trace writer can write goes straight into the
 * recorder's store, in the layout that the catalogue (trace/catalogue.py) gives its kind; every other note goes to
 * the observer itself, which writes into the same store. So there is one order of records, and one description of each
 * kind: the trace writer is told the layouts when it is made, and knows only how many numbers it has for each.
 *
 * A trace writer writes on a *page*, the buffer of a trace file (writer.c), or onto a *trace ring*, which keeps the
 * newest records in memory (ring.c). trace/writer.py and trace/ring.py make them.
 */

#pragma once

#include "python/law/records.h"
#include "law/generated/trace_records.h"

#define RECORD_MAX \
    (1 + 8 * TRACE_FIELDS_MAX + 4 + LAW_TEXT_MAX + 8) /* the last 8: any number is stored as if it had 8 bytes */

/* How the records of one kind are laid out. */
typedef struct Layout {
    uint8_t code;
    uint8_t n;                       /* numbers */
    uint8_t width[TRACE_FIELDS_MAX]; /* of each, in bytes */
    bool text;                       /* a length and a text follow */
} Layout;

typedef struct TraceWriter TraceWriter;

struct TraceWriter {
    PyObject_HEAD
    Layout layouts[NOTES];
    /* Take a whole record in: 0, or -1 with an exception set. */
    int (*take)(Kernel *k, TraceWriter *trace_writer, const uint8_t *record, size_t size);
    unsigned long long count; /* records that it wrote */
    PyObject *page;           /* a bytearray; NULL: this is a trace ring */
    Py_ssize_t page_max;      /* when it is longer, the observer is asked to `flush` */
};

extern PyType_Spec trace_writer_spec;

/* The layouts, from a dict: name -> (code, format of `struct`). 0, or -1 with an exception set. */
int trace_writer_learn(TraceWriter *trace_writer, PyObject *layouts);

/* The trace writer of an observer, if it has one: *trace writer is a new reference, or NULL. 0, or -1 with an exception
 * set. */
int trace_writer_of(ModuleState *st, PyObject *observer, TraceWriter **trace_writer);

/* Write a note if the observer of the kernel has a trace writer. `numbers` are as many as the kind has; `text` is that
 * of a kind with one, or NULL: empty. False: no trace writer, or a number or a text that it leaves to Python, and
 * nothing happened. What fails dooms the run, as with any observer: see `k_defer_error`. */
bool trace_writer_write(Kernel *k, Note note, const uint64_t *numbers, PyObject *text);

/* Tell the observer in Python: what NOTE does, for a kind that a trace writer knows. */
int trace_writer_decline(Kernel *k, Note note, Task *task, PyObject *detail);

/* The same number that `trace_writer_write` stored, read back. */
uint64_t trace_writer_number(const Layout *layout, const uint8_t *record, int field);
