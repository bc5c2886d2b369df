/* Two tasks that yield to each other; per yield. */
#include "janus.h"

static int64_t
yields(void *arg)
{
    for (int64_t left = *(int64_t *)arg / 2; left > 0; left--) {
        if (janus_yield() != 0) {
            return -1;
        }
    }
    return 0;
}

static int64_t
both(void *arg)
{
    janus_nursery_create();
    if (janus_nursery_spawn(yields, arg) != 0 || janus_nursery_spawn(yields, arg) != 0) {
        return -1;
    }
    return janus_nursery_await_all();
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 2000000);
    start(count, arguments);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        run(both, &size);
        report(since, (double)size);
    }
    janus_rt_shutdown();
    return 0;
}
