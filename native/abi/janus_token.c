/* The C interface: cancel tokens. See token.h for what one is. */
#include "abi/token.h"

#include "abi/current.h"
#include "abi/select.h"

void
abi_slabs_init(Runtime *runtime, const EngineMemory *memory)
{
    slab_init(&runtime->selects, (sizeof(Select) + 15) / 16 * 16, NULL, memory);
    slab_init(&runtime->tokens, (sizeof(Token) + 15) / 16 * 16, NULL, memory);
    slab_init(&runtime->callbacks, (sizeof(Callback) + 15) / 16 * 16, NULL, memory);
}

void
abi_slabs_destroy(Runtime *runtime)
{
    slab_destroy(&runtime->selects);
    slab_destroy(&runtime->tokens);
    slab_destroy(&runtime->callbacks);
}

/* ---- looking. Everything here is under the lock */

/* A token that was destroyed has no handle any more; its record lives on while it has children. */
static Token *
find(const Visit *visit, void *handle)
{
    uint32_t generation;
    Token *token = handle_find(visit, HANDLE_TOKEN, handle, &generation);
    return token != NULL && !token->destroyed ? token : NULL;
}

/* What it stands for has ended: nobody will cancel it any more, and it counts as cancelled. */
static bool
is_gone(const Token *token)
{
    return token->nursery != NULL && load_u32(&token->nursery->head.generation, ACQUIRE) != token->nursery_generation;
}

/* Why it is cancelled, or JANUS_REASON_NONE. A nursery may be cancelled a moment before its tokens are (TOKEN-1). */
static int
reason_of(const Token *token)
{
    if (token->reason != JANUS_REASON_NONE) {
        return token->reason;
    }
    for (; token != NULL; token = token->parent) {
        if (token->reason != JANUS_REASON_NONE || is_gone(token) ||
            (token->nursery != NULL && nursery_cancelled(token->nursery))) {
            return JANUS_REASON_PARENT;
        }
    }
    return JANUS_REASON_NONE;
}

/* ---- cancelling */

/* The token after this one in a walk through all below `root`, with or without those below this one. */
static Token *
next_below(const Token *root, Token *token, bool with_children)
{
    LawLink *link = with_children ? law_queue_oldest(&token->children) : NULL;
    while (link == NULL && token != root) {
        link = law_queue_newer(&token->parent->children, &token->sibling);
        token = token->parent;
    }
    return link != NULL ? LAW_RECORD(link, Token, sibling) : NULL;
}

/* Mark a token and all below it (TOKEN-1), and take what is to be called. A nursery's reason is that of its tokens;
 * everybody else hears that it came from above. Under the lock. */
static void
mark_all(Token *root, int reason, LawQueue *due)
{
    bool fresh;
    for (Token *token = root; token != NULL; token = next_below(root, token, fresh)) {
        bool own = token == root || (token->parent == root && root->stands_for_nursery);
        fresh = token->reason == JANUS_REASON_NONE;
        if (!fresh) {
            continue; /* and so is all below it */
        }
        token->reason = (int8_t)(own ? reason : JANUS_REASON_PARENT);
        LawLink *link;
        while ((link = law_queue_take_oldest(&token->callbacks)) != NULL) {
            LAW_RECORD(link, Callback, link)->reason = token->reason;
            law_queue_append(due, link);
        }
    }
}

/* Call what is due, in the order of asking. Without a lock (TOKEN-4). */
static void
call_all(Runtime *runtime, LawQueue *due)
{
    LawLink *link;
    bool noted = calling_out(true);
    while ((link = law_queue_take_oldest(due)) != NULL) {
        Callback *callback = LAW_RECORD(link, Callback, link);
        janus_cancel_fn fn = callback->fn;
        void *arg = callback->arg;
        int reason = callback->reason;
        slab_give(&runtime->callbacks, callback);
        fn(arg, reason);
    }
    if (noted) {
        calling_out(false);
    }
}

/* Cancel a token, and the nursery that it is of. The lock is held, and is given. */
static void
cancel(Runtime *runtime, Token *token, int reason)
{
    LawQueue due;
    law_queue_init(&due);
    Nursery *nursery = token->nursery;
    uint32_t generation = token->nursery_generation;
    mark_all(token, reason, &due);
    lock_give(&runtime->tokens_lock);
    if (nursery != NULL) {
        (void)nursery_cancel_if(nursery, generation, (LawCancelKind)reason);
    }
    call_all(runtime, &due);
}

