#!/bin/sh
# example.sh FLOWC FILE.flow EXPECTED: the logical graphs of an example, under every one of its plans the same ones.
flowc=$1 file=$2 expected=$3
got=$(mktemp)
trap 'rm -f "$got"' EXIT
for plan in $(sed -n 's/^plan \([a-z0-9_]*\).*/\1/p' "$file"); do
    "$flowc" "$file" --plan "$plan" --emit=elaborate >"$got" || exit 1
    if [ -n "$BLESS" ]; then
        cp "$got" "$expected"
    fi
    diff -u "$expected" "$got" || { echo "under plan $plan"; exit 1; }
done
