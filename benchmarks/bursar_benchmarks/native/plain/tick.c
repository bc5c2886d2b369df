/* The loop of bursar/tick.c without a tick. */
#include "loop.h"
#include "measure.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 100000000);
    uint64_t x = 1;
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        for (int64_t i = 0; i < size; i++) {
            x = loop_body(x);
        }
        report(since, (double)size);
    }
    return 0;
}
