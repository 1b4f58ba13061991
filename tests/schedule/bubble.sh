#!/bin/sh
# bubble.sh FLOWC GPT.flow: --emit=schedule prints the published bubbles and orders that do not grow with micro-batches.
set -eu
flowc=$1 gpt=$2
fail() { echo "$*"; exit 1; }
bubble() { "$flowc" "$gpt" --plan pp4 --set N=32 --set M="$1" --emit=schedule 2>/dev/null | awk '/^bubble/ { print $2 }'; }
loops() { "$flowc" "$gpt" --plan pp4 --set N=32 --set M="$1" --emit=schedule 2>/dev/null | grep -c '^stage.* x ' ; }

[ "$(bubble 8)" = 0.2727 ] || fail "4 stages, 8 micro-batches: bubble $(bubble 8)"
[ "$(bubble 16)" = 0.1579 ] || fail "4 stages, 16 micro-batches: bubble $(bubble 16)"
[ "$(loops 8)" = "$(loops 32)" ] || fail "the order grows with the number of micro-batches"
order=$("$flowc" "$gpt" --plan pp4 --set M=8 --emit=schedule 2>/dev/null | awk '/^stage 1:/')
[ "${order#*order }" = '(F0) x 3 (B0 F3) x 5 (B5) x 3' ] || fail "one_f_one_b of stage 1 is: $order"
"$flowc" "$gpt" --plan pp4 --set M=8 --emit=schedule,json 2>/dev/null | grep -q '"rolls"' || fail "no rolls in the json"
