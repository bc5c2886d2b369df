/* The driver: one batch of steps, and the type `Driver`. After drive/coroutine.py. A step, which is a decision and a
 * poll, is in poll.c.
 */

#include "python/drive/driver.h"
#include "python/cpython/context.h"
#include "python/drive/poll.h"
#include "python/drive/resume.h"
#include "python/law/task.h"
#include "python/ops/request.h"

/* Leave the context of the last task, before other code runs. `failed`: an exception is set already, and stays.
 * Whether an exception is set. */
static bool
leave_context(Driver *self, bool failed)
{
    if (!context_stays(self->kernel)) {
        return failed;
    }
    PyObject *error = failed ? PyErr_GetRaisedException() : NULL;
    failed = context_leave(self->kernel) < 0 || failed;
    if (error != NULL) {
        PyErr_SetRaisedException(error); /* the first error matters more */
    }
    return failed;
}

static PyObject *
driver_py_poll(Driver *self, PyObject *thing)
{
    if (!is_task(thing)) {
        PyErr_Format(PyExc_TypeError, "%R is not a task of a native kernel", thing);
        return NULL;
    }
    bool failed = driver_poll(self, (Task *)thing) < 0;
    return leave_context(self, failed) ? NULL : Py_NewRef(Py_None);
}

/* Whether the poll of this task runs no code of the program. */
static bool
is_ours(const Driver *self, const Task *task)
{
    PyObject *code = NULL;
    if (task_not_begun(task)) {
        code = Py_NewRef(PyFunction_GET_CODE(task->work));
    } else if (task->work != NULL && PyCoro_CheckExact(task->work)) {
        code = coroutine_code(task->work);
    }
    bool found = false;
    for (Py_ssize_t i = 0; self->ours != NULL && code != NULL && !found && i < PyList_GET_SIZE(self->ours); i++) {
        found = PyList_GET_ITEM(self->ours, i) == code;
    }
    Py_XDECREF(code);
    return found;
}

/* The poll of a dispatched task if `checked` or `anywhere` is set. */
Step
driver_poll_special(Driver *self, Task *task)
{
    if (self->anywhere && !is_ours(self, task)) {
        self->dispatched = (Task *)Py_NewRef((PyObject *)task);
        return STEP_ELSEWHERE;
    }
    int failed = self->checked ? driver_call(self, "poll", (PyObject *)task, NULL) : driver_poll(self, task);
    return failed < 0 ? STEP_ERROR : STEP_DONE;
}

int
driver_close_collected(Driver *self)
{
    PyObject *done =
        leave_context(self, false) ? NULL : PyObject_CallMethod((PyObject *)self, "close_collected_generators", NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether the host says that the time of the batch is up. -1: an exception is set. */
NOINLINE static int
is_overdue(Driver *self, PyObject *overdue)
{
    PyObject *said = leave_context(self, false) ? NULL : PyObject_CallNoArgs(overdue);
    int yes = said == NULL ? -1 : PyObject_IsTrue(said);
    Py_XDECREF(said);
    return yes;
}

/* At most *most steps while anything is runnable; *most is counted down. 1: the batch was cut short; -1: an
 * exception is set. */
static int
batch(Driver *self, long *most, PyObject *overdue)
{
    const Kernel *k = self->kernel;
    if (self->stopped) {
        return 0;
    }
    Task *first = self->dispatched;
    self->dispatched = NULL;
    while ((first != NULL || (*most > 0 && k->runnable > 0)) && !self->stopped) {
        Step went = driver_steps(self, first, overdue == Py_None, most);
        first = NULL;
        if (!LIKELY(went == STEP_YIELDED || went == STEP_DONE)) {
            return went == STEP_ERROR ? -1 : went == STEP_ELSEWHERE;
        }
        int cut = overdue != Py_None && *most > 0 && k->runnable > 0 ? is_overdue(self, overdue) : 0;
        if (cut != 0) {
            return cut;
        }
    }
    return 0;
}

/* run(left, overdue) -> (left, whether the batch was cut short): at most `left` steps while anything is runnable. */
static PyObject *
driver_run(Driver *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "run() takes two arguments: the steps left, and the test whether time is up");
        return NULL;
    }
    long most = PyLong_AsLong(args[0]);
    if (most == -1 && PyErr_Occurred()) {
        return NULL;
    }
    ModuleState *st = self->kernel->st;
    int counted = !self->checked && !self->anywhere; /* otherwise each poll counts itself */
    st->polls += counted;
    int cut = batch(self, &most, args[1]);
    st->polls -= counted;
    return leave_context(self, cut < 0) ? NULL : Py_BuildValue("lO", most, cut > 0 ? Py_True : Py_False);
}

