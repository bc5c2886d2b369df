/* The record of a nursery: how it is made and freed, and its attributes for Python. After law/nursery.py.
 *
 * The children are in a queue, which owns them (RECORD-1). Python sees a mapping from ids to children, oldest first.
 * Its `values()` is a new list, so a caller may end children while it goes through the list.
 */

#include "python/law/nursery.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/task.h"
#include "python/law/wait.h"
#include "python/module/seam.h"

#define ST(self) ((ModuleState *)PyType_GetModuleState(Py_TYPE(self)))

/* ---- making and freeing */

Nursery *
nursery_new(Kernel *k, uint64_t id, PyObject *name, Task *owner, PyObject *pools, PyObject *purse_of,
            PyObject *capabilities)
{
    Nursery *self = (Nursery *)free_make(&k->st->free_nurseries, k->st->Nursery);
    if (self == NULL) {
        return NULL;
    }
    self->kernel = (Kernel *)Py_NewRef((PyObject *)k);
    self->id = id;
    self->name = Py_XNewRef(name);
    self->owner = (Task *)Py_XNewRef((PyObject *)owner);
    self->pools = Py_NewRef(pools);
    self->purse_of = Py_NewRef(purse_of);
    self->capabilities = Py_NewRef(capabilities);
    self->cancel_on_failure = true;
    self->gate = Py_XNewRef(k->root ? k->root->gate : NULL);
    self->sealed = k->root != NULL && k->root->sealed;
    law_queue_init(&self->children);
    gc_aside_keep(&k->gc_aside, (PyObject *)self); /* the kernel or its owner holds it while it is open */
    return self;
}

static int
nursery_traverse(Nursery *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->kernel);
    Py_VISIT(self->owner);
    Py_VISIT(self->scope);
    Py_VISIT(self->failures);
    Py_VISIT(self->failed);
    Py_VISIT(self->reason);
    Py_VISIT(self->why);
    Py_VISIT(self->joining);
    Py_VISIT(self->pools);
    Py_VISIT(self->purse_of);
    Py_VISIT(self->capabilities);
    Py_VISIT(self->exhausted);
    Py_VISIT(self->exhausted_waiter);
    Py_VISIT(self->ends);
    Py_VISIT(self->ends_waiter);
    Py_VISIT(self->drops);
    Py_VISIT(self->gate);
    Py_VISIT(self->terms);
    for (LawLink *l = law_queue_oldest(&self->children); l != NULL; l = law_queue_newer(&self->children, l)) {
        int stop = task_visit(LAW_RECORD(l, Task, sibling), visit, arg); /* RECORD-4 */
        if (stop != 0) {
            return stop;
        }
    }
    return 0;
}

static int
nursery_clear(Nursery *self)
{
    LawLink *link;
    while ((link = law_queue_take_oldest(&self->children)) != NULL) {
        Task *task = LAW_RECORD(link, Task, sibling);
        if (self->kernel != NULL) {
            k_forget(self->kernel, task);
        }
        task_clear(task); /* RECORD-4: the collector does not track the task, so it cannot clear it */
        Py_DECREF(task);
    }
    Py_CLEAR(self->owner);
    Py_CLEAR(self->scope);
    Py_CLEAR(self->failures);
    Py_CLEAR(self->failed);
    Py_CLEAR(self->reason);
    Py_CLEAR(self->why);
    Py_CLEAR(self->joining);
    Py_CLEAR(self->exhausted);
    Py_CLEAR(self->exhausted_waiter);
    Py_CLEAR(self->ends);
    Py_CLEAR(self->ends_waiter);
    Py_CLEAR(self->drops);
    Py_CLEAR(self->gate);
    Py_CLEAR(self->terms);
    Py_CLEAR(self->kernel);
    return 0;
}

static void
nursery_dealloc(Nursery *self)
{
    ModuleState *st = state_left(Py_TYPE(self));
    PyObject_GC_UnTrack(self);
    nursery_clear(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->pools);
    Py_CLEAR(self->purse_of);
    Py_CLEAR(self->capabilities);
    free_drop(st ? &st->free_nurseries : NULL, (PyObject *)self);
}

/* ---- name, state, children */

PyObject *
nursery_name(Nursery *self)
{
    if (self->name == NULL) {
        PyObject *owner = self->owner ? self->owner->name : Py_None;
        self->name = PyUnicode_FromFormat("nursery %llu of %R", (unsigned long long)self->id, owner);
    }
    return Py_XNewRef(self->name);
}

int
nursery_move(Nursery *self, LawNurseryState to)
{
    if (!law_nursery_may_move(self->state, to)) {
        ModuleState *st = ST(self);
        PyObject *args[] = {(PyObject *)self, st->nursery_states[to]};
        PyObject *none = py_call(st, PY_refuse_nursery_move, args, 2); /* raises IllegalTransition */
        Py_XDECREF(none);
        return -1;
    }
    if (rule(!law_nursery_terminal(to) || law_queue_empty(&self->children), "NURSERY-3") < 0) {
        return -1;
    }
    law_nursery_move(&self->state, to);
    return 0;
}

