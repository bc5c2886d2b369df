/* Functions for the tests of native tasks. Each is an `int64_t f(void *)`. */
#include <janus_interop.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often `count` ran, for whoever wants to know whether anything ran at all. */
_Atomic int64_t counted;

int64_t
count(void *arg)
{
    counted += 1;
    return (int64_t)(intptr_t)arg;
}

int64_t
echo(void *arg)
{
    return (int64_t)(intptr_t)arg;
}

int64_t
add_one(void *arg)
{
    return *(int64_t *)arg + 1;
}

int64_t
length(void *arg)
{
    return (int64_t)strlen(arg);
}

int64_t
reverse(void *arg)
{
    char *text = arg;
    for (size_t i = 0, n = strlen(text); i < n / 2; i++) {
        char other = text[i];
        text[i] = text[n - 1 - i];
        text[n - 1 - i] = other;
    }
    return 0;
}

/* So many ops, one at a time. */
int64_t
ticks(void *arg)
{
    janus_ticks *mine = janus_ticks_get();
    for (int64_t i = 0; i < (int64_t)(intptr_t)arg; i++) {
        int told = janus_tick(mine);
        if (told != JANUS_OK) {
            return told;
        }
    }
    return (int64_t)(intptr_t)arg;
}

int64_t
spin(void *arg)
{
    (void)arg;
    janus_ticks *mine = janus_ticks_get();
    int told = JANUS_OK;
    while (told == JANUS_OK) {
        told = janus_tick(mine);
    }
    return told;
}

typedef struct {
    int32_t fd;            /* a byte is written to it when the function runs */
    _Atomic int32_t go;    /* waited for */
    _Atomic int32_t ended; /* set at the end */
} Meeting;

static void
announce(Meeting *meeting)
{
    ssize_t written = write(meeting->fd, "!", 1);
    (void)written;
}

/* Waits for ever, where it can be told to stop. */
int64_t
park(void *arg)
{
    Meeting *meeting = arg;
    announce(meeting);
    int told = janus_sleep_ns(INT64_MAX);
    meeting->ended = told;
    return told;
}

/* The same without saying so. */
int64_t
park_quietly(void *arg)
{
    (void)arg;
    return janus_sleep_ns(INT64_MAX);
}

/* Waits for `go`, where it cannot be told anything. */
int64_t
deaf(void *arg)
{
    Meeting *meeting = arg;
    announce(meeting);
    while (meeting->go == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    }
    meeting->ended = 1;
    return 5;
}

/* The same, and then it looks. */
int64_t
deaf_at_first(void *arg)
{
    (void)deaf(arg);
    return janus_yield();
}

int64_t
panic(void *arg)
{
    return janus_panic((int32_t)(intptr_t)arg);
}

static int64_t
dig(volatile char *above, int64_t depth)
{
    volatile char here[1024];
    here[0] = above[0];
    return depth == INT64_MAX ? 0 : dig(here, depth + 1) + here[1];
}

int64_t
overflow(void *arg)
{
    volatile char top[1] = {(char)(intptr_t)arg};
    return dig(top, 0);
}

/* A frame of a megabyte. */
int64_t
frame(void *arg)
{
    volatile char here[1 << 20];
    here[0] = (char)(intptr_t)arg;
    here[sizeof here - 1] = 1;
    return here[0] + here[sizeof here - 1];
}

/* Charges something else than ops: the argument is a budget. */
int64_t
charge(void *arg)
{
    int told = janus_charge(arg);
    return told == JANUS_OK ? 0 : told;
}

/* A hundred children of its own, each of which ticks. */
int64_t
family(void *arg)
{
    void *nursery = janus_nursery_create();
    int refused = 0;
    for (int i = 0; i < 100; i++) {
        refused += janus_nursery_spawn(ticks, arg) != 0;
    }
    int64_t result_of_message = nursery == NULL ? JANUS_INVALID : janus_nursery_await_all();
    return result_of_message != 0 ? result_of_message : 100 - refused;
}

/* Two tasks and a channel between them. */
static int64_t
producer(void *channel)
{
    for (int64_t i = 0; i < 1000; i++) {
        int told = janus_channel_send(channel, &i);
        if (told != JANUS_OK) {
            return told;
        }
    }
    return janus_channel_close(channel);
}

int64_t
exchange(void *arg)
{
    (void)arg;
    void *channel = janus_channel_create(sizeof(int64_t), 1);
    void *nursery = janus_nursery_create();
    int64_t sum = 0, item = 0;
    int told = nursery == NULL || janus_nursery_spawn(producer, channel) != 0 ? JANUS_INVALID : JANUS_OK;
    while (told == JANUS_OK && (told = janus_channel_receive(channel, &item)) == JANUS_OK) {
        sum += item;
    }
    int64_t result_of_message = janus_nursery_await_all();
    janus_channel_destroy(channel);
    return result_of_message != 0 ? result_of_message : told != JANUS_CLOSED ? told : sum;
}

int64_t
name(void *arg)
{
    char *out = arg;
    strncpy(out, janus_task_name(), 63);
    return (int64_t)strlen(out);
}

