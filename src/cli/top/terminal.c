#include "cli/top/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/top/top.h"

#define SEQUENCE_MS 50 /* the bytes of a key arrive together, even over a slow line nearly so */
#define INPUT_MAX 256
#define OUTPUT_BYTES_MAX (16u << 20)

#define ENTER_TEXT "\033[?1049h\033[?25l\033[2J" /* alternate screen, no cursor, cleared */
#define LEAVE_TEXT "\033[0m\033[?25h\033[?1049l"

static const int ends[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGWINCH };
static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

/* One terminal per process: signal handlers need it. */
static struct {
    volatile sig_atomic_t is_raw;
    struct termios before, raw;
    sigset_t mask_before;
    int signals;
    bool color;
    char input[INPUT_MAX];
    size_t input_size;
    struct screen shown; /* what the terminal shows now */
} terminal = { .signals = -1 };

/* May be called by a signal handler. */
static void give_back(void)
{
    if (!terminal.is_raw)
        return;
    terminal.is_raw = 0;
    ssize_t written = write(STDOUT_FILENO, LEAVE_TEXT, sizeof(LEAVE_TEXT) - 1);
    (void)written; /* the terminal may be gone */
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal.before);
}

static void write_all(const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, data, size);

        if (n < 0 && errno != EINTR)
            return; /* gone: reading will report it */
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
}

static bool take(void)
{
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal.raw) != 0)
        return false;
    terminal.is_raw = 1;
    write_all(ENTER_TEXT, sizeof(ENTER_TEXT) - 1);
    return true;
}

/* ---- Signals ---- */

static void on_crash(int number)
{
    give_back();
    (void)raise(number); /* SA_RESETHAND: the default action follows */
}

static void watch_crashes(bool on)
{
    struct sigaction action = { .sa_handler = on ? on_crash : SIG_DFL, .sa_flags = on ? (int)SA_RESETHAND : 0 };

    for (size_t i = 0; i < ARRAY_LENGTH(crashes); i++)
        (void)sigaction(crashes[i], &action, NULL);
}

void terminal_watch_thread(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LENGTH(crashes); i++)
        sigaddset(&set, crashes[i]);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static bool open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++)
        sigaddset(&set, ends[i]);
    if (pthread_sigmask(SIG_BLOCK, &set, &terminal.mask_before) != 0)
        return false;
    terminal.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return terminal.signals >= 0;
}

int terminal_signals(void)
{
    return terminal.signals;
}

int terminal_next_signal(void)
{
    struct signalfd_siginfo info;

    return read(terminal.signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

/* ---- Open and close ---- */

int terminal_open(bool color, struct pr_error *reterr)
{
    if (tcgetattr(STDIN_FILENO, &terminal.before) != 0)
        return error_set(reterr, PR_EIO, "not a terminal: %s", strerror(errno));
    terminal.raw = terminal.before;
    cfmakeraw(&terminal.raw);
    terminal.raw.c_cc[VMIN] = 0;
    terminal.raw.c_cc[VTIME] = 0;
    terminal.color = color;
    terminal.input_size = 0;
    if (!open_signals())
        return error_set(reterr, PR_EIO, "cannot watch signals: %s", strerror(errno));
    watch_crashes(true);
    if (take())
        return PR_OK;
    error_set(reterr, PR_EIO, "cannot change the terminal's settings: %s", strerror(errno));
    terminal_close();
    return PR_EIO;
}

void terminal_close(void)
{
    give_back();
    if (terminal.signals < 0)
        return;
    watch_crashes(false);
    (void)close(terminal.signals);
    terminal.signals = -1;
    (void)pthread_sigmask(SIG_SETMASK, &terminal.mask_before, NULL);
    screen_fini(&terminal.shown);
}

void terminal_stop(void)
{
    give_back();
    (void)kill(0, SIGTSTP); /* the whole job, as the shell knows it */
    screen_fini(&terminal.shown);
    (void)take();
}

void terminal_size(size_t *ret_width, size_t *ret_height)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;

    *ret_width = known ? size.ws_col : 80;
    *ret_height = known ? size.ws_row : 24;
}

/* ---- Keys ---- */

static bool more_comes(void)
{
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

    return poll(&in, 1, SEQUENCE_MS) > 0 && (in.revents & POLLIN) != 0;
}

static int read_more(void)
{
    ssize_t n = read(STDIN_FILENO, terminal.input + terminal.input_size, INPUT_MAX - terminal.input_size);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? PR_OK : PR_EIO;
    terminal.input_size += (size_t)n;
    return PR_OK;
}

int terminal_key(int32_t *ret_key)
{
    *ret_key = KEY_NONE;
    if (terminal.input_size == 0 && read_more() != PR_OK)
        return PR_EIO;
    while (terminal.input_size > 0 && *ret_key == KEY_NONE) {
        size_t used = key_decode((pr_slice){ terminal.input, terminal.input_size }, false, ret_key);

        if (used == 0 && terminal.input_size < INPUT_MAX && more_comes()) {
            if (read_more() != PR_OK)
                return PR_EIO;
            continue;
        }
        if (used == 0)
            used = key_decode((pr_slice){ terminal.input, terminal.input_size }, true, ret_key);
        terminal.input_size -= used;
        memmove(terminal.input, terminal.input + used, terminal.input_size);
    }
    return PR_OK;
}

/* ---- Pictures ---- */

static void set_style(struct buf *out, unsigned style)
{
    buf_add_cstr(out, "\033[0m");
    if ((style & STYLE_REVERSE) != 0)
        buf_add_cstr(out, "\033[7m");
    buf_add_cstr(out, color_on(STYLE_COLOR(style), terminal.color));
}

static void add_row(struct buf *out, const struct screen *s, size_t row)
{
    const struct cell *cells = &s->cells[row * s->width];
    unsigned style = 0;

    buf_addf(out, "\033[%zu;1H\033[0m\033[K", row + 1);
    for (size_t i = 0; i < s->width; i++) {
        if (cells[i].style != style) {
            style = cells[i].style;
            set_style(out, style);
        }
        buf_add(out, cells[i].text, cells[i].size);
    }
    buf_add_cstr(out, "\033[0m");
}

void terminal_show(const struct screen *s)
{
    struct buf out;

    if (terminal.shown.width != s->width || terminal.shown.height != s->height)
        screen_fini(&terminal.shown);
    bool all = terminal.shown.cells == NULL;
    buf_init(&out, OUTPUT_BYTES_MAX);
    if (all)
        buf_add_cstr(&out, "\033[0m\033[2J");
    for (size_t row = 0; row < s->height; row++)
        if (all || !screen_row_same(s, &terminal.shown, row))
            add_row(&out, s, row);
    write_all(out.data != NULL ? out.data : "", out.size); /* in one write, so that it does not flicker */
    buf_fini(&out);
    if (all && screen_init(&terminal.shown, s->width, s->height) != PR_OK)
        return; /* the next screen is drawn completely */
    memcpy(terminal.shown.cells, s->cells, s->width * s->height * sizeof(*s->cells));
}
