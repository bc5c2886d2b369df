/* The record of the kernel: how it is made, visited by the collector, and freed. After law/kernel.py.
 *
 * The actions of the kernel are in dispatch.c, dispatch_wake.c, ledger.c, spawn.c, nursery_ops.c, task_end.c, timers.c
 * and cancel.c. Its attributes and methods for Python are in kernel_py.c.
 */

#include "python/law/kernel.h"
#include "python/law/kernel_caches.h"
#include "python/law/nursery.h"
#include "python/law/pool.h"
#include "python/law/timers.h"
#include "python/law/worker.h"

/* ---- making and freeing */

PyObject *
kernel_make(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(type);
    if (st == NULL || !st->adopted) {
        PyErr_SetString(PyExc_RuntimeError, "bursar._native has no law yet: import bursar.backend first");
        return NULL;
    }
    Kernel *self = (Kernel *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->st = st;
        law_queue_init(&self->injector);
    }
    return (PyObject *)self;
}

bool
kernel_is_whole(const Kernel *k)
{
    if (k->root == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this kernel is not initialized; make it by calling its class");
        return false;
    }
    return true;
}

static int
make_workers(Kernel *k, uint64_t seed, int n)
{
    k->workers = PyTuple_New(n);
    k->order = PyMem_Calloc((size_t)n, sizeof(int));
    if (k->workers == NULL || k->order == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return -1;
    }
    for (int i = 0; i < n; i++) {
        Worker *worker = worker_new(k->st, i, seed);
        if (worker == NULL) {
            return -1;
        }
        PyTuple_SET_ITEM(k->workers, i, (PyObject *)worker);
        k->order[i] = i;
    }
    k->n_workers = k->place = n;
    k->only = n == 1 ? (Worker *)PyTuple_GET_ITEM(k->workers, 0) : NULL;
    return 0;
}

/* (seed, workers, policy, yield_interval, cleanup_ops, cleanup_ns, inherit, default_spawns, budget, registry, revoked,
 * counters): positional, because only bursar.backend calls it. */
int
kernel_init(Kernel *k, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    unsigned long long seed;
    int workers, policy, inherit;
    long long interval, ops, ns;
    PyObject *spawns, *budget, *registry, *counters, *revoked;
    if (!PyArg_ParseTuple(args, "KiiLLLpOOOOO", &seed, &workers, &policy, &interval, &ops, &ns, &inherit, &spawns,
                          &budget, &registry, &revoked, &counters)) {
        return -1;
    }
    if (k->workers != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this kernel is initialized already");
        return -1;
    }
    k->policy = (LawStealPolicy)policy;
    k->yield_interval = interval;
    k->turn = interval > INT32_MAX ? INT32_MAX : (int32_t)interval;
    k->cleanup_ops = ops;
    k->cleanup_ns = ns;
    k->inherit = inherit != 0;
    k->default_spawns = Py_NewRef(spawns);
    k->registry = Py_NewRef(registry);
    k->revoked = Py_NewRef(revoked);
    k->counters = Py_NewRef(counters);
    k->next_id = 1;
    k->chain = law_seed_chain(seed, (uint64_t)workers);
    k->rounds = law_random_init(seed, 0);
    k->draining_holders = PyDict_New();
    k->timers = timers_new(k->st, k);
    PyObject *pools = pools_root(k->st, budget), *none = PyDict_New();
    PyObject *name = PyUnicode_FromString("the root nursery");
    if (k->draining_holders != NULL && k->timers != NULL && pools != NULL && none != NULL && name != NULL &&
        make_workers(k, seed, workers) == 0) {
        k->root = nursery_new(k, k->next_id++, name, NULL, pools, pools, none);
    }
    Py_XDECREF(pools);
    Py_XDECREF(none);
    Py_XDECREF(name);
    return k->root == NULL ? -1 : 0;
}

int
kernel_traverse(Kernel *k, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(k));
    Py_VISIT(k->workers);
    Py_VISIT(k->draining_holders);
    Py_VISIT(k->timers);
    Py_VISIT(k->registry);
    Py_VISIT(k->observer);
    Py_VISIT(k->trace_writer);
    Py_VISIT(k->counters);
    Py_VISIT(k->root);
    Py_VISIT(k->runtime);
    Py_VISIT(k->gate);
    Py_VISIT(k->postponed.promised);
    Py_VISIT(k->revoked);
    Py_VISIT(k->deferred_error);
    return caches_visit(&k->caches, visit, arg);
}

/* Take every task out of its lane, before anything that may free a task: the lanes only borrow tasks (RECORD-1). */
static void
empty_lanes(Kernel *k)
{
    for (int i = 0; k->workers != NULL && i < k->n_workers; i++) {
        worker_empty((Worker *)PyTuple_GET_ITEM(k->workers, i));
    }
    LawLink *link;
    while ((link = law_queue_take_oldest(&k->injector)) != NULL) {
        LAW_RECORD(link, Task, link)->lane = LAW_LANE_IDLE;
    }
    k->runnable = 0;
    k->current = NULL;
    k->at = NULL;
}

int
kernel_clear(Kernel *k)
{
    empty_lanes(k);
    if (k->timers != NULL) {
        k->timers->kernel = NULL; /* Python code may still hold the timers */
    }
    Py_CLEAR(k->root);
    Py_CLEAR(k->timers);
    Py_CLEAR(k->draining_holders);
    Py_CLEAR(k->registry);
    Py_CLEAR(k->observer);
    Py_CLEAR(k->trace_writer);
    Py_CLEAR(k->counters);
    Py_CLEAR(k->runtime);
    Py_CLEAR(k->gate);
    caches_clear(&k->caches);
    Py_CLEAR(k->postponed.promised);
    Py_CLEAR(k->revoked);
    Py_CLEAR(k->deferred_error);
    return 0;
}

void
kernel_dealloc(Kernel *k)
{
    PyTypeObject *type = Py_TYPE(k);
    PyObject_GC_UnTrack(k);
    kernel_clear(k);
    k->only = NULL;
    Py_CLEAR(k->workers);
    Py_CLEAR(k->default_spawns);
    PyMem_Free(k->order);
    type->tp_free(k);
    Py_DECREF(type);
}
