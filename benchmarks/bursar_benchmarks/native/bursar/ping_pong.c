/* Two tasks send a number back and forth over two channels without a buffer; per message. */
#include "janus.h"

static void *there, *back;

static int64_t
ping(void *arg)
{
    int32_t error;
    for (int64_t left = *(int64_t *)arg / 2; left > 0; left--) {
        if (janus_channel_send_i64(there, left) != 0 || janus_channel_recv_i64(back, &error) != left) {
            return -1;
        }
    }
    return 0;
}

static int64_t
pong(void *arg)
{
    int32_t error;
    for (int64_t left = *(int64_t *)arg / 2; left > 0; left--) {
        if (janus_channel_send_i64(back, janus_channel_recv_i64(there, &error)) != 0) {
            return -1;
        }
    }
    return 0;
}

static int64_t
both(void *arg)
{
    janus_nursery_create();
    if (janus_nursery_spawn(ping, arg) != 0 || janus_nursery_spawn(pong, arg) != 0) {
        return -1;
    }
    return janus_nursery_await_all();
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    start(count, arguments);
    there = janus_channel_create_i64(0);
    back = janus_channel_create_i64(0);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        run(both, &size);
        report(since, (double)size);
    }
    janus_rt_shutdown();
    return 0;
}
