#!/usr/bin/env bash
# arena.sh FLOWC WORK PROGRAM [FIRST..]: under every plan of PROGRAM, and the first of the others, on both targets the arena is
# within 1 % of what lives at once.
set -eu
flowc=$1 work=$2 program=$3
shift 3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
within() {                                                 # WHAT flowc's arguments..
    what=$1
    shift
    "$flowc" "$@" --emit=memory,json > memory.json
    awk -v what="$what" '
        /"arena_bytes"/ { gsub(/[^0-9]/, ""); arena = $0 + 0 }
        /"live_bytes"/ { gsub(/[^0-9]/, ""); live = $0 + 0; stages++
                         if (live == 0 || arena > live * 1.01) {
                             print what ": arena " arena ", live " live
                             bad = 1
                         } }
        END { exit bad || !stages }' memory.json || { echo "$what"; exit 1; }
}
plans=$(sed -n 's/^plan \([A-Za-z0-9_]*\).*/\1/p' "$program")
[ -n "$plans" ]
for target in cpu cuda; do
    for plan in $plans; do
        within "$plan, $target" "$program" --plan "$plan" --target $target
    done
    for first in "$@"; do
        within "$first, $target" "$first" --target $target
    done
done
