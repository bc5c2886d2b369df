/* Tasks that were spawned and have not begun; bytes per task, with the worker's queue. One worker. */
#include "janus.h"

static int64_t size;

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t
crowd(void *arg)
{
    (void)arg;
    double bytes = resident_bytes();
    janus_nursery_create();
    for (int64_t i = 0; i < size; i++) {
        if (janus_nursery_spawn(nothing, NULL) != 0) {
            return -1;
        }
    }
    printf("bytes=%.1f\n", (resident_bytes() - bytes) / (double)size);
    return janus_nursery_await_all();
}

int
main(int count, char **arguments)
{
    size = argument(count, arguments, 2, 1000000);
    start(count, arguments);
    run(crowd, NULL);
    janus_rt_shutdown();
    return 0;
}
