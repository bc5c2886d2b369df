# Planted faults: the explorer must find each of them. A comment says why the change is wrong.

# ---- deque

# Owner and thief do not see each other: both take the same item.
engine_mutant(take_without_fence deque deque.h
  "    fence_seq_cst(); /* the owner's fence of DEQUE-3 */\n" "")
engine_mutant(single_threaded_with_thieves deque deque.c
  "    deque->single_threaded = false;\n" "    deque->single_threaded = true;\n")
engine_mutant(steal_without_fence deque deque.c
  "    fence_seq_cst(); /* the thief's fence of DEQUE-3 */\n" "")
engine_mutant(batch_without_fence deque deque.c
  "    fence_seq_cst(); /* DEQUE-3, for the first item */\n" "")
engine_mutant(batch_goes_on_without_fence deque deque.c
  "        fence_after_change(); /* DEQUE-3, for the next item: this thread itself moved top */\n" "")
# A thief sees that there is an item before the item is in its slot.
engine_mutant(push_relaxed deque deque.h
  "bottom + 1, RELEASE); /* publishes" "bottom + 1, RELAXED); /* publishes")
engine_mutant(take_lowers_relaxed deque deque.h
  "bottom, RELEASE); /* as in a push" "bottom, RELAXED); /* as in a push")
engine_mutant(steal_bottom_relaxed deque deque.c
  "load_i64(&victim->bottom, ACQUIRE)" "load_i64(&victim->bottom, RELAXED)")
engine_mutant(push_bottom_first deque deque.h
  "    store_ptr(deque_slot(buffer, bottom), item, RELAXED); /* no thief reads it before bottom is raised */\n    store_i64(&deque->bottom, bottom + 1, RELEASE); /* publishes the slot and everything that the item points at */\n"
  "    store_i64(&deque->bottom, bottom + 1, RELEASE);\n    store_ptr(deque_slot(buffer, bottom), item, RELAXED);\n")
# A thief reads the new buffer before its slots are filled.
engine_mutant(buffer_relaxed deque deque.c
  "store_ptr(&deque->buffer, buffer, RELEASE)" "store_ptr(&deque->buffer, buffer, RELAXED)")
engine_mutant(buffer_read_relaxed deque deque.c
  "load_ptr(&victim->buffer, ACQUIRE)" "load_ptr(&victim->buffer, RELAXED)")
# Two threads get the last item.
engine_mutant(take_last_without_cas deque deque.h
  "if (!cas_i64(&deque->top, &top, top + 1, ACQ_REL))" "if (store_i64(&deque->top, top + 1, RELEASE), top == INT64_MIN)")
engine_mutant(take_oldest_without_cas deque deque.h
  "        if (cas_i64(&deque->top, &top, top + 1, ACQ_REL)) {\n            return item;"
  "        if (store_i64(&deque->top, top + 1, RELEASE), top != INT64_MIN) {\n            return item;")
# The slot is read when the owner may already have used it again.
engine_mutant(steal_reads_late deque deque.c
  "    *item = oldest;\n    return STEAL_DONE;" "    *item = load_ptr(deque_slot(buffer, top), RELAXED);\n    (void)oldest;\n    return STEAL_DONE;")
# The oldest item is forgotten in a growth.
engine_mutant(grow_loses_one deque deque.c
  "for (int64_t i = top; i < bottom; i++)" "for (int64_t i = top + 1; i < bottom; i++)")
# A growth that gets no memory is ignored.
engine_mutant(push_ignores_refusal deque deque.h
  "(deque_reserve(deque, 1) != 0 && deque_push_within(deque, item))" "(deque_reserve(deque, 1) != 7)")

# ---- injector

# Two takers at once.
engine_mutant(take_without_flag inject inject.c
  "swap_u32(&injector->taking, 1, ACQUIRE) != 0" "(store_u32(&injector->taking, 1, RELAXED), false)")
# Two producers with the same predecessor.
engine_mutant(push_in_two_steps inject inject.c
  "InjectLink *before = swap_ptr(&injector->head, link, ACQ_REL);"
  "InjectLink *before = load_ptr(&injector->head, ACQUIRE);\n    store_ptr(&injector->head, link, RELEASE);")
# A producer's NULL overwrites the pointer that its successor has stored there.
engine_mutant(push_clears_late inject inject.c
  "    store_ptr(&before->next, link, RELEASE); /* publishes the task */"
  "    store_ptr(&link->next, NULL, RELAXED);\n    store_ptr(&before->next, link, RELEASE);")
# Refused, but counted.
engine_mutant(refusal_counts inject inject.c
  "        add_i64(&injector->count, -1, RELAXED);\n" "")

# ---- parking

# No look between the announcement and the sleep.
engine_mutant(park_without_look idle idle.c
  "if (set->pending(set->context, worker))" "if (set->pending(set->context, worker) && worker == IDLE_NO_WORKER)")
# The look before the announcement.
engine_mutant(park_looks_early idle idle.c
  "    add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL);\n    fence_heavy(set->asymmetric); /* the sleeper's fence of IDLE-2 */\n    if (set->pending(set->context, worker)) {"
  "    fence_heavy(set->asymmetric);\n    bool work = set->pending(set->context, worker);\n    add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL);\n    if (work) {")
engine_mutant(park_without_fence idle idle.c
  "    fence_heavy(set->asymmetric); /* the sleeper's fence of IDLE-2 */\n" "")
engine_mutant(notify_without_fence idle idle.h
  "    fence_light(set->asymmetric); /* the notifier's fence of IDLE-2 */\n" "")
