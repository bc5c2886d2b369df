/* A message under the schedule explorer: a task that waits in one channel, and others who send, close, or ask it to stop.
 *
 * The task receives, one value after another, until it is told that there are no more; everybody else does one thing each:
 *
 *     S    a task sends, if somebody waits             C    ask the receiver to stop
 *     O    a thread outside does                       L    close the channel
 *
 * What is real: the claim under the channel's lock, with the short way and the complete one (channel_ops.c, channel.c), the
 * end of the wait (wait.c), the receiver's word (task.h), how a request is noted (pause.c). What is played: the queue,
 * which is one cell, whoever switches stacks, the lock's futex; and money, of which everybody has enough.
 *
 * Checked: every send that was done is one value received, once, also by a receiver that was asked to stop (WAIT-1,
 * WAIT-2); one that was not done is none; whoever waits is answered, in every schedule; the queue is empty in the end.
 */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* stack_t, in fiber/overflow.h */
#endif

#include <stdio.h>
#include <string.h>

#include "engine/channel_ops.c"
#include "engine/channel_ops.h"
#include "engine/help_children.h"
#include "engine/worker_loop.h"
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
static uint32_t received[VALUES_MAX]; /* by the number of who sent it */
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
    explore_require(rest == REST_DEAF, "another rest");
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
    return load_u32(&scheduler.requests, ACQUIRE) != 0 && task_asked(self);
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

/* A call that does not take the short way, because somebody was asked to stop. */
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
task_ask(Scheduler *ours, Worker *worker, Task *task, uint32_t generation)
{
    explore_require(task_note_request(task, generation, generation), "nobody else has asked");
    add_u32(&ours->requests, 1, RELEASE);
    worker_wake(ours, worker, task, TO_CANCEL, true);
}

/* Nobody waits outside, drives, is paused, or is short of stack. */
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
task_look_at_stack(Task *self)
{
    (void)self;
    explore_require(false, "a task is paused");
}

/* ---- the play */

static void
receiver(void)
{
    for (unsigned i = 0; i < VALUES_MAX; i++) {
        uint64_t value = 0;
        ended = channel_receive(&channel, CHANNEL_GENERATION, &workers[0], &value, true);
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
        sent[thread] = channel_send(&channel, CHANNEL_GENERATION, &workers[thread], &value, false);
        break;
    case 'O':
        sent[thread] = channel_send(&channel, CHANNEL_GENERATION, NULL, &value, false);
        break;
    case 'L':
        (void)channel_close(NULL, &channel, CHANNEL_GENERATION);
        break;
    default:
        task_ask(&scheduler, NULL, &tasks[0], GENERATION);
        break;
    }
}

/* The receiver may wait for ever where nobody ends that. */
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
    explore_require(ended != ENGINE_CANCELLED || strchr(others, 'C') != NULL, "it stopped, and nobody had asked");
    explore_require(ended != ENGINE_CLOSED || strchr(others, 'L') != NULL, "closed, and nobody has");
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
