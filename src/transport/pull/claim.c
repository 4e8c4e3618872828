/* One message that is offered or claimed: its token, and how it ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/util.h"
#include "flow/turn_message.h"
#include "transport/delivery.h"
#include "transport/pull/shelf.h"

#define TAG_AGAIN_US PR_SECONDS(1) /* until a message comes again whose tag no claimer offered */
#define TAG_BLOCK 1024

/* The tag of the activity.  False: no memory. */
static bool read_tag(struct open_claim *c)
{
    struct activity_message a;
    struct pr_error ignored;
    struct arena arena;
    arena_init(&arena, TAG_BLOCK);
    int rc = activity_message_read(c->delivery->message, &arena, &a, &ignored);
    bool fits = rc != PR_ENOMEM;
    if (rc == PR_OK && a.tag.size > 0)
        fits = (c->tag = strndup(a.tag.data, a.tag.size)) != NULL;
    arena_fini(&arena);
    return fits;
}

struct open_claim *claim_new(struct pull_shelf *s, const struct endpoint_config *config,
                             const struct delivery *delivery)
{
    struct open_claim *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    int64_t own_us = message_timeout_us(config, delivery->message);
    c->shelf = s;
    c->delivery = delivery;
    c->ask = delivery->ask;
    c->span_us = own_us > 0 ? own_us : config->timeout_us;
    if (!s->tagged || read_tag(c))
        return c;
    claim_free(c);
    return NULL;
}

void claim_free(struct open_claim *c)
{
    delivery_result_fini(&c->result);
    free(c->tag);
    free(c);
}

void claim_hold_for(struct open_claim *c, int64_t now, int64_t span_us)
{
    struct pull_shelf *s = c->shelf;
    c->expires_us = time_add(now, span_us);
    if (c->expires_us < s->expiring_us) {
        s->expiring_us = c->expires_us;
        pull_ring(s->ended_fd); /* the transport looks again then */
    }
}

bool claim_begin(struct pull_shelf *s, struct open_claim *c, int64_t now)
{
    c->number = s->pull->last_number + 1;
    if (random_bytes_os(&c->secret, sizeof c->secret) < 0 ||
        map_insert(&s->pull->claims, &c->by_number, c->number) < 0) {
        claim_return(c, &s->offered);
        return false;
    }
    s->pull->last_number++;
    list_remove(&c->node);
    s->asks[c->ask].offered--;
    list_push_back(&s->claimed, &c->node);
    s->asks[c->ask].claimed++;
    claim_hold_for(c, now, c->span_us);
    return true;
}

/* ---- Its token ---- */

void claim_token(const struct open_claim *c, char text[PULL_TOKEN_SIZE])
{
    snprintf(text, PULL_TOKEN_SIZE, "%016" PRIx64 "-%016" PRIx64 "-%" PRIx64, c->shelf->pull->tag, c->secret,
             c->number);
}

static bool token_read(pr_slice text, uint64_t *ret_tag, uint64_t *ret_secret, uint64_t *ret_number)
{
    char copy[PULL_TOKEN_SIZE];
    int used = 0;
    if (text.size >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return strspn(copy, "0123456789abcdef-") == text.size && /* sscanf also accepts blanks and 0x */
           sscanf(copy, "%16" SCNx64 "-%16" SCNx64 "-%16" SCNx64 "%n", ret_tag, ret_secret, ret_number, &used) == 3 &&
           (size_t)used == text.size;
}

struct open_claim *claim_of(const struct pull *p, pr_slice token, enum pull_answer *ret_answer)
{
    uint64_t tag, secret, number;
    *ret_answer = PULL_UNKNOWN;
    if (!token_read(token, &tag, &secret, &number) || tag != p->tag || number == 0 || number > p->last_number)
        return NULL;
    *ret_answer = PULL_STALE;
    for (struct map_node *n = map_first(&p->claims, number); n != NULL; n = map_next_same(n)) {
        struct open_claim *c = MAP_ENTRY(n, struct open_claim, by_number);
        if (c->number == number && c->secret == secret)
            return pull_now_us() < c->expires_us ? c : NULL;
    }
    return NULL;
}

enum pull_answer pull_renew(struct pull *p, pr_slice token, int64_t span_us, int64_t *ret_left_us)
{
    enum pull_answer answer;
    pull_lock(p);
    struct open_claim *c = claim_of(p, token, &answer);
    if (c != NULL) {
        *ret_left_us = span_us > 0 ? span_us : c->span_us;
        claim_hold_for(c, pull_now_us(), *ret_left_us);
        answer = PULL_OK;
    }
    pull_unlock(p);
    return answer;
}

void pull_give_back(struct pull *p, const pr_slice *tokens, size_t count)
{
    enum pull_answer ignored;
    pull_lock(p);
    for (size_t i = 0; i < count; i++) {
        struct open_claim *c = claim_of(p, tokens[i], &ignored);
        if (c != NULL)
            claim_return(c, &c->shelf->claimed);
    }
    pull_unlock(p);
}

/* ---- Its end ---- */

void claim_end(struct open_claim *c, struct list *list)
{
    struct pull_shelf *s = c->shelf;
    c->result.token = c->delivery->token;
    c->delivery = NULL;
    list_remove(&c->node);
    if (list == &s->claimed) {
        map_remove(&s->pull->claims, &c->by_number);
        s->asks[c->ask].claimed--;
    } else {
        s->asks[c->ask].offered--;
    }
    if (list_is_empty(&s->ended))
        pull_ring(s->ended_fd);
    list_push_back(&s->ended, &c->node);
}

void claim_return(struct open_claim *c, struct list *list)
{
    c->result = (struct delivery_result){ .outcome = SEND_RETURNED };
    claim_end(c, list);
}

void claim_abandon(struct open_claim *c, const char *why)
{
    c->result = (struct delivery_result){ .outcome = SEND_ABANDONED, .error = strdup(why) };
    claim_end(c, &c->shelf->claimed);
}

void claim_postpone(struct open_claim *c)
{
    char text[PR_ERROR_MAX];
    snprintf(text, sizeof text, "it needs %s, which no worker offers", c->tag);
    c->result =
        (struct delivery_result){ .outcome = SEND_POSTPONED, .retry_after_us = TAG_AGAIN_US, .error = strdup(text) };
    claim_end(c, &c->shelf->offered);
}
