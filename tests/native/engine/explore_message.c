/* A message under the schedule explorer: a task that waits in one channel, and other threads that send, close, or ask
 * it to stop.
 *
 * The task receives, one value after another, until a receive is refused. Every other thread does one thing:
 *
 *     S    a task sends, if a receiver waits           C    ask the receiver to stop
 *     O    an outside thread sends                     L    close the channel
 *
 * Real: the claim under the channel's lock, with the fast path and `operate` (channel_ops.c, channel.c), the end of the
 * wait (wait.c), the receiver's word (task.h), how a request is noted (task_requests.c). Simulated: the queue, which is one
 * cell, the stack switch, the lock's futex; and the budget, which is always sufficient.
 *
 * Checked: every successful send is one value received, once, also by a receiver that was asked to stop (WAIT-1,
 * WAIT-2). A send that failed delivers nothing. Every waiter is answered, in every schedule. At the end the queue is
 * empty.
 */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* stack_t, in fiber/overflow.h */
#endif

#include <stdio.h>
#include <string.h>

#include "engine/channel_ops.c"
#include "engine/channel_ops.h"
#include "engine/help_children.h"
#include "engine/task_leave.h"
#include "explore.h"
#include "weakmem.h"

bool explore_wait(const void *cell, uint64_t expected, bool timed);
void explore_wake(const void *cell);

enum { TASKS = 4, GENERATION = 41, CHANNEL_GENERATION = 7, VALUES_MAX = 4 };

static const char *others;

static Scheduler scheduler;
static Purse purse;
static Channel channel;
static Task tasks[TASKS];
static Worker workers[TASKS];
static struct runner runners[TASKS];
static atomic_u32 queued;             /* the receiver is in a queue */
static uint32_t received[VALUES_MAX]; /* by the number of the sender */
static int sent[TASKS], ended;

static void
setup(void)
{
    memset(tasks, 0, sizeof tasks);
    memset(received, 0, sizeof received);
    memset(sent, 0, sizeof sent);
    ended = ENGINE_OK;
    init_u32(&scheduler.requests, 0);
    for (unsigned i = 0; i < TASKS; i++) {
        runners[i].worker = &workers[i];
        workers[i].scheduler = &scheduler;
        workers[i].current = &tasks[i];
        workers[i].credit = (Credit){.purse = &purse, .messages = 100};
        tasks[i].fiber.runner = &runners[i];
        tasks[i].purse = &purse;
        tasks[i].ticks_left = 100;
        init_u32(&tasks[i].head.generation, GENERATION);
        init_u32(&tasks[i].cancel, GENERATION - 2);
        init_u64(&tasks[i].word, 0);
        task_word_begin(&tasks[i]);
    }
    channel_prepare(&channel);
    channel.scheduler = &scheduler;
    channel.item_bytes = sizeof(uint64_t);
    channel.capacity = channel.count = 0;
    channel.closed = false;
    init_u32(&channel.head.generation, CHANNEL_GENERATION);
    init_u32(&queued, 0);
    explore_name(&channel.lock.word, "lock");
    explore_name(&tasks[0].word, "word");
    explore_name(&tasks[0].cancel, "cancel");
    explore_name(&queued, "queued");
}

static uint64_t
shared(void)
{
    uint64_t hash =
        weak_mix((uint64_t)(uintptr_t)channel.receivers.ring.newer + channel.receivers.length + channel.closed);
    for (unsigned i = 0; i < TASKS; i++) {
        hash = weak_mix(hash + received[i] + 8u * (unsigned)-sent[i]);
    }
    return weak_mix(hash + (unsigned)-ended);
}

/* ---- what channel_ops.c calls */

/* The receiver rests, unless it was woken already, and runs again when it is taken out of the queue. */
static void
rest_and_run(Task *self)
{
    explore_require(self == &tasks[0], "a sender waits");
    uint32_t one = 1;
    if (task_rests(self, LAW_STATE_BLOCKED)) {
        return;
    }
    for (; !cas_u32(&queued, &one, 0, ACQ_REL); one = 1) {
        explore_wait(&queued, 0, false);
    }
    task_dispatched(self);
}

void
task_block(Worker *worker, Task *self)
{
    explore_require(worker == task_worker(self), "another worker's task");
    rest_and_run(self);
}

void
task_rest(Task *self, Rest rest)
{
    explore_require(rest == REST_CANCEL_DELIVERED, "another rest");
    rest_and_run(self);
}

void
worker_submit(Scheduler *ours, Worker *worker, Task *woken, WakeLane lane)
{
    (void)ours;
    (void)worker;
    (void)lane;
    explore_require(woken == &tasks[0], "another task was woken");
    explore_require(swap_u32(&queued, 1, ACQ_REL) == 0, "there are two entries");
    explore_wake(&queued);
}

