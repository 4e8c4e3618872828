#include "core/verdict.h"

#include "base/error.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/message.h"

/* clang-format off */
static const struct verdict_traits traits[] = {
    [VERDICT_COMPLETE]    = { "complete",    false, BLOCKS_NOBODY },
    [VERDICT_FAIL]        = { "fail",        true,  BLOCKS_UNLESS_AVAILABLE },
    [VERDICT_POSTPONE]    = { "postpone",    true,  BLOCKS_UNLESS_AVAILABLE },
    [VERDICT_RETURN]      = { "return",      false, BLOCKS_NOBODY },
    [VERDICT_ABANDON]     = { "abandon",     true,  BLOCKS_UNLESS_AVAILABLE },
    [VERDICT_RELEASE]     = { "release",     true,  BLOCKS_NOBODY },
    [VERDICT_DISCARD]     = { "discard",     false, BLOCKS_NOBODY },
    [VERDICT_EXPIRE]      = { "expire",      false, BLOCKS_NOBODY },
    [VERDICT_DEAD_LETTER] = { "dead_letter", false, BLOCKS_STRICT },
    [VERDICT_PARK]        = { "park",        false, BLOCKS_STRICT },
    [VERDICT_HOLD]        = { "hold",        false, BLOCKS_NOBODY },
    [VERDICT_RESCHEDULE]  = { "reschedule",  true,  BLOCKS_NOBODY },
    [VERDICT_DUPLICATE]   = { "duplicate",   false, BLOCKS_NOBODY },
    [VERDICT_ASK]         = { "ask",         false, BLOCKS_NOBODY },
    [VERDICT_SPLIT]       = { "split",       false, BLOCKS_NOBODY },
};
/* clang-format on */

const struct verdict_traits *verdict_traits(enum verdict_kind kind)
{
    ASSERT((size_t)kind < ARRAY_LENGTH(traits));
    return &traits[kind];
}

#define TEXTS_MAX (256 * 1024) /* limit of story, error, code and rule of one verdict together */

char *verdict_write_texts(struct verdict *v, pr_slice story, struct story_line line)
{
    struct buf b, error;

    buf_init(&b, TEXTS_MAX);
    buf_init(&error, TEXTS_MAX);
    utf8_clean(&error, utf8_cut(v->error, PR_ERROR_MAX));
    buf_add_slice(&b, buf_slice(&error));
    size_t code_at = b.size;
    utf8_clean(&b, utf8_cut(v->code, CODE_CHARS_MAX));
    size_t rule_at = b.size;
    buf_add_slice(&b, v->rule);
    size_t story_at = b.size;
    line.reason = v->reason;
    line.code = v->code;
    line.error = buf_slice(&error);
    line.rule = v->rule;
    story_append(story, &line, &b);
    bool written = buf_failed(&b) == 0 && buf_failed(&error) == 0;
    buf_fini(&error);
    if (!written) {
        buf_fini(&b);
        v->error = v->code = v->rule = v->story = (pr_slice){ NULL, 0 };
        return NULL;
    }
    v->error = (pr_slice){ b.data, code_at };
    v->code = (pr_slice){ b.data + code_at, rule_at - code_at };
    v->rule = (pr_slice){ b.data + rule_at, story_at - rule_at };
    v->story = (pr_slice){ b.data + story_at, b.size - story_at };
    return b.data;
}
