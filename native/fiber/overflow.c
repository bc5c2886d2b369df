/* The handler for guards that were hit: see overflow.h. */

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include "fiber/overflow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "fiber/arena.h"
#include "fiber/context.h"
#include "fiber/fiber.h"

/* What the handler itself needs, in addition to the kernel's signal frame (up to 11 KiB). */
#define OVERFLOW_STACK_BYTES ((size_t)64 << 10)

static const int signals[] = {SIGSEGV, SIGBUS};
#define SIGNALS (sizeof signals / sizeof *signals)

/* Static, because signal handlers belong to the process. `former` is written before the handler is installed
 * (OVERFLOW-5). */
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static bool installed[SIGNALS];
static struct sigaction former[SIGNALS];

/* The stack pointer of the interrupted code. */
static const void *
interrupted_sp(const ucontext_t *at)
{
#if defined(__x86_64__)
    return (const void *)at->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (const void *)at->uc_mcontext.sp;
#else
#  error "no context switch for this machine"
#endif
}

/* Makes the interrupted code continue with context_abandon(load, value) when the handler returns. Sets the stack
 * pointer too, because nothing may be pushed on the overflown stack. */
static void
redirect(ucontext_t *at, void *load, void *value)
{
#if defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RSP] = (greg_t)load;
    at->uc_mcontext.gregs[REG_RDI] = (greg_t)load;
    at->uc_mcontext.gregs[REG_RSI] = (greg_t)value;
    at->uc_mcontext.gregs[REG_RIP] = (greg_t)context_abandon;
#elif defined(__aarch64__)
    at->uc_mcontext.sp = (uintptr_t)load;
    at->uc_mcontext.regs[0] = (uintptr_t)load;
    at->uc_mcontext.regs[1] = (uintptr_t)value;
    at->uc_mcontext.pc = (uintptr_t)context_abandon;
#endif
}

/* The stack whose running owner has hit its own guard; NULL for any other fault (OVERFLOW-2). */
static struct stack *
overflown(const void *address, const void *sp)
{
    struct stack *stack = stack_find(sp);
    if (stack == NULL || stack_find(address) != stack || (const char *)address >= stack->limit) {
        return NULL;
    }
    return stack->owner != NULL && stack->owner->state == FIBER_RUNNING ? stack : NULL;
}

/* Does what would have happened without this handler (OVERFLOW-3). */
static void
pass_on(size_t which, int signal, siginfo_t *info, void *at)
{
    const struct sigaction *action = &former[which];
    if ((action->sa_flags & SA_SIGINFO) != 0) {
        action->sa_sigaction(signal, info, at);
        return;
    }
    if (action->sa_handler == SIG_IGN && info->si_code <= 0) {
        return; /* a signal that was sent may be ignored; a fault may not */
    }
    if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
        action->sa_handler(signal);
        return;
    }
    /* The faulting instruction runs again, now without a handler. A signal that was sent must be sent again. */
    struct sigaction fatal;
    memset(&fatal, 0, sizeof fatal);
    fatal.sa_handler = SIG_DFL;
    sigaction(signal, &fatal, NULL);
    if (info->si_code <= 0) {
        raise(signal);
    }
}

static SANITIZE_NOT void
on_fault(int signal, siginfo_t *info, void *at)
{
    int error = errno;
    struct stack *stack = info->si_code > 0 ? overflown(info->si_addr, interrupted_sp(at)) : NULL;
    if (stack != NULL) {
        redirect(at, fiber_mark_panicked(stack, FIBER_PANIC_OVERFLOW, 0, info->si_addr), stack);
    } else {
        pass_on(signal == signals[0] ? 0 : 1, signal, info, at);
    }
    errno = error;
}

/* Puts the former handlers back where ours are still in place. Under the lock. */
static void
uninstall(void)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        if (installed[i] && sigaction(signals[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
            now.sa_sigaction == on_fault && sigaction(signals[i], &former[i], NULL) == 0) {
            installed[i] = false;
        }
    }
}

int
overflow_install(void)
{
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    int error = 0;
    pthread_mutex_lock(&install_lock);
    for (size_t i = 0; i < SIGNALS && error == 0; i++) {
        if (installed[i]) {
            continue;
        }
        if (sigaction(signals[i], NULL, &former[i]) != 0 || sigaction(signals[i], &ours, NULL) != 0) {
            error = errno;
        } else {
            installed[i] = true;
        }
    }
    if (error == 0) {
        users++;
    } else if (users == 0) {
        uninstall();
    }
    pthread_mutex_unlock(&install_lock);
    return error;
}

void
overflow_remove(void)
{
    pthread_mutex_lock(&install_lock);
    if (users > 0 && --users == 0) {
        uninstall();
    }
    pthread_mutex_unlock(&install_lock);
}

int
overflow_thread_enter(struct overflow_thread *thread, const struct stack_system *system)
{
    memset(thread, 0, sizeof *thread);
    thread->system = system == NULL ? &stack_system_linux : system;
    long kernel_bytes = sysconf(_SC_MINSIGSTKSZ);
    size_t bytes = OVERFLOW_STACK_BYTES + (kernel_bytes > 0 ? (size_t)kernel_bytes : 0);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    stack_t former_stack;
    if (sigaltstack(NULL, &former_stack) != 0) {
        return errno;
    }
    if ((former_stack.ss_flags & SS_DISABLE) == 0 && former_stack.ss_size >= OVERFLOW_STACK_BYTES / 4) {
        return 0;
    }
    void *base = thread->system->map(thread->system->context, bytes);
    if (base == NULL) {
        return errno;
    }
    stack_t ours = {.ss_sp = base, .ss_size = bytes, .ss_flags = 0};
    if (sigaltstack(&ours, NULL) != 0) {
        int error = errno;
        (void)thread->system->unmap(thread->system->context, base, bytes);
        return error;
    }
    thread->former = former_stack;
    thread->base = base;
    thread->bytes = bytes;
    return 0;
}

void
overflow_thread_leave(struct overflow_thread *thread)
{
    if (thread->base != NULL) {
        sigaltstack(&thread->former, NULL);
        (void)thread->system->unmap(thread->system->context, thread->base, thread->bytes);
        thread->base = NULL;
    }
}
