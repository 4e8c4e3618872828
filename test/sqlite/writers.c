/* The order of those of this process that write to one file. */
#include "store/sqlite/writers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/time.h"
#include "check.h"

#define COUNT 8
#define LONG_US PR_SECONDS(60)

static const struct file_name file = { 7, 4711 };

struct line {
    struct writers *writers;
    atomic_int number; /* of those who have had their turn */
    int places[COUNT];
};

struct member {
    struct line *line;
    int *place;
};

static void *take_turn(void *arg)
{
    const struct member *m = arg;
    if (writers_begin(m->line->writers, LONG_US)) {
        *m->place = ++m->line->number;
        writers_end(m->line->writers);
    }
    return NULL;
}

static void await_waiting(struct writers *w, size_t count)
{
    while (writers_waiting(w) != count)
        sched_yield();
}

TEST(writers_of_a_file_go_in_the_order_in_which_they_came)
{
    struct line line = { .writers = writers_join(file) };
    struct member members[COUNT];
    pthread_t threads[COUNT];
    CHECK(line.writers != NULL);
    CHECK(writers_begin(line.writers, LONG_US));
    for (int i = 0; i < COUNT; i++) {
        members[i] = (struct member){ &line, &line.places[i] };
        CHECK_EQ(pthread_create(&threads[i], NULL, take_turn, &members[i]), 0);
        await_waiting(line.writers, (size_t)i + 1);
    }
    CHECK_EQ(line.number, 0);
    writers_end(line.writers);
    CHECK(writers_begin(line.writers, LONG_US)); /* behind all of them */
    CHECK_EQ(line.number, COUNT);
    writers_end(line.writers);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(line.places[i], i + 1);
    }
    writers_leave(line.writers);
}

TEST(a_writer_that_has_waited_for_long_enough_goes_on_and_the_others_keep_their_places)
{
    struct line line = { .writers = writers_join(file) };
    struct member member = { &line, &line.places[0] };
    pthread_t thread;
    CHECK(writers_begin(line.writers, LONG_US));
    CHECK(!writers_begin(line.writers, PR_MILLISECONDS(1)));
    CHECK_EQ(writers_waiting(line.writers), 0);
    CHECK_EQ(pthread_create(&thread, NULL, take_turn, &member), 0);
    await_waiting(line.writers, 1);
    CHECK(!writers_begin(line.writers, 0));
    CHECK_EQ(line.number, 0);
    writers_end(line.writers);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(line.number, 1);
    CHECK(writers_begin(line.writers, 0)); /* nobody has the turn */
    writers_end(line.writers);
    writers_leave(line.writers);
}

TEST(writers_of_another_file_do_not_wait)
{
    struct writers *a = writers_join(file), *same = writers_join(file);
    struct writers *b = writers_join((struct file_name){ file.device, file.number + 1 });
    CHECK(a == same && a != b);
    CHECK(writers_begin(a, 0));
    CHECK(!writers_begin(same, 0));
    CHECK(writers_begin(b, 0));
    writers_end(b);
    writers_end(a);
    writers_leave(same);
    writers_leave(b);
    writers_leave(a);
}
