/* The word of a task under the schedule explorer: every schedule of small programs in which one task waits, and other
 * threads wake, recharge, pause or cancel it.
 *
 * The task is a word of steps, run by one or two workers. Every other thread does one thing:
 *
 *     a b    wait until flag a, or b, is set             A B    set the flag; wake the task if it announced its wait
 *     y      go to the back of the queue                 R      the same for flag a; also ends the task's hold
 *     h      hold until flag a is set (EXHAUSTED)        P      ask it to pause, then resume it
 *     .      check whether it must pause or stop         C      ask it to stop
 *                                                        N      cancel its nursery
 *
 * Only requests reach a task that has never waited: other threads find it only in a queue or a list that it has
 * entered.
 *
 * Real: the word (task.h), the rest and the check after it (task_leave.c), requests (task_requests.c, charge.c), the
 * cancellation of a nursery (nursery.c). Simulated: the queue, which is one cell, the entry into the nursery's list
 * before the first rest, and the stack switch.
 *
 * Checked: there is never a second entry (TASK-2). The task sees what its waker wrote, with loads that order nothing
 * (TASK-4). It sees what it wrote itself before it rested. No wake, recharge, resume or request is lost: the task ends,
 * in every schedule, and does not go on waiting after a cancel request.
 */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* stack_t, in fiber/overflow.h */
#endif

#include <stdio.h>
#include <string.h>

#include "engine/task_leave.c"
#include "engine/task_requests.h"
#include "explore.h"
#include "weakmem.h"

bool explore_wait(const void *cell, uint64_t expected, bool timed);
void explore_wake(const void *cell);

enum { ENTRIES_NONE = 0, ENTRIES_ONE = 1, ENTRIES_CLOSED = 2 };
enum { PLACE_EMPTY = 0, PLACE_WAITS = 1, PLACE_SET = 2 }; /* where a task announces what it waits for */
enum { GENERATION = 41 };

static const char *steps, *others;
static unsigned workers;
static bool asymmetric;

static Task task;
static Nursery nursery;
static Scheduler scheduler;
static Worker host;
static struct runner runner;
static atomic_u32 flags[2], places[2], queue, written;
static unsigned at, turns; /* the task's own: pass from worker to worker */
static bool stopped, entered[2];

static void
setup(void)
{
    memset(&task, 0, sizeof task);
    scheduler.idle.asymmetric = asymmetric;
    host.scheduler = &scheduler;
    runner.worker = &host;
    task.fiber.runner = &runner;
    task.nursery = &nursery;
    nursery_prepare(&nursery);
    nursery.scheduler = &scheduler;
    init_u32(&nursery.state, LAW_NURSERY_OPEN);
    init_u32(&nursery.watched, 0);
    init_u32(&nursery.head.generation, 1);
    init_u32(&scheduler.requests, 0);
    init_u32(&task.head.generation, GENERATION);
    init_u32(&task.cancel, GENERATION - 2); /* of the task that had the record before */
    init_u64(&task.word, 0);
    task_word_begin(&task);
    init_u32(&flags[0], 0);
    init_u32(&flags[1], 0);
    init_u32(&queue, ENTRIES_ONE);
    init_u32(&written, 0);
    init_u32(&places[0], PLACE_EMPTY);
    init_u32(&places[1], PLACE_EMPTY);
    explore_name(&task.word, "word");
    explore_name(&task.cancel, "cancel");
    explore_name(&flags[0], "flag a");
    explore_name(&flags[1], "flag b");
    explore_name(&queue, "queue");
    explore_name(&written, "written");
    at = turns = 0;
    stopped = entered[0] = entered[1] = false;
}

static uint64_t
shared(void)
{
    return weak_mix(at + 100 * turns + 10000u * stopped + 20000u * entered[0] + 40000u * entered[1] +
                    80000u * task.marks.linked);
}

/* For task_leave.c and charge.c: the one queue. */
void
worker_submit(Scheduler *ours, Worker *worker, Task *woken, WakeLane lane)
{
    (void)ours;
    (void)worker;
    (void)lane;
    explore_require(woken == &task, "another task was woken");
    explore_require(swap_u32(&queue, ENTRIES_ONE, ACQ_REL) == ENTRIES_NONE, "there are two entries");
    explore_wake(&queue);
}

