# The faults that are planted to show that the explorer would find them. One line each: what is changed, and why it is wrong.

# ---- deque

# The owner does not see the thief that does not see the owner: both take the last item but one.
engine_mutant(take_without_fence deque deque.h
  "    fence_seq_cst(); /* the owner's fence of DEQUE-3 */\n" "")
engine_mutant(lone_in_company deque deque.c
  "    deque->lone = false;\n" "    deque->lone = true;\n")
engine_mutant(steal_without_fence deque deque.c
  "    fence_seq_cst(); /* the thief's fence of DEQUE-3 */\n" "")
engine_mutant(batch_without_fence deque deque.c
  "    fence_seq_cst(); /* DEQUE-3, for the first item */\n" "")
engine_mutant(batch_goes_on_without_fence deque deque.c
  "        fence_after_change(); /* DEQUE-3, for the next one: top was moved by ourselves */\n" "")
# A thief is told of an item before the item is in its slot.
engine_mutant(push_relaxed deque deque.h
  "bottom + 1, RELEASE);       /* publishes" "bottom + 1, RELAXED);       /* publishes")
engine_mutant(take_lowers_relaxed deque deque.h
  "bottom, RELEASE); /* as the push did" "bottom, RELAXED); /* as the push did")
engine_mutant(steal_bottom_relaxed deque deque.c
  "load_i64(&victim->bottom, ACQUIRE)" "load_i64(&victim->bottom, RELAXED)")
engine_mutant(push_bottom_first deque deque.h
  "    store_ptr(deque_slot(buffer, bottom), item, RELAXED); /* seen by nobody before bottom says so */\n    store_i64(&deque->bottom, bottom + 1, RELEASE);       /* publishes the slot, and all that the item points at */\n"
  "    store_i64(&deque->bottom, bottom + 1, RELEASE);\n    store_ptr(deque_slot(buffer, bottom), item, RELAXED);\n")
# A thief reads the new buffer before its slots are filled.
engine_mutant(buffer_relaxed deque deque.c
  "store_ptr(&deque->buffer, buffer, RELEASE)" "store_ptr(&deque->buffer, buffer, RELAXED)")
engine_mutant(buffer_read_relaxed deque deque.c
  "load_ptr(&victim->buffer, ACQUIRE)" "load_ptr(&victim->buffer, RELAXED)")
# Two get the last item.
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
# A growth without memory is not noticed.
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
# A producer's NULL comes after the pointer that its successor has stored there.
engine_mutant(push_clears_late inject inject.c
  "    store_ptr(&before->next, link, RELEASE); /* publishes the task */"
  "    store_ptr(&link->next, NULL, RELAXED);\n    store_ptr(&before->next, link, RELEASE);")
# Refused, and counted all the same.
engine_mutant(refusal_counts inject inject.c
  "        add_i64(&injector->count, -1, RELAXED);\n" "")

# ---- parking

# No look between the announcement and the sleep.
engine_mutant(park_without_look idle idle.c
  "if (set->pending(set->context, worker))" "if (set->pending(set->context, worker) && worker == IDLE_NOBODY)")
# The look before the announcement.
engine_mutant(park_looks_early idle idle.c
  "    add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL);\n    fence_heavy(set->asymmetric); /* the sleeper's fence of IDLE-2 */\n    if (set->pending(set->context, worker)) {"
  "    fence_heavy(set->asymmetric);\n    bool work = set->pending(set->context, worker);\n    add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL);\n    if (work) {")
engine_mutant(park_without_fence idle idle.c
  "    fence_heavy(set->asymmetric); /* the sleeper's fence of IDLE-2 */\n" "")
engine_mutant(notify_without_fence idle idle.h
  "    fence_light(set->asymmetric); /* the notifier's fence of IDLE-2 */\n" "")
# The last searcher finds something, and does not ask whether there is more.
engine_mutant(search_end_without_look idle idle.c
  "if (idle_searching(word) == 1 && idle_count(word) != 0)" "if (idle_searching(word) == 1 && idle_count(word) == UINT32_MAX)")
engine_mutant(search_end_without_fence idle idle.c
  "        fence_heavy(set->asymmetric);\n        if (set->pending(set->context, IDLE_NOBODY))"
  "        if (set->pending(set->context, IDLE_NOBODY))")
# A worker goes on without the token that is on its way: its next sleep ends with a role that it does not have.
engine_mutant(token_not_awaited idle idle.c
  "while ((tokens & TOKEN_PICK) == 0)" "while ((tokens & TOKEN_PICK) != 0)")
# A role for each of the two that returned the worker.
engine_mutant(two_roles idle idle.c
  "    if (searching) {\n        add_u64(&set->word, -SEARCH_ONE, ACQ_REL); /* one worker, one role */\n    }\n" "")