void
worker_requeue(Worker *worker, Task *woken)
{
    worker_submit(worker->scheduler, worker, woken, TO_READY);
}

bool
task_look_for_requests(Task *self)
{
    return load_u32(&scheduler.requests, ACQUIRE) != 0 && task_cancel_requested(self);
}

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

/* A call that does not take the fast path, because of a cancel request. */
int
task_charge(Task *self, const LawCost *cost)
{
    (void)cost;
    return task_must_stop(self) ? ENGINE_CANCELLED : ENGINE_OK;
}

int
task_refuse(Task *self, int code)
{
    (void)self;
    return code;
}

/* As charge.c has it. */
void
task_request_cancel(Scheduler *ours, Worker *worker, Task *task, uint32_t generation)
{
    explore_require(task_note_request(task, generation, generation), "there is no other request");
    add_u32(&ours->requests, 1, RELEASE);
    worker_wake(ours, worker, task, TO_CANCEL, true);
}

/* In these programs no thread drives or waits outside, and no task is paused or short of stack. */
bool
scheduler_drive(Scheduler *ours, const atomic_u32 *word, uint32_t value)
{
    (void)ours;
    (void)word;
    (void)value;
    explore_require(false, "a thread outside waits");
    return false;
}

void
task_check_stack(Task *self)
{
    (void)self;
    explore_require(false, "a task is paused");
}

/* ---- the threads */

static void
receiver(void)
{
    for (unsigned i = 0; i < VALUES_MAX; i++) {
        uint64_t value = 0;
        ended = channel_receive(&channel, CHANNEL_GENERATION, &workers[0], &value, CHANNEL_WAIT);
        if (ended != ENGINE_OK) {
            return;
        }
        explore_require(value > 0 && value < TASKS, "what was received is no value");
        received[value] += 1;
    }
}

static void
body(unsigned thread)
{
    uint64_t value = thread;
    switch (thread == 0 ? 'R' : others[thread - 1]) {
    case 'R':
        receiver();
        break;
    case 'S':
        sent[thread] = channel_send(&channel, CHANNEL_GENERATION, &workers[thread], &value, 0);
        break;
    case 'O':
        sent[thread] = channel_send(&channel, CHANNEL_GENERATION, NULL, &value, 0);
        break;
    case 'L':
        (void)channel_close(NULL, &channel, CHANNEL_GENERATION);
        break;
    default:
        task_request_cancel(&scheduler, NULL, &tasks[0], GENERATION);
        break;
    }
}

/* The receiver may wait forever if no other thread ends its wait. */
static bool
may_rest(void)
{
    return strpbrk(others, "CL") == NULL;
}

static void
finish(void)
{
    for (unsigned i = 1; i <= strlen(others); i++) {
        if (others[i - 1] == 'S' || others[i - 1] == 'O') {
            explore_require(sent[i] == ENGINE_OK || sent[i] == ENGINE_AGAIN || sent[i] == ENGINE_CLOSED,
                            "a strange answer");
            explore_require(received[i] == (sent[i] == ENGINE_OK), "what was sent is not what was received");
        }
    }
    explore_require(ended == ENGINE_OK || channel.receivers.length == 0, "it has left, and is in the queue");
    explore_require(ended != ENGINE_CANCELLED || strchr(others, 'C') != NULL, "it stopped without a request");
    explore_require(ended != ENGINE_CLOSED || strchr(others, 'L') != NULL, "refused as closed without a close");
}

static void
check(const char *whom, uint64_t random_runs)
{
    char name[40];
    others = whom;
    snprintf(name, sizeof name, "receive | %s", whom);
    ExploreProgram explored = {.name = name,
                               .threads = 1 + (unsigned)strlen(whom),
                               .setup = setup,
                               .thread = body,
                               .may_rest = may_rest,
                               .shared = shared,
                               .finish = finish};
    if (random_runs == 0) {
        explore_check_all(&explored);
    } else {
        explore_check_random(&explored, random_runs, 4);
    }
}

static void
test(bool long_form)
{
    check("S", 0);
    check("O", 0);
    check("C", 0);
    check("L", 0);
    if (long_form) {
        check("SC", 0);
        check("OC", 0);
    }
    uint64_t runs = long_form ? 300000 : 20000;
    check("SC", runs);
    check("OC", runs);
    check("SS", runs);
    check("SO", runs);
    check("CL", runs);
    check("SSC", runs);
    check("SLC", runs);
}

int
main(int argc, char **argv)
{
    return explore_main(argc, argv, test);
}
