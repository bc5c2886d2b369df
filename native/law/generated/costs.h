/* The components of a budget, the rows of the cost table, and the named budgets.
 *
 * Written by scripts/generate_c.py from the law in Python: do not edit.
 */
#pragma once

#include <stdint.h>

/* What a budget counts, in the order of `COMPONENTS`. */
typedef enum {
    LAW_OPS = 0,
    LAW_MEMORY = 1,
    LAW_SPAWNS = 2,
    LAW_CHANNEL_OPS = 3,
    LAW_SYSCALLS = 4,
} LawComponent;
enum { LAW_COMPONENTS = 5 };
#define LAW_COMPONENT_NAMES {"ops", "memory", "spawns", "channel_ops", "syscalls"}

/* `FREE`. */
#define LAW_ROW_FREE {{0}, {0}, 0}

/* `OP`: a loop iteration or a function call. */
enum { LAW_OP_COSTS_OPS = 1, LAW_OP_PAIRS = 1 };
#define LAW_ROW_OP {{LAW_OP_COSTS_OPS}, {LAW_OPS}, 1}

/* `SPAWN`. */
enum { LAW_SPAWN_COSTS_OPS = 1, LAW_SPAWN_COSTS_SPAWNS = 1, LAW_SPAWN_PAIRS = 2 };
#define LAW_ROW_SPAWN {{LAW_SPAWN_COSTS_OPS, LAW_SPAWN_COSTS_SPAWNS}, {LAW_OPS, LAW_SPAWNS}, 2}

/* `CHANNEL`: a send or a receive. */
enum { LAW_CHANNEL_COSTS_OPS = 1, LAW_CHANNEL_COSTS_CHANNEL_OPS = 1, LAW_CHANNEL_PAIRS = 2 };
#define LAW_ROW_CHANNEL {{LAW_CHANNEL_COSTS_OPS, LAW_CHANNEL_COSTS_CHANNEL_OPS}, {LAW_OPS, LAW_CHANNEL_OPS}, 2}

/* `SYSCALL`: file or network I/O. */
enum { LAW_SYSCALL_COSTS_OPS = 1, LAW_SYSCALL_COSTS_SYSCALLS = 1, LAW_SYSCALL_PAIRS = 2 };
#define LAW_ROW_SYSCALL {{LAW_SYSCALL_COSTS_OPS, LAW_SYSCALL_COSTS_SYSCALLS}, {LAW_OPS, LAW_SYSCALLS}, 2}

/* `Budget.none()`. */
#define LAW_BUDGET_NONE {INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0), INT64_C(0)}

/* `Budget.service()`. */
#define LAW_BUDGET_SERVICE {INT64_C(100000), INT64_C(10485760), INT64_C(100), INT64_C(1000), INT64_C(100)}

/* `Budget.cluster()`. */
#define LAW_BUDGET_CLUSTER {INT64_C(1000000), INT64_C(104857600), INT64_C(1000), INT64_C(10000), INT64_C(1000)}

/* `Budget.child()`. */
#define LAW_BUDGET_CHILD {INT64_C(10000), INT64_C(1048576), INT64_C(0), INT64_C(100), INT64_C(10)}
