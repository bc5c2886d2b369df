/* The switch itself: registers, control words, alignment, values, recovery points, visits (SWITCH-1 to SWITCH-9). */

#include "world.h"

#include "fiber/context.h"

uint64_t registers_around(void (*middle)(void *), void *arg, uint64_t seed);

/* The control words of floating point. `strange` ones differ from the default in every part that a switch keeps. */
static uint64_t
words_get(void)
{
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (uint64_t)x87 << 32 | (mxcsr & 0xffc0);
#else
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#endif
}

static void
words_set(uint64_t words)
{
#if defined(__x86_64__)
    uint32_t mxcsr = (uint32_t)words;
    uint16_t x87 = (uint16_t)(words >> 32);
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87));
#else
    __asm__ volatile("msr fpcr, %0" : : "r"(words));
#endif
}

#if defined(__x86_64__)
#  define WORDS_DEFAULT (UINT64_C(0x037f) << 32 | 0x1f80)
#  define WORDS_UP (UINT64_C(0x0b7f) << 32 | 0x5f80)
#  define WORDS_X87 (UINT64_C(0x027f) << 32 | 0x1f80) /* differs only in the x87 word */
#  define WORDS_SSE (UINT64_C(0x037f) << 32 | 0x9fc0) /* differs only in mxcsr */
#else
#  define WORDS_DEFAULT UINT64_C(0)
#  define WORDS_UP (UINT64_C(1) << 22)
#  define WORDS_X87 (UINT64_C(2) << 22)
#  define WORDS_SSE (UINT64_C(1) << 24)
#endif

static struct stack *stack;
static void *here, *there;
static uint64_t changed;
static uintptr_t misaligned;

#if SANITIZE_ADDRESS || SANITIZE_THREAD
#  define BARE(call) ((void)0) /* sanitizers must know of switches: fiber.h announces them, these bare ones do not */
#else
#  define BARE(call) (call)
#endif

static void
away(void *arg)
{
    CHECK(context_switch(&there, here, (void *)1) == arg);
}

static void
visitor(void *arg)
{
    misaligned = (uintptr_t)__builtin_frame_address(0) % 16;
    CHECK(arg == &there);
    for (uint64_t round = 0;; round++) {
        changed |= registers_around(away, &changed, 0x1111111111111100 + round);
    }
}

static void
out(void *arg)
{
    CHECK(context_switch(&here, there, arg) == (void *)1);
}

/* Both sides fill all registers before each switch (SWITCH-1). */
static void
test_registers_survive_both_ways(void)
{
    changed = 0;
    misaligned = 1;
    context_start(&here, stack->top, visitor, &there);
    CHECK_EQUAL(misaligned, 0); /* SWITCH-4: the frame address is 16-byte aligned on both machines */
    for (uint64_t round = 0; round < 10000; round++) {
        changed |= registers_around(out, &changed, 0x7700770077007700 + round);
    }
    CHECK_EQUAL(changed, 0);
    CHECK((char *)there > stack->limit && (char *)there < stack->top); /* the entry runs on the new stack */
}

static const uint64_t words[] = {WORDS_DEFAULT, WORDS_UP, WORDS_X87, WORDS_SSE};
#define WORDS (sizeof words / sizeof *words)

static uint64_t wanted;

/* Begins with the default (SWITCH-5), sets the wanted words, and must find them again; leaves in both ways. */
static void
rounding(void *arg)
{
    (void)arg;
    CHECK_EQUAL(words_get(), WORDS_DEFAULT);
    words_set(wanted);
    context_switch(&there, here, NULL);
    CHECK_EQUAL(words_get(), wanted);
    context_jump(here, NULL);
}

/* Every pair of control words: for each part there is a pair that differs only there. */
static void
test_control_words_belong_to_the_context(void)
{
    for (size_t mine = 0; mine < WORDS; mine++) {
        for (size_t its = 0; its < WORDS; its++) {
            wanted = words[its];
            words_set(words[mine]);
            context_start(&here, stack->top, rounding, NULL);
            CHECK_EQUAL(words_get(), words[mine]);
            context_switch(&here, there, NULL);
            CHECK_EQUAL(words_get(), words[mine]);
        }
    }
    words_set(WORDS_DEFAULT);
}

static void *point;

static void
returns(void *arg)
{
    *(int *)arg += 1;
}

static void
falls(void *arg)
{
    *(int *)arg += 1;
    words_set(WORDS_UP);
    context_abandon(point, arg);
}

static int calls;

static void
falling_call(void *arg)
{
    CHECK(context_call(&point, falls, arg) == arg);
}

static void
test_a_call_can_be_abandoned(void)
{
    calls = 0;
    CHECK(context_call(&point, returns, &calls) == NULL);
    CHECK(context_call(&point, falls, &calls) == &calls);
    CHECK_EQUAL(words_get(), WORDS_DEFAULT);
    CHECK_EQUAL(calls, 2);
    CHECK_EQUAL(registers_around(falling_call, &calls, 0x123456789abcdef0), 0);
    CHECK_EQUAL(calls, 3);
}

static const void *from;

/* Guesses `elsewhere`; NULL: guesses right. */
static struct context_visit
guesses(void *answer, void *elsewhere, const void *back)
{
    misaligned = (uintptr_t)__builtin_frame_address(0) % 16;
    from = back;
    return (struct context_visit){.answer = (int64_t)(intptr_t)answer, .guess = elsewhere != NULL ? elsewhere : back};
}

static void
visiting(void *elsewhere)
{
    char here_too[64];
    memset(here_too, 7, sizeof here_too);
    CHECK_EQUAL(context_visit(guesses, (void *)-5, elsewhere), -5);
    const void *first = from;
    CHECK_EQUAL(context_visit(guesses, (void *)INT64_MAX, elsewhere), INT64_MAX);
#if defined(__x86_64__)
    CHECK(first != NULL && from != first); /* two places */
#else
    CHECK(first == NULL && from == NULL); /* this machine does not guess */
#endif
    CHECK_EQUAL(here_too[0] + here_too[63], 14);
}

static void
test_a_visit_returns_whatever_it_guesses(void)
{
    misaligned = 1;
    CHECK_EQUAL(registers_around(visiting, NULL, 0x123456789abcdef0), 0);
    CHECK_EQUAL(misaligned, 0);
    CHECK_EQUAL(registers_around(visiting, &calls, 0x7700770077007700), 0);
    CHECK_EQUAL(misaligned, 0);
}

int
main(void)
{
    struct world world;
    world_begin(&world, NULL);
    stack = stack_cache_get(&world.cache, 0);
    CHECK(stack != NULL);
    BARE(test_registers_survive_both_ways());
    BARE(test_control_words_belong_to_the_context());
    test_a_call_can_be_abandoned();
    test_a_visit_returns_whatever_it_guesses();
    (void)test_registers_survive_both_ways, (void)test_control_words_belong_to_the_context;
    stack_cache_put(&world.cache, stack);
    world_end(&world);
    return finish();
}
