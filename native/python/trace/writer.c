/* The trace writer: encodes records, and appends them to the page of a trace file. See writer.h.
 *
 * Rejected: a call of the observer with ready numbers. It would save the tuples, but would still cost two Python calls per
 * event, at five events per step.
 *
 *   WRITER-1  a record is written whole or not at all: no other code runs between its first and its last byte
 *   WRITER-2  the trace writer declines what it cannot write exactly as `Recorder` would, before anything has changed
 */

#include "python/trace/writer.h"
#include "python/law/deferred_error.h"
#include "python/law/observer.h"
#include "python/trace/writer_fast.h"

#include <string.h>

/* What C knows of each kind. `trace_writer_learn` checks this table against the catalogue. */
static const struct {
    const char *name;
    uint8_t n;
} KNOWN[NOTES] = TRACE_RECORDS;

/* ---- layouts */

/* The width in bytes of a number with this code of `struct`; 0: a trace writer has no such numbers. */
static uint8_t
width_of(char code)
{
    switch (code) {
    case 'B':
        return 1;
    case 'H':
        return 2;
    case 'I':
        return 4;
    case 'Q':
    case 'q':
        return 8;
    default:
        return 0;
    }
}

/* Read a format "<B...", with an "I" at the end if a text follows. False: the kind does not have `n` numbers. */
static bool
read_layout(const char *format, int n, Layout *layout)
{
    size_t given = strlen(format);
    if (given < 2 || format[0] != '<' || format[1] != 'B' || n > TRACE_FIELDS_MAX) {
        return false;
    }
    layout->n = (uint8_t)n;
    layout->text = given == (size_t)n + 3 && format[n + 2] == 'I';
    for (int i = 0; i < n && (size_t)i + 2 < given; i++) {
        layout->width[i] = width_of(format[i + 2]);
        if (layout->width[i] == 0) {
            return false;
        }
    }
    return given == (size_t)n + 2 || layout->text;
}

int
trace_writer_learn(TraceWriter *trace_writer, PyObject *layouts)
{
    for (int note = 0; note < NOTES; note++) {
        PyObject *name = PyUnicode_FromString(KNOWN[note].name);
        PyObject *found = name == NULL ? NULL : PyDict_GetItemWithError(layouts, name);
        Py_XDECREF(name);
        const char *format;
        Layout *layout = &trace_writer->layouts[note];
        if (found == NULL && PyErr_Occurred()) {
            return -1;
        }
        if (found == NULL || !PyTuple_Check(found) || !PyArg_ParseTuple(found, "bs", &layout->code, &format) ||
            !read_layout(format, KNOWN[note].n, layout)) {
            PyErr_Format(PyExc_SystemError, "bursar._native and the catalogue do not agree on %s", KNOWN[note].name);
            return -1;
        }
    }
    return 0;
}

int
trace_writer_of(ModuleState *st, PyObject *observer, TraceWriter **trace_writer)
{
    *trace_writer = NULL;
    PyObject *found = PyObject_GetAttrString(observer, "trace_writer");
    if (found == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return -1;
        }
        PyErr_Clear();
        return 0;
    }
    if (is_plain_trace_writer(st, found)) {
        *trace_writer = (TraceWriter *)found;
        return 0;
    }
    Py_DECREF(found);
    return 0;
}

/* ---- writing */

/* Store a number as eight bytes, lowest first. The compiler makes one store of it. */
static inline void
put_number(uint8_t *at, uint64_t number)
{
    at[0] = (uint8_t)number;
    at[1] = (uint8_t)(number >> 8);
    at[2] = (uint8_t)(number >> 16);
    at[3] = (uint8_t)(number >> 24);
    at[4] = (uint8_t)(number >> 32);
    at[5] = (uint8_t)(number >> 40);
    at[6] = (uint8_t)(number >> 48);
    at[7] = (uint8_t)(number >> 56);
}

