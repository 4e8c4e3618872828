/* Replay: code that does not match its history, results that come twice or for no task, histories as files. */
#include "stand.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "flow/replay.h"

/* What the code does is told by a text, so that one function is many: each letter is a step. */
static const char *steps;

static int by_steps(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task tasks[16] = { { 0 } };
    size_t count = 0;
    int rc = PR_OK;
    (void)ret_output;
    for (const char *step = steps; *step != '\0' && rc == PR_OK; step++) {
        switch (*step) {
        case 'a': tasks[count++] = pr_activity(f, "a", input); break;
        case 'b': tasks[count++] = pr_activity(f, "b", input); break;
        case 'A': tasks[count++] = pr_activity(f, "a", PR_STR("other input")); break;
        case 'g':
            tasks[count++] = pr_activity_with(f, "a", input, &(struct pr_activity_options){ .tag = "gpu" });
            break;
        case 'G':
            tasks[count++] = pr_activity_with(f, "a", input, &(struct pr_activity_options){ .tag = "tpu" });
            break;
        case 's':
            tasks[count++] = pr_activity_with(f, "a", input, &(struct pr_activity_options){ .session = "one" });
            break;
        case 'S':
            tasks[count++] = pr_activity_with(f, "a", input, &(struct pr_activity_options){ .session = "two" });
            break;
        case 't': tasks[count++] = pr_timer(f, PR_SECONDS(5)); break;
        case 'e': tasks[count++] = pr_event(f, "e"); break;
        case 'E': tasks[count++] = pr_event(f, "other"); break;
        case 'm': tasks[count++] = pr_mail(f, "e"); break;
        case 'k': tasks[count++] = pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = "k" }); break;
        case 'K': tasks[count++] = pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = "K" }); break;
        case 'd': rc = pr_detach(f, "free", input, &(struct pr_child_options){ .id = "i" }); break;
        case 'D': rc = pr_detach(f, "other", input, NULL); break;
        case 'x': pr_cancel(f, tasks[0]); break;
        case 'X': pr_cancel(f, tasks[1]); break;
        case 'n': (void)pr_now(f); break;
        case 'u': (void)pr_uuid(f); break;
        case '0': rc = pr_result(f, tasks[0], NULL, NULL); break;
        case '1': rc = pr_result(f, tasks[1], NULL, NULL); break;
        case 'c': return pr_continue_as_new(f, PR_STR("next"), NULL);
        case 'l': pr_flow_log(f, "%s", pr_is_replaying(f) ? "again" : "once"); break;
        case 'w': rc = pr_all(f, count, tasks); break;
        default: CHECK(false);
        }
    }
    return rc;
}

static struct stand *stand_with(const char *code)
{
    struct stand *s = stand_new(by_steps);
    s->unchecked = true;
    steps = code;
    stand_start(s, "in");
    return s;
}

/* The flow began as `before`; its next turn runs `after`, and must find this. */
static void check_divergence(const char *before, const char *after, const char *expected, const char *found)
{
    struct stand *s = stand_with(before);
    struct flow_error e;
    struct pr_error error;
    steps = after;
    stand_event(s, "wake", "up");
    if (s->row.state != FLOW_FAILED)
        check_fail(__FILE__, __LINE__, "%s then %s did not fail", before, after);
    CHECK_OK(flow_error_decode(s->row.error, &s->turn, &e, &error), &error);
    CHECK_EQ(e.category, PR_CATEGORY_CONFIGURATION);
    CHECK(!e.retryable && e.event >= 2);
    CHECK_SLICE(e.expected, expected);
    CHECK_SLICE(e.found, found);
    CHECK(strstr(stand_text(e.message), "nondeterministic") != NULL);
    CHECK_EQ(s->activity_count + s->timer_count, 0); /* and what was open is gone */
    stand_free(s);
}

TEST(another_kind_at_a_position_is_nondeterminism) /* B160 */
{
    check_divergence("a0", "t0", "activity a with input \"in\"", "timer");
    check_divergence("t0", "a0", "timer", "activity a with input \"in\"");
    check_divergence("e0", "m0", "wait e", "wait_mail e");
    check_divergence("ka0", "aa0", "child kid id k with input \"in\"", "activity a with input \"in\"");
    check_divergence("na0", "ua0", "now", "uuid");
}