PyObject *
nursery_children_list(Nursery *self)
{
    PyObject *list = PyList_New((Py_ssize_t)self->children.length);
    Py_ssize_t i = 0;
    if (list != NULL) {
        for (LawLink *l = law_queue_oldest(&self->children); l != NULL; l = law_queue_newer(&self->children, l)) {
            PyList_SET_ITEM(list, i++, Py_NewRef(LAW_RECORD(l, Task, sibling)));
        }
    }
    return list;
}

/* ---- the children, as Python sees them */

typedef struct Children {
    PyObject_HEAD
    Nursery *nursery;
} Children;

static int
children_traverse(Children *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->nursery);
    return 0;
}

static void
children_dealloc(Children *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->nursery);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static Py_ssize_t
children_length(Children *self)
{
    return (Py_ssize_t)self->nursery->children.length;
}

/* The child with this id, borrowed; NULL without an exception if there is none. */
static Task *
child_of(Children *self, PyObject *key)
{
    unsigned long long id = PyLong_Check(key) ? PyLong_AsUnsignedLongLong(key) : 0;
    PyErr_Clear();
    const LawQueue *children = &self->nursery->children;
    for (LawLink *l = law_queue_oldest(children); l != NULL; l = law_queue_newer(children, l)) {
        Task *task = LAW_RECORD(l, Task, sibling);
        if (task->id == id) {
            return task;
        }
    }
    return NULL;
}

static PyObject *
children_item(Children *self, PyObject *key)
{
    Task *task = child_of(self, key);
    if (task == NULL) {
        PyErr_SetObject(PyExc_KeyError, key);
    }
    return Py_XNewRef((PyObject *)task);
}

static int
children_contains(Children *self, PyObject *key)
{
    return child_of(self, key) != NULL;
}

static PyObject *
children_values(Children *self, PyObject *Py_UNUSED(unused))
{
    return nursery_children_list(self->nursery);
}

static PyObject *
children_keys(Children *self, PyObject *Py_UNUSED(unused))
{
    PyObject *ids = PyList_New(0);
    const LawQueue *children = &self->nursery->children;
    for (LawLink *l = law_queue_oldest(children); ids && l; l = law_queue_newer(children, l)) {
        PyObject *id = PyLong_FromUnsignedLongLong(LAW_RECORD(l, Task, sibling)->id);
        if (id == NULL || PyList_Append(ids, id) < 0) {
            Py_CLEAR(ids);
        }
        Py_XDECREF(id);
    }
    return ids;
}

static PyObject *
children_iter(Children *self)
{
    PyObject *ids = children_keys(self, NULL);
    PyObject *iterator = ids == NULL ? NULL : PyObject_GetIter(ids);
    Py_XDECREF(ids);
    return iterator;
}

static PyObject *
children_repr(Children *self)
{
    PyObject *list = nursery_children_list(self->nursery);
    PyObject *text = list == NULL ? NULL : PyObject_Repr(list);
    Py_XDECREF(list);
    return text;
}

static PyMethodDef children_methods[] = {
    {"values", (PyCFunction)children_values, METH_NOARGS, "The children, oldest first."},
    {"keys", (PyCFunction)children_keys, METH_NOARGS, "The ids of the children, oldest first."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot children_slots[] = {
    {Py_tp_doc, "The live children of a nursery, by id, in the order of spawning."},
    {Py_tp_traverse, children_traverse},
    {Py_tp_dealloc, children_dealloc},
    {Py_tp_methods, children_methods},
    {Py_tp_iter, children_iter},
    {Py_tp_repr, children_repr},
    {Py_mp_length, children_length},
    {Py_mp_subscript, children_item},
    {Py_sq_contains, children_contains},
    {0, NULL},
};

PyType_Spec children_spec = {
    .name = "bursar._native.Children",
    .basicsize = sizeof(Children),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = children_slots,
};

/* ---- attributes */

static PyObject *
get_children(Nursery *self, void *Py_UNUSED(closure))
{
    Children *view = PyObject_GC_New(Children, ST(self)->Children);
    if (view != NULL) {
        view->nursery = (Nursery *)Py_NewRef((PyObject *)self);
        PyObject_GC_Track((PyObject *)view);
    }
    return (PyObject *)view;
}

static PyObject *
get_name(Nursery *self, void *Py_UNUSED(closure))
{
    return nursery_name(self);
}

static PyObject *
get_state(Nursery *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(ST(self)->nursery_states[self->state]);
}

/* The list, set or dict in a field, made when Python first reads it: most nurseries never need it. */
static PyObject *
made_at_first_read(PyObject **field, PyObject *(*make)(void))
{
    if (*field == NULL) {
        *field = make();
    }
    return Py_XNewRef(*field);
}

static PyObject *
new_list(void)
{
    return PyList_New(0);
}

static PyObject *
new_set(void)
{
    return PySet_New(NULL);
}

static PyObject *
get_failures(Nursery *self, void *Py_UNUSED(closure))
{
    return made_at_first_read(&self->failures, new_list);
}

static PyObject *
get_failed(Nursery *self, void *Py_UNUSED(closure))
{
    return made_at_first_read(&self->failed, new_set);
}

static PyObject *
get_exhausted(Nursery *self, void *Py_UNUSED(closure))
{
    return made_at_first_read(&self->exhausted, PyDict_New);
}

static PyObject *
get_joining(Nursery *self, void *Py_UNUSED(closure))
{
    if (self->joining != NULL && is_task(self->joining)) {
        return task_wait(ST(self), (Task *)self->joining);
    }
    return Py_NewRef(self->joining ? self->joining : Py_None);
}

static int
set_state(Nursery *self, PyObject *value, void *Py_UNUSED(closure))
{
    long state = value == NULL ? -1 : PyLong_AsLong(value);
    if (state < 0 || state > LAW_NURSERY_CANCELLED) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "not the number of a NurseryState");
        }
        return -1;
    }
    self->state = (uint8_t)state;
    return 0;
}

