/* The deque under the schedule explorer: one owner, one or two thieves, every schedule of small programs.
 *
 * A program is one word per thread. The owner: p push, t take, o take the oldest. A thief: s steal, b steal a batch
 * into an array, i steal a batch into its own deque, which it then empties. A plain array that replays the owner's word
 * is the oracle:
 *
 * 1. Every pushed item is taken or stolen exactly once. (The check itself takes what is left at the end.)
 *
 * 2. A take returns the newest item that is left: the last of the array, without the items that the owner took.
 *
 * 3. A take returns nothing only if all remaining items had been stolen.
 *
 * 4. A thief gets items in order of age, and so does an owner that takes the oldest: all older items had been stolen.
 */
#include <stdio.h>
#include <string.h>

#include "engine/deque.h"
#include "explore.h"
#include "weakmem.h"

enum { OPS_MAX = 64, ITEMS_MAX = 128, THREADS = 3 };

static const char *words[THREADS];
static size_t capacity;
static bool memory_fails; /* the explorer then chooses which growth gets no memory */
static Deque deque, own[THREADS];
static uintptr_t
    logs[THREADS][ITEMS_MAX]; /* the items of each thread, in order; for the owner one entry per t, 0 if it got none */
static unsigned logged[THREADS];
static bool pushed[OPS_MAX];

static void *
allocate(void *context, size_t bytes)
{
    return memory_fails && *(bool *)context && explore_choose(2) == 1 ? NULL : explore_memory.allocate(NULL, bytes);
}

static bool started;
static const EngineAllocator memory = {allocate, NULL, &started};

static void
setup(void)
{
    started = false;
    deque_init(&deque, capacity, &memory);
    explore_name(&deque.top, "top");
    explore_name(&deque.bottom, "bottom");
    explore_name(&deque.buffer, "buffer");
    for (unsigned t = 0; t < THREADS; t++) {
        deque_init(&own[t], 4, &explore_memory);
        logged[t] = 0;
    }
    memset(pushed, 0, sizeof pushed);
    started = true;
}

static void
got(unsigned thread, const void *item)
{
    logs[thread][logged[thread]++] = (uintptr_t)item;
}

/* Everything that a thread's future and the checks depend on (EXPLORE-2 of explore.h). */
static void
say_state(unsigned thread, unsigned op)
{
    uint64_t hash = op;
    for (unsigned i = 0; i < logged[thread]; i++) {
        hash = weak_mix(hash + 1 + logs[thread][i]);
    }
    if (thread == 0) {
        hash = weak_mix(hash + (uint64_t)deque.top_seen);
        for (unsigned i = 0; i < op; i++) {
            hash = weak_mix(hash + pushed[i]);
        }
    }
    explore_state(hash);
}

static void
owner(void)
{
    uintptr_t next = 1;
    for (unsigned op = 0; words[0][op] != 0; op++) {
        say_state(0, op);
        if (words[0][op] == 'p') {
            pushed[op] = deque_push(&deque, (void *)next++);
            explore_require(pushed[op] || memory_fails, "a push failed");
        } else {
            got(0, words[0][op] == 't' ? deque_take(&deque) : deque_take_oldest(&deque));
        }
    }
}

static void
thief(unsigned thread)
{
    for (unsigned op = 0; words[thread][op] != 0; op++) {
        void *items[DEQUE_BATCH_MAX];
        size_t count = 0;
        say_state(thread, op);
        if (words[thread][op] == 's') {
            count = deque_steal(&deque, &items[0]) == STEAL_DONE;
        } else if (words[thread][op] == 'b') {
            deque_steal_batch(&deque, items, 3, &count);
        } else if (deque_steal_into(&deque, &own[thread], &items[0], &count) == STEAL_DONE) {
            /* Its own deque returns the newest first; reversed, the log is in order of age again. */
            for (size_t i = count - 1; i > 0; i--) {
                items[i] = deque_take(&own[thread]);
            }
        }
        for (size_t i = 0; i < count; i++) {
            got(thread, items[i]);
        }
    }
}

static void
body(unsigned thread)
{
    if (thread == 0) {
        owner();
    } else {
        thief(thread);
    }
}

/* Rule 1, for one more item. */
static void
once(unsigned char *times, uintptr_t item)
{
    explore_require(item > 0 && item < ITEMS_MAX, "an item came out that was never pushed");
    explore_require(++times[item] == 1, "an item came out twice");
}

