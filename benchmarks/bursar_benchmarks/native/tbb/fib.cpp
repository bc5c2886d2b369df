/* fib(SIZE) with a fork at every number above 1: one half is spawned, the other computed. Per fork. */
#include "fib.h"
#include "tbb.h"

static int64_t
fib(int64_t n)
{
    if (n < 2) {
        return n;
    }
    int64_t left = 0;
    tbb::task_group group;
    group.run([&left, n] { left = fib(n - 1); });
    int64_t right = fib(n - 2);
    group.wait();
    return left + right;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 24);
    in_arena(count, arguments, [&] {
        for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
            Mark since = mark();
            int64_t value = fib(size);
            report(since, static_cast<double>(fib_forks(size)));
            if (value != fib_value(size)) {
                fail("fib");
            }
        }
    });
    return 0;
}
