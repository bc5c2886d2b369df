/* Scopes: what can be cancelled as a whole. The records of src/bursar/law/cancel.py (`Scope`, `CancelScope`).
 *
 * A scope is a CancelScope (a timeout, a shield, the body of a nursery) or the Task itself. A task is never shielded
 * and never exiting, has no timer and is not the body of a nursery, so it has only a phase and a reason. The cancel
 * scopes of one task form a stack: the task owns the innermost one, each cancel scope owns its parent, and the parent
 * of the outermost one is the task.
 *
 * `task` and `parent` of a cancel scope never change, not even in tp_clear. So code that holds a cancel scope can
 * always walk outward from it. A reference cycle through these two fields goes on through a field of the task, of a
 * timer or of a nursery, and the collector breaks it there.
 *
 * Rejected: one common struct for tasks and cancel scopes. A hundred thousand tasks would have five constant fields
 * each.
 */

#include "python/law/scope.h"
#include "python/law/task.h"

/* ---- what tasks and cancel scopes have in common */

Task *
scope_task(PyObject *scope)
{
    return is_task(scope) ? (Task *)scope : ((CancelScope *)scope)->task;
}

PyObject *
scope_parent(PyObject *scope)
{
    return is_task(scope) ? NULL : ((CancelScope *)scope)->parent;
}

uint8_t
scope_phase(PyObject *scope)
{
    return is_task(scope) ? ((Task *)scope)->phase : ((CancelScope *)scope)->phase;
}

PyObject *
scope_reason(PyObject *scope)
{
    if (is_task(scope)) {
        return task_reason((Task *)scope);
    }
    return ((CancelScope *)scope)->reason;
}

/* ---- making and freeing */

CancelScope *
cancel_scope_new(ModuleState *st, Task *task)
{
    TaskExtra *extra = task_extra(task);
    if (extra == NULL) {
        return NULL;
    }
    CancelScope *scope = (CancelScope *)free_make(&st->free_scopes, st->CancelScope);
    if (scope == NULL) {
        return NULL;
    }
    scope->task = (Task *)Py_NewRef((PyObject *)task);
    /* The new scope takes over the task's reference to the scope that was innermost. */
    scope->parent = extra->inner != NULL ? (PyObject *)extra->inner : Py_NewRef((PyObject *)task);
    extra->inner = (CancelScope *)Py_NewRef((PyObject *)scope);
    return scope;
}

/* CancelScope(task). New reference; NULL with TypeError or MemoryError set. */
static PyObject *
cancel_scope_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"task", NULL};
    ModuleState *st = state_of(type);
    PyObject *task;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!:CancelScope", names, st->Task, &task)) {
        return NULL;
    }
    PyObject *scope = (PyObject *)cancel_scope_new(st, (Task *)task);
    if (scope != NULL) {
        PyObject_GC_Track(scope);
    }
    return scope;
}

static int
cancel_scope_traverse(CancelScope *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->parent);
    Py_VISIT(self->task);
    Py_VISIT(self->reason);
    Py_VISIT(self->timer);
    Py_VISIT(self->body_of);
    return 0;
}

/* Not `task` and `parent`, which never change. */
static int
cancel_scope_clear(CancelScope *self)
{
    Py_CLEAR(self->reason);
    Py_CLEAR(self->timer);
    Py_CLEAR(self->body_of);
    return 0;
}

/* A hundred thousand cancel scopes may be open in one task. The trashcan frees them without recursion. */
static void
cancel_scope_dealloc(CancelScope *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, cancel_scope_dealloc) ModuleState *st = state_left(Py_TYPE(self));
    cancel_scope_clear(self);
    Py_CLEAR(self->parent);
    Py_CLEAR(self->task);
    free_drop(st ? &st->free_scopes : NULL, (PyObject *)self);
    Py_TRASHCAN_END
}

/* ---- attributes */

/* Refuse to delete an attribute. 0, or -1 with AttributeError set. */
static int
require_value(PyObject *value, const char *name)
{
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "the attribute '%s' of a cancel scope cannot be deleted", name);
        return -1;
    }
    return 0;
}

/* Store a reference to `value`, or NULL for None. It must be of `type`, unless that is NULL. 0, or -1 with an exception
 * set. */
static int
store(PyObject **field, PyObject *value, PyTypeObject *type, const char *name)
{
    if (require_value(value, name) < 0) {
        return -1;
    }
    if (value != Py_None && type != NULL && !PyObject_TypeCheck(value, type)) {
        PyErr_Format(PyExc_TypeError, "the attribute '%s' of a cancel scope is a %s or None, not %R", name,
                     type->tp_name, value);
        return -1;
    }
    PyObject *old = *field;
    *field = value == Py_None ? NULL : Py_NewRef(value);
    Py_XDECREF(old);
    return 0;
}

