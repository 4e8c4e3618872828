/* What the files of the engine offer to each other; the data that they work on is in state.h.  Only engine/ includes this.
 *
 *   window.c          items: the rows that are in memory, their slots and their room
 *   stream.c          streams: order, failed heads, held followers
 *   gap.c             gaps: rows that the engine met and does not have in memory, and reading them again
 *   skip.c            new rows that the store need not read, since their endpoint has a gap
 *   route.c           where a row goes
 *   receipt.c         receipts: what is announced to the store before it is sent
 *   start.c           receipts that the store writes for rows in the same cycle that reads them
 *   twin.c            rows of one message for one endpoint, in a box with dedupe
 *   choose.c          which rows go out next, and how many at once
 *   load.c            payloads that are so large that they are read only when chosen
 *   run.c             runs: rows of a box of turns that go out together
 *   gone.c            rows that are out and that others have deleted
 *   limits.c          what the engines of a process share: rates, concurrency, breakers, the window
 *   breakers.c        the breakers of an endpoint: who waits for them
 *   breaker_results.c what breakers are asked, and the results that they get
 *   report.c          breakers and failures, as reported to the store
 *   left.c            gaps of rows that are left in the store so that others need not wait for them
 *   held_types.c      rows left because the breaker of their type is not closed
 *   sorts.c           rows left because their types are asked for less than others; how sorts share
 *   evidence.c        whether an endpoint works for other messages of a type
 *   inline_results.c  results of inline sends to the endpoints of this engine
 *   pause.c           pauses that begin in this engine
 *   fail.c            from a failure to what follows
 *   local.c           messages that go into another box
 *   settled.c         messages that their receivers complete in their own transactions
 *   settle.c          from results to verdicts, and what a committed verdict changes
 *   plan.c            the next cycle
 *   absorb.c          the store's reply: notices, verdicts, receipts
 *   lanes.c           lanes, and what is read when they are opened
 *   peers.c           the other instances, and which of them should have a lane
 *   reads.c           the rows of a reply
 *   orphan.c          rows that are held for endpoints that no longer exist
 *   admit.c           how a row gets into memory
 *   result.c          hand-outs to transports, and their results
 *   worker_verdict.c  verdicts that a worker in C gives itself
 *   wait.c            when the engine must be called again
 *   view.c            counts and views for others, and the checks of the invariants
 *   engine.c          life and death of an engine */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/state.h"

/* window.c */
int window_init(struct engine *e, struct pr_error *reterr);
void window_fini(struct engine *e);
struct item *item_new(struct engine *e, const struct row *row, struct endpoint *ep); /* NULL: no memory */
void item_free(struct engine *e, struct item *item);                                 /* out of every list and map */
void item_move(struct engine *e, struct item *item, enum place place);
/* By row and id: a row number can be drawn twice when the store lost commits (B28). */
struct item *item_find(const struct engine *e, uint64_t row, pr_id id);
struct item *item_find_row(const struct engine *e, uint64_t row,
                           const struct item *after); /* any id; after NULL: the first */
int item_set_row(struct engine *e, struct item *item, uint64_t row);
struct item *item_find_token(const struct engine *e, uint64_t token); /* NULL: stale */
uint64_t item_token(const struct item *item);
void item_wait(struct engine *e, struct item *item, bool at_back);   /* into its stream or the loose items */
void item_return(struct engine *e, struct item *item, bool at_back); /* hand back, uncounted */
void item_report_answer(struct item *item, int answer);              /* calls item->settled, unless it is NULL */
void item_return_unsent(struct engine *e, struct item *item);        /* it was out, and nothing of it was sent */
bool endpoint_is_closed(const struct engine *e, const struct endpoint *ep,
                        int64_t now_us);     /* the endpoint is paused, or its breaker is open */
size_t window_limit(const struct engine *e); /* rows that the window may hold now */
size_t window_free(const struct engine *e);  /* ... and how many more it may take */
size_t endpoint_room(const struct engine *e, const struct endpoint *ep, int64_t now_us);
size_t window_bytes_free(const struct engine *e);
bool window_has_room(const struct engine *e);
void window_await_room(struct engine *e); /* when there is none: the engine is woken when another one makes room */
void window_drop_lanes(struct engine *e, uint64_t lanes, bool also_busy);

