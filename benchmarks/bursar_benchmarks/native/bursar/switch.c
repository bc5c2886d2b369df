/* Two contexts that do nothing but switch to each other; control words included. */
#include "fiber/context.h"
#include "measure.h"

static void *here, *there;
static char stack[1 << 16] __attribute__((aligned(16)));

static void
other(void *arg)
{
    (void)arg;
    for (;;) {
        context_switch(&there, here, NULL);
    }
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 10000000);
    context_start(&here, stack + sizeof stack, other, NULL);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        for (int64_t i = 0; i < size; i += 2) {
            context_switch(&here, there, NULL);
        }
        report(since, (double)size);
    }
    return 0;
}