static PyObject *
nursery_repr(Nursery *self)
{
    static const char *const names[] = {"OPEN", "CLOSING", "CANCELLING", "CLOSED", "CANCELLED"};
    PyObject *name = nursery_name(self), *text = NULL;
    if (name != NULL) {
        text = PyUnicode_FromFormat("<nursery %llu %R %s>", (unsigned long long)self->id, name, names[self->state]);
        Py_DECREF(name);
    }
    return text;
}

/* Fields that hold an object or NULL; Python sees NULL as None. */
static PyObject *
get_field(Nursery *self, void *offset)
{
    PyObject *found = *(PyObject **)(void *)((char *)self + (uintptr_t)offset);
    return Py_NewRef(found ? found : Py_None);
}

static int
set_field(Nursery *self, PyObject *value, void *offset)
{
    PyObject **field = (PyObject **)(void *)((char *)self + (uintptr_t)offset);
    Py_XSETREF(*field, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

#define FIELD(name) {#name, (getter)get_field, (setter)set_field, NULL, (void *)(uintptr_t)offsetof(Nursery, name)}

static PyGetSetDef nursery_getset[] = {
    FIELD(reason),
    FIELD(ends),
    FIELD(ends_waiter),
    FIELD(drops),
    FIELD(gate),
    FIELD(exhausted_waiter),
    {"children", (getter)get_children, NULL, NULL, NULL},
    {"name", (getter)get_name, NULL, NULL, NULL},
    {"state", (getter)get_state, (setter)set_state, NULL, NULL},
    {"failures", (getter)get_failures, NULL, NULL, NULL},
    {"failed", (getter)get_failed, NULL, NULL, NULL},
    {"exhausted", (getter)get_exhausted, NULL, NULL, NULL},
    {"joining", (getter)get_joining, (setter)set_field, NULL, (void *)(uintptr_t)offsetof(Nursery, joining)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef nursery_members[] = {
    {"kernel", T_OBJECT, offsetof(Nursery, kernel), READONLY, NULL},
    {"id", T_ULONGLONG, offsetof(Nursery, id), READONLY, NULL},
    {"owner", T_OBJECT, offsetof(Nursery, owner), READONLY, NULL},
    {"scope", T_OBJECT, offsetof(Nursery, scope), READONLY, NULL},
    {"spawned", T_LONGLONG, offsetof(Nursery, spawned), 0, NULL},
    {"pools", T_OBJECT, offsetof(Nursery, pools), READONLY, NULL},
    {"purse_of", T_OBJECT, offsetof(Nursery, purse_of), READONLY, NULL},
    {"capabilities", T_OBJECT, offsetof(Nursery, capabilities), 0, NULL},
    {"explicit", T_BOOL, offsetof(Nursery, explicit_caps), 0, NULL},
    {"cancel_on_failure", T_BOOL, offsetof(Nursery, cancel_on_failure), 0, NULL},
    {"hold", T_BOOL, offsetof(Nursery, hold), 0, NULL},
    {"sealed", T_BOOL, offsetof(Nursery, sealed), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot nursery_slots[] = {
    {Py_tp_doc, "The law's record of one nursery."},
    {Py_tp_traverse, nursery_traverse},
    {Py_tp_clear, nursery_clear},
    {Py_tp_dealloc, nursery_dealloc},
    {Py_tp_repr, nursery_repr},
    {Py_tp_getset, nursery_getset},
    {Py_tp_members, nursery_members},
    {0, NULL},
};

PyType_Spec nursery_spec = {
    .name = "bursar._native.Nursery",
    .basicsize = sizeof(Nursery),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = nursery_slots,
};
