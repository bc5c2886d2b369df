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
