/* Selects: see janus_select.h. Contract: include/janus_rt.h. */
#include "abi/janus_select.h"

#include "abi/handle.h"
#include "engine/select.h"
#include "include/janus_rt.h"

/* Find a select and make it busy. NULL if the handle is stale, or another call uses the select. */
static Select *
take(const Visit *visit, void *handle)
{
    uint32_t generation, idle = 0;
    Select *select = handle_find(visit, HANDLE_SELECT, handle, &generation);
    if (select == NULL || !cas_u32(&select->busy, &idle, 1, ACQ_REL)) {
        return NULL;
    }
    if (load_u32(&select->head.generation, RELAXED) != generation) {
        store_u32(&select->busy, 0, RELEASE);
        return NULL;
    }
    return select;
}

/* End the use of a select; NULL is allowed. */
static void
give(Select *select)
{
    if (select != NULL) {
        store_u32(&select->busy, 0, RELEASE);
    }
}

void *
janus_select_create(void)
{
    if (!visit_pay_op()) {
        return NULL;
    }
    Visit visit = visit_begin_or_start();
    Select *select = visit.runtime != NULL ? slab_take(&visit.runtime->selects) : NULL;
    void *handle = NULL;
    if (select != NULL) {
        select->cases = select->channels = 0;
        select->timeout_case = select->default_case = select->last = -1;
        handle = handle_of(HANDLE_SELECT, &select->head);
    }
    visit_end(&visit);
    return handle;
}

void
janus_select_destroy(void *handle)
{
    Visit visit = visit_begin();
    Select *select = take(&visit, handle);
    if (select != NULL) {
        slab_give(&visit.runtime->selects, select);
        give(select);
    }
    visit_end(&visit);
}

static int32_t
add_channel(void *handle, void *channel_handle, int64_t value, bool sends)
{
    Visit visit = visit_begin();
    uint32_t generation;
    int32_t number = -1;
    Channel *channel = handle_find(&visit, HANDLE_CHANNEL, channel_handle, &generation);
    ChannelLook now;
    bool fits = channel != NULL && channel_look(channel, generation, &now) == ENGINE_OK &&
                now.item_bytes == sizeof(int64_t); /* and the wait checks the generation again */
    Select *select = fits ? take(&visit, handle) : NULL;
    if (select != NULL && select->channels < SELECT_CASES_MAX) {
        uint32_t at = select->channels++;
        number = (int32_t)select->cases++;
        select->places[at] = (ChannelPlace){.channel = channel, .which = number, .sends = sends};
        select->generations[at] = generation;
        select->values[at] = value;
    }
    give(select);
    visit_end(&visit);
    return number;
}

int32_t
janus_select_add_recv(void *select, void *channel)
{
    return add_channel(select, channel, 0, false);
}

int32_t
janus_select_add_send(void *select, void *channel, int64_t value)
{
    return add_channel(select, channel, value, true);
}

/* Add the time limit, or the default if `timeout_ns` is negative. A select has at most one of each. */
static int32_t
add_special(void *handle, int64_t timeout_ns)
{
    Visit visit = visit_begin();
    int32_t number = -1;
    Select *select = take(&visit, handle);
    if (select != NULL) {
        int32_t *slot = timeout_ns < 0 ? &select->default_case : &select->timeout_case;
        if (*slot < 0) {
            number = *slot = (int32_t)select->cases++;
            select->timeout_ns = timeout_ns < 0 ? select->timeout_ns : timeout_ns;
        }
        give(select);
    }
    visit_end(&visit);
    return number;
}

int32_t
janus_select_add_timeout(void *select, int64_t milliseconds)
{
    milliseconds = milliseconds < 0 ? 0 : milliseconds;
    return add_special(select, milliseconds > INT64_MAX / 1000000 ? INT64_MAX : milliseconds * 1000000);
}

int32_t
janus_select_add_default(void *select)
{
    return add_special(select, -1);
}

static int32_t
wait_for(const Visit *visit, Select *select)
{
    int64_t timeout_ns = select->default_case >= 0 ? 0 : select->timeout_case >= 0 ? select->timeout_ns : -1;
    int32_t which = -1;
    for (uint32_t i = 0; i < select->channels; i++) {
        select->places[i].value = select->places[i].sends ? &select->values[i] : &select->received[i];
    }
    if (select->channels == 0 && timeout_ns < 0) {
        return JANUS_INVALID; /* it would wait forever */
    }
    int done = channel_select(&visit->runtime->scheduler, visit->task, select->places, select->generations,
                              select->channels, timeout_ns, &which);
    if (done == ENGINE_TIMEOUT) {
        select->last = select->default_case >= 0 ? select->default_case : select->timeout_case;
        return select->last;
    }
    select->last = which;
    return done == ENGINE_OK ? which : done;
}

int32_t
janus_select_wait(void *handle)
{
    Visit visit = visit_begin();
    Select *select = take(&visit, handle);
    int32_t number = select != NULL ? wait_for(&visit, select) : JANUS_INVALID;
    give(select);
    visit_end(&visit);
    return number;
}

int64_t
janus_select_get_recv_value(void *handle, int32_t number)
{
    Visit visit = visit_begin();
    Select *select = take(&visit, handle);
    int64_t value = 0;
    for (uint32_t i = 0; select != NULL && i < select->channels; i++) {
        value = select->places[i].which == number && !select->places[i].sends ? select->received[i] : value;
    }
    give(select);
    visit_end(&visit);
    return value;
}

int32_t
janus_select_case(void *handle)
{
    Visit visit = visit_begin();
    Select *select = take(&visit, handle);
    int32_t last = select != NULL ? select->last : -1;
    give(select);
    visit_end(&visit);
    return last;
}
