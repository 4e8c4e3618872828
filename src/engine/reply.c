/* Replies (core/request.h): rows that stay in their box until they have been read.  They are judged when the engine
 * reads them, like schedules: a new row gets its expiry, an expired one is deleted, and a reply from elsewhere becomes
 * the row that its requester waits for. */
#include "core/request.h"

#include "base/time.h"
#include "core/message.h"
#include "engine/internal.h"

static void judge_kept(struct engine *e, struct item *item, int64_t now_us)
{
    const struct verdict v = { .kind = VERDICT_RESCHEDULE, .due_us = time_add(store_now(e, now_us), REPLY_KEEP_US) };

    judge(e, item, &v, "", 0, now_us);
    item->verdict.story = (pr_slice){ NULL, 0 };
}

static int judge_arrived(struct engine *e, struct item *item, const struct row *row, pr_id request, int64_t now_us)
{
    char text[PR_ID_TEXT_SIZE];
    struct send_effect effect = { .box = e->setting.box, .message = reply_row(&row->m, request, text) };
    struct send_effect *copy;

    effect.message.due_us = time_add(store_now(e, now_us), REPLY_KEEP_US);
    judge_complete(e, item, 0);
    int rc = effects_copy(&effect, &copy);
    if (rc == PR_OK)
        effects_append(&item->effects, copy);
    return rc;
}

enum admitted admit_reply(struct engine *e, const struct row *row, int64_t now_us)
{
    struct row light = *row;
    pr_id request, own = { { 0 } };
    int rc = PR_OK;

    light.m.payload = light.m.headers = (pr_slice){ NULL, 0 };
    struct item *item = item_new(e, &light, NULL);
    if (item == NULL)
        return NO_ROOM;
    bool known = reply_request(&row->m, &request);
    if (known)
        reply_id(request, &own);
    if (!known)
        judge_dead(e, item, PR_REASON_VALIDATION_FAILURE, PR_REASON_VALIDATION_FAILURE, 0, PR_STR("reply"), true,
                   PR_STR("reply"), PR_STR("it is a reply, and its correlation id is not the id of a request"), now_us);
    else if (!pr_id_equal(own, row->m.id) || row->m.destination.size == 0)
        rc = judge_arrived(e, item, row, request, now_us);
    else if (row->m.due_us == 0)
        judge_kept(e, item, now_us);
    else
        judge_complete(e, item, 0); /* it has expired */
    if (rc == PR_OK)
        return TAKEN;
    item_free(e, item);
    return NO_ROOM;
}
