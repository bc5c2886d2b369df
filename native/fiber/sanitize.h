/* What AddressSanitizer and ThreadSanitizer must know about changes of stacks. Empty without them.
 *
 * AddressSanitizer keeps the bounds of the running stack, and a fake stack beside it if it looks for uses after
 * return. ThreadSanitizer keeps a history and a call stack per thread of control; here that is one per run of a
 * stack. The code announces a switch before it and confirms it afterwards, and unpoisons frames that are dropped
 * without returning.
 *
 * Invariants
 *   SANITIZE-1  Between `sanitize_leave` and the switch, and between the switch and `sanitize_arrive`, no instrumented
 *       function is called.
 *   SANITIZE-2  ThreadSanitizer notes each call and return of a function in the history of the running thread of control.
 *       So the function that changes the thread of control must also make the switch: everything here is always
 *       inlined. */

#pragma once

#include "hints.h"

#include <stddef.h>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define SANITIZE_ADDRESS 1
#  endif
#  if __has_feature(thread_sanitizer)
#    define SANITIZE_THREAD 1
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(SANITIZE_ADDRESS)
#  define SANITIZE_ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(SANITIZE_THREAD)
#  define SANITIZE_THREAD 1
#endif
#ifndef SANITIZE_ADDRESS
#  define SANITIZE_ADDRESS 0
#endif
#ifndef SANITIZE_THREAD
#  define SANITIZE_THREAD 0
#endif

#if SANITIZE_ADDRESS
#  include <sanitizer/asan_interface.h>
#  include <sanitizer/common_interface_defs.h>
#endif
#if SANITIZE_THREAD
#  include <sanitizer/tsan_interface.h>
extern void __tsan_func_entry(void *caller);
#endif

/* For a function that continues after its own (fake) stack was given up. */
#if SANITIZE_ADDRESS
#  define SANITIZE_NOT NOINLINE __attribute__((no_sanitize("address")))
#else
#  define SANITIZE_NOT
#endif

#if !(SANITIZE_ADDRESS || SANITIZE_THREAD)

#  define SANITIZE(statement)
#  define SANITIZE_STACK_FIELDS
#  define SANITIZE_RUNNER_FIELDS

#else

#  define SANITIZE(statement) statement
#  define SANITIZE_STACK_FIELDS struct sanitize_place here, back;  /* what runs on the stack, and what resumed it */
#  define SANITIZE_RUNNER_FIELDS struct sanitize_place home_place; /* the thread that the runner came from */

/* One thread of control: the bounds of its stack and its handles. */
struct sanitize_place {
    const void *bottom;
    size_t bytes;
    void *fake;
    void *thread;
};

/* Notes the place that the running code is about to leave. */
static ALWAYS_INLINE void
sanitize_note(struct sanitize_place *place)
{
#  if SANITIZE_THREAD
    place->thread = __tsan_get_current_fiber();
#  else
    (void)place;
#  endif
}

/* A new run begins on a stack. The handle of the earlier run is destroyed. */
static ALWAYS_INLINE void
sanitize_begin(struct sanitize_place *place, const void *bottom, const void *top)
{
    place->bottom = bottom;
    place->bytes = (size_t)((const char *)top - (const char *)bottom);
    place->fake = NULL;
#  if SANITIZE_ADDRESS
    __asan_unpoison_memory_region(bottom, place->bytes);
#  endif
#  if SANITIZE_THREAD
    if (place->thread != NULL) {
        __tsan_destroy_fiber(place->thread);
    }
    place->thread = __tsan_create_fiber(0);
#  endif
}

/* A stack goes away. */
static ALWAYS_INLINE void
sanitize_end(struct sanitize_place *place)
{
#  if SANITIZE_THREAD
    if (place->thread != NULL) {
        __tsan_destroy_fiber(place->thread);
    }
#  endif
    place->thread = NULL;
}

/* Before a switch. `from` is NULL if no switch will come back to it. */
static ALWAYS_INLINE void
sanitize_leave(struct sanitize_place *from, const struct sanitize_place *to)
{
#  if SANITIZE_ADDRESS
    __sanitizer_start_switch_fiber(from == NULL ? NULL : &from->fake, to->bottom, to->bytes);
#  else
    (void)from;
#  endif
#  if SANITIZE_THREAD
    __tsan_switch_to_fiber(to->thread, 0);
#  else
    (void)to;
#  endif
}

/* After a switch. Stores in `*from`, unless NULL, the bounds of the stack that control came from. */
static ALWAYS_INLINE void
sanitize_arrive(const struct sanitize_place *here, struct sanitize_place *from)
{
#  if SANITIZE_ADDRESS
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(here->fake, &bottom, &bytes);
    if (from != NULL) {
        from->bottom = bottom;
        from->bytes = bytes;
    }
#  else
    (void)here, (void)from;
#  endif
}

/* Before a context is abandoned for one on another stack, perhaps in a signal handler. ThreadSanitizer must not be
 * switched inside its own handler: the code that continues calls `sanitize_landed`. */
static ALWAYS_INLINE void
sanitize_abandon(const struct sanitize_place *to)
{
#  if SANITIZE_ADDRESS
    __sanitizer_start_switch_fiber(NULL, to->bottom, to->bytes);
#  else
    (void)to;
#  endif
}

static ALWAYS_INLINE void
sanitize_landed(const struct sanitize_place *here)
{
#  if SANITIZE_THREAD
    __tsan_switch_to_fiber(here->thread, 0);
#  else
    (void)here;
#  endif
}

/* After the frames between `low` and `high` of the running stack were dropped. ThreadSanitizer counts calls and
 * returns, and the dropped frames never return. So it gets a new call stack, with more calls on it than will return. */
static ALWAYS_INLINE void
sanitize_dropped(struct sanitize_place *place, const void *low, const void *high)
{
#  if SANITIZE_ADDRESS
    __asan_unpoison_memory_region(low, (size_t)((const char *)high - (const char *)low));
#  else
    (void)low, (void)high;
#  endif
#  if SANITIZE_THREAD
    void *old = place->thread;
    place->thread = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(place->thread, 0);
    __tsan_destroy_fiber(old);
    for (int spare = 0; spare < 64; spare++) {
        __tsan_func_entry(__builtin_return_address(0));
    }
#  else
    (void)place;
#  endif
}

#endif
