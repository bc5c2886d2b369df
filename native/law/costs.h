/* Costs: rows of the cost table. Mirrors src/bursar/law/costs.py; the numbers are in generated/costs.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "law/generated/costs.h"
#include "law/generated/limits.h"

/* A sparse row of the cost table: `n` pairs (component, amount), each component at most once. The pairs are checked in
 * this order, so it decides which shortage is reported. */
typedef struct {
    int64_t amount[LAW_COMPONENTS];
    uint8_t component[LAW_COMPONENTS];
    uint8_t n;
} LawCost;

static const LawCost LAW_FREE = LAW_ROW_FREE;
static const LawCost LAW_OP = LAW_ROW_OP;
static const LawCost LAW_SPAWN = LAW_ROW_SPAWN;
static const LawCost LAW_CHANNEL = LAW_ROW_CHANNEL;
static const LawCost LAW_SYSCALL = LAW_ROW_SYSCALL;

/* Add a pair to a cost. Returns false, with nothing added, if there is no such component, if the cost has it already,
 * or if the amount is not between 0 and UNITS_MAX. */
static inline bool
law_cost_add(LawCost *cost, unsigned component, int64_t amount)
{
    if (component >= LAW_COMPONENTS || amount < 0 || amount > LAW_UNITS_MAX) {
        return false;
    }
    for (unsigned i = 0; i < cost->n; i++) {
        if (cost->component[i] == component) {
            return false;
        }
    }
    cost->component[cost->n] = (uint8_t)component;
    cost->amount[cost->n] = amount;
    cost->n += 1;
    return true;
}

/* The amount of one component in a cost. */
static inline int64_t
law_cost_of(const LawCost *cost, LawComponent component)
{
    for (unsigned i = 0; i < cost->n; i++) {
        if (cost->component[i] == component) {
            return cost->amount[i];
        }
    }
    return 0;
}
