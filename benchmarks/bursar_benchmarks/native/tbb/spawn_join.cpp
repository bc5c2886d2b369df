/* Task groups of 1000 tasks that do nothing, one after another. */
#include "tbb.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    in_arena(count, arguments, [&] {
        for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
            Mark since = mark();
            for (int64_t left = size; left > 0; left -= 1000) {
                tbb::task_group group;
                for (int i = 0; i < 1000; i++) {
                    group.run([] {});
                }
                group.wait();
            }
            report(since, static_cast<double>(size));
        }
    });
    return 0;
}
