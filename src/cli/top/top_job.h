/* top_job.h - the background jobs of `top`: reading a new view, carrying out an order, opening a message.
 *
 * A store may be slow, and a person who presses a key must not wait for it; so a thread runs them, one job at a time.
 * While it runs the job belongs to the thread; before and after it to the caller. */
#ifndef CLI_TOP_TOP_JOB_H
#define CLI_TOP_TOP_JOB_H

#include "cli/cli.h"
#include "cli/top/top.h"

enum top_job_kind { TOP_JOB_LOOK, TOP_JOB_ORDER, TOP_JOB_OPEN };

struct top_job {
    enum top_job_kind kind;
    struct cli *cli;             /* its store is used */
    const struct config *config; /* LOOK: see view_ask() */
    pr_slice by;                 /* ORDER: the author */

    struct order order; /* ORDER */
    pr_id id;           /* OPEN: zero: the endpoint of that name */
    char name[ORDER_NAME_MAX + 1];
    enum pane pane;                /* OPEN: the list in which it was chosen */
    const struct top_view *before; /* LOOK, OPEN: the latest view; may be NULL */

    /* The results: */
    int rc;
    struct pr_error error;
    struct top_view *view;  /* LOOK: filled; the caller's */
    char said[UI_TEXT_MAX]; /* ORDER: what happened */
    char *text;             /* OPEN: free() it */
};

/* Runs the job in this thread. */
void top_job_run(struct top_job *e);

/* ---- The thread ---- */

struct runner;

/* Fault PR_ENOMEM, PR_EIO. */
PR_MUST_CHECK int runner_new(struct runner **ret, struct pr_error *reterr);
/* Waits a moment for the running job.  False: it still runs, so the process must exit without cleanup. */
bool runner_free(struct runner *r);

int runner_fd(const struct runner *r); /* readable when a job has ended */
bool runner_is_busy(const struct runner *r);
void runner_begin(struct runner *r, struct top_job *e); /* must not be busy; the job is borrowed until it has ended */
/* The job that has ended, once; NULL: none. */
struct top_job *runner_done(struct runner *r);

#endif