# The last searcher finds work, and does not check whether there is more.
engine_mutant(search_end_without_look idle idle.c
  "if (idle_searching(word) == 1 && idle_count(word) != 0)" "if (idle_searching(word) == 1 && idle_count(word) == UINT32_MAX)")
engine_mutant(search_end_without_fence idle idle.c
  "        fence_heavy(set->asymmetric);\n        if (set->pending(set->context, IDLE_NO_WORKER))"
  "        if (set->pending(set->context, IDLE_NO_WORKER))")
# A worker goes on before the waker's token has come: the token ends its next sleep, with a role that it does not have.
engine_mutant(token_not_awaited idle idle.c
  "while ((tokens & TOKEN_PICK) == 0)" "while ((tokens & TOKEN_PICK) != 0)")
# The worker keeps two roles: its own, and the waker's.
engine_mutant(two_roles idle idle.c
  "    if (searching) {\n        add_u64(&set->word, -SEARCH_ONE, ACQ_REL); /* one worker, one role */\n    }\n" "")
# A waker that sees the count but not the bit loops forever.
engine_mutant(announce_relaxed idle idle.c
  "add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL)"
  "add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), RELAXED)")
# The sleeper is not woken; a token is overwritten.
engine_mutant(wake_without_call idle park.c
  "tokens, RELEASE) == PARK_SLEEPING)" "tokens, RELEASE) == 0)")
engine_mutant(sleep_overwrites idle park.c
  "if (cas_u32(&parker->word, &bare, PARK_SLEEPING, RELAXED))" "if (store_u32(&parker->word, PARK_SLEEPING, RELAXED), bare == 0)")

# ---- the word of a task

# A wake that came while the task ran is lost: it rests forever.
engine_mutant(note_forgotten task task.h
  "bool woken = law_end_poll(&wake);" "bool woken = law_end_poll(&wake) && wake == LAW_WAKE_DONE;")
# Every wake makes an entry.
engine_mutant(merged_wake_enqueues task task.h
  "return notice == LAW_NOTICE_ENQUEUE;" "return notice != LAW_NOTICE_STALE;")
# The task does not see what its waker wrote, after a wake that changed nothing or that ended its rest.
engine_mutant(wake_relaxed task task.h
  "ACQ_REL)) { /* TASK-4: also if nothing changes */" "RELAXED)) { /* TASK-4: also if nothing changes */")
engine_mutant(unblock_relaxed task task.h
  "ACQ_REL)) {\n            return true;" "RELAXED)) {\n            return true;")
# The worker that resumes the task does not see what the task wrote before it rested.
engine_mutant(rest_relaxed task task.h
  "ACQ_REL)) {\n            return woken;" "RELAXED)) {\n            return woken;")
# A recharge, a resume and a cancel request do not end a hold.
engine_mutant(hold_for_ever task task.h
  "(from_hold && held)" "(from_hold && !held)")
# No check after the rest: the nursery was cancelled before the task was in its list, so nothing wakes the task.
engine_mutant(rest_without_look task task_leave.c
  "} else if (!cancel_delivered && nursery_cancelled(nursery)) {" "} else if (!cancel_delivered && nursery == NULL) {")
engine_mutant(ask_without_wake task charge.c
  "    worker_wake(scheduler, worker, task, TO_CANCEL, true);\n" "    (void)worker;\n")
# The cancellation of a nursery wakes no task.
engine_mutant(cancel_without_wake task nursery.c
  "        worker_wake(scheduler, NULL, LAW_RECORD(link, Task, nursery_link), TO_CANCEL, true);\n" "")
# A pause erases a cancel request.
engine_mutant(pause_over_stop task task_requests.c
  "if (!is_older && !(is_pause && request == generation))" "if (!is_older && is_pause && request != generation)")

# ---- the claim of a message

# The lock is given before the receiver is out of the queue: another sender takes the same receiver. (The check of the channel
# is a step between the two, at which the other sender can run.)
engine_mutant(claim_after_lock message channel_ops.c
  "            law_queue_remove(&channel->receivers, &receiver->link);\n            memcpy(receiver->value, value, sizeof(uint64_t));\n            Waiter *waiter = receiver->waiter;\n            if (UNLIKELY(lock_give_no_wake(&channel->lock))) {"
  "            Waiter *waiter = receiver->waiter;\n            bool sleeps = lock_give_no_wake(&channel->lock);\n            (void)channel_is(channel, generation);\n            law_queue_remove(&channel->receivers, &receiver->link);\n            memcpy(receiver->value, value, sizeof(uint64_t));\n            if (sleeps) {")
# A task that must stop ignores that it was claimed: the value that was sent is lost (WAIT-2).
engine_mutant(stops_though_claimed message channel_ops.c
  "bool claimed = !law_linked(&place->link);" "bool claimed = false;")
# A claimed task does not wait until it is answered.
engine_mutant(leaves_before_answer message channel_ops.c
  "    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {\n        task_rest(waiter->task, REST_CANCEL_DELIVERED);\n    }\n" "")
# The task is woken before it is answered: it goes on waiting, and nothing wakes it again.
engine_mutant(wakes_before_done message channel_ops.c
  "    store_u32(&waiter->state, WAIT_DONE, RELEASE); /* not this thread's any more */\n    if (task_unblocked(task)) {\n        worker_requeue(worker, task);\n    }"
  "    if (task_unblocked(task)) {\n        worker_requeue(worker, task);\n    }\n    store_u32(&waiter->state, WAIT_DONE, RELEASE);")
# Taking a task out of its only queue is not a claim: it is never answered.
engine_mutant(only_place_is_not_claimed message channel.h
  "if (place->only_task != NULL || waiter_claim(place->waiter))" "if (waiter_claim(place->waiter) && place->only_task == NULL)")
