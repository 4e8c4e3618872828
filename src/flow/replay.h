/* Does code still match a history?  For unit tests of flows, for "what would diverge", and for the simulator (I11). */
#ifndef FLOW_REPLAY_H
#define FLOW_REPLAY_H

#include "flow/turn.h"

struct flow_replayed {
    bool diverged;
    struct flow_error error; /* diverged: expectation, finding and place */
    bool ended;              /* the function returned, though the history has no end */
    size_t added;            /* commands that the history does not have yet */
};

/* Runs the code against the whole history; nothing is stored.  Fault PR_ENOMEM; PR_EINVAL: the history is empty. */
PR_MUST_CHECK int flow_replay(const struct flow_history *history, const struct flow_code *code, struct arena *arena,
                              struct flow_replayed *ret, struct pr_error *reterr);

/* Runs the code with the first `base` events; *f is the result, in the arena.  Faults as above. */
PR_MUST_CHECK int flow_replay_beginning(pr_flow *f, const struct flow_history *history, size_t base,
                                        const struct flow_code *code, struct arena *arena, struct pr_error *reterr);

/* I11: for every prefix of the history, the commands of the code are those that follow.  PR_OK, or PR_FAILED: where
 * they are not. */
PR_MUST_CHECK int flow_check_prefixes(const struct flow_history *history, const struct flow_code *code,
                                      struct arena *arena, struct pr_error *reterr);

#endif
