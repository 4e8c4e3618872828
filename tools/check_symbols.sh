#!/bin/sh
# check_symbols.sh LIBRARY: only pr_ names may leave the shared library, and some must.
set -eu
symbols=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//')
wrong=$(printf '%s\n' "$symbols" | grep -v '^pr_' || true)
if [ -n "$wrong" ]; then
    echo "exported, but not pr_*:"
    printf '%s\n' "$wrong"
    exit 1
fi
if [ -z "$symbols" ]; then
    echo "no symbol is exported from $1"
    exit 1
fi
printf '%s exported symbols\n' "$(printf '%s\n' "$symbols" | wc -l)"
