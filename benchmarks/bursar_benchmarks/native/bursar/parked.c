/* Tasks that wait, each with its stack and guard; bytes per task. */
#include "janus.h"

static int64_t size;

static int64_t
parks(void *channel)
{
    int32_t error;
    (void)janus_channel_recv_i64(channel, &error);
    return 0;
}

static int64_t
crowd(void *channel)
{
    janus_statistics before, now;
    janus_rt_statistics(&before);
    double bytes = resident_bytes();
    janus_nursery_create();
    for (int64_t i = 0; i < size; i++) {
        if (janus_nursery_spawn(parks, channel) != 0) {
            return -1;
        }
    }
    do {
        janus_yield();
        janus_rt_statistics(&now);
    } while (now.parked < before.parked + (uint64_t)size);
    printf("bytes=%.1f\n", (resident_bytes() - bytes) / (double)size);
    janus_channel_close_i64(channel);
    return janus_nursery_await_all();
}

int
main(int count, char **arguments)
{
    size = argument(count, arguments, 2, 100000);
    start(count, arguments);
    run(crowd, janus_channel_create_i64(0));
    janus_rt_shutdown();
    return 0;
}