TEST(another_name_input_tag_session_or_child_at_a_position_is_nondeterminism) /* B160 */
{
    check_divergence("a0", "b0", "activity a with input \"in\"", "activity b with input \"in\"");
    check_divergence("a0", "A0", "activity a with input \"in\"", "activity a with input \"other input\"");
    check_divergence("e0", "E0", "wait e", "wait other");
    check_divergence("g0", "G0", "activity a tag gpu with input \"in\"", "activity a tag tpu with input \"in\"");
    check_divergence("g0", "a0", "activity a tag gpu with input \"in\"", "activity a with input \"in\"");
    check_divergence("a0", "g0", "activity a with input \"in\"", "activity a tag gpu with input \"in\"");
    check_divergence("s0", "S0", "activity a session one with input \"in\"",
                     "activity a session two with input \"in\"");
    check_divergence("k0", "K0", "child kid id k with input \"in\"", "child kid id K with input \"in\"");
    check_divergence("da0", "Da0", "detached free id i with input \"in\"", "detached other with input \"in\"");
}

TEST(a_command_that_the_code_no_longer_makes_is_nondeterminism) /* B160 */
{
    check_divergence("ab0", "a0", "activity b with input \"in\"", "a wait");
    check_divergence("ab0", "a", "activity b with input \"in\"", "completed");
    check_divergence("axb1", "ab1", "cancel_task of task 1", "activity b with input \"in\"");
    check_divergence("abx1", "abX1", "cancel_task of task 1", "cancel_task of task 2");
    check_divergence("a0", "c", "activity a with input \"in\"", "continued");
    check_divergence("da0", "a0", "detached free id i with input \"in\"", "activity a with input \"in\"");
}

TEST(code_that_does_more_behind_its_history_is_no_nondeterminism) /* B160 */
{
    struct stand *s = stand_with("a0");
    steps = "a0b1";
    stand_result(s, 1, "");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_STR(stand_events(s, 3), "result, activity b");
    stand_free(s);
}

/* ---- Results --------------------------------------------------------------------------------------------- */

TEST(a_result_for_a_task_that_was_never_begun_is_nondeterminism) /* B160 */
{
    struct stand *s = stand_with("a0");
    stand_result(s, 2, "");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "nondeterministic: received result of task 2, but the flow has started no such task");
    CHECK_EQ(s->activity_count, 0);
    stand_free(s);
}

TEST(a_result_of_another_kind_than_its_task_is_nondeterminism) /* B160 */
{
    static const struct {
        const char *code;
        enum turn_message_kind kind;
    } cases[] = { { "a0", TURN_TIMER },  { "a0", TURN_CHILD }, { "t0", TURN_RESULT }, { "t0", TURN_CHILD },
                  { "k0", TURN_RESULT }, { "k0", TURN_TIMER }, { "e0", TURN_RESULT } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stand *s = stand_with(cases[i].code);
        struct turn_message m = stand_result_of(s, 1, "");
        m.kind = cases[i].kind;
        stand_queue(s, &m);
        stand_run(s);
        CHECK_EQ(s->row.state, FLOW_FAILED);
        CHECK_EQ(stand_category(s), PR_CATEGORY_CONFIGURATION);
        stand_free(s);
    }
}

