#!/usr/bin/env bash
# rows_reasons.sh FLOWC ROWS.flow GPT.flow: what row work is joined, and why other work is not, stands in --emit=physical.
set -eu
flowc=$1 rows=$2 gpt=$3 bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for plan in single across; do "$flowc" "$rows" --plan $plan --target cpu --emit=physical >"$work/$plan"; done
"$flowc" "$gpt" --plan dp2 --target cpu --emit=physical >"$work/gpt"
# says FILE TEXT
says() { grep -qF "$2" "$work/$1" || { echo "$1: '$2' is not there"; bad=1; }; }
says across "narrow.a.sub@1; one kernel, row by row: mean, sub, square, mean, sub, add, sqrt, div, mul, add"        # by hand
says single "b.mean; not row by row: a row is one element"
says single "not with the rows of narrow.a: it adds up other dims"
says across "h[*].b.mean; not row by row: its rows are split over tp: a conversion lies inside"
says gpt "h[*].x@1; one kernel, row by row: add, add, layer_norm"
says gpt "one kernel, row by row: layer_norm_grad, add, sum"
says gpt "h[*].mlp.down_bias#grad; a kernel of its own: no row work here makes or reads what it adds up"
[ "$bad" = 0 ]