static PyObject *
or_none(void *object)
{
    return Py_NewRef(object != NULL ? (PyObject *)object : Py_None);
}

static PyObject *
get_parent(CancelScope *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->parent);
}

static PyObject *
get_task(CancelScope *self, void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)self->task);
}

static PyObject *
get_phase(CancelScope *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(state_of(Py_TYPE(self))->phases[self->phase]);
}

/* Sets only the field, as in Python: `move` also keeps the counts of the task. */
static int
set_phase(CancelScope *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (require_value(value, "phase") < 0) {
        return -1;
    }
    long phase = PyLong_AsLong(value);
    if (phase == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (phase < LAW_PHASE_IDLE || phase > LAW_PHASE_FINALIZED) {
        PyErr_Format(PyExc_ValueError, "%ld is not a valid CancelPhase", phase);
        return -1;
    }
    self->phase = (uint8_t)phase;
    return 0;
}

static PyObject *
get_reason(CancelScope *self, void *Py_UNUSED(closure))
{
    return or_none(self->reason);
}

static int
set_reason(CancelScope *self, PyObject *value, void *Py_UNUSED(closure))
{
    return store(&self->reason, value, NULL, "reason");
}

static PyObject *
get_timer(CancelScope *self, void *Py_UNUSED(closure))
{
    return or_none(self->timer);
}

static int
set_timer(CancelScope *self, PyObject *value, void *Py_UNUSED(closure))
{
    return store((PyObject **)(void *)&self->timer, value, state_of(Py_TYPE(self))->Timer, "timer");
}

static PyObject *
get_body_of(CancelScope *self, void *Py_UNUSED(closure))
{
    return or_none(self->body_of);
}

static int
set_body_of(CancelScope *self, PyObject *value, void *Py_UNUSED(closure))
{
    return store((PyObject **)(void *)&self->body_of, value, state_of(Py_TYPE(self))->Nursery, "body_of");
}

/* 0, or -1 with an exception set. */
static int
store_flag(bool *field, PyObject *value, const char *name)
{
    int truth = require_value(value, name) < 0 ? -1 : PyObject_IsTrue(value);
    if (truth < 0) {
        return -1;
    }
    *field = truth != 0;
    return 0;
}

static PyObject *
get_shielded(CancelScope *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->shielded);
}

static int
set_shielded(CancelScope *self, PyObject *value, void *Py_UNUSED(closure))
{
    return store_flag(&self->shielded, value, "shielded");
}

static PyObject *
get_exiting(CancelScope *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->exiting);
}

static int
set_exiting(CancelScope *self, PyObject *value, void *Py_UNUSED(closure))
{
    return store_flag(&self->exiting, value, "exiting");
}

static PyGetSetDef cancel_scope_getset[] = {
    {"parent", (getter)get_parent, NULL, "the next outer scope of the same task", NULL},
    {"task", (getter)get_task, NULL, "the task that the scope belongs to", NULL},
    {"phase", (getter)get_phase, (setter)set_phase, "how far the cancellation of the scope has come", NULL},
    {"reason", (getter)get_reason, (setter)set_reason, "why the scope is cancelled, or None", NULL},
    {"shielded", (getter)get_shielded, (setter)set_shielded, "whether the scope hides requests from outside", NULL},
    {"exiting", (getter)get_exiting, (setter)set_exiting, "whether the block has ended and only waits for children",
     NULL},
    {"timer", (getter)get_timer, (setter)set_timer, "the timer of the deadline, or None", NULL},
    {"body_of", (getter)get_body_of, (setter)set_body_of, "the nursery whose body this scope is, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot cancel_scope_slots[] = {
    {Py_tp_doc, "CancelScope(task)\n--\n\nA scope inside a task: a timeout, a shield, the body of a nursery."},
    {Py_tp_new, (void *)cancel_scope_make},
    {Py_tp_traverse, (void *)cancel_scope_traverse},
    {Py_tp_clear, (void *)cancel_scope_clear},
    {Py_tp_dealloc, (void *)cancel_scope_dealloc},
    {Py_tp_getset, cancel_scope_getset},
    {0, NULL},
};

PyType_Spec cancel_scope_spec = {
    .name = "bursar._native.CancelScope",
    .basicsize = (int)sizeof(CancelScope),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = cancel_scope_slots,
};