/* stream.c */
struct stream *stream_find(const struct engine *e, const struct endpoint *ep, pr_slice name);
struct endpoint *stream_split_key(struct engine *e, pr_slice key, pr_slice *ret_name); /* NULL: no such endpoint */
struct stream *stream_get(struct engine *e, struct endpoint *ep, pr_slice name,
                          unsigned lane);             /* made when missing; NULL: no memory */
void stream_free(struct engine *e, struct stream *s); /* with everything that is left of it */
void stream_insert(struct engine *e, struct stream *s, struct item *item);
void stream_update(struct engine *e, struct stream *s); /* after any change; may free s when it has become empty */
bool stream_blocks(const struct stream *s, const struct pr_message *m);
bool stream_add_head(struct engine *e, struct stream *s, int64_t seq, int64_t due_us, bool dead);
void stream_set_here(struct stream *s, int64_t seq, bool here); /* no-op when there is no such head */
bool stream_misses_head(const struct stream *s, int64_t seq);   /* is an earlier head not in memory? */
void stream_remove_head(struct engine *e, struct stream *s, int64_t seq);
bool stream_ends_before(const struct stream *s, int64_t seq); /* are all its rows in memory before seq? */
void stream_hold_followers(struct engine *e, struct stream *s);
bool stream_has_held_type_at(const struct stream *s, int64_t seq);
void stream_hold_type(struct engine *e, struct stream *s);
bool hold_add(struct engine *e, struct hold hold); /* false: no memory */
bool stream_hold_row(struct engine *e, struct stream *s, uint64_t row, pr_id id, int64_t seq);
void stream_is_held(struct stream *s, int64_t from_seq); /* rows from this seq on are held in the store */
bool stream_is_ordered(const struct endpoint *ep, pr_slice stream);

/* gap.c */
void gap_widen(struct gap *g, int64_t from_seq, uint64_t after_row, int64_t to_seq);
/* opens the gap, or widens it */
void gap_open(struct engine *e, struct endpoint *ep, enum gap_source source, const struct gap *g);
void gap_pass_over(struct engine *e, struct endpoint *ep, const struct row *row);
/* some rows from this seq on are held in the store */
void gap_hold_from(struct engine *e, struct endpoint *ep, int64_t seq);
bool gap_hold_row(struct engine *e, struct endpoint *ep, const struct row *row); /* false: no memory */
void gaps_forget(struct engine *e);
void gap_close(struct engine *e, struct endpoint *ep, enum gap_source source);
void gaps_forget_endpoint(struct engine *e, struct endpoint *ep);
bool gaps_can_read(const struct engine *e, int64_t now_us);
void gaps_plan(struct engine *e, struct held_read *reads, size_t *count, int64_t now_us);
void gaps_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* left.c */
void stream_set_fini(struct stream_set *set);
PR_MUST_CHECK bool stream_set_join(struct stream_set *set, const struct stream_set *more,
                                   int64_t from_seq); /* rows before from_seq are read; false: no memory */
bool left_is_open(const struct left *l);
/* May a row of this stream be left before seq? */
bool left_has_before(const struct left *l, pr_slice stream, int64_t seq);
PR_MUST_CHECK bool left_add_stream(struct left *l, pr_slice stream, int64_t seq); /* false: no memory */
/* A row that the fresh scan passed over. */
void left_fresh(struct left *l, const struct row *row);
/* A row that is held by its endpoint. */
void left_held(struct left *l, const struct row *row);
bool left_hides(const struct left *l, const struct endpoint *ep, pr_slice stream, int64_t seq);
void left_forget(struct left *l);
void left_reopen(struct engine *e, struct endpoint *ep,
                 const struct left *l); /* its gaps become gaps of the endpoint */

/* sorts.c */
struct sort *sort_of(struct endpoint *ep, pr_slice type); /* NULL: there are none */
bool sort_is_full(const struct engine *e, const struct endpoint *ep, const struct sort *sort);
size_t sorts_stream_share(const struct engine *e, const struct endpoint *ep,
                          const struct sort *sort); /* rows of one stream that may be in memory */
