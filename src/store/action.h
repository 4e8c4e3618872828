/* action.h - what an operator's action leaves behind, the same in every store. */
#ifndef STORE_ACTION_H
#define STORE_ACTION_H

#include "store/store.h"

struct action {
    const char *step;        /* what it is called in the story; NULL: it leaves no line */
    enum notice_kind notice; /* what running instances are told */
    bool on_dead;            /* it looks among the dead letters, and not in the boxes */
};

const struct action *action_of(enum admin_kind kind);

#endif