/* How a test and a function that goes round meet. */
typedef struct {
    _Atomic int64_t rounds;
    _Atomic int32_t end; /* waited for */
    int32_t by_yields;
} Rounds;

int64_t
rounds(void *arg)
{
    Rounds *mine = arg;
    janus_ticks *ticks = janus_ticks_get();
    while (mine->end == 0) {
        int told = mine->by_yields ? janus_yield() : janus_tick(ticks);
        if (told != JANUS_OK) {
            return told;
        }
        mine->rounds += 1;
    }
    return 7;
}

/* ---- how often a task can repeat one operation on a finite budget */

typedef struct {
    const char *operation;
    int64_t calls;
    int64_t calls_max; /* it stops there: then the operation costs nothing */
    void *channel;
} Repeated;

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int
opens(int children)
{
    if (janus_nursery_create() == NULL) {
        return JANUS_BUDGET_EXCEEDED;
    }
    int refused = 0;
    for (int i = 0; i < children && refused == 0; i++) {
        refused = janus_nursery_spawn(nothing, NULL);
    }
    int64_t ended = janus_nursery_await_all();
    return refused != 0 ? JANUS_BUDGET_EXCEEDED : (int)ended;
}

static int
selects(void *channel)
{
    void *select = janus_select_create(); /* 1 op, and the wait is a message */
    (void)janus_select_add_recv(select, channel);
    (void)janus_select_add_default(select);
    int chosen = janus_select_wait(select);
    janus_select_destroy(select);
    return chosen < 0 ? chosen : JANUS_OK;
}

static int
sends_and_receives(void *channel)
{
    int64_t value = 1;
    int error = janus_channel_send(channel, &value);
    return error == JANUS_OK ? janus_channel_receive(channel, &value) : error;
}

/* Do the operation once. Returns JANUS_OK, or the refusal. */
static int
operate(const char *name, void *channel)
{
    static const janus_budget zero = {0}, three = {.ops = 3}, one = {.ops = 1};
    int64_t value = 0;
    int error = JANUS_INVALID;
    void *made = NULL;
    if (strcmp(name, "yield") == 0) {
        return janus_yield();
    } else if (strcmp(name, "scheduler_yield") == 0) {
        return janus_scheduler_yield();
    } else if (strcmp(name, "sleep") == 0) {
        return janus_sleep_ns(0);
    } else if (strcmp(name, "open") == 0) {
        return opens(0);
    } else if (strcmp(name, "spawn") == 0) {
        return opens(1);
    } else if (strcmp(name, "message") == 0) {
        return sends_and_receives(channel);
    } else if (strcmp(name, "try_receive") == 0) {
        error = janus_channel_try_receive(channel, &value);
        return error == JANUS_AGAIN ? JANUS_OK : error;
    } else if (strcmp(name, "select") == 0) {
        return selects(channel);
    } else if (strcmp(name, "charge_nothing") == 0) {
        return janus_charge(&zero);
    } else if (strcmp(name, "charge") == 0) {
        return janus_charge(&three);
    } else if (strcmp(name, "refused_recharge") == 0) {
        (void)janus_budget_recharge(one);
        return janus_budget_get_current().ops > 0 ? JANUS_OK : JANUS_BUDGET_EXCEEDED;
    } else if (strcmp(name, "channel") == 0) {
        made = janus_channel_create(8, 1);
        (void)janus_channel_destroy(made);
    } else if (strcmp(name, "token") == 0) {
        made = janus_cancel_token_create();
        janus_cancel_token_destroy(made);
    } else if (strcmp(name, "poll_exhausted") == 0) {
        (void)janus_supervisor_poll_exhausted();
        return janus_budget_get_current().ops > 0 ? JANUS_OK : JANUS_BUDGET_EXCEEDED;
    }
    return made != NULL ? JANUS_OK : JANUS_BUDGET_EXCEEDED;
}

static int64_t
repeats(void *arg)
{
    Repeated *repeated = arg;
    bool counts_at_the_end = strcmp(repeated->operation, "refused_recharge") == 0 ||
                             strcmp(repeated->operation, "poll_exhausted") == 0; /* their last call is paid for too */
    while (repeated->calls < repeated->calls_max) {
        int error = operate(repeated->operation, repeated->channel);
        repeated->calls += error == JANUS_OK || counts_at_the_end;
        if (error != JANUS_OK) {
            break;
        }
    }
    return 0;
}

/* How many calls of the operation a task with so many of each component can make; -1: it could not be tried. */
int64_t
calls_on_budget(const char *operation, int64_t units)
{
    janus_budget budget = {units, units, units, units, units};
    janus_task_options options = {.size = sizeof options, .budget = &budget, .stack_bytes = (size_t)1 << 16};
    Repeated repeated = {.operation = operation, .calls_max = 10 * units};
    void *nursery = janus_nursery_open(NULL);
    repeated.channel = janus_channel_create(8, 1);
    int error = janus_nursery_spawn_with(nursery, repeats, &repeated, &options, NULL);
    (void)janus_nursery_await(nursery);
    (void)janus_nursery_destroy(nursery);
    (void)janus_channel_destroy(repeated.channel);
    return error == JANUS_OK ? repeated.calls : -1;
}
