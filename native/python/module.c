/* The extension module bursar._native.
 *
 * Today it holds no scheduler: it proves that the road from C to Python is open on this machine, and tells
 * `bursar info` what it was built with. The law in C will live beside it, in native/law, file for file like
 * src/bursar/law; its Python types will come one file each into this folder, and KERNEL will then be True.
 *
 * Invariants:
 *   1. Nothing here changes after load: no static state, so each interpreter may load its own copy.
 *   2. Nothing here needs the GIL: a free-threaded interpreter stays free-threaded after the import.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Clang also defines __GNUC__, so it is asked for first. */
#if defined(__clang__)
#  define COMPILER_NAME "clang"
#  define COMPILER_VERSION TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#elif defined(__GNUC__)
#  define COMPILER_NAME "gcc"
#  define COMPILER_VERSION TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__)
#elif defined(_MSC_VER)
#  define COMPILER_NAME "msvc"
#  define COMPILER_VERSION TEXT(_MSC_VER)
#else
#  define COMPILER_NAME "unknown"
#  define COMPILER_VERSION "unknown"
#endif

#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#  error "bursar._native needs a C11 compiler"
#elif __STDC_VERSION__ >= 202311L
#  define C_STANDARD "C23"
#elif __STDC_VERSION__ >= 201710L
#  define C_STANDARD "C17"
#else
#  define C_STANDARD "C11"
#endif

PyDoc_STRVAR(build_info_doc,
"build_info()\n--\n\n"
"What this extension was built with: compiler, compiler_version, c_standard, python.");

/* Returns a new dict of strings, or NULL with MemoryError set. */
static PyObject *
build_info(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return Py_BuildValue("{s:s, s:s, s:s, s:s}",
                         "compiler", COMPILER_NAME,
                         "compiler_version", COMPILER_VERSION,
                         "c_standard", C_STANDARD,
                         "python", PY_VERSION);
}

/* Fills a fresh module. Returns 0, or -1 with an exception set. */
static int
module_exec(PyObject *module)
{
    return PyModule_AddObjectRef(module, "KERNEL", Py_False);
}

static PyMethodDef module_methods[] = {
    {"build_info", build_info, METH_NOARGS, build_info_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

PyDoc_STRVAR(module_doc,
"The native part of Bursar. KERNEL says whether it holds a kernel; build_info() what built it.");

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "bursar._native",
    .m_doc = module_doc,
    .m_size = 0,
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&module_def);
}
