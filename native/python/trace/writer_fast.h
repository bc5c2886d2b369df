/* When the trace writer may be used instead of the observer in Python. Its slow twin is `k_note`, which calls the observer.
 *
 * `trace_writer_of` asks the first condition once, when the kernel gets an observer. `trace_writer_write` asks the second
 * for every record with a text.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/trace/writer.h"

/* Whether the attribute `trace_writer` of an observer is a trace writer that is ready for use. */
static inline bool
is_plain_trace_writer(ModuleState *st, PyObject *found)
{
    return FAST_PATHS && PyObject_TypeCheck(found, st->TraceWriter) && ((TraceWriter *)found)->take != NULL;
}

/* Whether a text is recorded unchanged: `brief` would not shorten it, and each of its bytes is a character. */
static inline bool
is_plain_text(PyObject *text)
{
    return text == NULL ||
           (PyUnicode_CheckExact(text) && PyUnicode_IS_ASCII(text) && PyUnicode_GET_LENGTH(text) <= LAW_TEXT_MAX);
}
