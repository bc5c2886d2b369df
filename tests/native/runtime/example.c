/* A program of its own, built with nothing but the installed headers and library: sums squares in parallel. */
#include <inttypes.h>
#include <janus_interop.h>
#include <janus_rt.h>
#include <stdio.h>

static void *results;

static int64_t
square(void *arg)
{
    int64_t n = (int64_t)(intptr_t)arg, sum = 0;
    janus_ticks *ticks = janus_ticks_get();
    for (int64_t i = 0; i < n; i++) {
        if (janus_tick(ticks) != JANUS_OK) {
            return JANUS_CANCELLED;
        }
        sum += n;
    }
    return janus_channel_send_i64(results, sum);
}

static int64_t
collect(void *arg)
{
    int64_t *total = arg;
    for (int i = 0; i < 100; i++) {
        int32_t error;
        *total += janus_channel_recv_i64(results, &error);
        if (error != 0) {
            return -1;
        }
    }
    return 0;
}

int
main(void)
{
    int64_t total = 0;
    results = janus_channel_create_i64(8);
    if (janus_nursery_create() == NULL || janus_nursery_spawn(collect, &total) != 0) {
        return 1;
    }
    for (intptr_t i = 1; i <= 100; i++) {
        if (janus_nursery_spawn(square, (void *)i) != 0) {
            return 1;
        }
    }
    int64_t ended = janus_nursery_await_all();
    janus_channel_destroy_i64(results);
    janus_rt_shutdown();
    printf("%" PRId64 "\n", total);
    return ended == 0 ? 0 : 1;
}
