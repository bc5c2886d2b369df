/* Cancel tokens: see janus_token.h. Contract: include/janus_rt.h. */
#include "abi/janus_token.h"

#include "abi/handle.h"

/* ---- finding. All of these functions are called under tokens_lock */

/* The token of a handle. NULL for a destroyed token: its record is kept while it has children (TOKEN-3). */
static Token *
find(const Visit *visit, void *handle)
{
    uint32_t generation;
    Token *token = handle_find(visit, HANDLE_TOKEN, handle, &generation);
    return token != NULL && !token->destroyed ? token : NULL;
}

/* Whether the token's nursery has ended. Nothing cancels such a token any more, and it counts as cancelled. */
static bool
is_gone(const Token *token)
{
    return token->nursery != NULL && load_u32(&token->nursery->head.generation, ACQUIRE) != token->nursery_generation;
}

/* Why the token is cancelled, or JANUS_REASON_NONE. A cancelled token has marked all tokens below it (TOKEN-1), so no
 * walk is needed. But a nursery may be cancelled a moment before its tokens are marked; it is the top token's. */
static int
reason_of(const Token *token)
{
    if (token->reason != JANUS_REASON_NONE) {
        return token->reason;
    }
    const Token *top = token->top;
    bool cancelled = top->nursery != NULL && (is_gone(top) || nursery_cancelled(top->nursery));
    return cancelled ? JANUS_REASON_PARENT : JANUS_REASON_NONE;
}

/* ---- cancelling */

/* The next token in a walk through all tokens below `root`. Without children the walk skips those below `token`. */
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

/* Mark a token and all tokens below it (TOKEN-1), and move their callbacks to `due`. The tokens of a nursery get the
 * nursery's own reason; all other tokens below `root` get JANUS_REASON_PARENT. Under the lock. */
static void
mark_all(Token *root, int reason, LawQueue *due)
{
    bool fresh;
    for (Token *token = root; token != NULL; token = next_below(root, token, fresh)) {
        bool own = token == root || (token->parent == root && root->is_nursery_root);
        fresh = token->reason == JANUS_REASON_NONE;
        if (!fresh) {
            continue; /* cancelled before, with all tokens below it */
        }
        token->reason = (int8_t)(own ? reason : JANUS_REASON_PARENT);
        LawLink *link;
        while ((link = law_queue_take_oldest(&token->callbacks)) != NULL) {
            LAW_RECORD(link, Callback, link)->reason = token->reason;
            law_queue_append(due, link);
        }
    }
}

/* Call the callbacks in `due`, oldest first. Without a lock (TOKEN-4). */
static void
call_all(Runtime *runtime, LawQueue *due)
{
    LawLink *link;
    bool noted = callbacks_begin();
    while ((link = law_queue_take_oldest(due)) != NULL) {
        Callback *callback = LAW_RECORD(link, Callback, link);
        janus_cancel_fn fn = callback->fn;
        void *arg = callback->arg;
        int reason = callback->reason;
        slab_give(&runtime->callbacks, callback);
        fn(arg, reason);
    }
    callbacks_end(noted);
}

/* Cancel a token and its nursery. The caller holds the lock; this function releases it. */
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

/* The root token of a nursery, or NULL. Under the lock. */
static Token *
find_root(Runtime *runtime, Nursery *nursery, uint32_t generation)
{
    uint32_t watched = load_u32(&nursery->watched, RELAXED), used = 0;
    Token *token = watched != 0 ? slab_peek(&runtime->tokens, watched - 1, &used) : NULL;
    bool same = token != NULL && used % 2 == 1 && token->is_nursery_root && token->nursery == nursery &&
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
    Token *token = find_root(runtime, nursery, generation);
    if (token != NULL) {
        mark_all(token, (int)kind, &due);
    }
    lock_give(&runtime->tokens_lock);
    call_all(runtime, &due);
}

/* ---- making and freeing. The static functions are called under tokens_lock */

static Token *
make(Runtime *runtime, Token *parent, Nursery *nursery)
{
    Token *token = slab_take(&runtime->tokens);
    if (token == NULL) {
        return NULL;
    }
    token->parent = parent;
    token->top = parent != NULL ? parent->top : token;
    law_queue_init(&token->children);
    law_queue_init(&token->callbacks);
    token->sibling = (LawLink){0};
    token->reason = JANUS_REASON_NONE;
    token->destroyed = token->is_nursery_root = false;
    token->nursery = nursery;
    token->nursery_generation = nursery != NULL ? load_u32(&nursery->head.generation, RELAXED) : 0;
    token->alarm.waiter.timer = 0;
    if (parent != NULL) {
        int reason = reason_of(parent);
        law_queue_append(&parent->children, &token->sibling);
        token->reason = (int8_t)(reason == JANUS_REASON_NONE || parent->is_nursery_root ? reason : JANUS_REASON_PARENT);
    }
    return token;
}

/* Free a destroyed token that has no children, and then the tokens above it, as far as that makes them such
 * (TOKEN-3). */
static void
release(Runtime *runtime, Token *token)
{
    while (token != NULL && token->destroyed && law_queue_empty(&token->children)) {
        Token *parent = token->parent;
        uint32_t place = token->head.index + 1;
        if (token->is_nursery_root) { /* unless the record belongs to another nursery by now */
            (void)cas_u32(&token->nursery->watched, &place, 0, ACQ_REL);
        }
        if (parent != NULL) {
            law_queue_remove(&parent->children, &token->sibling);
        }
        slab_give(&runtime->tokens, token);
        token = parent;
    }
}

/* The root token of the caller's nursery. Made if there is none, and then cancelled already if the nursery is. */
static Token *
find_or_make_root(Runtime *runtime, Nursery *nursery)
{
    Token *token = find_root(runtime, nursery, load_u32(&nursery->head.generation, RELAXED));
    if (token != NULL || (token = make(runtime, NULL, nursery)) == NULL) {
        return token;
    }
    token->destroyed = token->is_nursery_root = true; /* no program has its handle */
    store_u32(&nursery->watched, token->head.index + 1, RELAXED);
    fence_light(nursery->scheduler->idle.asymmetric); /* pairs with nursery_run_cancel_hook */
    if (nursery_cancelled(nursery)) {
        token->reason = (int8_t)nursery_reason(nursery);
    }
    return token;
}

void *
janus_cancel_token_create(void)
{
    if (!visit_pay_op()) {
        return NULL;
    }
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
    if (!visit_pay_op()) {
        return NULL;
    }
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    void *handle = NULL;
    if (nursery != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *root = find_or_make_root(visit.runtime, nursery);
        Token *token = root != NULL ? make(visit.runtime, root, nursery) : NULL;
        handle = token != NULL ? handle_of(HANDLE_TOKEN, &token->head) : NULL;
        release(visit.runtime, root); /* without memory for the second token, the first one has no child */
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return handle;
}

void *
janus_cancel_token_child(void *parent_handle)
{
    if (!visit_pay_op()) {
        return NULL;
    }
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

/* ---- inspecting and cancelling */

int
janus_cancel_token_reason(void *handle)
{
    Visit visit = visit_begin();
    int reason = JANUS_REASON_PARENT; /* a stale token counts as cancelled */
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

/* The time limit of a token has passed. Called without a lock, on the thread that fires timers (TIMER-3). */
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
        bool ready = timers_ready(&scheduler->timers, visit.task); /* may let other tasks run: not under a lock */
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
