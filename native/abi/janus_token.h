/* Cancel tokens: requests to stop that a program can pass around.
 *
 * Tokens form trees. A cancellation marks a token and all tokens below it in one walk, under one lock, and collects
 * their callbacks. Then the task or thread that cancels calls the callbacks, without a lock; if a time limit has
 * passed, the thread that fires timers does. A nursery whose token a program asked for has a root token, which no
 * program holds: the tokens of the nursery are its children. The engine reports the nursery's cancellation to it
 * (SchedulerOptions.cancel_hook).
 *
 * TOKEN-1  everything below a cancelled token is cancelled; the first reason stays
 * TOKEN-2  a callback is called once, or never if its token is destroyed first
 * TOKEN-3  a token is kept until it is destroyed and has no children: so no table of children can become full
 * TOKEN-4  no lock is held while a callback runs
 *
 * All fields are under the runtime's tokens_lock. The locks of timers and nurseries may be taken while it is held,
 * but it may not be taken while they are.
 */
#pragma once

#include "engine/scheduler.h"
#include "include/janus_rt.h"

typedef struct Token {
    SlabHead head;
    struct Token *parent;
    struct Token *top; /* of its tree; itself without a parent. It is kept as long as any token below it (TOKEN-3) */
    LawQueue children;
    LawLink sibling;
    LawQueue callbacks;
    int8_t reason; /* janus_reason */
    bool destroyed, is_nursery_root;
    Nursery *nursery; /* that this token is of, or NULL */
    uint32_t nursery_generation;
    Alarm alarm;
} Token;

typedef struct {
    SlabHead head;
    LawLink link;
    janus_cancel_fn fn;
    void *arg;
    int8_t reason; /* set when the callback is due */
} Callback;

/* SchedulerOptions.cancel_hook: `context` is the Runtime. */
void tokens_nursery_cancelled(void *context, Nursery *nursery, uint32_t generation, LawCancelKind kind);
