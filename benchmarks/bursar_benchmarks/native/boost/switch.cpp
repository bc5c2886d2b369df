/* Two contexts that do nothing but switch to each other (Boost.Context, control words included). */
#include <boost/context/detail/fcontext.hpp>

#include "measure.h"

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

static char stack[1 << 16] __attribute__((aligned(16)));

static void
other(transfer_t from)
{
    for (;;) {
        from = jump_fcontext(from.fctx, nullptr);
    }
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 10000000);
    transfer_t there = jump_fcontext(make_fcontext(stack + sizeof stack, sizeof stack, other), nullptr);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        for (int64_t i = 0; i < size; i += 2) {
            there = jump_fcontext(there.fctx, nullptr);
        }
        report(since, static_cast<double>(size));
    }
    return 0;
}
