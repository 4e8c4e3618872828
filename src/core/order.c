#include "core/order.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/id.h"
#include "core/story.h"

/* clang-format off */
static const struct action actions[] = {
    [ADMIN_RETRY]          = { "retry",         "retry",       NOTICE_DUE,       false, STEPS_BOX },
    [ADMIN_RELEASE]        = { "release",       "release",     NOTICE_DUE,       false, STEPS_BOX },
    [ADMIN_PARK]           = { "park",          "park",        NOTICE_PARKED,    false, STEPS_BOX },
    [ADMIN_RESCHEDULE]     = { "reschedule",    "reschedule",  NOTICE_DUE,       false, STEPS_BOX },
    [ADMIN_DISCARD]        = { "discard",       NULL,          NOTICE_GONE,      false, STEPS_BOX },
    /* strict streams wait behind it */
    [ADMIN_DEAD_ADD]       = { "dead_add",      "dead_letter", NOTICE_PARKED,    false, STEPS_NONE },
    [ADMIN_DEAD_REPLAY]    = { "dead_replay",   "replay",      NOTICE_DUE,       true,  STEPS_NONE },
    [ADMIN_DEAD_DISCARD]   = { "dead_discard",  NULL,          NOTICE_GONE,      true,  STEPS_DEAD },
    [ADMIN_DEAD_EDIT]      = { "dead_edit",     "edit",        NOTICE_DUE,       true,  STEPS_NONE },
    /* no notice is sent */
    [ADMIN_DEAD_NOTE]      = { "dead_note",     STORY_NOTE,    NOTICE_PARKED,    true,  STEPS_NONE },
    [ADMIN_DEAD_IMPORT]    = { "dead_import",   NULL,          NOTICE_RELOAD,    true,  STEPS_NONE },
    /* no notice is sent */
    [ADMIN_FLOW_DELETE]    = { "flow_delete",   NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_FLOW_PRUNE]     = { "flow_prune",    NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_PAUSE]          = { "pause",         NULL,          NOTICE_ENDPOINT,  false, STEPS_NONE },
    [ADMIN_RESUME]         = { "resume",        NULL,          NOTICE_ENDPOINT,  false, STEPS_NONE },
    /* no notice is sent */
    [ADMIN_SUBSCRIPTION_RESET]  = { "subscription_reset",  NULL, NOTICE_DUE,     false, STEPS_NONE },
    [ADMIN_SUBSCRIPTION_REMOVE] = { "subscription_remove", NULL, NOTICE_DUE,     false, STEPS_NONE },
    /* no notice is sent */
    [ADMIN_ENDPOINT_TEST]  = { "endpoint_test", NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_REPLAY_STOP]    = { "replay_stop",   NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_REPLAY_RESUME]  = { "replay_resume", NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_SCHEDULE_ADD]   = { "schedule_add",  NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_SCHEDULE_RUN]   = { "schedule_run",  NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_FLOW_CANCEL]    = { "flow_cancel",   NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_FLOW_RESTART]   = { "flow_restart",  NULL,          NOTICE_DUE,       false, STEPS_NONE },
    [ADMIN_FLOW_RESUME]    = { "flow_resume",   NULL,          NOTICE_DUE,       false, STEPS_NONE },
};
/* clang-format on */

const struct action *action_of(enum admin_kind kind)
{
    ASSERT((size_t)kind < ARRAY_LENGTH(actions));
    return &actions[kind];
}

bool action_find(pr_slice name, enum admin_kind *ret)
{
    for (size_t i = 0; i < ARRAY_LENGTH(actions); i++)
        if (slice_eq_cstr(name, actions[i].name)) {
            *ret = (enum admin_kind)i;
            return true;
        }
    return false;
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
    m.type = edit->type != NULL ? *edit->type : m.type;
    m.attempts = m.failures = 0;
    m.held_by = (pr_slice){ NULL, 0 };
    m.held_for = m.parked_by = 0;
    m.released = false;
    m.status |= PR_STATUS_FAILED;
    return m;
}
