/* Two fibers send a number back and forth over two channels without a buffer; per message. */
#include "boost.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        boost::fibers::unbuffered_channel<int64_t> there, back;
        Mark since = mark();
        boost::fibers::fiber ping = spawn([&] {
            for (int64_t left = size / 2; left > 0; left--) {
                there.push(left);
                if (back.value_pop() != left) {
                    fail("a message");
                }
            }
        });
        boost::fibers::fiber pong = spawn([&] {
            for (int64_t left = size / 2; left > 0; left--) {
                back.push(there.value_pop());
            }
        });
        ping.join();
        pong.join();
        report(since, static_cast<double>(size));
    }
    return 0;
}
