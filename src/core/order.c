#include "core/order.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/id.h"
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

pr_slice note_kept(pr_slice note)
{
    size_t from = note.size;
    for (size_t left = NOTE_KEPT_MAX; from > 0 && left > 0; left--)
        do
            from--;
        while (from > 0 && ((unsigned char)note.data[from] & 0xC0) == 0x80);
    return (pr_slice){ note.data + from, note.size - from };
}

struct pr_message message_edited(const struct pr_message *dead, const struct row_order *order,
                                 char cause[PR_ID_TEXT_SIZE])
{
    const struct dead_edit *edit = order->edit;
    struct pr_message m = *dead;
    pr_id_format(m.id, cause);
    m.id = order->made;
    m.causation_id = slice_from(cause);
    m.payload = edit->payload != NULL ? *edit->payload : m.payload;
    m.headers = edit->headers != NULL ? *edit->headers : m.headers;
    m.destination = edit->destination != NULL ? *edit->destination : m.destination;
    m.attempts = m.failures = 0;
    m.held_by = (pr_slice){ NULL, 0 };
    m.held_for = m.parked_by = 0;
    m.released = false;
    m.status |= PR_STATUS_FAILED;
    return m;
}
