/* Does code still fit to a history?  For unit tests of flows, for "what would diverge", and for the simulator (I11). */
#ifndef FLOW_REPLAY_H
#define FLOW_REPLAY_H

#include "flow/turn.h"

struct flow_replayed {
    bool diverged;
    struct flow_error error; /* diverged: what was expected and found, and where */
    bool ended;              /* the function returned; a history without an end would get one now */
    size_t added;            /* commands that the history does not have yet */
};

/* Run the code against the whole history; nothing is stored.  Fault PR_ENOMEM; PR_EINVAL: the history is empty. */
PR_MUST_CHECK int flow_replay(const struct flow_history *history, const struct flow_code *code, struct arena *arena,
                              struct flow_replayed *ret, struct pr_error *reterr);

/* Run the code with the first `base` events; *f is as the code left it, in the arena.  Faults as above. */
PR_MUST_CHECK int flow_replay_beginning(pr_flow *f, const struct flow_history *history, size_t base,
                                        const struct flow_code *code, struct arena *arena, struct pr_error *reterr);

/* I11: however much of the history is there, the commands of the code are those that follow in it.  PR_OK, or PR_FAILED: where
 * they are not. */
PR_MUST_CHECK int flow_check_prefixes(const struct flow_history *history, const struct flow_code *code,
                                      struct arena *arena, struct pr_error *reterr);

#endif
