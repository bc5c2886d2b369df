/* Start, stop and inspect the runtime. Contract: include/janus_rt.h. */
#include "include/janus_rt.h"

#include "abi/convert_budget.h"
#include "abi/handle.h"
#include "abi/janus_profile.h"
#include "abi/janus_token.h"

#include <string.h>

int
janus_rt_init_with(const janus_rt_options *options)
{
    if (options == NULL || options->size < sizeof *options || !budget_valid(options->budget) ||
        options->steal_policy > 2 || !profile_allows(options)) {
        return JANUS_INVALID;
    }
    SchedulerOptions ours = {
        .workers = options->worker_count,
        .seed = options->seed,
        .deterministic = options->deterministic,
        .no_stealing = options->no_stealing,
        .sovereign = options->profile == JANUS_PROFILE_SOVEREIGN,
        .policy = (LawStealPolicy)options->steal_policy,
        .budget = budget_in(options->budget),
        .yield_interval =
            options->yield_interval > 0 ? options->yield_interval : profile_yield_interval(options->profile),
        .thread_hook = visit_thread_hook,
        .cancel_hook = tokens_nursery_cancelled,
        .hook_context = &the_runtime,
    };
    return runtime_start(&ours);
}

int
janus_rt_init(janus_rt_config config)
{
    janus_rt_options options = {.size = sizeof options, .worker_count = config.worker_count, .seed = config.seed};
    return janus_rt_init_with(&options) == JANUS_OK ? 0 : -1;
}

int
janus_rt_init_default(void)
{
    return janus_rt_init((janus_rt_config){0});
}

void
janus_rt_shutdown(void)
{
    if (visit_may_stop()) {
        runtime_stop();
    }
}

bool
janus_rt_is_running(void)
{
    return runtime_is_running();
}

void *
janus_rt_get(void)
{
    Visit visit = visit_begin();
    void *handle = visit.runtime != NULL ? handle_from(HANDLE_RUNTIME, 0) : NULL;
    visit_end(&visit);
    return handle;
}

int
janus_rt_statistics(janus_statistics *out)
{
    _Static_assert(sizeof(janus_statistics) == sizeof(SchedulerStatistics), "the same counters in the same order");
    Visit visit = visit_begin();
    SchedulerStatistics sums;
    int error = visit.runtime == NULL ? JANUS_STOPPING : out == NULL ? JANUS_INVALID : JANUS_OK;
    if (error == JANUS_OK) {
        scheduler_statistics(&visit.runtime->scheduler, &sums);
        memcpy(out, &sums, sizeof sums);
    }
    visit_end(&visit);
    return error;
}

int
janus_rt_worker_statistics(uint32_t worker, janus_statistics *out)
{
    Visit visit = visit_begin();
    SchedulerStatistics its;
    int error = visit.runtime == NULL ? JANUS_STOPPING
                : out == NULL         ? JANUS_INVALID
                                      : scheduler_worker_statistics(&visit.runtime->scheduler, worker, &its);
    visit_end(&visit);
    if (error == JANUS_OK) {
        memcpy(out, &its, sizeof its);
    }
    return error;
}

uint64_t
janus_rt_chain(void)
{
    Visit visit = visit_begin();
    uint64_t chain = 0;
    if (visit.runtime != NULL && visit.runtime->scheduler.options.deterministic) {
        chain = visit.runtime->scheduler.logical.chain;
    }
    visit_end(&visit);
    return chain;
}
