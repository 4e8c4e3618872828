#!/bin/sh
# The library as a user gets it: installed, found by pkg-config, built against from outside the
# tree, and run.  Says TAP.
#   install.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cc=${CC:-cc}
number=0
failed=0

say() { # say RC NAME
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; failed=1; sed 's/^/# /' "$root/log" || :; fi
}
run() { # run NAME COMMAND...
    name=$1
    shift
    rc=0
    "$@" >"$root/log" 2>&1 || rc=$?
    say "$rc" "$name"
}

run "meson_install_works" env DESTDIR="$root/dest" meson install -C "$build" --no-rebuild
pc=$(find "$root/dest" -name postrider.pc | head -n 1)
[ -n "$pc" ] || { echo "Bail out! postrider.pc was not installed"; exit 1; }
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")" PKG_CONFIG_SYSROOT_DIR="$root/dest"
export LD_LIBRARY_PATH="$libdir"

run "pkg_config_finds_the_library" pkg-config --exists --print-errors postrider
flags=$(pkg-config --cflags postrider)
libs=$(pkg-config --libs postrider)
mkdir "$root/outside"
for example in send unit sender engine rules worker; do
    cp "$source/examples/$example.c" "$root/outside/"
    # PKG_CONFIG_SYSROOT_DIR is about our files: sqlite3 is where it always was.
    run "example_${example}_builds_outside_the_tree" sh -c \
        "cd $root/outside && $cc -std=gnu11 -Wall -Wextra -Werror -pedantic $flags $example.c $libs -lsqlite3 -pthread -o $example"
    run "example_${example}_runs" "$root/outside/$example" "$root/outside/$example.db"
done

# The calls as the README writes them.
cat >"$root/outside/readme.c" <<'C'
#include <postrider.h>
#include <sqlite3.h>
#include <stdio.h>

static int on_order(struct pr_context *ctx, const struct pr_message *order, void *user)
{
    struct pr_message message = { .type = PR_STR("mail"), .payload = order->payload };
    (void)user;
    if (order->payload.size == 0)
        return pr_fail(ctx, PR_REASON_VALIDATION_FAILURE, "no such customer");
    pr_effect_send(ctx, &message);
    return PR_OK;
}

static int on_mail(struct pr_context *ctx, const struct pr_message *mail, void *user)
{
    (void)ctx;
    *(volatile int *)user = mail->payload.size == 7;
    return PR_OK;
}

int main(int argc, char **argv)
{
    char config[256], url[256];
    struct pr_error err;
    pr_id id;
    sqlite3 *db;
    volatile int arrived = 0;
    if (argc < 2)
        return 2;
    snprintf(config, sizeof(config), "store: sqlite:%s\n", argv[1]);
    snprintf(url, sizeof(url), "sqlite:%s", argv[1]);
    if (pr_store_init(url, &err) != PR_OK || sqlite3_open(argv[1], &db) != SQLITE_OK)
        return 1;
    pr_slice body = PR_STR("{\"n\":1}");
    struct pr_message m = { .type = PR_STR("order.created"), .stream = PR_STR("order-1"), .payload = body };
    if (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK || pr_send_sqlite(db, &m, &id, &err) != PR_OK ||
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    sqlite3_close(db);
    struct pr_engine *e = pr_engine_new(config, &err);
    if (e == NULL || pr_engine_handle(e, "order.*", on_order, NULL) != PR_OK ||
        pr_engine_handle(e, "mail", on_mail, (void *)&arrived) != PR_OK || pr_engine_start(e, &err) != PR_OK)
        return 1;
    for (int i = 0; i < 100 && !arrived; i++)
        if (pr_engine_drain(e, PR_SECONDS(10), &err) < 0)
            return 1;
    pr_engine_stop(e, PR_SECONDS(10));
    pr_engine_free(e);
    return !arrived;
}
C
run "calls_of_the_readme_build" sh -c \
    "cd $root/outside && $cc -std=gnu11 -Wall -Wextra -Werror -pedantic $flags readme.c $libs -lsqlite3 -o readme"
run "calls_of_the_readme_work" "$root/outside/readme" "$root/outside/readme.db"

cat >"$root/outside/cpp.cpp" <<'CPP'
#include <postrider_flow.h>
int main() { return pr_version() == nullptr; }
CPP
if command -v c++ >/dev/null; then
    run "header_is_fine_for_c_plus_plus" sh -c \
        "cd $root/outside && c++ -Wall -Wextra -Werror $flags cpp.cpp $libs -o cpp && ./cpp"
fi

so=$(find "$libdir" -name 'libpostrider.so' | head -n 1)
nm -D --defined-only "$so" | awk '{print $3}' | sed 's/@.*//' | sort -u >"$root/defined"
grep -v '^pr_' "$root/defined" >"$root/others" || :
run "library_exports_only_pr_names" sh -c "cat $root/others; test ! -s $root/others"
# Every function of the headers that is marked PR_API is there.
cat "$source"/include/postrider*.h | tr '\n' ' ' | grep -o 'PR_API[^;{]*;' | grep -o 'pr_[a-z_0-9]*(' | tr -d '(' |
    sort -u | comm -23 - "$root/defined" | grep -vx pr_flow_register >"$root/missing" || true # that one is the program's own
run "library_has_every_function_of_the_headers" sh -c "cat $root/missing; test ! -s $root/missing"

echo "1..$number"
exit $failed
