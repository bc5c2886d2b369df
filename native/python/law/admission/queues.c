/* Who waits for permission, by classes: after `Row` and `Rows` in admission/queues.py.
 *
 * A row is a ring of links that are in the permits, so that who gives up leaves from anywhere at no cost. It owns each of
 * its permits, and each knows its row. `Rows.classes` owns the rows; one that becomes empty is taken out.
 */

#include "python/law/admission/queues.h"
#include "python/law/admission/ticket.h"
#include "python/law/deferred_error.h"

#include <structmember.h>

/* ---- one class */

static Permit *
row_last(const Row *row)
{
    return LAW_RECORD(row->queue.ring.older, Permit, link);
}

/* A row for this key, which holds nobody yet. New reference. */
static Row *
row_new(State *st, PyObject *key, int64_t priority)
{
    Row *row = (Row *)st->Row->tp_alloc(st->Row, 0);
    if (row == NULL) {
        return NULL;
    }
    law_queue_init(&row->queue);
    row->key = Py_NewRef(key);
    row->priority = priority;
    row->overtaken = PyList_New(0);
    if (row->overtaken == NULL) {
        Py_CLEAR(row);
    }
    return row;
}

static int
row_traverse(Row *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->key);
    Py_VISIT(self->overtaken);
    for (LawLink *l = law_queue_oldest(&self->queue); l != NULL; l = law_queue_newer(&self->queue, l)) {
        Py_VISIT((PyObject *)LAW_RECORD(l, Permit, link));
    }
    return 0;
}

static int
row_clear(Row *self)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(&self->queue)) != NULL) {
        Permit *permit = LAW_RECORD(link, Permit, link);
        permit->row = NULL;
        Py_DECREF((PyObject *)permit);
    }
    Py_CLEAR(self->key);
    Py_CLEAR(self->overtaken);
    return 0;
}

static void
row_dealloc(Row *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    row_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t
row_length(Row *self)
{
    return (Py_ssize_t)self->queue.length;
}

/* Of those who are in it now. */
static PyObject *
row_iter(Row *self)
{
    PyObject *list = PyList_New(0), *iterator = NULL;
    LawLink *l = list == NULL ? NULL : law_queue_oldest(&self->queue);
    int failed = list == NULL ? -1 : 0;
    for (; l != NULL && failed == 0; l = law_queue_newer(&self->queue, l)) {
        failed = PyList_Append(list, (PyObject *)LAW_RECORD(l, Permit, link));
    }
    if (failed == 0) {
        iterator = PyObject_GetIter(list);
    }
    Py_XDECREF(list);
    return iterator;
}

static PyObject *
get_first(Row *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->queue.length == 0 ? Py_None : (PyObject *)row_first(self));
}

static PyObject *
get_last(Row *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->queue.length == 0 ? Py_None : (PyObject *)row_last(self));
}

