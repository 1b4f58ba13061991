#!/usr/bin/env bash
# text.sh FLOWC WORK SOURCE: the emitted text as text. Same input gives the same bytes; strings from the source cannot
# break out; a directory that flowc did not write is left alone; nothing is left behind when emitting fails.
set -eu
flowc=$1 work=$2 here=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
"$flowc" "$here/hostile.flow" --target cpu -o a
"$flowc" "$here/hostile.flow" --target cpu -o b
diff -r a b
for f in a/class_0.c a/program.c a/ranks.c; do
    mpicc -std=gnu11 -fsyntax-only -Wall -Werror -fopenmp -Ia/runtime "$f"
done
[ "$(grep -c 'evil(' a/program.c)" -ge 1 ]                # it is there, inside a string
"$flowc" "$here/hostile.flow" --target cpu -o a            # an output of ours is replaced
mkdir theirs
echo keep > theirs/file
if "$flowc" "$here/hostile.flow" --target cpu -o theirs 2> message; then exit 1; fi
grep -q "was not written by flowc" message
[ "$(cat theirs/file)" = keep ]
if "$flowc" "$here/hostile.flow" --target cpu -o message/dir 2> message; then exit 1; fi
[ "$(ls | sort | tr '\n' ' ')" = "a b message theirs " ]
