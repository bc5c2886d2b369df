/* Cancel tokens: a request to stop that can be passed around, waited on by nobody, and heard by whoever asked to be called.
 *
 * Tokens form trees. A cancellation marks a token and everything below it in one walk, under one lock, and takes the
 * callbacks that are due; they are called afterwards, without a lock, by whoever cancelled: a task, a thread, or the
 * thread of the timers if a time ran out. A nursery that somebody has a token of is the root of such a tree: a token
 * that nobody holds stands for it there, and the engine calls when it is cancelled (SchedulerOptions.cancel_hook).
 *
 * TOKEN-1  below a cancelled token everything is cancelled; the first reason stays
 * TOKEN-2  a callback is called once, or never if its token is destroyed before that
 * TOKEN-3  a token is kept until it is destroyed and has no children: so there is no table of children to run full
 * TOKEN-4  no lock is held while a callback runs
 *
 * All fields are under the runtime's tokens_lock. A timer's and a nursery's lock may be taken inside it, never around it.
 */
#pragma once

#include "abi/abi.h"

typedef struct Token {
    SlabHead head;
    struct Token *parent;
    LawQueue children;
    LawLink sibling;
    LawQueue callbacks;
    int8_t reason; /* janus_reason */
    bool destroyed, stands_for_nursery;
    Nursery *nursery; /* the nursery that it is of, or NULL */
    uint32_t nursery_generation;
    Alarm alarm;
} Token;

typedef struct {
    SlabHead head;
    LawLink link;
    janus_cancel_fn fn;
    void *arg;
    int8_t reason; /* once it is due */
} Callback;

/* SchedulerOptions.cancel_hook: `context` is the Runtime. */
void tokens_nursery_cancelled(void *context, Nursery *nursery, uint32_t generation, LawCancelKind kind);
