/* The machine's context: what a switch saves, and the ways to change stacks.
 *
 * A context is only a stack pointer. Code that leaves a stack pushes the callee-saved registers of the calling
 * convention and the control words of floating point on that stack; the pointer to this frame is the context. Only
 * switch_x86_64.S and switch_aarch64.S know the layout of the frame. The signal handler that ends an overflown fiber
 * uses `context_abandon`, too.
 *
 * Rejected: `ucontext` (a system call for the signal mask at every switch, 275 ns); `setjmp` with changed stacks
 * (undefined, and glibc mangles and checks the pointer); inline assembly (the compiler must know what is lost, and
 * call frame information is missing).
 *
 * The contracts are SWITCH-1 to SWITCH-9 in INVARIANTS.md. */

#pragma once

#include <stdint.h>

/* Saves the running context in `*save` and continues the context `load`, which must not be continued again (SWITCH-3).
 * Returns when other code continues the saved context, with the `value` of that call.
 *
 * It may return on another thread. Do not use addresses of thread-local variables, such as `errno`, from before the call
 * (SWITCH-7). */
void *context_switch(void **save, void *load, void *value);

/* Saves the running context in `*save` and calls `entry(arg)` on an empty stack that ends at `top` (16-byte aligned,
 * SWITCH-4), with the control words of a new process (SWITCH-5). `entry` must never return (SWITCH-6). Returns as
 * `context_switch` does. */
void *context_start(void **save, void *top, void (*entry)(void *arg), void *arg);

/* Continues the context `load` with `value` and forgets the running one. */
_Noreturn void context_jump(void *load, void *value);

/* The same from any place, such as the middle of an overflown function: first clears what the calling convention
 * wants clear (direction flag, x87 register stack). */
_Noreturn void context_abandon(void *load, void *value);

/* Calls `body(arg)` on the running stack and returns NULL when `body` returns. Until then `*save` is a context: after
 * `context_abandon(*save, value)` the frames of `body` are dropped, and this function returns `value`. */
void *context_call(void **save, void (*body)(void *arg), void *arg);

/* The result of a body: its answer, and the address to which the processor expects it to return. */
struct context_visit {
    int64_t answer;
    const void *guess;
};

typedef struct context_visit (*context_body)(void *a, void *b, const void *from);

/* Calls `body(a, b, from)` on the running stack and returns its answer to `from`, the caller's address. This is for a
 * body that may change stacks: one fiber enters it and another one leaves it. The processor predicts a return to the
 * address that the first fiber came from; the body returns that address as `guess`. If `guess` is not `from`, the
 * function leaves by a jump, which is predicted by its own history. A wrong guess costs only time (SWITCH-9). */
#if defined(__x86_64__)
int64_t context_visit(context_body body, void *a, void *b);
#else
static inline int64_t
context_visit(context_body body, void *a, void *b)
{
    return body(a, b, 0).answer;
}
#endif
