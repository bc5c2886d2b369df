/* The chain and the streams against the worked values of docs/internals/chain.md. */
#include "check.h"

#include "law/chain.h"

static void
test_the_mixer(void)
{
    CHECK_EQUAL(law_mix64(0), 0);
    CHECK_EQUAL(law_mix64(1), UINT64_C(0x5692161d100b05e5));
    CHECK_EQUAL(law_mix64(LAW_GOLDEN), UINT64_C(0xe220a8397b1dcdaf));
    CHECK_EQUAL(law_mix64(UINT64_MAX), UINT64_C(0xb4d055fcf2cbbd7b));
}

static void
test_where_a_chain_starts(void)
{
    CHECK_EQUAL(law_seed_chain(0, 1), UINT64_C(0xbfef8030ddc2d772));
    CHECK_EQUAL(law_seed_chain(0, 2), UINT64_C(0x41142829ae9e115e));
    CHECK_EQUAL(law_seed_chain(42, 4), UINT64_C(0x03bf3626f3de7ade));
    CHECK_EQUAL(law_seed_chain(UINT64_MAX, 1), UINT64_C(0x7ee8be1b285050a3));
}

static void
test_decisions_in_a_row(void)
{
    static const uint64_t rows[][8] = {
        {2, 1, 3, 0, 0, 16, 1, UINT64_C(0xb93bb4d667963179)},
        {2, 1, 3, 0, 0, 16, 2, UINT64_C(0xa7b157952e6d8abe)},
        {4, 3, 4, 2, 0, 16, 1, UINT64_C(0x3f9976148b50ed6e)},
        {5, 3, 2, 1, 0, 16, 3, UINT64_C(0x50eaec993dfc78b0)},
        {4, 3, 1, 2, 1, 32, 2, UINT64_C(0x8ad2b62646ddcb02)},
        {5, 3, 1, 1, 2, 32, 4, UINT64_C(0x522b647c51a50da0)},
        {4, 3, 5, 2, 0, 32, 3, UINT64_C(0xd9c84e1cdb66a3dd)},
        {UINT64_C(4294967303), UINT64_C(1099511627785), 3, 4095, 0, 16, UINT64_C(1099511627776),
         UINT64_C(0xe015bbbd56b4129d)},
    };
    uint64_t chain = law_seed_chain(42, 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint64_t *row = rows[i];
        chain = law_link(chain, row[0], row[1], row[2], row[3], row[4], row[5], row[6]);
        CHECK_EQUAL(chain, row[7]);
    }
}

static void
test_streams(void)
{
    LawRandomStream stream = law_random_init(0, 0);
    CHECK_EQUAL(law_random_next(&stream), UINT64_C(0x568a9b0b1a2c05ec));
    CHECK_EQUAL(law_random_next(&stream), UINT64_C(0x44e5b8b147ef718b));
    stream = law_random_init(42, -2);
    CHECK_EQUAL(law_random_next(&stream), UINT64_C(0xf2e5bf1e89fbf604));
    stream = law_random_init(42, 1);
    static const uint64_t dice[] = {1, 5, 3, 0, 5, 4, 2, 1, 5, 1};
    for (size_t i = 0; i < sizeof dice / sizeof *dice; i++) {
        CHECK_EQUAL(law_random_below(&stream, 6), dice[i]);
    }
}

static void
test_the_portable_product_is_the_same(void)
{
    static const uint64_t edges[] = {
        0, 1, 2, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    enum { EDGES = sizeof edges / sizeof *edges };
    for (size_t i = 0; i < EDGES; i++) {
        for (size_t j = 0; j < EDGES; j++) {
            CHECK_EQUAL(law_high_product(edges[i], edges[j]), law_high_product_portable(edges[i], edges[j]));
        }
    }
    LawRandomStream stream = law_random_init(1, 1);
    for (int i = 0; i < 10000; i++) {
        uint64_t a = law_random_next(&stream), b = law_random_next(&stream);
        CHECK_EQUAL(law_high_product(a, b), law_high_product_portable(a, b));
    }
    CHECK_EQUAL(law_high_product_portable(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    CHECK_EQUAL(law_high_product_portable(UINT64_C(1) << 63, 6), 3);
}

int
main(void)
{
    test_the_mixer();
    test_where_a_chain_starts();
    test_decisions_in_a_row();
    test_streams();
    test_the_portable_product_is_the_same();
    return finish();
}