static void
finish(void)
{
    unsigned char stolen[ITEMS_MAX] = {0}, times[ITEMS_MAX] = {0};
    uintptr_t left[OPS_MAX], next = 1;
    unsigned count = 0, takes = 0;
    for (unsigned t = 1; t < THREADS; t++) {
        uintptr_t last = 0;
        for (unsigned i = 0; i < logged[t]; i++) {
            once(times, logs[t][i]);
            stolen[logs[t][i]] = 1;
            explore_require(logs[t][i] > last, "a thief got a younger item before an older one");
            last = logs[t][i];
        }
    }
    for (unsigned op = 0; words[0][op] != 0; op++) {
        if (words[0][op] == 'p') {
            if (pushed[op]) {
                left[count++] = next;
            }
            next++;
            continue;
        }
        uintptr_t item = logs[0][takes++];
        if (words[0][op] == 'o' && item != 0) { /* rule 4 */
            unsigned at = 0;
            while (at < count && left[at] != item) {
                explore_require(stolen[left[at++]], "an owner took an item, though an older one was there");
            }
            explore_require(at < count, "an owner took what was not there");
            once(times, item);
            memmove(left, left + at + 1, (count - at - 1) * sizeof *left);
            count -= at + 1;
        } else if (item == 0) {
            while (count > 0) {
                explore_require(stolen[left[--count]], "a take found nothing, though there was something");
            }
        } else {
            once(times, item);
            explore_require(count > 0 && left[count - 1] == item, "a take did not answer the newest item");
            count--;
        }
    }
    for (void *item; (item = deque_take(&deque)) != NULL;) {
        once(times, (uintptr_t)item);
    }
    next = 1;
    for (unsigned op = 0; words[0][op] != 0; op++) {
        explore_require(words[0][op] != 'p' || !pushed[op] || times[next] == 1, "an item was lost");
        next += words[0][op] == 'p';
    }
}

static void
check(const char *first, const char *second, const char *third, size_t room, uint64_t random_runs)
{
    char name[80];
    snprintf(name, sizeof name, "%s | %s | %s (%zu)", first, second, third, room);
    ExploreProgram explored = {
        .name = name, .threads = *third ? 3 : 2, .setup = setup, .thread = body, .finish = finish};
    words[0] = first;
    words[1] = second;
    words[2] = third;
    capacity = room;
    if (random_runs == 0) {
        explore_check_all(&explored);
    } else {
        explore_check_random(&explored, random_runs, 4);
    }
}

/* Every owner's word of `length` letters that starts with a push, against one thief of `steals`. */
static void
check_all_words(unsigned length, const char *steals)
{
    char word[OPS_MAX] = {'p'};
    for (unsigned bits = 0; bits < 1u << (length - 1); bits++) {
        for (unsigned i = 1; i < length; i++) {
            word[i] = (bits >> (i - 1) & 1) != 0 ? 't' : 'p';
        }
        check(word, steals, "", 2, 0);
    }
}

static void
test(bool long_form)
{
    check("pt", "s", "", 2, 0);
    check("pptt", "ss", "", 2, 0);
    check("pptt", "b", "", 4, 0);
    check("pppt", "ss", "", 1, 0);
    check("pt", "s", "s", 2, 0);
    check("pptt", "s", "s", 2, 0);
    check("ppptt", "b", "s", 2, 0);
    check("poppo", "s", "s", 2, 0); /* as a queue */
    check("ppopoo", "b", "", 2, 0);
    memory_fails = true;
    check("pppptt", "ss", "", 1, 0);
    memory_fails = false;
    check_all_words(long_form ? 6 : 5, long_form ? "ssssss" : "sss");
    check_all_words(long_form ? 6 : 5, "bb");
    if (long_form) {
        check("pppt", "i", "s", 4, 0);
        check("ppttpt", "ss", "ss", 2, 0);
        check("pppttt", "sss", "ss", 2, 0);
        check("pptptt", "bb", "ss", 2, 0);
    }
    uint64_t runs = long_form ? 300000 : 3000;
    check("pppppptttpppptttttppppttttttttt", "ssssssssss", "bbbbbb", 2, runs);
    check("ppppoooppooopppppooooooo", "ssssssssss", "bbbb", 2, runs);
    check("ptptptptptptptptptptpptptptt", "ssssssssssss", "ssssssssssss", 2, runs);
    check("ppppppppppppppppttpppptttt", "iiii", "bbbbss", 1, runs);
    memory_fails = true;
    check("pppppppppptttpppptttttppppttttttttt", "ssssssssss", "bbbb", 1, runs);
    memory_fails = false;
}

int
main(int argc, char **argv)
{
    return explore_main(argc, argv, test);
}
