/* The machine's context: what a switch saves, the five ways to change stacks, and the way back after one.
 *
 * A context is nothing but a stack pointer. Whoever leaves pushes what the machine's calling convention
 * calls "callee-saved" (and the control words of floating point) on its own stack; the pointer to that frame
 * is the context. What the frame looks like is known to switch_x86_64.S and switch_aarch64.S and to nobody
 * else: also the signal handler that ends an overflown fiber goes through `context_abandon`.
 *
 * Rejected: `ucontext` (a system call for the signal mask at every switch, 275 ns), `setjmp` on strange stacks
 * (undefined, and glibc mangles and checks the pointer), inline assembly (the compiler must be told what is
 * lost, and gets no call frame information).
 *
 * The contracts are SWITCH-1 to SWITCH-9 in INVARIANTS.md. */

#pragma once

#include <stdint.h>

/* Saves the running context, stores it in `*save`, and continues the context `load`. Returns when somebody
 * continues the saved context, with the `value` that was given there. `load` is used up (SWITCH-3).
 *
 * The thread may be another one after the return. Whatever was computed from thread-local storage before the
 * call, `errno`'s address included, must not be used after it (SWITCH-7). */
void *context_switch(void **save, void *load, void *value);

/* Saves the running context in `*save` and calls `entry(arg)` on an empty stack that ends at `top` (16-byte
 * aligned, SWITCH-4), with the control words of a new process (SWITCH-5). `entry` must never return (SWITCH-6). Returns as
 * `context_switch` does. */
void *context_start(void **save, void *top, void (*entry)(void *arg), void *arg);

/* Continues the context `load` with `value` and forgets the running one. */
_Noreturn void context_jump(void *load, void *value);

/* The same from a place that was not left in order, e.g. from the middle of an overflown function: clears first
 * what the calling convention wants clear (direction flag, x87 register stack). */
_Noreturn void context_abandon(void *load, void *value);

/* Calls `body(arg)` on the running stack and returns NULL when it returns. Meanwhile `*save` is a context: a
 * `context_abandon(*save, value)` drops everything that `body` has called, and this function returns `value`.
 * `*save` is worthless after the return. */
void *context_call(void **save, void (*body)(void *arg), void *arg);

/* What a visit comes to: its answer, and where the processor expects its return to lead. */
struct context_visit {
    int64_t answer;
    const void *guess;
};

typedef struct context_visit (*context_body)(void *a, void *b, const void *from);

/* Calls `body(a, b, from)` on the running stack and returns its answer to `from`. For a call that one fiber goes into
 * and, as the processor sees it, another one comes out of: it predicts the return to where the first one came from, and
 * whoever knows that place says so as `guess`. If it is not `from`, the return is a jump, which is predicted by its own
 * history. A wrong guess costs time and nothing else (SWITCH-9). */
#if defined(__x86_64__)
int64_t context_visit(context_body body, void *a, void *b);
#else
static inline int64_t
context_visit(context_body body, void *a, void *b)
{
    return body(a, b, 0).answer;
}
#endif
