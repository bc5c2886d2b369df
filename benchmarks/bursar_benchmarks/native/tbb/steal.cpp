/* From before a task is given to a group until it runs on another worker, on another processor. The spawner computes
 * and does not yield. */
#include <atomic>
#include <vector>

#include "tbb.h"

enum { WARM = 64 };

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 2000);
    std::vector<double> latencies(static_cast<size_t>(size));
    int here = processor(0), there = processor(1);
    in_arena(count, arguments, [&] {
        stay_on(here);
        for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
            std::atomic<int64_t> hand{0};
            double arrived_ns = 0;
            tbb::task_group group;
            for (int64_t i = 1; i <= size + WARM; i++) {
                double since_ns = clock_ns(CLOCK_MONOTONIC);
                group.run([&hand, &arrived_ns, there, i] {
                    if (i == 1) {
                        stay_on(there);
                    }
                    arrived_ns = clock_ns(CLOCK_MONOTONIC);
                    hand.store(i, std::memory_order_release);
                });
                while (hand.load(std::memory_order_acquire) != i) {
                    __builtin_ia32_pause();
                }
                if (i > WARM) {
                    latencies[static_cast<size_t>(i - WARM - 1)] = arrived_ns - since_ns;
                }
                double until_ns = clock_ns(CLOCK_MONOTONIC) + 300;
                while (clock_ns(CLOCK_MONOTONIC) < until_ns) {
                }
            }
            group.wait();
            report_latencies(latencies.data(), latencies.size());
        }
    });
    return 0;
}
