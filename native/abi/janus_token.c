/* The C interface: cancel tokens. See select.h for what one is. */
#include "abi/abi.h"

#include "abi/current.h"
#include "abi/select.h"

void
abi_slabs_init(Runtime *runtime, const EngineMemory *memory)
{
    slab_init(&runtime->selects, (sizeof(Select) + 15) / 16 * 16, NULL, memory);
    slab_init(&runtime->tokens, (sizeof(Token) + 15) / 16 * 16, NULL, memory);
}

/* A token that was destroyed has no handle any more; its record lives on while it has children. */
static Token *
find(const Visit *visit, void *handle)
{
    uint32_t generation;
    Token *token = handle_find(visit, HANDLE_TOKEN, handle, &generation);
    return token != NULL && !token->destroyed ? token : NULL;
}

/* Under the lock. */
static bool
is_cancelled(const Token *token)
{
    for (; token != NULL; token = token->parent) {
        bool gone = token->nursery != NULL &&
                    (load_u32(&token->nursery->head.generation, ACQUIRE) != token->nursery_generation ||
                     nursery_cancelled(token->nursery));
        if (token->cancelled || gone) {
            return true;
        }
    }
    return false;
}

static void *
make(const Visit *visit, Token *parent, Nursery *nursery)
{
    Token *token = slab_take(&visit->runtime->tokens);
    if (token == NULL) {
        return NULL;
    }
    token->parent = parent;
    token->children = 0;
    token->cancelled = token->destroyed = false;
    token->nursery = nursery;
    token->nursery_generation = nursery != NULL ? load_u32(&nursery->head.generation, RELAXED) : 0;
    if (parent != NULL) {
        parent->children += 1;
    }
    return handle_of(HANDLE_TOKEN, &token->head);
}

void *
janus_cancel_token_create(void)
{
    Visit visit = visit_begin_or_start();
    void *handle = visit.runtime != NULL ? make(&visit, NULL, NULL) : NULL;
    visit_end(&visit);
    return handle;
}

void *
janus_nursery_get_token(void)
{
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    void *handle = nursery != NULL ? make(&visit, NULL, nursery) : NULL;
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
        handle = parent != NULL ? make(&visit, parent, NULL) : NULL;
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return handle;
}

bool
janus_cancel_token_is_cancelled(void *handle)
{
    Visit visit = visit_begin();
    bool cancelled = true;
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        cancelled = token == NULL || is_cancelled(token);
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
    return cancelled;
}

void
janus_cancel_token_cancel(void *handle)
{
    Visit visit = visit_begin();
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        Nursery *nursery = token != NULL ? token->nursery : NULL;
        uint32_t generation = token != NULL ? token->nursery_generation : 0;
        if (token != NULL) {
            token->cancelled = true;
        }
        lock_give(&visit.runtime->tokens_lock);
        if (nursery != NULL) {
            (void)nursery_cancel_if(nursery, generation, LAW_CANCEL_USER);
        }
    }
    visit_end(&visit);
}

/* Free a token that nobody can reach any more, and those above it of which it was the last child. Under the lock. */
static void
release(Runtime *runtime, Token *token)
{
    while (token != NULL && token->destroyed && token->children == 0) {
        Token *parent = token->parent;
        slab_give(&runtime->tokens, token);
        if (parent != NULL) {
            parent->children -= 1;
        }
        token = parent;
    }
}

void
janus_cancel_token_destroy(void *handle)
{
    Visit visit = visit_begin();
    if (visit.runtime != NULL) {
        lock_take(&visit.runtime->tokens_lock);
        Token *token = find(&visit, handle);
        if (token != NULL) {
            token->destroyed = true;
            release(visit.runtime, token);
        }
        lock_give(&visit.runtime->tokens_lock);
    }
    visit_end(&visit);
}
