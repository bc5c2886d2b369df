/* fib(SIZE) with a fork at every number above 1: one half is spawned, the other computed. Per fork. */
#include "fib.h"
#include "janus.h"

typedef struct {
    int64_t n, value;
} Fib;

static int64_t
fib(void *arg)
{
    Fib *self = (Fib *)arg;
    if (self->n < 2) {
        self->value = self->n;
        return 0;
    }
    Fib left = {self->n - 1, 0}, right = {self->n - 2, 0};
    janus_nursery_create();
    if (janus_nursery_spawn(fib, &left) != 0 || fib(&right) != 0) {
        return -1;
    }
    int64_t ended = janus_nursery_await_all();
    self->value = left.value + right.value;
    return ended;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 24);
    start(count, arguments);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Fib root = {size, 0};
        Mark since = mark();
        run(fib, &root);
        report(since, (double)fib_forks(size));
        if (root.value != fib_value(size)) {
            fail("fib");
        }
    }
    janus_rt_shutdown();
    return 0;
}
