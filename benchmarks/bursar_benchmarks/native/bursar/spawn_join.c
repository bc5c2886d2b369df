/* Nurseries of 1000 children that do nothing, one after another. */
#include "janus.h"

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t
batches(void *arg)
{
    for (int64_t left = *(int64_t *)arg; left > 0; left -= 1000) {
        janus_nursery_create();
        for (int i = 0; i < 1000; i++) {
            if (janus_nursery_spawn(nothing, NULL) != 0) {
                return -1;
            }
        }
        int64_t ended = janus_nursery_await_all();
        if (ended != 0) {
            return ended;
        }
    }
    return 0;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    start(count, arguments);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        run(batches, &size);
        report(since, (double)size);
    }
    janus_rt_shutdown();
    return 0;
}
