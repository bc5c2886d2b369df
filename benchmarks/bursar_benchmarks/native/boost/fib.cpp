/* fib(SIZE) with a fork at every number above 1: one half is spawned, the other computed. Per fork. */
#include "boost.h"
#include "fib.h"

static void
fib(int64_t n, int64_t *value)
{
    if (n < 2) {
        *value = n;
        return;
    }
    int64_t left, right;
    boost::fibers::fiber child = spawn([n, &left] { fib(n - 1, &left); });
    fib(n - 2, &right);
    child.join();
    *value = left + right;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 24);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        int64_t value = 0;
        Mark since = mark();
        fib(size, &value);
        report(since, static_cast<double>(fib_forks(size)));
        if (value != fib_value(size)) {
            fail("fib");
        }
    }
    return 0;
}
