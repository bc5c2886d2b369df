/* The differences between CPython 3.11 to 3.14, in one place.
 *
 * Functions are public API somewhere in that range. Layouts that are private to CPython are used only where
 * BURSAR_PRIVATE_LAYOUTS allows it; docs/internals/cpython.md lists them, with the reasons.
 */

#pragma once

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "hints.h"

#if PY_VERSION_HEX < 0x030B0000
#  error "Bursar needs CPython 3.11 or later"
#endif

/* Whether the build may use layouts that are private to CPython: the collector's words in front of an object, the mapping of
 * a context, and what makes a free record an object again. The CMake option BURSAR_PRIVATE_LAYOUTS says so. Without them the
 * documented API takes their place: the decisions are the same, at a higher cost. */
#ifndef BURSAR_PRIVATE_LAYOUTS
#  define BURSAR_PRIVATE_LAYOUTS 1
#endif

/* 3.12 has the normalized exception as one object; before, it is fetched in three parts. */
#if PY_VERSION_HEX < 0x030C0000
static inline PyObject *
PyErr_GetRaisedException(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    if (value == NULL || (PyObject *)Py_TYPE(value) != type) { /* otherwise it is normalized already: the usual case */
        PyErr_NormalizeException(&type, &value, &traceback);
    }
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
    }
    Py_DECREF(type);
    return value;
}

static inline void
PyErr_SetRaisedException(PyObject *error)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
}
#endif

/* The exception of a call that failed, removed from the thread's state; a new reference. An interpreter without memory may
 * fail without an exception, which must not look like success. */
static inline PyObject *
taken_error(void)
{
    PyObject *error = PyErr_GetRaisedException();
    if (error == NULL) {
        PyErr_SetString(PyExc_SystemError,
                        "a call returned NULL without setting an exception; is there no memory left?");
        error = PyErr_GetRaisedException();
    }
    return error;
}

/* The thread state that holds the GIL in this thread, or NULL. 3.13 has it under a public name. */
#if PY_VERSION_HEX < 0x030D0000
#  define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
#endif

/* The code object of a coroutine; a new reference. 3.12 has a public function for it. */
static inline PyObject *
coroutine_code(PyObject *coroutine)
{
#if !BURSAR_PRIVATE_LAYOUTS
    return PyObject_GetAttrString(coroutine, "cr_code");
#elif PY_VERSION_HEX < 0x030C0000
    return Py_NewRef((PyObject *)((PyCoroObject *)coroutine)->cr_code);
#else
    return (PyObject *)PyGen_GetCode((PyGenObject *)coroutine);
#endif
}

/* `PyIter_Send`, shorter for the usual case of a coroutine. */
static inline PySendResult
coroutine_send(PyObject *work, PyObject *sent, PyObject **result)
{
    return PyCoro_CheckExact(work) ? PyCoro_Type.tp_as_async->am_send(work, sent, result)
                                   : PyIter_Send(work, sent, result);
}

/* `PyObject_Vectorcall` for an object that is known to be a Python function. */
static inline PyObject *
function_call(PyObject *function, PyObject *const *args, size_t n)
{
    return ((PyFunctionObject *)function)->vectorcall(function, args, n, NULL);
}

/* 3.13 has this function. */
#if PY_VERSION_HEX < 0x030D0000
static inline int
PyDict_GetItemRef(PyObject *dict, PyObject *key, PyObject **result)
{
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (found == NULL) {
        *result = NULL;
        return PyErr_Occurred() ? -1 : 0;
    }
    *result = Py_NewRef(found);
    return 1;
}
#endif

/* Whether the collector keeps tracked objects in one ring per generation. 3.14.0 to 3.14.4 collect in increments and put
 * flags into the links; a free-threaded collector has no links. The running interpreter is checked, because one build serves
 * all of 3.14. Later versions are not known. */
static inline bool
collector_has_rings(void)
{
#ifdef Py_GIL_DISABLED
    return false;
#else
    return Py_Version < 0x030E0000 || (Py_Version >= 0x030E0500 && Py_Version < 0x030F0000);
#endif
}

/* 3.14 counts tracked objects when they enter and leave a ring; earlier versions have only the links. */
#define BURSAR_TRACKED_IS_COUNTED (PY_VERSION_HEX >= 0x030E0000)

/* Free lists need `_Py_NewReference`, which is private. In a free-threaded interpreter, threads would share them. Without free
 * lists, every record is newly allocated. */
#if defined(Py_GIL_DISABLED) || !BURSAR_PRIVATE_LAYOUTS
#  define BURSAR_FREE_LISTS 0
#else
#  define BURSAR_FREE_LISTS 1
#endif

/* The two words of the collector in front of an object, which are private to CPython. `free_try` in freelist.c tests their
 * place when the module is loaded. They are the object's neighbours in its list; apart from the flags, both are zero while
 * the object is in no list. */
typedef struct GcHead {
    uintptr_t next;
    uintptr_t previous; /* with two flags in its low bits */
} GcHead;

enum { HEAD_FLAGS = 3 };

#if BURSAR_PRIVATE_LAYOUTS
static inline GcHead *
head_of(PyObject *record)
{
    return (GcHead *)(void *)record - 1;
}
#endif
