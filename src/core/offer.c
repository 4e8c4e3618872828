#include "core/offer.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"

#define FLOW "flow\t"
#define ACTIVITY "activity\t"
#define TAG "tag\t"

/* ---- Offers -------------------------------------------------------------------------------------- */

static bool is_plain(pr_slice word)
{
    for (size_t i = 0; i < word.size; i++)
        if ((unsigned char)word.data[i] < ' ')
            return false;
    return utf8_valid(word);
}

/* A line that does not fit is left out as a whole. */
static void add_line(struct buf *offer, const char *kind, pr_slice first, pr_slice second)
{
    const size_t before = buf_slice(offer).size;

    if (!is_plain(first) || !is_plain(second))
        return;
    buf_addf(offer, "%s%.*s%s%.*s\n", kind, SLICE_ARGS(first), second.size > 0 ? "\t" : "", SLICE_ARGS(second));
    if (buf_failed(offer) != PR_OK)
        buf_truncate(offer, before);
}

void offer_add_flow(struct buf *offer, pr_slice name, pr_slice version)
{
    add_line(offer, FLOW, name, version);
}

void offer_add_activity(struct buf *offer, pr_slice name)
{
    add_line(offer, ACTIVITY, name, (pr_slice){ "", 0 });
}

void offer_add_tag(struct buf *offer, pr_slice tag)
{
    add_line(offer, TAG, tag, (pr_slice){ "", 0 });
}

/* ---- Needs --------------------------------------------------------------------------------------- */

static char *write_need(const char *kind, pr_slice first, pr_slice second)
{
    char *text;
    return asprintf(&text, "%s%.*s\t%.*s", kind, SLICE_ARGS(first), SLICE_ARGS(second)) >= 0 ? text : NULL;
}

char *need_of_flow(pr_slice name, pr_slice version)
{
    return write_need(FLOW, name, version);
}

char *need_of_activity(pr_slice name, pr_slice tag)
{
    return write_need(ACTIVITY, name, tag);
}

/* ---- Do they fit? -------------------------------------------------------------------------------- */

/* Does the offer have a line that consists of `kind` and `word` (whole), or begins with them? */
static bool has_line(pr_slice offer, const char *kind, pr_slice word, bool whole)
{
    const size_t kind_size = strlen(kind), size = kind_size + word.size;

    for (const char *at = offer.data, *end = offer.data + offer.size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop != NULL ? stop : end) - at);
        if ((whole ? length == size : length >= size) && memcmp(at, kind, kind_size) == 0 &&
            (word.size == 0 || memcmp(at + kind_size, word.data, word.size) == 0))
            return true;
        at += length + 1;
    }
    return false;
}

bool offer_has(pr_slice offer, pr_slice need)
{
    const pr_slice flow = PR_STR(FLOW), activity = PR_STR(ACTIVITY);
    bool of_flow = slice_starts_with(need, flow);

    if (offer.size == 0 || (!of_flow && !slice_starts_with(need, activity)))
        return false;
    const size_t kind = of_flow ? flow.size : activity.size;
    const char *tab = memrchr(need.data + kind, '\t', need.size - kind);
    if (tab == NULL)
        return false;
    const pr_slice name = { need.data + kind, (size_t)(tab - need.data) - kind };
    const pr_slice rest = { tab + 1, need.size - (size_t)(tab + 1 - need.data) };
    if (of_flow && rest.size > 0)
        return has_line(offer, FLOW, (pr_slice){ need.data + kind, need.size - kind }, true);
    if (of_flow) /* up to the tab: any version */
        return has_line(offer, FLOW, (pr_slice){ name.data, name.size + 1 }, false);
    return has_line(offer, ACTIVITY, name, true) && (rest.size == 0 || has_line(offer, TAG, rest, true));
}