bool sorts_refuse(const struct engine *e, struct endpoint *ep,
                  pr_slice type); /* does the sort of this type have enough rows in memory? */
bool sorts_pass_over(struct engine *e, struct endpoint *ep, const struct row *row); /* like held_types_passes_over() */
bool sorts_take_part(struct engine *e, struct endpoint *ep, const struct row *row);
bool sorts_hide(const struct endpoint *ep, pr_slice stream, int64_t seq);
bool sorts_differ(const struct stream *s, const struct pr_message *m); /* is a row of another sort before it? */
bool sorts_want_rows(const struct engine *e, const struct endpoint *ep);
void sorts_joined(struct endpoint *ep, enum gap_source source,
                  int64_t seq);                              /* a row joined the gap that is being read */
void sorts_have_read(struct engine *e, struct endpoint *ep); /* a part of the gaps was read */
void sorts_read_all(struct endpoint *ep);                    /* the gaps were read to their ends */
void sorts_renew(struct engine *e);
void sorts_forget_endpoint(struct endpoint *ep);
void sorts_forget(struct engine *e);
void sorts_fini(struct endpoint *ep);
void sorts_enter(struct endpoint *ep, struct item *item);
void sorts_leave(struct item *item);
struct item *sorts_candidate(struct engine *e, struct endpoint *ep, int64_t now_us);
void sorts_took(struct endpoint *ep); /* the candidate was taken */
/* index of the ask that the item goes out for */
unsigned sorts_asker(const struct endpoint *ep, const struct item *item);
void sorts_check(const struct endpoint *ep);
void sorts_set_asks(struct engine *e, struct endpoint *ep, const struct ask *asks, size_t count);

/* held_types.c: types with enough rows in memory whose breaker is not closed */
void held_types_forget_endpoint(struct endpoint *ep);
void held_types_forget(struct engine *e);
/* Is the row left in the store because of its type, or because it stands behind one that was?  If so, the caller is
 * done with it. */
bool held_types_passes_over(struct engine *e, struct endpoint *ep, const struct row *row);
bool held_types_takes_part(struct engine *e, struct endpoint *ep, const struct row *row);
/* May rows of this stream ("": unordered) that stand before this place be out of memory? */
bool endpoint_hides(const struct endpoint *ep, pr_slice stream, int64_t seq);
void streams_wake_dozing(struct engine *e, const struct endpoint *ep);
/* types that are no longer held back are to be read again; only between cycles */
void held_types_renew(struct engine *e);

/* orphan.c */
void orphans_found(struct engine *e, pr_slice after);
bool orphans_can_read(const struct engine *e, int64_t now_us);
void orphans_plan(struct engine *e, struct held_read *reads, size_t *count);
void orphans_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us);
void orphans_forget(struct engine *e);

/* route.c: the endpoints of a row; returns how many, writes at most max. */
#define TARGETS_MAX 64 /* endpoints of one message */
size_t route_message(const struct engine *e, const struct pr_message *m, unsigned *ret, size_t max);

/* receipt.c */
void receipt_leave(struct item *item, bool handed_back);
void receipt_return(struct engine *e, struct item *item); /* the item is handed back */
void receipt_add(struct receipt *r, struct item *item);
int receipt_plan(struct engine *e, struct arena *arena);
/* The name of its handler in marks (core/mark.h); the item must have an endpoint. */
pr_slice item_handler(const struct item *item);
int receipt_plan_marks(struct engine *e, struct arena *arena);
void receipt_free_all(struct engine *e);

/* start.c */
/* call it after the rest of the cycle is planned */
void start_plan(struct engine *e, int64_t now_us);
/* call it when the rows are in the window */
void start_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* twin.c */
bool twin_enter(struct engine *e, struct item *item); /* false: no memory */
void twin_leave(struct engine *e, struct item *item);
bool place_is_going(enum place place);
bool place_is_on_its_way(enum place place);
bool twin_is_on_its_way(const struct engine *e, const struct item *item);
void twin_await(struct engine *e, struct item *item);       /* put it aside until twins_wake() */
void twin_return(struct engine *e, struct item *item);      /* ... and back into its queue */
void twins_wake(struct engine *e, const struct item *item); /* the item is no longer on its way */

