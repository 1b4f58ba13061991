#!/bin/sh
# golden.sh FLOWC FILE.flow: in good/, FILE.expected holds what --emit=place prints; in bad/ the messages of --check on
# stderr, and each line they point at carries a comment `# here` in the program. A first line `# args: ..` gives further
# arguments. With UPDATE=1 the expected file is written anew: read the difference before it is committed.
set -u
flowc=$1
cd "$(dirname "$2")" || exit 2
file=$(basename "$2")
expected=${file%.flow}.expected
args=$(sed -n '1s/^# args: //p' "$file")
kind=$(basename "$PWD")
got=$(mktemp)
errors=$(mktemp)
trap 'rm -f "$got" "$errors"' EXIT
if [ "$kind" = good ]; then
    # shellcheck disable=SC2086
    "$flowc" "$file" --emit=place $args >"$got" 2>"$errors"
    status=$?
    [ $status -eq 0 ] || { cat "$errors"; echo "flowc ended with $status"; exit 1; }
else
    # shellcheck disable=SC2086
    "$flowc" "$file" --check $args >/dev/null 2>"$got"
    status=$?
    [ $status -eq 1 ] || { cat "$got"; echo "flowc ended with $status"; exit 1; }
    # places of the errors against the marks in the program
    sed -n "s/^ *--> $file:\([0-9]*\):.*/\1/p" "$got" | sort -un >"$errors"
    if ! grep -n '# here' "$file" | cut -d: -f1 | diff - "$errors"; then
        cat "$got"
        echo "the errors point at other lines than those marked '# here'"
        exit 1
    fi
fi
if [ "${UPDATE:-}" = 1 ]; then
    cp "$got" "$expected"
fi
diff -u "$expected" "$got"