void
worker_requeue(Worker *worker, Task *woken)
{
    worker_submit(worker->scheduler, worker, woken, TO_READY);
}

/* For a lock that is taken: the explorer's threads sleep on its own futex. */
void
lock_wait(Lock *lock)
{
    while (swap_u32(&lock->word, 2, ACQUIRE) != 0) {
        explore_wait(&lock->word, 2, false);
    }
}

void
lock_wake(Lock *lock)
{
    explore_wake(&lock->word);
}

/* As task_rest and the end of a task do. */
static void
enter_list(void)
{
    lock_take(&nursery.lock);
    law_queue_append(&nursery.have_waited, &task.nursery_link);
    lock_give(&nursery.lock);
    task.marks.linked = true;
}

static void
leave_list(void)
{
    if (task.marks.linked) {
        lock_take(&nursery.lock);
        law_queue_remove(&nursery.have_waited, &task.nursery_link);
        task.marks.linked = false;
        lock_give(&nursery.lock);
    }
}

/* The task is about to wait, or to give way: from here on it no longer belongs to this worker. */
static void
leave_for(LawState state)
{
    if (state != LAW_STATE_READY && !task.marks.linked) {
        enter_list();
    }
    turns += 1;
    store_u32(&written, turns, RELAXED);
    if (state == LAW_STATE_READY) {
        after_yield(&task);
    } else {
        rest(&task, state, false);
    }
}

/* Whether a flag is not set yet; then the task has announced that it waits for it. */
static bool
must_wait(unsigned flag)
{
    uint32_t place = PLACE_EMPTY;
    if (load_u32(&flags[flag], RELAXED) != 0) { /* after a wake that is enough (TASK-4) */
        return false;
    }
    if (entered[flag] || cas_u32(&places[flag], &place, PLACE_WAITS, ACQ_REL)) {
        entered[flag] = true;
        return true;
    }
    explore_require(load_u32(&places[flag], ACQUIRE) == PLACE_SET && load_u32(&flags[flag], RELAXED) == 1,
                    "the play is wrong");
    return false;
}

static void
set(unsigned flag, bool from_hold)
{
    store_u32(&flags[flag], 1, RELAXED);
    if (swap_u32(&places[flag], PLACE_SET, ACQ_REL) == PLACE_WAITS) {
        if (from_hold) {
            worker_wake(&scheduler, NULL, &task, TO_READY, true);
        } else if (task_unblocked(&task)) { /* as a sender does that finishes a message */
            worker_requeue(&host, &task);
        }
    }
}

/* One turn. True: it has ended. */
static bool
runs(void)
{
    task_dispatched(&task);
    explore_require(load_u32(&written, RELAXED) == turns, "the task does not see what it wrote itself");
    for (; steps[at] != 0; at++) {
        char step = steps[at];
        if (task_cancelled(&task)) {
            stopped = true;
            return true;
        }
        if (step == 'y') {
            at++;
            leave_for(LAW_STATE_READY);
            return false;
        }
        if (step == '.' && task_paused(&task)) {
            leave_for(LAW_STATE_PAUSED);
            return false;
        }
        if ((step == 'a' || step == 'b' || step == 'h') && must_wait(step == 'b')) {
            leave_for(step == 'h' ? LAW_STATE_EXHAUSTED : LAW_STATE_BLOCKED);
            return false;
        }
    }
    return true;
}

static void
work(void)
{
    for (;;) {
        uint32_t one = ENTRIES_ONE;
        explore_state(1);
        if (!cas_u32(&queue, &one, ENTRIES_NONE, ACQ_REL)) {
            if (one == ENTRIES_CLOSED) {
                return;
            }
            explore_wait(&queue, ENTRIES_NONE, false);
        } else if (runs()) {
            leave_list();
            task_word_end(&task, stopped ? LAW_OUTCOME_CANCELLED : LAW_OUTCOME_OK);
            explore_require(swap_u32(&queue, ENTRIES_CLOSED, ACQ_REL) == ENTRIES_NONE,
                            "an entry of a task that has ended");
            for (unsigned i = 1; i < workers; i++) {
                explore_wake(&queue);
            }
            return;
        }
    }
}