/* The token that stands for a nursery, or NULL. Under the lock. */
static Token *
standing_for(Runtime *runtime, Nursery *nursery, uint32_t generation)
{
    uint32_t watched = load_u32(&nursery->watched, RELAXED), used = 0;
    Token *token = watched != 0 ? slab_peek(&runtime->tokens, watched - 1, &used) : NULL;
    bool same = token != NULL && used % 2 == 1 && token->stands_for_nursery && token->nursery == nursery &&
                token->nursery_generation == generation;
    return same ? token : NULL;
}

void
tokens_nursery_cancelled(void *context, Nursery *nursery, uint32_t generation, LawCancelKind kind)
{
    Runtime *runtime = context;
    LawQueue due;
    law_queue_init(&due);
    lock_take(&runtime->tokens_lock);
    Token *token = standing_for(runtime, nursery, generation);
    if (token != NULL) {
        mark_all(token, (int)kind, &due);
    }
    lock_give(&runtime->tokens_lock);
    call_all(runtime, &due);
}

/* ---- making and freeing. Under the lock */

static Token *
make(Runtime *runtime, Token *parent, Nursery *nursery)
{
    Token *token = slab_take(&runtime->tokens);
    if (token == NULL) {
        return NULL;
    }
    token->parent = parent;
    law_queue_init(&token->children);
    law_queue_init(&token->callbacks);
    token->sibling = (LawLink){0};
    token->reason = JANUS_REASON_NONE;
    token->destroyed = token->stands_for_nursery = false;
    token->nursery = nursery;
    token->nursery_generation = nursery != NULL ? load_u32(&nursery->head.generation, RELAXED) : 0;
    token->alarm.waiter.timer = 0;
    if (parent != NULL) {
        int reason = reason_of(parent);
        law_queue_append(&parent->children, &token->sibling);
        token->reason =
            (int8_t)(reason == JANUS_REASON_NONE || parent->stands_for_nursery ? reason : JANUS_REASON_PARENT);
    }
    return token;
}

/* Free a token that nobody can reach any more, and those above it of which it was the last child (TOKEN-3). */
static void
release(Runtime *runtime, Token *token)
{
    while (token != NULL && token->destroyed && law_queue_empty(&token->children)) {
        Token *parent = token->parent;
        uint32_t place = token->head.index + 1;
        if (token->stands_for_nursery) { /* unless the record is another nursery's by now */
            (void)cas_u32(&token->nursery->watched, &place, 0, ACQ_REL);
        }
        if (parent != NULL) {
            law_queue_remove(&parent->children, &token->sibling);
        }
        slab_give(&runtime->tokens, token);
        token = parent;
    }
}

/* The token that stands for the caller's nursery; made if there is none, and then already cancelled if the nursery is. */
static Token *
stand_for(Runtime *runtime, Nursery *nursery)
{
    Token *token = standing_for(runtime, nursery, load_u32(&nursery->head.generation, RELAXED));
    if (token != NULL || (token = make(runtime, NULL, nursery)) == NULL) {
        return token;
    }
    token->destroyed = token->stands_for_nursery = true; /* nobody has its handle */
    store_u32(&nursery->watched, token->head.index + 1, RELAXED);
    fence_light(nursery->scheduler->idle.asymmetric); /* see nursery_tell */
    if (nursery_cancelled(nursery)) {
        token->reason = (int8_t)nursery_reason(nursery);
    }
    return token;
}

void *
janus_cancel_token_create(void)
{
    Visit visit = visit_begin_or_start();
    void *handle = NULL;
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = make(visit.runtime, NULL, NULL);
        handle = token != NULL ? handle_of(HANDLE_TOKEN, &token->head) : NULL;
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return handle;
}

