/* A loop with a tick in each iteration; per iteration. The body is a multiplication that needs the result of the one
 * before. The peer is the same loop without a tick (plain/tick.c). */
#include "janus.h"
#include "loop.h"

static int64_t size;

static int64_t
ticks(void *arg)
{
    uint64_t x = 1;
    janus_ticks *counter = janus_ticks_get();
    (void)arg;
    for (int64_t i = 0; i < size; i++) {
        x = loop_body(x);
        if (janus_tick(counter) != 0) {
            return -1;
        }
    }
    return 0;
}

int
main(int count, char **arguments)
{
    size = argument(count, arguments, 2, 100000000);
    start(count, arguments);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        run(ticks, NULL);
        report(since, (double)size);
    }
    janus_rt_shutdown();
    return 0;
}
