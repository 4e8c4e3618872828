#include "cli/command/endpoint.h"

void condition_add(struct cli *cli, struct table *t, const struct endpoint_condition *s, int64_t now_us)
{
    if (s->state[0] == 'p' && s->until_us == PR_NEVER)
        table_add(t, COLOR_YELLOW, PR_STR("paused until resumed"));
    else if (s->state[0] == 'p')
        table_addf(t, COLOR_YELLOW, "paused for %s", span_short(&cli->arena, s->until_us - now_us));
    else if (s->breaker != NULL && s->until_us > now_us && s->until_us != PR_NEVER)
        table_addf(t, COLOR_RED, "failing, probe in %s", span_short(&cli->arena, s->until_us - now_us));
    else if (s->breaker != NULL)
        table_add(t, COLOR_RED, s->until_us > now_us ? PR_STR("failing") : PR_STR("failing, probing"));
    else if (s->failed_in_row > 0)
        table_add(t, COLOR_RED, PR_STR("failing"));
    else
        table_add(t, COLOR_GREEN, PR_STR("active"));
}
