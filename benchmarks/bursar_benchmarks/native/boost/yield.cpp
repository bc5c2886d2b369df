/* Two fibers that yield to each other; per yield. */
#include "boost.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 2000000);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        auto yields = [size] {
            for (int64_t left = size / 2; left > 0; left--) {
                boost::this_fiber::yield();
            }
        };
        Mark since = mark();
        boost::fibers::fiber one = spawn(yields), two = spawn(yields);
        one.join();
        two.join();
        report(since, static_cast<double>(size));
    }
    return 0;
}
