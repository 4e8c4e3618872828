/* What tests and the simulator can do to a memory store besides the contract: senders' transactions that commit in any
 * order, stay open or roll back, and rows that no sender of Postrider would write.  The store passed in must be a
 * memory store.
 *
 * The URL "memory:" opens a store of its own; "memory:NAME" one that all users of the NAME in this process share, and
 * that lives as long as it is open. */
#ifndef STORE_MEMORY_MEMORY_H
#define STORE_MEMORY_MEMORY_H

#include "base/buf.h"
#include "core/completion.h"
#include "store/store.h"

struct memory_tx;

/* NULL: no memory.  Every transaction must be committed or rolled back before the store is closed. */
struct memory_tx *memory_tx_begin(struct store *store);

/* A plain INSERT: draws the transaction's xid, if it has none yet, then a seq.  The message is not checked.  id must be
 * set.
 *
 * Outcome  PR_DUPLICATE  a committed row of the box (or one of this transaction) has this id and destination.  Fault
 * PR_ENOTFOUND (no such box), PR_ENOMEM. */
PR_MUST_CHECK int memory_tx_insert(struct memory_tx *tx, pr_slice box, const struct pr_message *message);

/* Both free tx.  A row whose id and destination were committed by another transaction meanwhile is left out (a database
 * would have made one of the two senders wait). */
void memory_tx_commit(struct memory_tx *tx);
void memory_tx_rollback(struct memory_tx *tx);

/* A transaction of a receiver that completes a message, with its mark as the only effect; committed on return.
 *
 * Outcome  PR_STALE  the row no longer exists as it was handed out, or its message was handled before.  Fault
 * PR_ENOMEM. */
PR_MUST_CHECK int memory_complete(struct store *store, const struct completion *completion);

/* A row that cannot be decoded for this reason (a literal), or, with NULL, whatever message_defect() finds.  Answers as
 * memory_tx_insert. */
PR_MUST_CHECK int memory_plant(struct store *store, pr_slice box, const struct pr_message *message, const char *bad);

/* A plain UPDATE of the payload, bypassing the contract; instances get a notice (NOTICE_REPAIRED).
 * Fault  PR_ENOTFOUND (no such box or row), PR_ENOMEM. */
PR_MUST_CHECK int memory_repair(struct store *store, pr_slice box, pr_id id, pr_slice destination, pr_slice payload);

/* Senders' commits since the last durable write are lost, and their seqs are drawn again; `lost` (may be NULL) is
 * called with each message.  Every session learns of it with its next cycle (history_changed).  Returns the number of
 * lost messages.  all: as after a failover to a server that is far behind, all rows of boxes are lost, including those
 * on receipts; for stores without dead letters. */
size_t memory_lose(struct store *store, bool all, void (*lost)(void *arg, const struct pr_message *m), void *arg);

/* Rows that an open transaction has locked: verdicts about them are answered ANSWER_BUSY.  NULL: none. */
typedef bool memory_row_is_held(void *arg, uint64_t row);
void memory_hold_rows(struct store *store, memory_row_is_held *is_held, void *arg);

/* What effects have stored, in no particular order: a line for each event, history row, state and mark. */
void memory_effects_write(struct store *store, struct buf *ret);

/* Number of entries in the audit. */
size_t memory_audit_count(struct store *store);

/* Walks everything and ASSERTs that indexes, counters and owners agree. */
void memory_check(struct store *store);

#endif
