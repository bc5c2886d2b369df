/* Records: how the notes of every step become bytes of a trace, without a call of Python.
 *
 * An observer that is a recorder has a *pen*. A note that the pen can write goes straight into the recorder's store, in
 * the layout that the catalogue (evidence/catalogue.py) gives its kind; every other note goes to the observer itself,
 * which writes into the same store. So there is one order of records, and one description of each kind: the pen is told
 * the layouts when it is made, and knows only how many numbers it has for each.
 *
 * A pen writes on a *page*, the buffer of a trace file (writer.c), or onto a *shelf*, which keeps the newest records in
 * memory (ring.c). Both are made by evidence/trace.py.
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

typedef struct Pen Pen;

struct Pen {
    PyObject_HEAD
    Layout layouts[NOTES];
    /* Take a whole record in: 0, or -1 with an exception set. */
    int (*take)(Kernel *k, Pen *pen, const uint8_t *record, size_t size);
    unsigned long long count; /* records that it wrote */
    PyObject *page;           /* a bytearray; NULL: this is a shelf */
    Py_ssize_t page_max;      /* when it is longer, the observer is asked to `flush` */
};

extern PyType_Spec pen_spec;

/* The layouts, from a dict: name -> (code, format of `struct`). 0, or -1 with an exception set. */
int pen_learn(Pen *pen, PyObject *layouts);

/* The pen of an observer, if it has one: *pen is a new reference, or NULL. 0, or -1 with an exception set. */
int pen_of(State *st, PyObject *observer, Pen **pen);

/* Write a note if the observer of the kernel has a pen. `numbers` are as many as the kind has; `text` is that of a kind
 * with one, or NULL: empty. False: no pen, or a number or a text that it leaves to Python, and nothing happened. What
 * fails dooms the run, as with any observer: see `k_doom`. */
bool pen_write(Kernel *k, Note note, const uint64_t *numbers, PyObject *text);

/* Tell the observer in Python: what NOTE does, for a kind that a pen knows. */
int pen_decline(Kernel *k, Note note, Task *task, PyObject *detail);

/* The same number that `pen_write` stored, read back. */
uint64_t pen_number(const Layout *layout, const uint8_t *record, int field);
