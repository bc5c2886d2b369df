/* Fibers that wait, each with a stack (boost.h) and no guard; bytes per fiber. */
#include <vector>

#include "boost.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 100000);
    boost::fibers::unbuffered_channel<int64_t> channel;
    std::vector<boost::fibers::fiber> crowd(static_cast<size_t>(size));
    double bytes = resident_bytes();
    for (auto &fiber : crowd) {
        fiber = spawn([&channel] {
            int64_t value;
            (void)channel.pop(value);
        });
    }
    boost::this_fiber::yield(); /* one thread: all of them run and wait before we go on */
    printf("bytes=%.1f\n", (resident_bytes() - bytes) / static_cast<double>(size));
    channel.close();
    for (auto &fiber : crowd) {
        fiber.join();
    }
    return 0;
}