static void
body(unsigned thread)
{
    if (thread < workers) {
        work();
        return;
    }
    switch (others[thread - workers]) {
    case 'A':
    case 'B':
        set(others[thread - workers] == 'B', false);
        break;
    case 'R':
        set(0, true);
        break;
    case 'P':
        if (task_pause(&scheduler, NULL, &task, GENERATION) == ENGINE_OK) {
            (void)task_resume(&scheduler, NULL, &task, GENERATION);
        }
        break;
    case 'N':
        (void)nursery_cancel(&nursery, LAW_CANCEL_USER);
        break;
    default:
        task_request_cancel(&scheduler, NULL, &task, GENERATION);
        break;
    }
}

static void
finish(void)
{
    explore_require(load_u32(&queue, RELAXED) == ENTRIES_CLOSED, "the task has not ended");
    explore_require(stopped || steps[at] == 0, "the task has ended too early");
    explore_require(!stopped || strpbrk(others, "CN") != NULL, "it stopped without a request");
    explore_require(task_state(&task) == LAW_STATE_DONE, "its word does not say so");
}

typedef enum {
    ALL,        /* every schedule, and every value that weak memory allows */
    ALL_STRONG, /* every schedule */
    RANDOM,     /* many schedules, with weak memory */
} Way;

static uint64_t random_runs;

static void
check(unsigned worker_count, const char *what, const char *whom, Way way)
{
    char name[80];
    for (int light = 0; light < 2; light++) {
        steps = what;
        others = whom;
        workers = worker_count;
        asymmetric = light != 0;
        snprintf(name, sizeof name, "%u: %s | %s%s", worker_count, what, whom, light ? " asymmetric" : "");
        ExploreProgram explored = {.name = name,
                                   .threads = worker_count + (unsigned)strlen(whom),
                                   .setup = setup,
                                   .thread = body,
                                   .shared = shared,
                                   .finish = finish,
                                   .strong = way == ALL_STRONG};
        if (way != RANDOM) {
            explore_check_all(&explored);
        } else {
            explore_check_random(&explored, random_runs, 4);
        }
    }
}

/* Four threads, with more than one step each: with weak memory there would be too many states. */
static void
check_large(unsigned worker_count, const char *what, const char *whom)
{
    check(worker_count, what, whom, ALL_STRONG);
    check(worker_count, what, whom, RANDOM);
}

static void
test(bool long_form)
{
    random_runs = long_form ? 300000 : 5000;
    check(1, "a", "A", ALL);
    check(1, "ab", "AB", ALL);
    check(1, "ayb", "AB", ALL);
    check(2, "a", "A", ALL);
    check(2, "ya", "A", ALL);
    check(1, "h", "R", ALL);
    check(1, "hb", "RB", ALL); /* a wake is no recharge, and is not lost for the wait after the hold */
    check(1, "a", "C", ALL);
    check(1, "h", "C", ALL);
    check(2, "a", "C", ALL);
    check(1, "a", "N", ALL);
    check(1, "ya", "N", ALL);
    check(1, "h", "N", ALL);
    check(1, "..", "P", ALL);
    check(2, ".", "P", ALL);
    if (long_form) {
        check(2, "aybya", "AB", ALL);
        check(2, "yab", "AB", ALL);
        check(2, "ya", "N", ALL);
        check(1, "a", "AN", ALL);
        check(1, "ya", "AC", ALL);
        check(1, "a", "PC", ALL);
        check(1, ".a", "PC", ALL);
        check(1, ".a.", "PA", ALL);
        check_large(2, ".y.", "PC");
        check_large(2, "hb", "RC");
        check_large(1, "a.b", "ABP");
        check_large(1, "ab", "ABC");
    }
    check(2, "aybyayb", "AB", RANDOM);
    check(1, "ya", "AC", RANDOM);
    check(1, "a", "PC", RANDOM);
    check(2, "ya.b", "AN", RANDOM);
    check(2, ".a.yy.", "PA", RANDOM);
    check(1, "h.yab.", "RBP", RANDOM);
}

int
main(int argc, char **argv)
{
    return explore_main(argc, argv, test);
}
