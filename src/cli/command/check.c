#include "cli/command/check.h"

#include "cli/output/table.h"

void checks_print(const struct checks *checks, bool quiet, bool color)
{
    static const enum color colors[] = { COLOR_GREEN, COLOR_YELLOW, COLOR_RED };

    for (size_t i = 0; i < checks->count; i++) {
        const struct check *c = &checks->items[i];
        struct buf clean;

        if (quiet && c->state == CHECK_FINE)
            continue;
        buf_init(&clean, OUTPUT_MAX);
        text_clean(&clean, slice_from(c->text), false);
        printf("  %s%-5s%s  %-12s %.*s\n", color_on(colors[c->state], color), check_state_name(c->state),
               color_off(colors[c->state], color), c->name, SLICE_ARGS(buf_slice(&clean)));
        buf_fini(&clean);
    }
}
