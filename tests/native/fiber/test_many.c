/* Many fibers at once: started, parked, guarded; then all of them continue and end. 100,000, or the number in the first
 * argument. Prints the memory per fiber, and checks its limit where it can be measured. */

#include "world.h"

/* One touched page, its description, its place in the page tables, the fiber. */
#define FIBER_BYTES_MAX 4608

static struct world world;

static int64_t
parks(void *arg)
{
    fiber_suspend(arg);
    return 1;
}

/* Bytes in memory and bytes of page tables of this process. */
static uint64_t
memory_bytes(void)
{
    uint64_t kib = 0, value;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmRSS: %" SCNu64, &value) == 1 || sscanf(line, "VmPTE: %" SCNu64, &value) == 1) {
            kib += value;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib * 1024;
}

int
main(int count_of_arguments, char **arguments)
{
    size_t count = count_of_arguments > 1 ? strtoul(arguments[1], NULL, 10) : FEW(100000);
    world_begin(&world, NULL);
    uint64_t before = memory_bytes();
    struct fiber *fibers = calloc(count, sizeof *fibers);
    size_t parked = 0, ended = 0;
    for (size_t i = 0; i < count; i++) {
        fiber_init(&fibers[i], "one of many", parks, &fibers[i], 0);
        parked += fiber_resume(&world.cache, &fibers[i]) == FIBER_SUSPENDED;
    }
    uint64_t bytes = (memory_bytes() - before) / count;
    struct stack_statistics now = world_statistics(&world);
    CHECK_EQUAL(parked, count);
    CHECK_EQUAL(now.in_use, count);
    CHECK(now.guards[STACK_GUARD_CANARY] == 0 || now.rung != STACK_GUARD_ADVICE);
    fprintf(stderr, "%zu parked fibers, %" PRIu64 " bytes each, guards %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", count,
            bytes, now.guards[0], now.guards[1], now.guards[2]);
#if !SANITIZE_ADDRESS && !SANITIZE_THREAD && defined(__x86_64__)
    CHECK(bytes < FIBER_BYTES_MAX);
#endif
    for (size_t i = 0; i < count; i++) {
        ended += fiber_resume(&world.cache, &fibers[i]) == FIBER_DONE;
    }
    CHECK_EQUAL(ended, count);
    free(fibers);
    world_end(&world);
    return finish();
}
