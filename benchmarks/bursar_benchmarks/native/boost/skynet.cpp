/* A tree of ten children per node; every leaf has a number, and the root gets the sum. Per leaf. */
#include "boost.h"

static void
node(int64_t first, int64_t leaves, int64_t *sum)
{
    if (leaves == 1) {
        *sum = first;
        return;
    }
    boost::fibers::fiber children[10];
    int64_t sums[10];
    for (int64_t i = 0; i < 10; i++) {
        int64_t *to = &sums[i];
        children[i] = spawn([=] { node(first + i * (leaves / 10), leaves / 10, to); });
    }
    *sum = 0;
    for (int i = 0; i < 10; i++) {
        children[i].join();
        *sum += sums[i];
    }
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        int64_t sum = 0;
        Mark since = mark();
        node(0, size, &sum);
        report(since, static_cast<double>(size));
        if (sum != size * (size - 1) / 2) {
            fail("the sum");
        }
    }
    return 0;
}
