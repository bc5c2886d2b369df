/* Terms: what tasks of equal spawns have in common, in one record instead of in each task.
 *
 * In src/bursar/law each task has the three fields itself. Terms never change, because other tasks may share them: a
 * task whose capabilities are set gets new terms. Python reads the fields as attributes of the task.
 */

#include "python/law/spawn_terms.h"

static int
spawn_terms_traverse(SpawnTerms *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->pools);
    Py_VISIT(self->capabilities);
    Py_VISIT(self->spawn_cap);
    return 0;
}

static int
spawn_terms_clear(SpawnTerms *self)
{
    Py_CLEAR(self->pools);
    Py_CLEAR(self->capabilities);
    Py_CLEAR(self->spawn_cap);
    return 0;
}

static void
spawn_terms_dealloc(SpawnTerms *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    spawn_terms_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot spawn_terms_slots[] = {
    {Py_tp_doc, (void *)"What tasks of equal spawns have in common."},
    {Py_tp_dealloc, (void *)spawn_terms_dealloc},
    {Py_tp_traverse, (void *)spawn_terms_traverse},
    {Py_tp_clear, (void *)spawn_terms_clear},
    {0, NULL},
};

PyType_Spec spawn_terms_spec = {
    .name = "bursar._native.SpawnTerms",
    .basicsize = (int)sizeof(SpawnTerms),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = spawn_terms_slots,
};

SpawnTerms *
spawn_terms_new(ModuleState *st, PyObject *pools, PyObject *capabilities, PyObject *spawn_cap)
{
    SpawnTerms *terms = (SpawnTerms *)st->SpawnTerms->tp_alloc(st->SpawnTerms, 0);
    if (terms != NULL) {
        terms->pools = Py_NewRef(pools);
        terms->capabilities = Py_NewRef(capabilities);
        terms->spawn_cap = Py_XNewRef(spawn_cap);
    }
    return terms;
}
