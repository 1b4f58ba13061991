#!/bin/sh
# check.sh PARSE_DUMP CASE.flow: the tree of a program equals CASE.expected. BLESS=1 writes it.
dump=$1
case=$(basename "$2" .flow)
cd "$(dirname "$2")" || exit 1
actual=$(mktemp) || exit 1
trap 'rm -f "$actual"' EXIT
"$dump" "$case.flow" >"$actual" 2>&1 || { cat "$actual"; echo "check.sh: parse_dump failed"; exit 1; }
[ -z "$BLESS" ] || cp "$actual" "$case.expected"
diff -u "$case.expected" "$actual"
