/* A futex wake without a waiter: what each notification would cost if it did not first look for a sleeper. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure.h"

int
main(int count, char **arguments)
{
    int64_t size = argument(count, arguments, 2, 100000000) / 100;
    uint32_t word = 0;
    for (int64_t round = argument(count, arguments, 3, 5); round > 0; round--) {
        Mark since = mark();
        for (int64_t i = 0; i < size; i++) {
            syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
        }
        report(since, (double)size);
    }
    return 0;
}