TEST(results_that_come_twice_count_once) /* B161, B163 */
{
    struct stand *s = stand_with("ab01");
    struct turn_message m = stand_result_of(s, 1, "first"), again = stand_result_of(s, 1, "second");
    stand_queue(s, &m);
    stand_queue(s, &again);
    stand_run(s);
    CHECK_STR(stand_events(s, 4), "result");
    CHECK_SLICE(s->history.events[3].data, "first");
    stand_queue(s, &again);
    stand_run(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK_EQ(s->out.effect_count, 0);
    stand_free(s);
}

TEST(results_of_another_execution_are_ignored) /* B131 */
{
    struct stand *s = stand_with("a0");
    struct turn_message m = stand_result_of(s, 1, "old");
    m.execution.bytes[15] ^= 1;
    stand_queue(s, &m);
    m.task = 77;
    stand_queue(s, &m);
    stand_run(s);
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    stand_free(s);
}

TEST(results_for_a_flow_that_is_gone_or_has_ended_are_ignored) /* B131, B132 */
{
    struct stand *s = stand_new(by_steps);
    steps = "a0";
    s->row.execution.bytes[0] = 1;
    stand_result(s, 1, "orphan");
    CHECK(s->out.kind == FLOW_TURN_NOTHING && s->out.effect_count == 0 && !s->has_row);
    stand_start(s, "in");
    stand_result(s, 1, "");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_result(s, 1, "late");
    stand_event(s, "late", "event");
    CHECK(s->out.kind == FLOW_TURN_NOTHING && s->out.effect_count == 0);
    stand_start(s, "again"); /* idempotent by its id */
    CHECK_EQ(s->out.kind, FLOW_TURN_NOTHING);
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
}

TEST(a_storm_of_duplicates_and_strangers_changes_nothing_at_any_point) /* B161, B163 */
{
    struct stand *s = stand_new(by_steps);
    s->unchecked = false;
    steps = "abtk0nu1w";
    stand_start(s, "in");
    for (int64_t task = 4; task >= 1; task--) {
        struct turn_message m = stand_result_of(s, task, "x"), strange = stand_result_of(s, 9, "y");
        m.kind = task == 3 ? TURN_TIMER : task == 4 ? TURN_CHILD : TURN_RESULT;
        strange.execution.bytes[3] ^= 5;
        for (int i = 0; i < 3; i++) {
            stand_queue(s, &m);
            stand_queue(s, &strange);
        }
        stand_run(s);
    }
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    CHECK_STR(stand_events(s, 6), "child_end, fired, result, result, now, uuid, completed");
    stand_free(s);
}

/* ---- Inert ------------------------------------------------------------------------------------------------------- */

static int forgetful(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_id zero = { { 0 } };
    int rc = pr_call(f, "first", input, ret_output); /* and nobody looks at it */
    if (rc == PR_SUSPEND) {
        CHECK_EQ(pr_activity(f, "wrong", input).number, PR_SUSPEND);
        CHECK_EQ(pr_any(f, 0, NULL), PR_SUSPEND);
        CHECK_EQ(pr_all(f, 0, NULL), PR_SUSPEND);
        CHECK_EQ(pr_set_status(f, input), PR_SUSPEND);
        CHECK_EQ(pr_state_set(f, input, input), PR_SUSPEND);
        CHECK_EQ(pr_detach(f, "wrong", input, NULL), PR_SUSPEND);
        CHECK_EQ(pr_flow_fail(f, "wrong"), PR_SUSPEND);
        CHECK_EQ(pr_continue_as_new(f, input, NULL), PR_SUSPEND);
        CHECK_EQ(pr_now(f), 0);
        CHECK_EQ(pr_random(f), 0);
        CHECK(pr_id_equal(pr_uuid(f), zero));
        pr_cancel(f, (pr_task){ 1 });
        pr_state_clear_all(f);
        pr_flow_log(f, "wrong");
        return PR_OK;
    }
    return rc;
}

TEST(after_suspend_every_call_does_nothing_and_a_forgotten_check_is_told) /* B100 */
{
    struct stand *s = stand_new(forgetful);
    stand_start(s, "x");
    CHECK_EQ(s->row.state, FLOW_RUNNING);
    CHECK_STR(stand_events(s, 2), "activity first");
    CHECK_EQ(s->out.effect_count, 3);
    CHECK_STR(s->log, "warning: flow test returned 0 after PR_SUSPEND; it must return PR_SUSPEND then\n");
    stand_result(s, 1, "y");
    CHECK_EQ(s->row.state, FLOW_COMPLETED);
    stand_free(s);
}

static int suspends_for_nothing(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)f, (void)input, (void)ret_output;
    return PR_SUSPEND;
}

TEST(a_flow_that_suspends_without_a_wait_fails_instead_of_sleeping_for_ever) /* B100 */
{
    struct stand *s = stand_new(suspends_for_nothing);
    stand_start(s, "x");
    CHECK_EQ(s->row.state, FLOW_FAILED);
    CHECK_STR(stand_error(s), "the flow function returned PR_SUSPEND (-64), but is not waiting for anything");
    stand_free(s);
}

/* ---- Logs ------------------------------------------------------------------------------------------------------------ */

TEST(a_line_of_the_log_appears_once) /* B167 */
{
    struct stand *s = stand_with("lal0lbl1l");
    CHECK_STR(s->log, "once\nonce\n");
    stand_event(s, "wake", "up");
    CHECK_STR(s->log, "once\nonce\n");
    stand_result(s, 1, "");
    CHECK_STR(s->log, "once\nonce\nonce\nonce\n");
    stand_result(s, 2, "");
    CHECK_STR(s->log, "once\nonce\nonce\nonce\nonce\n");
    stand_free(s);
}

/* ---- Histories as files --------------------------------------------------------------------------------------------------- */

