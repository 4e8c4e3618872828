/* top_job.h - what `top` has others do: ask the store for a new view, carry out an order, open a message.
 *
 * A store may take its time, and a person who presses a key must not wait for it; so a thread does it, one
 * job at a time.  While it runs the job is the thread's; before and after it is the caller's. */
#ifndef CLI_TOP_TOP_JOB_H
#define CLI_TOP_TOP_JOB_H

#include "cli/cli.h"
#include "cli/top/top.h"

enum top_job_kind { TOP_JOB_LOOK, TOP_JOB_ORDER, TOP_JOB_OPEN };

struct top_job {
    enum top_job_kind kind;
    struct cli *cli;             /* its store is asked */
    const struct config *config; /* LOOK: see view_ask() */
    pr_slice by;                 /* ORDER: who says so */

    struct order order; /* ORDER */
    pr_id id;           /* OPEN: zero: the endpoint of that name */
    char name[ORDER_NAME_MAX + 1];
    enum pane pane;                /* OPEN: where it was chosen */
    const struct top_view *before; /* LOOK, OPEN: the latest view; may be NULL */

    /* What came of it: */
    int rc;
    struct pr_error error;
    struct top_view *view;  /* LOOK: filled; the caller's */
    char said[UI_TEXT_MAX]; /* ORDER: what was done */
    char *text;             /* OPEN: free() it */
};

/* Do it, here and now. */
void top_job_run(struct top_job *e);

/* ---- The thread ---- */

struct runner;

/* Fault PR_ENOMEM, PR_EIO. */
PR_MUST_CHECK int runner_new(struct runner **ret, struct pr_error *reterr);
/* Waits for the job that runs, for a moment.  False: it still runs, so the process must end as it is. */
bool runner_free(struct runner *r);

int runner_fd(const struct runner *r); /* readable when a job is done */
bool runner_is_busy(const struct runner *r);
void runner_begin(struct runner *r, struct top_job *e); /* must not be busy; borrowed until it is done */
/* The job that is done, once; NULL: none is. */
struct top_job *runner_done(struct runner *r);

#endif