void *
janus_nursery_get_token(void)
{
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    void *handle = NULL;
    if (nursery != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *root = stand_for(visit.runtime, nursery);
        Token *token = root != NULL ? make(visit.runtime, root, nursery) : NULL;
        handle = token != NULL ? handle_of(HANDLE_TOKEN, &token->head) : NULL;
        release(visit.runtime, root); /* if there was no memory for the second */
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return handle;
}

void *
janus_cancel_token_child(void *parent_handle)
{
    Visit visit = visit_begin();
    void *handle = NULL;
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *parent = find(&visit, parent_handle);
        Token *token = parent != NULL ? make(visit.runtime, parent, NULL) : NULL;
        handle = token != NULL ? handle_of(HANDLE_TOKEN, &token->head) : NULL;
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return handle;
}

void
janus_cancel_token_destroy(void *handle)
{
    Visit visit = visit_begin();
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        if (token != NULL) {
            LawLink *link;
            while ((link = law_queue_take_oldest(&token->callbacks)) != NULL) { /* TOKEN-2 */
                slab_give(&visit.runtime->callbacks, LAW_RECORD(link, Callback, link));
            }
            timers_clear_alarm(&visit.runtime->scheduler.timers, &token->alarm);
            token->destroyed = true;
            release(visit.runtime, token);
        }
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
}

/* ---- asking */

int
janus_cancel_token_reason(void *handle)
{
    Visit visit = visit_begin();
    int reason = JANUS_REASON_PARENT; /* one that is gone counts as cancelled */
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        reason = token != NULL ? reason_of(token) : reason;
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return reason;
}

bool
janus_cancel_token_is_cancelled(void *handle)
{
    return janus_cancel_token_reason(handle) != JANUS_REASON_NONE;
}

int
janus_cancel_token_check(void *handle)
{
    int reason = janus_cancel_token_reason(handle);
    return reason == JANUS_REASON_NONE ? JANUS_OK : reason == JANUS_REASON_TIMEOUT ? JANUS_TIMEOUT : JANUS_CANCELLED;
}

void
janus_cancel_token_cancel(void *handle)
{
    Visit visit = visit_begin();
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        if (token != NULL) {
            cancel(visit.runtime, token, JANUS_REASON_USER);
        } else {
            lock_give(&visit.runtime->tokens_lock);
        }
    }
    visit_end(&visit);
}

int
janus_cancel_token_on_cancel(void *handle, janus_cancel_fn fn, void *arg)
{
    Visit visit = visit_begin();
    Runtime *runtime = visit.runtime;
    Callback *callback = runtime != NULL && fn != NULL ? slab_take(&runtime->callbacks) : NULL;
    int answer = runtime == NULL || fn == NULL ? JANUS_INVALID : callback == NULL ? JANUS_NO_MEMORY : JANUS_OK;
    if (callback != NULL) {
        LawQueue due;
        law_queue_init(&due);
        callback->link = (LawLink){0};
        callback->fn = fn;
        callback->arg = arg;
        lock_take(&runtime->tokens_lock);
        Token *token = find(&visit, handle);
        if (token == NULL) {
            slab_give(&runtime->callbacks, callback);
            answer = JANUS_INVALID;
        } else {
            callback->reason = (int8_t)reason_of(token);
            law_queue_append(callback->reason == JANUS_REASON_NONE ? &token->callbacks : &due, &callback->link);
        }
        lock_give(&runtime->tokens_lock);
        call_all(runtime, &due);
    }
    visit_end(&visit);
    return answer;
}

/* The time of a token is over. On the thread that fires timers, without a lock (TIMER-3). */
static void
expire(void *context, uint64_t what)
{
    Runtime *runtime = context;
    uint32_t generation;
    lock_take(&runtime->tokens_lock);
    Token *token = slab_peek(&runtime->tokens, (uint32_t)what, &generation);
    if (token != NULL && generation == what >> 32 && !token->destroyed) {
        cancel(runtime, token, JANUS_REASON_TIMEOUT);
    } else {
        lock_give(&runtime->tokens_lock);
    }
}

int
janus_cancel_token_cancel_after(void *handle, int64_t nanoseconds)
{
    Visit visit = visit_begin();
    int answer = visit.runtime == NULL || nanoseconds < 0 ? JANUS_INVALID : JANUS_OK;
    if (answer == JANUS_OK) {
        Scheduler *scheduler = &visit.runtime->scheduler;
        bool ready = timers_ready(&scheduler->timers, visit.task); /* may let others run: no lock before it */
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        if (token == NULL) {
            answer = JANUS_INVALID;
        } else if (!ready) {
            answer = JANUS_NO_MEMORY;
        } else if (reason_of(token) == JANUS_REASON_NONE) {
            int64_t now_ns = scheduler_now_ns(scheduler);
            int64_t deadline_ns = nanoseconds > INT64_MAX - 1 - now_ns ? INT64_MAX - 1 : now_ns + nanoseconds;
            uint64_t what = (uint64_t)load_u32(&token->head.generation, RELAXED) << 32 | token->head.index;
            answer = timers_set_alarm(&scheduler->timers, &token->alarm, deadline_ns, expire, visit.runtime, what);
        }
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return answer;
}
