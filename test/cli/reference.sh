#!/bin/sh
# Is doc/configuration.md what the program says?  Usage: reference.sh POSTRIDER FILE
"$1" config reference | diff -u "$2" - && exit 0
echo "make it anew: postrider config reference > doc/configuration.md" >&2
exit 1
