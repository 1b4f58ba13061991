#!/bin/sh
# golden.sh FLOWC FILE.flow: FILE.expected holds what `flowc FILE.flow --emit=elaborate` prints on stdout, or, for a
# program that is rejected, its messages on stderr. A first line `# args: ..` gives further arguments. With UPDATE=1 in
# the environment the expected file is written anew: read the difference before it is committed.
set -u
flowc=$1
cd "$(dirname "$2")" || exit 2
file=$(basename "$2")
expected=${file%.flow}.expected
args=$(sed -n '1s/^# args: //p' "$file")
got=$(mktemp)
errors=$(mktemp)
trap 'rm -f "$got" "$errors"' EXIT
# shellcheck disable=SC2086
"$flowc" "$file" --emit=elaborate $args >"$got" 2>"$errors"
status=$?
if [ $status -gt 1 ]; then
    cat "$errors"
    echo "flowc ended with $status"
    exit 1
fi
[ $status -eq 0 ] && want=good || want=bad
if [ "$(basename "$PWD")" != $want ]; then
    cat "$errors"
    echo "a program in $(basename "$PWD") turned out $want"
    exit 1
fi
[ $status -eq 0 ] || mv "$errors" "$got"
if [ "${UPDATE:-}" = 1 ]; then
    cp "$got" "$expected"
fi
diff -u "$expected" "$got"
