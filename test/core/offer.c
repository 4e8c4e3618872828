#include "core/offer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/slice.h"
#include "check.h"

static bool has(const struct buf *offer, char *need)
{
    CHECK(need != NULL);
    bool found = offer_has(buf_slice(offer), pr_str(need));
    free(need);
    return found;
}

TEST(a_flow_is_offered_by_name_and_version) /* B110 */
{
    struct buf offer;
    buf_init(&offer, OFFER_BYTES_MAX);
    offer_add_flow(&offer, PR_STR("order"), PR_STR("1"));
    offer_add_flow(&offer, PR_STR("order"), PR_STR("10"));
    offer_add_flow(&offer, PR_STR("orders"), PR_STR("2"));
    CHECK(has(&offer, need_of_flow(PR_STR("order"), PR_STR("1"))));
    CHECK(has(&offer, need_of_flow(PR_STR("order"), PR_STR("10"))));
    CHECK(has(&offer, need_of_flow(PR_STR("order"), PR_STR("")))); /* any */
    CHECK(!has(&offer, need_of_flow(PR_STR("order"), PR_STR("2"))));
    CHECK(!has(&offer, need_of_flow(PR_STR("order"), PR_STR("100"))));
    CHECK(!has(&offer, need_of_flow(PR_STR("orde"), PR_STR(""))));
    CHECK(!has(&offer, need_of_flow(PR_STR("rder"), PR_STR("1"))));
    CHECK(!has(&offer, need_of_activity(PR_STR("order"), PR_STR(""))));
    buf_fini(&offer);
}

TEST(an_activity_is_offered_with_all_tags_of_its_instance) /* B113 */
{
    struct buf offer;
    buf_init(&offer, OFFER_BYTES_MAX);
    offer_add_tag(&offer, PR_STR("gpu"));
    offer_add_activity(&offer, PR_STR("render"));
    offer_add_activity(&offer, PR_STR("gpu"));
    CHECK(has(&offer, need_of_activity(PR_STR("render"), PR_STR(""))));
    CHECK(has(&offer, need_of_activity(PR_STR("render"), PR_STR("gpu"))));
    CHECK(!has(&offer, need_of_activity(PR_STR("render"), PR_STR("render")))); /* a name is no tag */
    CHECK(!has(&offer, need_of_activity(PR_STR("print"), PR_STR("gpu"))));
    buf_fini(&offer);
}

TEST(what_cannot_be_a_line_is_not_offered_and_what_is_no_need_is_not_met)
{
    struct buf offer;
    buf_init(&offer, OFFER_BYTES_MAX);
    offer_add_activity(&offer, PR_STR("a\nactivity\tb"));
    offer_add_activity(&offer, PR_STR("\xff"));
    offer_add_flow(&offer, PR_STR("f"), PR_STR("1\t2"));
    CHECK_SLICE(buf_slice(&offer), "");
    offer_add_activity(&offer, PR_STR("a"));
    CHECK(!has(&offer, need_of_activity(PR_STR("a\nactivity\ta"), PR_STR(""))));
    CHECK(!offer_has(buf_slice(&offer), PR_STR("")));
    CHECK(!offer_has(buf_slice(&offer), PR_STR("activity\ta"))); /* no tab behind the name */
    CHECK(!offer_has(buf_slice(&offer), PR_STR("nothing\ta\t")));
    CHECK(!offer_has(PR_STR(""), PR_STR("activity\ta\t")));
    buf_fini(&offer);
}

TEST(an_offer_has_an_end)
{
    struct buf offer;
    char name[200];
    buf_init(&offer, OFFER_BYTES_MAX);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%0190d", i);
        offer_add_activity(&offer, pr_str(name));
    }
    CHECK_EQ(buf_failed(&offer), PR_OK);
    CHECK(buf_slice(&offer).size <= OFFER_BYTES_MAX && buf_slice(&offer).size > OFFER_BYTES_MAX - 256);
    CHECK_EQ(buf_slice(&offer).data[buf_slice(&offer).size - 1], '\n');
    buf_fini(&offer);
}
