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

cat >"$root/outside/cpp.cpp" <<'CPP'
#include <postrider.h>
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
# Every function of the header that is marked PR_API is there.
tr '\n' ' ' <"$source/include/postrider.h" | grep -o 'PR_API[^;{]*;' | grep -o 'pr_[a-z_0-9]*(' | tr -d '(' |
    sort -u | comm -23 - "$root/defined" >"$root/missing"
run "library_has_every_function_of_the_header" sh -c "cat $root/missing; test ! -s $root/missing"

echo "1..$number"
exit $failed