static const char stored[] =
    "{\"n\":1,\"kind\":\"started\",\"at\":1700000000000000,\"name\":\"test\",\"version\":\"1\",\"data\":\"in\"}\n"
    "{\"n\":2,\"kind\":\"activity\",\"at\":1700000000000000,\"task\":1,\"name\":\"a\",\"data\":\"in\"}\n"
    "{\"n\":3,\"kind\":\"now\",\"at\":1700000000000000,\"value\":1700000000000000}\n"
    "{\"n\":4,\"kind\":\"result\",\"at\":1700000001000000,\"task\":1,\"data\":\"ok\"}\n"
    "{\"n\":5,\"kind\":\"completed\",\"at\":1700000001000000,\"data\":\"\"}\n";

TEST(a_history_file_is_replayed_without_a_store) /* B168 */
{
    struct flow_history h;
    struct flow_replayed replayed;
    struct pr_error error;
    struct arena arena;
    struct flow_code code = { .name = PR_STR("test"), .version = PR_STR("1"), .function = by_steps };
    arena_init(&arena, 4096);
    CHECK_OK(stand_history(&h, stored, &error), &error);
    steps = "an0";
    CHECK_OK(flow_replay(&h, &code, &arena, &replayed, &error), &error);
    CHECK(!replayed.diverged && replayed.ended && replayed.added == 0);
    CHECK_OK(flow_check_prefixes(&h, &code, &arena, &error), &error);
    steps = "bn0"; /* the code was changed */
    CHECK_OK(flow_replay(&h, &code, &arena, &replayed, &error), &error);
    CHECK(replayed.diverged);
    CHECK_EQ(replayed.error.event, 2);
    CHECK_SLICE(replayed.error.expected, "activity a with input \"in\"");
    CHECK_SLICE(replayed.error.found, "activity b with input \"in\"");
    CHECK_EQ(flow_check_prefixes(&h, &code, &arena, &error), PR_FAILED);
    flow_history_fini(&h);
    arena_fini(&arena);
}

static const char mothers[] =
    "{\"n\":1,\"kind\":\"started\",\"at\":1,\"name\":\"test\",\"version\":\"1\",\"data\":\"in\"}\n"
    "{\"n\":2,\"kind\":\"child\",\"at\":1,\"task\":1,\"name\":\"kid\",\"id\":\"k\",\"data\":\"in\"}\n"
    "{\"n\":3,\"kind\":\"child_end\",\"at\":2,\"task\":1,\"failed\":true,\"data\":\"{\\\"category\\\":"
    "\\\"configuration\\\","
    "\\\"message\\\":\\\"nondeterministic\\\",\\\"kind\\\":\\\"nondeterminism\\\",\\\"event\\\":2,\\\"expected\\\":"
    "\\\"timer\\\","
    "\\\"found\\\":\\\"now\\\"}\"}\n";

static int waits_for_kid(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_result(f, pr_child_with(f, "kid", input, &(struct pr_child_options){ .id = "k" }), ret_output, NULL);
}

TEST(a_child_whose_code_did_not_fit_says_nothing_of_its_parents_code) /* B160, B168 */
{
    struct flow_history h;
    struct flow_replayed replayed;
    struct pr_error error;
    struct arena arena;
    struct flow_code code = { .name = PR_STR("test"), .version = PR_STR("1"), .function = waits_for_kid };
    arena_init(&arena, 4096);
    CHECK_OK(stand_history(&h, mothers, &error), &error);
    CHECK_OK(flow_replay(&h, &code, &arena, &replayed, &error), &error);
    CHECK(!replayed.diverged && replayed.ended);
    CHECK_OK(flow_check_prefixes(&h, &code, &arena, &error), &error);
    flow_history_fini(&h);
    arena_fini(&arena);
}

static int unstable_calls;
static int unstable(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, unstable_calls++ % 2 == 0 ? "even" : "odd", input, ret_output);
}

TEST(the_checker_of_beginnings_finds_code_that_is_not_the_same_twice) /* I11, B160 */
{
    struct flow_history h;
    struct pr_error error;
    struct arena arena;
    struct flow_code code = { .name = PR_STR("test"), .version = PR_STR("1"), .function = unstable };
    static const char lines[] = "{\"n\":1,\"kind\":\"started\",\"at\":1,\"name\":\"test\",\"data\":\"\"}\n"
                                "{\"n\":2,\"kind\":\"activity\",\"at\":1,\"task\":1,\"name\":\"even\",\"data\":\"\"}\n";
    arena_init(&arena, 4096);
    CHECK_OK(stand_history(&h, lines, &error), &error);
    unstable_calls = 1;
    CHECK_EQ(flow_check_prefixes(&h, &code, &arena, &error), PR_FAILED);
    CHECK_STR(error.text, "with 1 of 2 events command 1 is activity odd, and in the history activity even");
    flow_history_fini(&h);
    arena_fini(&arena);
}
