/* Groups of 1000 fibers that do nothing, one after another. */
#include <vector>

#include "boost.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    std::vector<boost::fibers::fiber> group(1000);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        for (int64_t left = size; left > 0; left -= 1000) {
            for (auto &fiber : group) {
                fiber = spawn([] {});
            }
            for (auto &fiber : group) {
                fiber.join();
            }
        }
        report(since, static_cast<double>(size));
    }
    return 0;
}