static PyGetSetDef row_getset[] = {
    {"first", (getter)get_first, NULL, NULL, NULL},
    {"last", (getter)get_last, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef row_members[] = {
    {"overtaken", T_OBJECT, offsetof(Row, overtaken), READONLY, NULL},
    {"priority", T_LONGLONG, offsetof(Row, priority), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot row_slots[] = {
    {Py_tp_doc, "Those of one class who wait, first come first served; never empty."},
    {Py_tp_traverse, row_traverse},
    {Py_tp_clear, row_clear},
    {Py_tp_dealloc, row_dealloc},
    {Py_tp_getset, row_getset},
    {Py_tp_members, row_members},
    {Py_tp_iter, row_iter},
    {Py_sq_length, row_length},
    {0, NULL},
};

PyType_Spec row_spec = {
    .name = "bursar._native.Row",
    .basicsize = sizeof(Row),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = row_slots,
};

/* ---- all classes */

/* The row of a permit's class, made if there is none (*made). Borrowed; NULL: error. What is made here could set off the
 * collector, and with it a destructor that changes the rows: it is held off. */
static Row *
row_for(State *st, Rows *rows, const Permit *permit, bool *made)
{
    Row *row = rows->recent; /* whoever comes is mostly like the one before */
    *made = false;
    if (row != NULL && row->priority == permit->priority && PyTuple_GET_ITEM(row->key, 1) == permit->demand) {
        return row;
    }
    int collects = PyGC_Disable();
    PyObject *key = Py_BuildValue("LO", (long long)permit->priority, permit->demand);
    row = key == NULL ? NULL : (Row *)PyDict_GetItemWithError(rows->classes, key);
    if (key != NULL && row == NULL && !PyErr_Occurred()) {
        row = row_new(st, key, permit->priority);
        int failed = row == NULL ? -1 : PyDict_SetItem(rows->classes, key, (PyObject *)row);
        Py_XDECREF((PyObject *)row); /* the dict has it */
        row = failed < 0 ? NULL : row;
        *made = true;
    }
    Py_XDECREF(key);
    if (collects) {
        PyGC_Enable();
    }
    rows->recent = row;
    return row;
}

int
rows_enter(State *st, Rows *rows, Permit *permit)
{
    bool made;
    if (rule(permit->row == NULL, "GATE-3") < 0) {
        return -1;
    }
    Row *row = row_for(st, rows, permit, &made);
    if (row == NULL) {
        return -1;
    }
    law_queue_append(&row->queue, &permit->link);
    permit->row = row;
    Py_INCREF((PyObject *)permit);
    rows->entered += 1;
    rows->length += 1;
    permit->place = rows->entered;
    return made ? 1 : 0;
}

int
rows_leave(Rows *rows, Permit *permit)
{
    Row *row = permit->row;
    if (rule(row != NULL, "GATE-3") < 0) {
        return -1;
    }
    int failed = 0;
    permit->row = NULL;
    rows->length -= 1;
    law_queue_remove(&row->queue, &permit->link);
    if (row->queue.length == 0) {
        rows->recent = rows->recent == row ? NULL : rows->recent;
        failed = PyDict_DelItem(rows->classes, row->key);
    }
    Py_DECREF((PyObject *)permit);
    return failed;
}

/* The i-th time that a row was overtaken: up to which place, and when. */
static void
read_time(PyObject *times, Py_ssize_t i, int64_t *place, int64_t *at_ns)
{
    PyObject *pair = PyList_GET_ITEM(times, i);
    *place = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 0));
    *at_ns = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
}

int
rows_let_in(Rows *rows, const Permit *permit, int64_t now_ns)
{
    Py_ssize_t at = 0;
    PyObject *value;
    while (PyDict_Next(rows->classes, &at, NULL, &value)) {
        Row *row = (Row *)value;
        Py_ssize_t n = PyList_GET_SIZE(row->overtaken);
        int64_t place = 0, before_ns;
        if (n > 0) {
            read_time(row->overtaken, n - 1, &place, &before_ns);
        }
        if (row->priority >= permit->priority ||
            place >= row_last(row)->place) { /* all who wait were overtaken before */
            continue;
        }
        Py_INCREF(value); /* RECORD-3: what is made here could set off the collector */
        PyObject *time = Py_BuildValue("LL", (long long)rows->entered, (long long)now_ns);
        int failed = time == NULL ? -1 : PyList_Append(row->overtaken, time);
        Py_XDECREF(time);
        Py_DECREF(value);
        if (failed < 0) {
            return -1;
        }
    }
    return 0;
}

int64_t
rows_starved_ns(const Permit *permit, int64_t now_ns)
{
    PyObject *times = permit->row == NULL ? NULL : permit->row->overtaken;
    Py_ssize_t low = 0, n = times == NULL ? 0 : PyList_GET_SIZE(times), high = n;
    int64_t place, at_ns = now_ns;
    while (low < high) { /* the first time that was not before it came */
        Py_ssize_t middle = (low + high) / 2;
        read_time(times, middle, &place, &at_ns);
        if (place < permit->place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == n) {
        return 0;
    }
    read_time(times, low, &place, &at_ns);
    return now_ns - at_ns;
}

/* ---- for Python */

/* Rows(interval_ns, boost) */
static int
rows_init(Rows *self, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    long long interval_ns, boost;
    if (!PyArg_ParseTuple(args, "LL:Rows", &interval_ns, &boost)) {
        return -1;
    }
    if (interval_ns < 1 && boost != 0) {
        PyErr_SetString(PyExc_ValueError, "Rows() takes an interval of a nanosecond or more");
        return -1;
    }
    self->interval_ns = interval_ns;
    self->boost = boost;
    self->recent = NULL;
    Py_XSETREF(self->classes, PyDict_New());
    return self->classes == NULL ? -1 : 0;
}

static int
rows_traverse(Rows *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->classes);
    return 0;
}

static int
rows_clear(Rows *self)
{
    self->recent = NULL;
    Py_CLEAR(self->classes);
    return 0;
}

static void
rows_dealloc(Rows *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    rows_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t
rows_length(Rows *self)
{
    return (Py_ssize_t)self->length;
}

/* The permit among the arguments of a method, and the time if there is to be one. NULL: they are wrong. */
static Permit *
read_args(Rows *self, PyObject *const *args, Py_ssize_t n, Py_ssize_t wanted, State **st, int64_t *now_ns)
{
    *st = state_of(Py_TYPE(self));
    if (*st == NULL || n != wanted || Py_TYPE(args[0]) != (*st)->Permit || self->classes == NULL) {
        PyErr_SetString(PyExc_TypeError, "rows are of permits");
        return NULL;
    }
    *now_ns = n > 1 ? PyLong_AsLongLong(args[1]) : 0;
    return *now_ns == -1 && PyErr_Occurred() ? NULL : (Permit *)args[0];
}

static PyObject *
rows_py_enter(Rows *self, PyObject *const *args, Py_ssize_t n)
{
    State *st;
    int64_t unused;
    Permit *permit = read_args(self, args, n, 1, &st, &unused);
    int first = permit == NULL ? -1 : rows_enter(st, self, permit);
    return first < 0 ? NULL : PyBool_FromLong(first);
}

static PyObject *
rows_py_leave(Rows *self, PyObject *const *args, Py_ssize_t n)
{
    State *st;
    int64_t unused;
    Permit *permit = read_args(self, args, n, 1, &st, &unused);
    return permit == NULL || rows_leave(self, permit) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
rows_py_let_in(Rows *self, PyObject *const *args, Py_ssize_t n)
{
    State *st;
    int64_t now_ns;
    Permit *permit = read_args(self, args, n, 2, &st, &now_ns);
    return permit == NULL || rows_let_in(self, permit, now_ns) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
rows_py_starved_ns(Rows *self, PyObject *const *args, Py_ssize_t n)
{
    State *st;
    int64_t now_ns;
    Permit *permit = read_args(self, args, n, 2, &st, &now_ns);
    return permit == NULL ? NULL : PyLong_FromLongLong(rows_starved_ns(permit, now_ns));
}

static PyMethodDef rows_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))rows_py_enter, METH_FASTCALL,
     "Take it in. Whether it is the first of its class."},
    {"leave", (PyCFunction)(void (*)(void))rows_py_leave, METH_FASTCALL, "It waits no longer."},
    {"let_in", (PyCFunction)(void (*)(void))rows_py_let_in, METH_FASTCALL,
     "Somebody is let in: those of lower priority that wait have been overtaken."},
    {"starved_ns", (PyCFunction)(void (*)(void))rows_py_starved_ns, METH_FASTCALL,
     "For how long it has been waiting since it was first overtaken."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef rows_members[] = {
    {"classes", T_OBJECT, offsetof(Rows, classes), READONLY, NULL},
    {"interval_ns", T_LONGLONG, offsetof(Rows, interval_ns), READONLY, NULL},
    {"boost", T_LONGLONG, offsetof(Rows, boost), READONLY, NULL},
    {"entered", T_LONGLONG, offsetof(Rows, entered), READONLY, NULL},
    {"length", T_LONGLONG, offsetof(Rows, length), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_doc, "All who have everything but permission, by their classes."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, rows_init},
    {Py_tp_traverse, rows_traverse},
    {Py_tp_clear, rows_clear},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_methods, rows_methods},
    {Py_tp_members, rows_members},
    {Py_sq_length, rows_length},
    {0, NULL},
};

PyType_Spec rows_spec = {
    .name = "bursar._native.Rows",
    .basicsize = sizeof(Rows),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = rows_slots,
};
