/* top.h - the live view: facts (view.h) and a person's input (struct ui) become a picture (screen.h).
 *
 * Everything here except top.c is pure: keys and facts come in, a picture and orders go out. */
#ifndef CLI_TOP_TOP_H
#define CLI_TOP_TOP_H

#include "cli/top/screen.h"
#include "cli/top/view.h"

enum pane { PANE_ENDPOINTS, PANE_GROUPS, PANE_STREAMS, PANE_COUNT };

/* ---- Keys (characters are themselves) ---- */

enum key {
    KEY_NONE = 0x110000, /* beyond Unicode */
    KEY_UP,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_TAB,
    KEY_BACK_TAB,
    KEY_ENTER,
    KEY_ESCAPE,
    KEY_BACKSPACE,
};

/* The first key in the terminal's input, and how many bytes it took; 0: incomplete.  whole: nothing more will come, so
 * a lone escape is the key.  KEY_NONE: an unknown sequence. */
size_t key_decode(pr_slice bytes, bool whole, int32_t *ret_key);

/* ---- What a person asks for ---- */

#define ORDER_NAME_MAX 512 /* bytes of an endpoint's name or a fingerprint; orders for longer ones are not possible */

enum order_kind {
    ORDER_NONE,
    ORDER_PAUSE,        /* name: the endpoint */
    ORDER_RESUME,       /* name */
    ORDER_RETRY,        /* id: a message in its box */
    ORDER_REPLAY,       /* id: a dead letter */
    ORDER_REPLAY_GROUP, /* name: the fingerprint */
};

/* The subject of an order is recorded when the key is pressed: rows move under the cursor. */
struct order {
    enum order_kind kind;
    pr_id id;
    char name[ORDER_NAME_MAX + 1];
};

enum mode { MODE_LISTS, MODE_OPENED, MODE_HELP, MODE_FILTER, MODE_ASK };

enum ui_request { UI_NOTHING, UI_QUIT, UI_ORDER, UI_OPEN, UI_STOP }; /* STOP: Ctrl-Z */

#define FILTER_TEXT_MAX 60
#define UI_TEXT_MAX 600

struct ui {
    enum mode mode, before; /* before: the mode to return to after help and questions */
    enum pane pane;
    uint64_t chosen[PANE_COUNT]; /* hash of the row under the cursor; 0: the worst row */
    size_t cursor[PANE_COUNT];   /* its index among the visible rows */
    char filter[FILTER_TEXT_MAX + 1];

    struct order order; /* UI_ORDER, and while asking for confirmation */
    char question[UI_TEXT_MAX];

    pr_id opened; /* UI_OPEN: this message; zero: the endpoint of that name */
    char opened_name[ORDER_NAME_MAX + 1];
    const char *text; /* MODE_OPENED: lines; NULL: not available yet.  Borrowed */
    size_t scroll;    /* lines; the layout keeps it in range */

    char notice[UI_TEXT_MAX]; /* result of the latest order; disappears with the next key */
    bool notice_is_bad;
    char trouble[UI_TEXT_MAX]; /* why the store cannot be reached; "": it can */
};

/* Rows of a pane that pass the filter. */
struct pane_rows {
    size_t count;
    size_t index[VIEW_ROWS_MAX]; /* into the view's list */
};
void ui_rows(const struct ui *ui, const struct top_view *v, enum pane pane, struct pane_rows *ret);

/* New facts: the cursors stay on their rows. */
void ui_settle(struct ui *ui, const struct top_view *v);
/* A key.  page: rows that PgUp and PgDn move by. */
enum ui_request ui_key(struct ui *ui, const struct top_view *v, int32_t key, size_t page);
void ui_say(struct ui *ui, bool bad, const char *format, ...) PR_PRINTF(3, 4);

/* ---- The picture ---- */

struct top_frame {
    const struct top_view *view; /* NULL: nothing is known yet */
    const char *source;          /* origin of the facts; without secrets */
    int64_t now_us;              /* wall clock of the person's machine */
    bool plain;                  /* for a file: no keys, complete lists */
};

/* ui->scroll is clamped; nothing else is changed. */
void top_draw(struct screen *s, const struct top_frame *frame, struct ui *ui);
extern const char top_help[]; /* keys, and the meaning of the columns */
/* Rows that a plain frame takes. */
size_t top_plain_height(const struct top_view *v);

#endif
