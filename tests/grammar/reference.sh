#!/bin/sh
# reference.sh FLOWC README: every complete program of the language reference passes `flowc --check`, under each plan.
flowc=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
awk -v dir="$work" '
    /^```flow$/ { out = sprintf("%s/line_%d.flow", dir, NR); next }
    /^```/      { if (out) close(out); out = ""; next }
    out         { print > out }' "$2"
count=0
failed=0
for program in "$work"/line_*.flow; do
    [ -e "$program" ] || break
    for plan in $(sed -n 's/^plan \([A-Za-z_0-9]*\).*/\1/p' "$program"); do
        count=$((count + 1))
        if ! "$flowc" "$program" --plan "$plan" --target cpu --check >"$work/out" 2>&1; then
            echo "the program at $(basename "$program" .flow) of the reference, plan $plan:"
            cat "$work/out"
            failed=1
        fi
    done
done
echo "$count programs checked"
[ "$count" -ge 8 ] && [ "$failed" = 0 ]
