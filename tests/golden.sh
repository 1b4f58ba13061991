#!/bin/sh
# golden.sh FLOWC FILE.flow NAME: FILE.expected holds what `flowc FILE.flow --emit=NAME` prints. A first line `# args: ..`
# gives further arguments. BLESS=1 writes the expected file: read the difference before it is committed.
flowc=$1 name=$3
cd "$(dirname "$2")" || exit 1
file=$(basename "$2")
expected=${file%.flow}.expected
args=$(sed -n '1s/^# args: //p' "$file")
got=$(mktemp)
trap 'rm -f "$got"' EXIT
# shellcheck disable=SC2086
"$flowc" "$file" --emit="$name" $args >"$got" || { echo "golden.sh: flowc ended with $?"; exit 1; }
[ -z "$BLESS" ] || cp "$got" "$expected"
diff -u "$expected" "$got"
