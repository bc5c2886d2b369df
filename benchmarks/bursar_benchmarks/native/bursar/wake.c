/* Notifies when no worker sleeps: what every spawn pays because a worker might sleep (engine/idle.h). */
#include "engine/idle.h"
#include "measure.h"

static bool
nothing(void *context, uint32_t worker)
{
    (void)context;
    (void)worker;
    return false;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 100000000);
    IdleSet set;
    if (!idle_init(&set, 2, nothing, NULL, &engine_allocator_libc)) {
        fail("no memory");
    }
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        for (int64_t i = 0; i < size; i++) {
            idle_notify(&set);
        }
        report(since, (double)size);
    }
    idle_destroy(&set);
    return 0;
}