static PyObject *
driver_make(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(type);
    PyObject *kernel;
    if (st == NULL || !PyArg_ParseTuple(args, "O!:Driver", st->Kernel, &kernel)) {
        return NULL;
    }
    Driver *self = (Driver *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->kernel = (Kernel *)Py_NewRef(kernel);
        self->start_ns = -1;
        self->resume = resume_new(st);
        if (self->resume == NULL) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static int
driver_traverse(Driver *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->kernel);
    Py_VISIT(self->clock);
    Py_VISIT(self->meter);
    Py_VISIT(self->collected);
    Py_VISIT(self->begun);
    Py_VISIT(self->ours);
    Py_VISIT(self->dispatched);
    Py_VISIT(self->resume);
    return 0;
}

static int
driver_clear(Driver *self)
{
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->meter);
    Py_CLEAR(self->collected);
    Py_CLEAR(self->begun);
    Py_CLEAR(self->ours);
    Py_CLEAR(self->dispatched);
    Py_CLEAR(self->resume);
    return 0;
}

static void
driver_dealloc(Driver *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    driver_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef driver_methods[] = {
    {"poll", (PyCFunction)driver_py_poll, METH_O, "Run a task that was just dispatched until its poll is over."},
    {"run", (PyCFunction)(void (*)(void))driver_run, METH_FASTCALL, "At most so many steps."},
    {NULL, NULL, 0, NULL},
};

static int
set_clock(Driver *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(self->clock, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

static PyObject *
get_clock(Driver *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->clock ? self->clock : Py_None);
}

static int
set_meter(Driver *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(self->meter, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    self->metered = self->meter != NULL;
    return 0;
}

static PyObject *
get_meter(Driver *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->meter ? self->meter : Py_None);
}

static int
set_ours(Driver *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyList_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "ours must be a list of code objects");
        return -1;
    }
    Py_XSETREF(self->ours, Py_NewRef(value));
    return 0;
}

static PyObject *
get_ours(Driver *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->ours ? self->ours : Py_None);
}

static int
set_held(Driver *self, PyObject *value, void *Py_UNUSED(closure))
{
    int held = value == NULL ? 0 : PyObject_IsTrue(value);
    Kernel *k = self->kernel;
    if (held < 0) {
        return -1;
    }
    if (held && k->st->gc_aside_works && !k->gc_aside.open) {
        gc_aside_open(&k->gc_aside);
    } else if (!held && k->gc_aside.open) {
        gc_aside_close(&k->gc_aside, (PyObject *)k); /* ASIDE-2 */
    }
    self->held = held != 0;
    return 0;
}

static PyObject *
get_held(Driver *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->held);
}

static PyGetSetDef driver_getset[] = {
    {"held", (getter)get_held, (setter)set_held, NULL, NULL},
    {"ours", (getter)get_ours, (setter)set_ours, NULL, NULL},
    {"meter", (getter)get_meter, (setter)set_meter, NULL, NULL},
    {"clock", (getter)get_clock, (setter)set_clock, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef driver_members[] = {
    {"kernel", T_OBJECT, offsetof(Driver, kernel), READONLY, NULL},
    {"start_ns", T_LONGLONG, offsetof(Driver, start_ns), 0, NULL},
    {"collected", T_OBJECT, offsetof(Driver, collected), 0, NULL},
    {"begun", T_OBJECT, offsetof(Driver, begun), 0, NULL},
    {"aborting", T_BOOL, offsetof(Driver, aborting), 0, NULL},
    {"stopped", T_BOOL, offsetof(Driver, stopped), 0, NULL},
    {"measured", T_BOOL, offsetof(Driver, measured), 0, NULL},
    {"checked", T_BOOL, offsetof(Driver, checked), 0, NULL},
    {"anywhere", T_BOOL, offsetof(Driver, anywhere), 0, NULL},
    {"dispatched", T_OBJECT, offsetof(Driver, dispatched), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot driver_slots[] = {
    {Py_tp_doc, "Drives the coroutine tasks of one kernel."},
    {Py_tp_new, driver_make},
    {Py_tp_traverse, driver_traverse},
    {Py_tp_clear, driver_clear},
    {Py_tp_dealloc, driver_dealloc},
    {Py_tp_methods, driver_methods},
    {Py_tp_getset, driver_getset},
    {Py_tp_members, driver_members},
    {0, NULL},
};

PyType_Spec driver_spec = {
    .name = "bursar._native.Driver",
    .basicsize = sizeof(Driver),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = driver_slots,
};
