/* Tasks that were given to a group and have not begun; bytes per task. One worker. */
#include "tbb.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    in_arena(count, arguments, [&] {
        tbb::task_group group;
        double bytes = resident_bytes();
        for (int64_t i = 0; i < size; i++) {
            group.run([] {});
        }
        printf("bytes=%.1f\n", (resident_bytes() - bytes) / static_cast<double>(size));
        group.wait();
    });
    return 0;
}
