/* The names of all Python functions, classes and constants that C uses. Each has a place in the module's state, which is
 * filled once. Methods and attributes are listed in tests/native/kernel/test_members_from_python.py.
 *
 * `st->brief` is the object that Python exposed as "brief"; PY_brief is its number, for `py_call`. A name that is in no list
 * does not compile. If Python exposes a name that is in no list, or the law does not expose a name of its list, the import
 * raises a SystemError with the name (SEAM-1 in seam.c).
 *
 * The three lists differ in when they are filled, and in what C does with the object.
 */
#pragma once

/* Enumerations: the class in Python, the array of its members in the state, and how many members there are. */
#define SEAM_ENUMS(X)                                   \
    X(State, states, LAW_STATES)                        \
    X(OutcomeKind, kinds, LAW_OUTCOMES)                 \
    X(WakeState, wakes, LAW_WAKES)                      \
    X(Notice, notices, LAW_NOTICES)                     \
    X(Lane, lanes, LAW_LANES)                           \
    X(NurseryState, nursery_states, LAW_NURSERY_STATES) \
    X(TimerKind, timer_kinds, LAW_TIMER_KINDS)          \
    X(CancelPhase, phases, LAW_PHASES)                  \
    X(CancelKind, cancel_kinds, LAW_CANCEL_KINDS)       \
    X(Bill, bills, LAW_BILLS)                           \
    X(TicketState, ticket_states, LAW_TICKETS)

/* The law: classes, constants and functions. src/bursar/backend.py exposes all of them at once, by `adopt`. */
#define SEAM_LAW(X)         \
    X(Outcome)              \
    X(CancelReason)         \
    X(Cancelled)            \
    X(CapabilityDenied)     \
    X(CapSpawn)             \
    X(CapTimer)             \
    X(CapBudget)            \
    X(ChannelClosed)        \
    X(Drain)                \
    X(ScopeMisuse)          \
    X(WorkerStats)          \
    X(UNSTATED)             \
    X(OP)                   \
    X(SUSPENDED)            \
    X(brief)                \
    X(require)              \
    X(require_plain)        \
    X(require_open)         \
    X(check_purse)          \
    X(capabilities_for)     \
    X(bill)                 \
    X(drain_owned)          \
    X(add_failure)          \
    X(count_uses)           \
    X(checked_spawn_cap)    \
    X(spawn_budget)         \
    X(acquire_spawn)        \
    X(affordable)           \
    X(name_pools)           \
    X(close_named)          \
    X(note_counters)        \
    X(nursery_capabilities) \
    X(release_leftovers)    \
    X(cleanup_too_long)     \
    X(refuse_move)          \
    X(refuse_end)           \
    X(refuse_nursery_move)  \
    X(refuse_await)         \
    X(NOTHING)              \
    X(ShortageRecord)

/* Packages that are built on the kernel: the module that defines the object exposes it when it is imported. */
#define SEAM_LATER(X)        \
    X(why_sleep)             \
    X(to_ns)                 \
    X(why_ended)             \
    X(read_drop)             \
    X(result_of)             \
    X(why_join)              \
    X(on_thread)             \
    X(with_values)           \
    X(on_thread_with_values) \
    X(end_failed)            \
    X(entered_twice)         \
    X(nursery)               \
    X(as_request)            \
    X(warn_forgotten)        \
    X(raise_later)           \
    X(own_modules)           \
    X(refuse_awaitable)      \
    X(require_thread)

#define SEAM_OBJECTS(X) SEAM_LAW(X) SEAM_LATER(X)

/* The number of each object, in the order of the lists. */
typedef enum {
#define X(name) PY_##name,
    SEAM_OBJECTS(X)
#undef X
        PY_OBJECTS,
} PyName;
