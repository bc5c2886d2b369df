/* What a spawn pays for the chance that somebody sleeps, when nobody does: engine/idle.h, per notification. */
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
    if (!idle_init(&set, 2, nothing, NULL, &engine_memory_libc)) {
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