/* choose.c */
void choose_pace(struct engine *e);                   /* when a cycle is planned */
void choose_begin(struct item *item, int64_t now_us); /* the item is being taken */
void choose_ended(struct engine *e, struct endpoint *ep, int64_t took_us,
                  int64_t now_us);       /* latency: from taking the message to its result */
void choose_unsent(struct item *item);   /* it was taken, and comes back unsent */
void choose_settle(struct endpoint *ep); /* the number of items out has changed: inform the limits */
/* skip.c */
void skips_learn(struct engine *e, struct endpoint *ep, const struct row *row); /* the row was passed over */
void skips_forget(struct endpoint *ep);                                         /* the routes may have changed */
void skips_plan(struct engine *e);
void skips_absorb(struct engine *e, const struct cycle_reply *r); /* before the new rows are absorbed */
/* Do all rows of this type without a destination go to this endpoint and to no other? */
bool route_is_by_type(const struct engine_setting *s, pr_slice type, unsigned endpoint);

/* load.c */
size_t late_bytes(const struct engine *e);
size_t item_payload_size(const struct item *item); /* also while the payload is in the store */
bool item_is_late(const struct item *item);        /* its payload must be loaded before it goes out */
bool load_is_possible(struct engine *e, const struct item *item, int64_t now_us);
PR_MUST_CHECK bool load_take_room(struct engine *e, struct item *item, int64_t now_us);
void item_unload(struct engine *e, struct item *item);
PR_MUST_CHECK int loads_plan(struct engine *e, struct arena *arena); /* PR_ENOMEM: no payload is requested */
/* Gives a chosen item its payload.  false: the row is not the one that was read. */
PR_MUST_CHECK bool load_absorb(struct item *item, const struct cycle_reply *r);

/* Alternates between streams and loose items; NULL: neither has one, or its payload has no room. */
struct item *choose_turn(struct engine *e, const struct endpoint *ep, struct item *loose, struct item *ordered,
                         int64_t now_us);
void choose(struct engine *e, int64_t now_us);
bool choose_possible(struct engine *e, int64_t now_us);
/* A cycle goes to the store, which may be unreachable: suspects of this engine that could not go out anyway must not
 * hold up other boxes. */
void choose_asked(struct engine *e, int64_t now_us);
void choose_answered(struct engine *e);
/* keeps or frees the seat that the item has, when it moves */
void choose_seat(struct engine *e, struct item *item, enum place next);
void choose_verdict_busy(struct engine *e, struct item *item);
void choose_held_up(struct engine *e);
void choose_over(struct engine *e); /* choosing has ended */
/* Chooses this item, if it is its turn. */
void choose_this(struct engine *e, struct item *item, int64_t now_us);
/* How many may be out at once at an endpoint with a limit (setting.concurrency). */
size_t endpoint_limit(const struct engine *e, const struct endpoint *ep);
unsigned suspicion(const struct pr_message *m);

bool is_unsendable(const struct engine *e, const struct item *item,
                   int64_t now_us); /* must it get a verdict without being handed out? */
bool is_expired(const struct engine *e, const struct item *item, int64_t now_us);
bool is_too_large(const struct engine *e, const struct item *item);
/* Is its verdict known without calling anything outside? */
bool is_judged_here(const struct engine *e, const struct item *item, int64_t now_us);
void judge_too_large(struct engine *e, struct item *item, int64_t now_us);

/* run.c */
bool hands_out_runs(const struct engine *e);
void run_gather(struct engine *e, struct item *first, int64_t now_us); /* adds the items that go out with `first` */
/* returns the items behind the leader; the run is over */
struct item *run_detach(struct item *first);
void run_return(struct engine *e, struct item *rest);
/* after the verdict of the first */
void run_follow(struct engine *e, struct item *first, struct item *rest, int64_t now_us);
/* true: instead of becoming a dead letter, the item was put back and goes out once more with the reason of its
 * death. */
