/* The sleep of one worker, on a futex or on a condition variable. The contract is in park.h. */
#define _GNU_SOURCE /* syscall */

#include "engine/park.h"

#include <time.h>

#if defined(BURSAR_EXPLORE)

bool explore_wait(const void *cell, uint64_t expected, bool timed);
void explore_wake(const void *cell);

bool
parker_init(Parker *parker)
{
    init_u32(&parker->word, 0);
    return true;
}

void
parker_destroy(Parker *parker)
{
    (void)parker;
}

static bool
wait_changed(Parker *parker, int64_t deadline_ns)
{
    return explore_wait(&parker->word, PARK_SLEEPING, deadline_ns != PARK_FOREVER);
}

static void
wake_waiter(Parker *parker)
{
    explore_wake(&parker->word);
}

#elif defined(PARK_BY_CONDVAR)

#  include <errno.h>

bool
parker_init(Parker *parker)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&parker->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!made) {
        return false;
    }
    if (pthread_mutex_init(&parker->mutex, NULL) != 0) {
        pthread_cond_destroy(&parker->changed);
        return false;
    }
    init_u32(&parker->word, 0);
    return true;
}

void
parker_destroy(Parker *parker)
{
    pthread_mutex_destroy(&parker->mutex);
    pthread_cond_destroy(&parker->changed);
}

/* Sleep while the word is PARK_SLEEPING. Returns false if the deadline passed. May return without a cause. */
static bool
wait_changed(Parker *parker, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000), .tv_nsec = (long)(deadline_ns % 1000000000)};
    int failed = 0;
    pthread_mutex_lock(&parker->mutex);
    if (load_u32(&parker->word, RELAXED) == PARK_SLEEPING) { /* PARK-3: the waker signals under the mutex */
        failed = deadline_ns == PARK_FOREVER ? pthread_cond_wait(&parker->changed, &parker->mutex)
                                             : pthread_cond_timedwait(&parker->changed, &parker->mutex, &until);
    }
    pthread_mutex_unlock(&parker->mutex);
    return failed != ETIMEDOUT;
}

static void
wake_waiter(Parker *parker)
{
    pthread_mutex_lock(&parker->mutex);
    pthread_cond_signal(&parker->changed);
    pthread_mutex_unlock(&parker->mutex);
}

#else

#  include <errno.h>
#  include <linux/futex.h>
#  include <sys/syscall.h>
#  include <unistd.h>

bool
parker_init(Parker *parker)
{
    init_u32(&parker->word, 0);
    return true;
}

void
parker_destroy(Parker *parker)
{
    (void)parker;
}

/* Sleep while the word is PARK_SLEEPING. Returns false if the deadline passed. May return without a cause. WAIT_BITSET
 * is the wait whose deadline is absolute and monotonic (PARK-5). */
static bool
wait_changed(Parker *parker, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000), .tv_nsec = (long)(deadline_ns % 1000000000)};
    long answer = syscall(SYS_futex, &parker->word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, PARK_SLEEPING,
                          deadline_ns == PARK_FOREVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    return answer == 0 || errno != ETIMEDOUT;
}

static void
wake_waiter(Parker *parker)
{
    syscall(SYS_futex, &parker->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

#endif

void
parker_wake(Parker *parker, uint32_t tokens)
{
    if (or_u32(&parker->word, tokens, RELEASE) == PARK_SLEEPING) { /* PARK-2, PARK-4 */
        wake_waiter(parker);
    }
}

uint32_t
parker_collect(Parker *parker)
{
    return swap_u32(&parker->word, 0, ACQUIRE) & ~PARK_SLEEPING; /* PARK-4 */
}

uint32_t
parker_sleep(Parker *parker, int64_t deadline_ns)
{
    if (deadline_ns < 0) {
        deadline_ns = 0; /* in the past; the kernel refuses negative times */
    }
    uint32_t bare = 0;
    if (cas_u32(&parker->word, &bare, PARK_SLEEPING, RELAXED)) { /* otherwise there are tokens */
        while (wait_changed(parker, deadline_ns) && load_u32(&parker->word, RELAXED) == PARK_SLEEPING) {
            /* woken without a cause, by a signal for instance */
        }
    }
    return parker_collect(parker); /* also the tokens that came just after the deadline */
}

int64_t
park_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t
backoff_next_ns(Backoff *backoff)
{
    if (backoff->pause_ns >= BACKOFF_NS_MAX) {
        return 0;
    }
    int64_t next = backoff->pause_ns == 0 ? BACKOFF_NS_MIN : 2 * backoff->pause_ns;
    backoff->pause_ns = next < BACKOFF_NS_MAX ? next : BACKOFF_NS_MAX;
    return backoff->pause_ns;
}

void
backoff_spin(int64_t pause_ns)
{
    int64_t until_ns = park_clock_ns() + pause_ns;
    do {
        cpu_relax();
    } while (park_clock_ns() < until_ns);
}
