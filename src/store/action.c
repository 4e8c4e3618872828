#include "store/action.h"

#include "base/error.h"
#include "base/util.h"
#include "core/story.h"

/* clang-format off */
static const struct action actions[] = {
    [ADMIN_RETRY]        = { "retry",       NOTICE_DUE,      false },
    [ADMIN_RELEASE]      = { "release",     NOTICE_DUE,      false },
    [ADMIN_PARK]         = { "park",        NOTICE_PARKED,   false },
    [ADMIN_DISCARD]      = { NULL,          NOTICE_GONE,     false },
    [ADMIN_DEAD_ADD]     = { "dead_letter", NOTICE_PARKED,   false }, /* strict streams wait behind it */
    [ADMIN_DEAD_REPLAY]  = { "replay",      NOTICE_DUE,      true },
    [ADMIN_DEAD_DISCARD] = { NULL,          NOTICE_GONE,     true },
    [ADMIN_DEAD_EDIT]    = { "edit",        NOTICE_DUE,      true },
    [ADMIN_DEAD_NOTE]    = { STORY_NOTE,    NOTICE_PARKED,   true }, /* nobody is told */
    [ADMIN_DEAD_IMPORT]  = { NULL,          NOTICE_RELOAD,   true },
    [ADMIN_PAUSE]        = { NULL,          NOTICE_ENDPOINT, false },
    [ADMIN_RESUME]       = { NULL,          NOTICE_ENDPOINT, false },
    [ADMIN_ENDPOINT_TEST] = { NULL,         NOTICE_DUE,      false }, /* nobody is told */
    [ADMIN_REPLAY_STOP]   = { NULL,         NOTICE_DUE,      false },
    [ADMIN_REPLAY_RESUME] = { NULL,         NOTICE_DUE,      false },
};
/* clang-format on */

const struct action *action_of(enum admin_kind kind)
{
    ASSERT((size_t)kind < ARRAY_LENGTH(actions));
    return &actions[kind];
}