# A waker that is shown the count but not the bit goes round and round.
engine_mutant(announce_relaxed idle idle.c
  "add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), ACQ_REL)"
  "add_u64(&set->word, IDLE_ONE - (searching ? SEARCH_ONE : 0), RELAXED)")
# The sleeper is not woken; a token is overwritten.
engine_mutant(wake_without_call idle park.c
  "tokens, RELEASE) == PARK_SLEEPING)" "tokens, RELEASE) == 0)")
engine_mutant(sleep_overwrites idle park.c
  "if (cas_u32(&parker->word, &bare, PARK_SLEEPING, RELAXED))" "if (store_u32(&parker->word, PARK_SLEEPING, RELAXED), bare == 0)")

# ---- the word of a task

# A wake that came while it ran is forgotten: it rests, and nobody comes.
engine_mutant(note_forgotten task task.h
  "bool woken = law_end_poll(&wake);" "bool woken = law_end_poll(&wake) && wake == LAW_WAKE_DONE;")
# Every wake makes an entry.
engine_mutant(merged_wake_enqueues task task.h
  "return notice == LAW_NOTICE_ENQUEUE;" "return notice != LAW_NOTICE_STALE;")
# What the waker wrote is not seen after a wake that changed nothing, or by the task that it woke.
engine_mutant(wake_relaxed task task.h
  "ACQ_REL)) { /* TASK-4: also if nothing changes */" "RELAXED)) { /* TASK-4: also if nothing changes */")
engine_mutant(unblock_relaxed task task.h
  "ACQ_REL)) {\n            return true;" "RELAXED)) {\n            return true;")
# What the task wrote before it rested is not seen by the worker that it wakes up on.
engine_mutant(rest_relaxed task task.h
  "ACQ_REL)) {\n            return woken;" "RELAXED)) {\n            return woken;")
# A recharge, a resumption and a request to stop do not end a hold.
engine_mutant(hold_for_ever task task.h
  "(from_hold && held)" "(from_hold && !held)")
# No second look after the first rest: a nursery was cancelled before the task was in its list, and nobody comes.
engine_mutant(rest_without_look task worker_loop.c
  "} else if (!deaf && nursery_cancelled(nursery)) {" "} else if (!deaf && nursery == NULL) {")
engine_mutant(ask_without_wake task charge.c
  "    worker_wake(scheduler, worker, task, TO_CANCEL, true);\n" "    (void)worker;\n")
# A nursery that is cancelled wakes nobody.
engine_mutant(cancel_without_wake task nursery.c
  "        worker_wake(scheduler, NULL, LAW_RECORD(link, Task, family), TO_CANCEL, true);\n" "")
# A request to stop is taken back by one to stand still.
engine_mutant(pause_over_stop task pause.c
  "if (!is_older && !(is_pause && request == generation))" "if (!is_older && is_pause && request != generation)")

# ---- the claim of a message

# The lock is given before the receiver is out of the queue: another sender takes the same one. (The look at the channel is a
# step between the two, at which that one can come.)
engine_mutant(claim_after_lock message channel_ops.c
  "            law_queue_remove(&channel->receivers, &receiver->link);\n            memcpy(receiver->value, value, sizeof(uint64_t));\n            Waiter *waiter = receiver->waiter;\n            if (UNLIKELY(lock_let_go(&channel->lock))) {"
  "            Waiter *waiter = receiver->waiter;\n            bool sleeps = lock_let_go(&channel->lock);\n            (void)channel_is(channel, generation);\n            law_queue_remove(&channel->receivers, &receiver->link);\n            memcpy(receiver->value, value, sizeof(uint64_t));\n            if (sleeps) {")
# It is to stop, and does not ask whether somebody has claimed it: what was sent is lost (WAIT-2).
engine_mutant(stops_though_claimed message channel_ops.c
  "bool claimed = !law_linked(&place->link);" "bool claimed = false;")
# It was claimed, and does not wait until it is answered.
engine_mutant(leaves_before_answer message channel_ops.c
  "    while (load_u32(&waiter->state, ACQUIRE) != WAIT_DONE) {\n        task_rest(waiter->task, REST_DEAF);\n    }\n" "")
# Woken before it is answered: it finds that it must go on waiting, and nobody comes again.
engine_mutant(wakes_before_done message channel_ops.c
  "    store_u32(&waiter->state, WAIT_DONE, RELEASE); /* not ours any more */\n    if (task_unblocked(task)) {\n        worker_requeue(worker, task);\n    }"
  "    if (task_unblocked(task)) {\n        worker_requeue(worker, task);\n    }\n    store_u32(&waiter->state, WAIT_DONE, RELEASE);")
# Whoever takes a task out of the queue that waits nowhere else has not claimed it by that: nobody answers it.
engine_mutant(lone_is_not_claimed message channel.h
  "if (place->lone != NULL || waiter_claim(place->waiter))" "if (waiter_claim(place->waiter) && place->lone == NULL)")