bool run_keeps_dead(struct engine *e, struct item *item, const struct verdict *v);
/* Only one message of the run is at fault: it is dead, and all others are handed back uncounted. */
void run_blame(struct engine *e, struct item *first, const struct delivery_result *result);
void run_bury(struct engine *e, struct item *item, int64_t now_us);
void run_postpone_dead(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
void run_check(const struct item *first);

/* gone.c */
void gone_plan(struct engine *e, int64_t now_us);
void gone_absorb(struct engine *e, const struct cycle_reply *r);
void gone_forget(struct engine *e, struct item *item);
void gone_heads(struct engine *e, int64_t now_us); /* after a cycle that renewed the lease */

/* breakers.c: breakers, and the items that wait for them */
bool breakers_allow(struct endpoint *ep, int64_t now_us); /* may anything be sent to the endpoint? */
/* How long messages wait that met a failure of the endpoint as a whole; and the endpoint has answered. */
int64_t breakers_set_back(struct endpoint *ep, int64_t now_us);
void breakers_end_setback(struct endpoint *ep);
/* May this item go?  If not, it was put on the shelf of its type. */
bool breakers_allow_or_shelve(struct engine *e, struct endpoint *ep, struct item *item, int64_t now_us);
/* takes items off the shelves that may go now */
void breakers_unshelve(struct engine *e, struct endpoint *ep, int64_t now_us);
bool breakers_are_shut(const struct endpoint *ep);
bool breakers_hold_back(const struct endpoint *ep, const struct item *item);
/* The same, and whether the endpoint has room: then the item is taken, and is the probe of breakers that are half
 * open. */
bool breakers_start(struct engine *e, struct endpoint *ep, const struct item *item, int64_t now_us);
/* Takes over what other engines learnt of the endpoint since the last call. */
void breakers_sync(struct engine *e, struct endpoint *ep);
void breakers_sync_all(struct engine *e);
/* true: the failure belongs to a breaker and not to the message.  When it opens, breakers_sync() takes the burst back. */
bool breakers_failed(struct engine *e, const struct item *item, const struct failure *f, enum breaker_weight weight,
                     int64_t now_us);
struct endpoint_breaker *breakers_blamed(struct endpoint *ep, const struct item *item,
                                         enum fault fault); /* the breaker that counts such a failure */
void breakers_succeeded(struct engine *e, const struct item *item, int64_t now_us);
void breakers_returned(struct engine *e, struct endpoint *ep, const struct item *item);
void breakers_heard(struct engine *e, struct endpoint *ep, const struct engine_inline_result *result, int64_t now_us);
int64_t breakers_next_us(const struct endpoint *ep);
enum breaker_state breakers_state(const struct endpoint *ep);
void endpoint_breaker_init(struct endpoint_breaker *b, struct endpoint *ep, struct shared_breaker *shared);
void endpoint_breaker_release(struct endpoint_breaker *b); /* frees it when there is nothing to remember or to report */
void breakers_enter(struct engine *e, struct endpoint *ep, struct item *item); /* the item has come into memory */
void breakers_leave(struct endpoint *ep, struct item *item);
void breakers_check(const struct endpoint *ep);
/* Does this type, which may not go now, have enough rows in memory? */
bool breakers_hold_type(const struct engine *e, const struct endpoint *ep, pr_slice type);
void breakers_fini(struct endpoint *ep);
bool breakers_are_per_type(const struct endpoint *ep);
/* NULL: the type has no breaker, since there is no memory or there are too many */
struct endpoint_breaker *endpoint_breaker_get(struct engine *e, struct endpoint *ep, pr_slice type);
/* With the lock of the endpoint's limits held: may it go?  And: apply here what the shared breaker has become. */
bool endpoint_breaker_allows(struct endpoint_breaker *b, int64_t now_us);
void endpoint_breaker_look(struct engine *e, struct endpoint_breaker *b);

/* report.c */
char *text_copy(pr_slice text, size_t chars); /* clean and cut; malloc'ed; NULL without memory */
void last_failure_set(struct last_failure *m, const struct failure *f);
void last_failure_copy(struct last_failure *m, const struct last_failure *from);
void report_opened(struct engine *e, struct endpoint_breaker *b); /* also when it opens again */
void report_closed(struct engine *e, struct endpoint_breaker *b);
bool report_is_over(const struct endpoint_breaker *b); /* the store knows nothing of it, and need not */
void reports_plan(struct engine *e, int64_t now_us);
void reports_committed(struct engine *e);
void reports_anew(struct engine *e); /* the store has forgotten all of them */

/* evidence.c */
bool evidence_against(const struct engine *e, const struct item *item,
                      int64_t now_us); /* was another message of its type delivered since its previous failure? */
void evidence_delivered(struct engine *e, const struct item *item, int64_t now_us);
bool evidence_from_outside(struct endpoint *ep, pr_slice type, int64_t at_us, int64_t now_us);
void evidence_plan(struct engine *e, int64_t now_us);
void evidence_absorb(struct engine *e, const struct cycle_reply *r);
void evidence_store_again(struct engine *e);
void evidence_fini(struct endpoint *ep);

/* pause.c */
bool endpoint_has_pause(const struct engine *e, const struct endpoint *ep, int64_t now_us);
int64_t endpoint_paused_until(const struct endpoint *ep); /* store time; 0: not paused */
void endpoint_pause(struct engine *e, struct endpoint *ep, int64_t for_us, pr_slice by, pr_slice why, int64_t now_us);
/* hands back items that are announced and not begun */
void endpoint_return_ready(struct engine *e, struct endpoint *ep);
void pauses_plan(struct engine *e, int64_t now_us);
void pauses_committed(struct engine *e, bool endpoints_known);
void pauses_drop(struct engine *e);

/* messages that failed in the same outage come back */
void return_burst(struct engine *e, struct endpoint_breaker *opened); /* what failed in its outage comes back */
void put_back(struct engine *e, struct item *item);
void judge_failure(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
void poison_beside(struct engine *e, struct item *item, pr_slice error, int64_t now_us);
void item_add_effects(struct engine *e, struct item *item, struct send_effect *effects); /* takes over the effects */

/* refused.c */
void settle_deferred(struct engine *e, struct item *item, bool leader_is_refused, int64_t now_us);
void plan_verdicts_again(struct engine *e); /* plan.c; without those that are deferred */

/* local.c */
bool endpoint_is_local(const struct endpoint *ep);
void judge_local(struct engine *e, struct item *item, int64_t now_us);

/* reply.c */
enum admitted admit_reply(struct engine *e, const struct row *row, int64_t now_us);

/* schedule.c */
enum admitted admit_schedule(struct engine *e, const struct row *row, int64_t now_us);

/* settled.c */
void judge_asking(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
/* The store has answered.  false: the item is asked again, or has another verdict now. */
bool settle_asked(struct engine *e, struct item *item, int *answer, bool replayed, int64_t now_us);

/* result.c */
void endpoints_call_back(struct engine *e); /* see engine_wants_back() */
/* The item that is out and that a result or verdict is about; NULL: it is no longer out here. */
struct item *item_find_out(struct engine *e, uint64_t token);
void judge_success(struct engine *e, struct item *item, int bits, int64_t now_us); /* its receiver has handled it */

/* settle.c */
void judge_complete(struct engine *e, struct item *item, int bits);
/* v: without row and number.  step and next_us (when the item is tried again) go into its story. */
void judge(struct engine *e, struct item *item, const struct verdict *v, const char *step, int64_t next_us,
           int64_t now_us);
void judge_dead(struct engine *e, struct item *item, int reason, int cause, int limit, pr_slice rule, bool counted,
                pr_slice code, pr_slice error, int64_t now_us);
void judge_dead_letter(struct engine *e, struct item *item, const struct delivery_dead *d, bool counted,
                       int64_t now_us);
void judge_simple(struct engine *e, struct item *item, enum verdict_kind kind, int reason, pr_slice rule,
                  pr_slice error, int64_t now_us);
void judge_duplicate(struct engine *e, struct item *item, int64_t now_us); /* its message was handled before */
void settle_committed(struct engine *e, struct item *item, int answer, const uint64_t *split_rows, int64_t now_us);
void item_drop_verdict(struct item *item);
void verdict_tally(struct engine *e, const struct item *item, int sign);
bool effects_can_refuse(const struct send_effect *effects);

/* engine.c */
void engine_new_instance(struct engine *e);
void read_all_anew(struct engine *e);

/* plan.c */
int64_t renew_at_us(const struct engine *e);
int64_t look_at_us(const struct engine *e);
bool wants_cycle(struct engine *e, int64_t now_us);
/* A row with a due time behind the due pass's cursor may have been stored or moved. */
void due_look_again(struct engine *e, int64_t now_us);

/* lanes.c */
void open_lanes(struct engine *e, uint64_t lanes);
void absorb_lanes(struct engine *e, const struct cycle_reply *r, int64_t now_us);
void lanes_give_up(struct engine *e, int64_t now_us); /* gives the lanes that are ready to go */

/* peers.c */
void peers_absorb(struct engine *e, const struct cycle_reply *r);
void peers_forget(struct engine *e); /* also the moves of lanes */
void peers_gained(struct engine *e, uint64_t lanes, int64_t now_us);
/* Something ran here that needed this ability (empty: none in particular). */
void peers_did(struct engine *e, const struct item *item, pr_slice need, int64_t now_us);
/* The item cannot run here.  When another instance can run it, its lane is to move there: returns after which time it
 * may be handed out again, by the owner of the lane at that time; -1: no instance can run it. */
int64_t peers_pass(struct engine *e, const struct item *item, pr_slice need, int64_t now_us);
uint64_t peers_passing(struct engine *e, int64_t now_us); /* lanes that are to move to another instance */
uint64_t peers_kept(struct engine *e, int64_t now_us);    /* lanes that are not given away to even out shares */
/* lanes that are to move and can do so now, given the idle ones */
uint64_t peers_ready(const struct engine *e, uint64_t idle);
int64_t peers_next_us(const struct engine *e, int64_t now_us);
void peers_stream_ends(struct engine *e, const struct stream *s);
void peers_plan(struct engine *e, int64_t now_us); /* in the cycle being made: which lanes are given */
void absorb_opening(struct engine *e, const struct cycle_reply *r, int64_t now_us);
bool held_key_is_orphan(struct engine *e, pr_slice key); /* neither a stream that is ordered here nor an endpoint */

/* admit.c */
enum admitted { TAKEN, NO_ROOM };
struct target { /* where a row goes, looked up once */
    unsigned endpoints[TARGETS_MAX];
    size_t count;
};
struct endpoint *find_target(struct engine *e, const struct row *row, struct target *ret); /* NULL: none, or several */
enum admitted admit(struct engine *e, const struct row *row, const struct target *target, int64_t now_us);

/* plan.c */
bool plan_held_read(struct engine *e, pr_slice key, int64_t after_seq, size_t rows, struct held_read *reads,
                    size_t *count);

/* reads.c */
bool scan_will_come(const struct engine *e, const struct row *row);
bool row_is_ours(const struct engine *e, const struct row *row);
void absorb_reads(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* absorb.c */
void engine_forget(struct engine *e); /* lease lost: the engine forgets all rows */

/* Does a failed row block its followers at this endpoint?  With ordering `available` it is retried on its own. */
static inline bool keeps_back(const struct endpoint *ep, const struct pr_message *m)
{
    return message_blocks_stream(m) && ep->setting->ordering != ORDERING_AVAILABLE;
}

/* Have all fresh rows before this place been read since the lane was opened? */
static inline bool scan_has_passed(const struct engine *e, unsigned lane, int64_t seq)
{
    return (e->reading.scanned & lane_bit(lane)) != 0 || e->reading.scan_seq[lane] >= seq;
}

static inline int64_t store_now(const struct engine *e, int64_t now_us)
{
    return now_us + e->membership.store_offset_us;
}

/* May a row at this place be in the gap? */
static inline bool gap_reaches(const struct gap *g, int64_t seq)
{
    return g->active && seq >= g->from_seq;
}

/* Are there rows of this endpoint that were read once and found no room in memory? */
static inline bool endpoint_has_gap(const struct endpoint *ep)
{
    return ep->gaps[GAP_FRESH].active || ep->gaps[GAP_HELD].active;
}

/* ... and may one of them stand before this seq? */
static inline bool endpoint_has_gap_before(const struct endpoint *ep, int64_t seq)
{
    return gap_reaches(&ep->gaps[GAP_FRESH], seq) || gap_reaches(&ep->gaps[GAP_HELD], seq);
}

#endif
