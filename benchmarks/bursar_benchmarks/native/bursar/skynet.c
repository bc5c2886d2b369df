/* A tree of ten children per node; every leaf has a number, and the root gets the sum. Per leaf. */
#include "janus.h"

typedef struct {
    int64_t first, leaves, sum;
} Node;

static int64_t
node(void *arg)
{
    Node *self = (Node *)arg, children[10];
    if (self->leaves == 1) {
        self->sum = self->first;
        return 0;
    }
    janus_nursery_create();
    for (int i = 0; i < 10; i++) {
        int64_t leaves = self->leaves / 10;
        children[i] = (Node){self->first + i * leaves, leaves, 0};
        if (janus_nursery_spawn(node, &children[i]) != 0) {
            return -1;
        }
    }
    int64_t ended = janus_nursery_await_all();
    for (int i = 0; i < 10; i++) {
        self->sum += children[i].sum;
    }
    return ended;
}

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 1000000);
    start(count, arguments);
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Node root = {0, size, 0};
        Mark since = mark();
        run(node, &root);
        report(since, (double)size);
        if (root.sum != size * (size - 1) / 2) {
            fail("the sum");
        }
    }
    janus_rt_shutdown();
    return 0;
}
