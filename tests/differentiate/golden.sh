#!/bin/sh
# golden.sh FLOWC CASE.flow PASS: what is diagnosed and the entries of the dump after PASS equal CASE.PASS.expected.
# BLESS=1 writes it.
flowc=$1
pass=$3
case=$(basename "$2" .flow)
cd "$(dirname "$2")" || exit 1
dump=$(mktemp) && actual=$(mktemp) || exit 1
trap 'rm -f "$dump" "$actual"' EXIT
"$flowc" "$case.flow" --emit="$pass" >"$dump" 2>"$actual"
status=$?
if [ "$status" -gt 1 ]; then
    cat "$actual"
    echo "golden.sh: flowc ended with $status"
    exit 1
fi
sed -n '/^entry /,$p' "$dump" >>"$actual"
if [ -n "$BLESS" ]; then
    cat "$actual" >"$case.$pass.expected"
fi
diff -u "$case.$pass.expected" "$actual"