uint64_t
trace_writer_number(const Layout *layout, const uint8_t *record, int field)
{
    const uint8_t *at = record + 1;
    for (int i = 0; i < field; i++) {
        at += layout->width[i];
    }
    uint64_t number = 0;
    for (int i = layout->width[field] - 1; i >= 0; i--) {
        number = number << 8 | at[i];
    }
    return number;
}

bool
trace_writer_write(Kernel *k, Note note, const uint64_t *numbers, PyObject *text)
{
    TraceWriter *trace_writer = k->trace_writer;
    if (trace_writer == NULL || !is_plain_text(text)) {
        return false;
    }
    const Layout *layout = &trace_writer->layouts[note];
    uint8_t record[RECORD_MAX], *at = record;
    *at++ = layout->code;
    for (int i = 0; i < layout->n; i++) {
        uint8_t width = layout->width[i];
        if (width < 8 && numbers[i] >> (8 * width) != 0) {
            return false; /* WRITER-2 */
        }
        put_number(at, numbers[i]);
        at += width;
    }
    if (layout->text) {
        size_t length = text == NULL ? 0 : (size_t)PyUnicode_GET_LENGTH(text);
        put_number(at, length);
        at += 4;
        if (length > 0) {
            memcpy(at, PyUnicode_1BYTE_DATA(text), length);
            at += length;
        }
    }
    if (trace_writer->take(k, trace_writer, record, (size_t)(at - record)) < 0) {
        k_defer_error(k);
    }
    return true;
}

int
trace_writer_decline(Kernel *k, Note note, Task *task, PyObject *detail)
{
    return k_note(k, KNOWN[note].name, task, detail);
}

/* ---- the page of a trace file */

/* Append a record to the page (WRITER-1). If the page is full, call `flush` of the observer. */
static int
page_take(Kernel *k, TraceWriter *trace_writer, const uint8_t *record, size_t size)
{
    Py_ssize_t length = PyByteArray_GET_SIZE(trace_writer->page);
    if (PyByteArray_Resize(trace_writer->page, length + (Py_ssize_t)size) < 0) {
        return -1;
    }
    memcpy(PyByteArray_AS_STRING(trace_writer->page) + length, record, size);
    trace_writer->count += 1;
    if (length + (Py_ssize_t)size <= trace_writer->page_max) {
        return 0;
    }
    /* RECORD-3: if the file fails, `flush` removes the observer and its trace writer from the kernel. */
    PyObject *observer = Py_NewRef(k->observer);
    PyObject *none = PyObject_CallMethod(observer, "flush", NULL);
    Py_DECREF(observer);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

static int
trace_writer_init(TraceWriter *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"layouts", "page", "page_max", NULL};
    PyObject *layouts, *page;
    Py_ssize_t page_max;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!n:TraceWriter", names, &PyDict_Type, &layouts,
                                     &PyByteArray_Type, &page, &page_max) ||
        trace_writer_learn(self, layouts) < 0) {
        return -1;
    }
    /* A subclass with attributes could refer to the trace writer, which the garbage collector does not traverse. */
    if (!PyByteArray_CheckExact(page)) {
        PyErr_SetString(PyExc_TypeError, "TraceWriter() takes a bytearray, not a subclass");
        return -1;
    }
    Py_XSETREF(self->page, Py_NewRef(page));
    self->page_max = page_max;
    self->take = page_take;
    return 0;
}

static void
trace_writer_dealloc(TraceWriter *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->page);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef trace_writer_members[] = {
    {"count", T_ULONGLONG, offsetof(TraceWriter, count), READONLY, "how many records it wrote"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot trace_writer_slots[] = {
    {Py_tp_doc, "Writes the events of a native kernel into the buffer of a trace file."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, trace_writer_init},
    {Py_tp_dealloc, trace_writer_dealloc},
    {Py_tp_members, trace_writer_members},
    {0, NULL},
};

PyType_Spec trace_writer_spec = {
    .name = "bursar._native.TraceWriter",
    .basicsize = sizeof(TraceWriter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = trace_writer_slots,
};
